"""Loops and blocks under a tracker: bytes alive after each step (``bytes_alive``), the most within it (``peak_bytes``),
no more than so many (``memory_limit``); and Python's garbage collector out of the way (``collector_off``).
"""

import gc
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

from course_utils.base import explain
from course_utils.base.text import format_bytes
from course_utils.memory.tracker import MemoryTracker
from course_utils.record.operations import OperationWatch, Run


@contextmanager
def collector_off() -> Iterator[None]:
    """Switches Python's garbage collector off for a block: what is given back there is what the program lets go."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


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


@contextmanager
def memory_limit(limit_bytes: int, *known: Any, device: torch.device | str | None = None) -> Iterator[MemoryTracker]:
    """Runs a block as on a device that has only so many bytes left: the operation that needs more raises.

    Example:
        >>> with memory_limit(1000):
        ...     torch.ones(300)
        Traceback (most recent call last):
        ...
        torch.OutOfMemoryError: Out of memory: after aten::ones 1.2 KiB are alive, and 1000 B is the limit.

    Args:
        limit_bytes: the most bytes that may be alive above those at the start; a peak of just as many passes.
        *known: as for ``MemoryTracker``.
        device: likewise.

    Yields:
        The tracker that counts.

    Raises:
        torch.OutOfMemoryError: inside the block, after the operation that passed the limit. As with any tracker,
            scratch memory inside a kernel is not counted.
        ValueError: the limit is no positive number of bytes. Else as ``MemoryTracker`` does.
    """
    if limit_bytes <= 0:
        raise ValueError(
            explain(f"memory_limit({limit_bytes!r}).", "a positive number of bytes.", try_this="5 * 2**20")
        )
    with MemoryTracker(*known, device=device) as tracker:

        def look(run: Run, func: Any, args: tuple, kwargs: dict) -> Any:
            result = run(func, args, kwargs)
            if tracker.current > limit_bytes:
                counts = tracker.current, limit_bytes
                shown, limit = map(format_bytes, counts)
                if shown == limit:
                    shown, limit = (f"{count:,} B" for count in counts)
                operation = func.name().partition(".")[0]
                raise torch.OutOfMemoryError(
                    f"Out of memory: after {operation} {shown} are alive, and {limit} is the limit."
                )
            return result

        mode = OperationWatch.enter(look)
        try:
            yield tracker
        finally:
            mode.leave(look)
