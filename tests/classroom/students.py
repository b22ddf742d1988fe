"""What a student of the tests' class is (``Student``): what they handed in, and what must come of it."""

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from tests.classroom.handed_in import DETACH, Notebook, exercises

PASSED, BLANK, BY_HAND, WRONG = "passed", "not attempted", "review by hand", "wrong"
NOTHING = "wrong or raised or killed or timed out or review by hand"  # for who wants points without an answer

Expected = dict[str, tuple[str, float | None]]
HELD = {"detach-written": (BY_HAND, 0.0)}  # whatever else happens, what was written is read


@dataclass(frozen=True)
class Student:
    """One submission and what must come of it.

    Attributes:
        name: the student's id, which says what is special about them.
        content: the file; None: a folder without a notebook.
        expected: exercise -> (outcome, points earned), or what gives it; those left out pass with all their points.
            Where several outcomes will do, they stand in one text: "wrong or raised"; None for as many as it may be.
        told: what the teacher is told to look at, as a pattern; empty where it is nothing; None where it may be.
        listed: words that the teacher reads, as a pattern; empty where there are none.
        assignment: the lesson.
        file: the notebook's name where it is not the assignment's.
        extra: other files beside it.
    """

    name: str
    content: bytes | None
    expected: Expected | Callable[[], Expected] = field(default_factory=dict)
    told: str | None = ""
    listed: str = ""
    assignment: str = DETACH
    file: str = ""
    extra: dict[str, bytes] = field(default_factory=dict)

    @cached_property
    def outcomes(self) -> Expected:
        """What must come of every exercise that a check judges, and of what else is expected."""
        expected = self.expected() if callable(self.expected) else self.expected
        return {name: (PASSED, points) for name, points in exercises(self.assignment).items()} | expected


def edited(name: str, edit: Callable[[Notebook], object], expected: Expected | None = None, **fields: Any) -> Student:
    """A student to whose solved notebook something happened."""
    notebook = Notebook().solve()
    edit(notebook)
    return Student(name, notebook.bytes(), HELD | (expected or {}), **fields)


def rows(table: str) -> list[tuple[str, list[str], dict[str, str]]]:
    """(name, cells, answers by exercise) of every row of a table: ``#: name`` begins one, what follows is a cell of the
    student's own, ``#+`` begins another one, ``#> exercise`` an answer."""
    parts, found = re.split(r"^#: (.+)\n", table, flags=re.MULTILINE), []
    for name, body in zip(parts[1::2], parts[2::2], strict=True):
        own, *answers = re.split(r"^#> (\w+)\n", body, flags=re.MULTILINE)
        cells = [cell.strip("\n") for cell in re.split(r"^#\+\n", own, flags=re.MULTILINE)] if own.strip() else []
        given = {exercise: source.strip("\n") for exercise, source in zip(answers[::2], answers[1::2], strict=True)}
        found.append((name, cells, given))
    return found


def with_cells(cells: list[str], after: str, assignment: str, **answers: str) -> Notebook:
    """A solved notebook with cells of the student's own, and other answers."""
    notebook = Notebook(assignment).solve()
    for cell in reversed(cells):
        notebook.add(cell, after)
    return notebook.write(**answers)
