"""One command at a time in a course folder (``only_one``)."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from course_utils.base.errors import explain

NAME = ".classroom.lock"


@contextmanager
def only_one(root: Path) -> Iterator[None]:
    """Holds the course folder's lock. The system gives it back when the process ends, however it ends.

    Raises:
        ValueError: another command holds it.
    """
    import fcntl  # where there is none, on Windows, grading cannot run in any case: it forks

    descriptor = os.open(root / NAME, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.read(descriptor, 40).decode("ascii", "replace").strip() or "another process"
            raise ValueError(
                explain(
                    f"Another command works in {root} (process {holder}).",
                    "one at a time.",
                    "two that grade would enter the same marks twice.",
                    "wait until it has ended; a table at its end says what it did.",
                )
            ) from None
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, str(os.getpid()).encode(), 0)
        yield
    finally:
        os.close(descriptor)
