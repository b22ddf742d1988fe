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
        ValueError: another command holds it, or it is not yours to hold.
    """
    import fcntl  # where there is none, on Windows, grading cannot run in any case: it forks

    try:
        # Several teachers may share a folder: whoever may write in it may hold its lock.
        descriptor = os.open(root / NAME, os.O_RDWR | os.O_CREAT, 0o644 | (root.stat().st_mode & 0o022))
    except PermissionError as error:
        raise ValueError(
            explain(
                f"{root / NAME} belongs to somebody else, and you may not write to it.",
                "a course folder in which everybody who grades may write.",
                "two who grade at once would enter the same marks twice, so each command holds this file.",
                f"ask its owner for: chgrp -R teachers {root}; chmod -R g+rwXs {root}; and "
                "c.CourseDirectory.groupshared = True in nbgrader_config.py.",
            )
        ) from error
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
