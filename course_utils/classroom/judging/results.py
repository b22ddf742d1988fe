"""What grading one submission gives: a report (``Report``) with one result an exercise (``ExerciseResult``).

Plain data, to and from JSON, so that a report can cross a process, a network or a restart.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Literal, Self, get_args

from course_utils.base.markup import clean

Outcome = Literal[
    "passed", "partial", "not attempted", "wrong", "raised", "timed out", "killed", "unreadable", "review by hand"
]
OUTCOMES: tuple[str, ...] = get_args(Outcome)


@dataclass(frozen=True)
class ExerciseResult:
    """What one graded cell earned, and why.

    Attributes:
        grade_id: nbgrader's name of the graded cell: the check cell, or the written answer.
        exercise: the exercise's own name, for example ``"snapshot"``.
        earned: points; 0 for everything that was not judged.
        possible: the cell's points.
        outcome: ``"wrong"`` was judged and earned nothing; ``"review by hand"`` withholds the points until the teacher
            has looked; a written answer is always one of these.
        said: what the check said: where points are withheld ``"2 of 2 points"``, else why they are missing.
        misconceptions: the names on the card, the likeliest first.
        html: the card as HTML.
        by_hand: whether a person grades it, whatever was written.
        lost: why points are missing, with how many: they add up to what is missing.
    """

    grade_id: str
    exercise: str
    earned: float
    possible: float
    outcome: Outcome
    said: str
    misconceptions: Sequence[str]
    html: str
    by_hand: bool = False
    lost: Sequence[tuple[str, float]] = ()

    @property
    def waits(self) -> bool:
        """Whether a person decides what it earns."""
        return self.outcome in ("review by hand", "unreadable")


@dataclass(frozen=True)
class Report:
    """What grading one submission gave.

    Attributes:
        student: nbgrader's student id.
        assignment: the assignment's name, for example ``"03_detach"``.
        exercises: every graded cell of the released notebook, in its order, always all of them.
        repairs: what rebuilding the notebook changed, one sentence each.
        reviews: what the teacher should look at by hand, one sentence each: in which cell, and what was seen.
        listed: what became of cells, and what else the teacher should know, at no cost in points, one sentence each.
        notebook: the rebuilt and executed notebook as text, with the cards as outputs of the check cells.
    """

    student: str
    assignment: str
    exercises: tuple[ExerciseResult, ...]
    repairs: Sequence[str]
    reviews: Sequence[str]
    listed: Sequence[str]
    notebook: str

    @property
    def possible(self) -> float:
        """The most that the released notebook can earn."""
        return sum(result.possible for result in self.exercises)

    def to_json(self) -> str:
        """The report as JSON text; ``from_json`` reads it back. Half a surrogate pair, which no file can hold, is a
        question mark in it."""
        return json.dumps(asdict(self), ensure_ascii=False).encode("utf-8", "replace").decode()

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Reads what ``to_json`` wrote."""
        values = json.loads(text)
        exercises = tuple(ExerciseResult(**one) for one in values.pop("exercises"))
        return cls(exercises=exercises, **values)


def some(texts: Sequence[str], most: int = 10) -> list[str]:
    """So many of them, and how many more there are: code can do hundreds of things that are reported."""
    return [*texts[:most], *[f"{len(texts) - most} more"] * (len(texts) > most)]


def one_line(text: str, limit: int = 400) -> str:
    """What anybody may have written, fit to be shown in one line."""
    return " ".join(clean(text, limit).split())
