"""Bytes alive after each step of a loop (``bytes_alive``)."""

from collections.abc import Iterable
from typing import Any

from course_utils.memory.tracker import MemoryTracker


def bytes_alive(steps: Iterable[Any], *known: Any) -> list[int]:
    """Runs a loop that is written as a generator, and notes what it keeps alive after each step.

    What the generator yields is not kept: the numbers are what the loop itself holds on to.

    Args:
        steps: the generator. It is run to its end.
        *known: modules, optimizers and tensors that exist already; see ``MemoryTracker``.

    Returns:
        Bytes above the start after each step, one number a step.

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
