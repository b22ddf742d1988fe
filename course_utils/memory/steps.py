"""Bytes alive after each step of a loop (``bytes_alive``), and the most of them within it (``peak_bytes``)."""

from collections.abc import Iterable
from typing import Any

from course_utils.memory.tracker import MemoryTracker


def bytes_alive(steps: Iterable[Any], *known: Any) -> list[int]:
    """Runs a loop that is written as a generator, and notes what it keeps alive after each step.

    What the generator yields is not kept: the numbers are what the loop itself holds on to.

    Args:
        steps: the generator, or any iterable. It is run to its end.
        *known: modules, optimizers and tensors that exist already; see ``MemoryTracker``.

    Returns:
        Bytes above the start after each step, one number a step.

    Raises:
        TypeError: as of ``MemoryTracker``.
        NotImplementedError: the loop calls code made by ``torch.compile``.

    Example:
        >>> import torch
        >>> def keep():
        ...     kept = []
        ...     for _ in range(3):
        ...         kept.append(torch.ones(10))
        ...         yield
        >>> bytes_alive(keep())
        [40, 80, 120]
    """
    alive = []
    with MemoryTracker(*known) as mem:
        for _ in steps:
            del _  # the loop variable would keep what was yielded
            alive.append(mem.current)
    return alive


def peak_bytes(steps: Iterable[Any], *known: Any) -> list[int]:
    """Runs a loop that is written as a generator, and notes the most bytes alive at any moment of each step.

    Args:
        steps: the generator. It is run to its end.
        *known: modules, optimizers and tensors that exist already; see ``MemoryTracker``.

    Returns:
        The peak of each step in bytes above the start of the loop, one number a step.

    Example:
        >>> import torch
        >>> def work():
        ...     for _ in range(2):
        ...         kept = torch.ones(10) + 1
        ...         yield
        >>> peak_bytes(work())
        [80, 120]
    """
    iterator, end, going = iter(steps), object(), True
    with MemoryTracker(*known) as mem:
        while going:
            with mem.phase("step"):
                going = next(iterator, end) is not end
    return [phase.peak for phase in mem.phases[:-1]]  # the last one is what comes after the last step
