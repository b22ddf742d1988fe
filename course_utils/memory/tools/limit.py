"""A block of code with as much memory as one allows (``memory_limit``)."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from course_utils.base.errors import explain
from course_utils.base.text import format_bytes
from course_utils.memory.dispatch import DispatchMode
from course_utils.memory.tracker import MemoryTracker


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
        ValueError: the limit is no positive number of bytes.
        NotImplementedError: inside the block, when code made by ``torch.compile`` is called.
    """
    if limit_bytes <= 0:
        raise ValueError(
            explain(f"memory_limit({limit_bytes!r}).", "a positive number of bytes.", try_this="5 * 2**20")
        )
    with MemoryTracker(*known, device=device) as tracker, _Limit(tracker, limit_bytes):
        yield tracker


class _Limit(DispatchMode):
    """Looks at the tracker below it after each operation."""

    def __init__(self, tracker: MemoryTracker, limit_bytes: int) -> None:
        super().__init__()
        self._tracker, self._limit_bytes = tracker, limit_bytes

    @classmethod
    def ignore_compile_internals(cls) -> bool:
        return True  # the tracker below refuses compiled code, and says why

    def __torch_dispatch__(self, func: Any, types: tuple, args: tuple = (), kwargs: dict | None = None) -> Any:
        result = func(*args, **(kwargs or {}))
        alive = self._tracker.current
        if alive > self._limit_bytes:
            counts = alive, self._limit_bytes
            shown, limit = map(format_bytes, counts)
            if shown == limit:
                shown, limit = (f"{count:,} B" for count in counts)
            operation = func.name().partition(".")[0]
            raise torch.OutOfMemoryError(
                f"Out of memory: after {operation} {shown} are alive, and {limit} is the limit."
            )
        return result
