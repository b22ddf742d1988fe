"""Assignments that are closed: graded, handed back, and not graded again (``close``, ``reopen``, ``closed``)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import date

from course_utils.base.errors import explain
from course_utils.base.files import write_whole
from course_utils.classroom.course.folder import ClassFolder

FILE = "closed.json"


def closed(course: ClassFolder) -> dict[str, str]:
    """Assignment -> the day on which it was closed."""
    file = course.root / FILE
    return json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}


def close(course: ClassFolder, assignments: Sequence[str]) -> None:
    """Closes assignments: ``grade`` passes them over until they are opened again."""
    _write(course, {name: date.today().isoformat() for name in assignments} | closed(course))


def reopen(course: ClassFolder, assignments: Sequence[str]) -> None:
    """Opens assignments again."""
    _write(course, {name: day for name, day in closed(course).items() if name not in assignments})


def open_ones(course: ClassFolder, assignments: Sequence[str], asked: Sequence[str]) -> list[str]:
    """Those of the assignments that are not closed.

    Raises:
        ValueError: one that was asked for by name is closed.
    """
    days = {name: day for name, day in closed(course).items() if name in assignments}
    if asked and days:
        name, day = next(iter(days.items()))
        raise ValueError(
            explain(
                f"{name} was closed on {day}.",
                "an assignment that is open.",
                "what was handed back is not graded again by accident.",
                f"autograd-control classroom reopen {name}",
            )
        )
    return [name for name in assignments if name not in days]


def _write(course: ClassFolder, days: dict[str, str]) -> None:
    write_whole(course.root / FILE, json.dumps(days, indent=1, sort_keys=True) + "\n")
