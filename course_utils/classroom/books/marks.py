"""What the gradebook holds of a class (``marks_of``), what waits for a person (``still_to_mark``), and which answer a
mark was given to (``answers``)."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from course_utils.classroom.course.folder import ClassFolder


@dataclass(frozen=True)
class Mark:
    """What the gradebook holds of one graded cell of one student.

    Attributes:
        score: that counts, extra credit included; None where a person still has to give it.
        given: what a person gave; None where nobody did.
        waits: whether a person has to look at it.
    """

    score: float | None
    given: float | None
    waits: bool


def marks_in(database: Any, assignment: str, student: str = "") -> dict[str, dict[str, Mark]]:
    """Student -> graded cell -> mark, of everybody who handed this assignment in, or of one student.

    Args:
        database: the gradebook's session.
    """
    from nbgrader.api import Grade

    found: dict[str, dict[str, Mark]] = {}
    columns = Grade.auto_score, Grade.manual_score, Grade.extra_credit, Grade.needs_manual_grade
    for name, cell, automatic, given, extra, waits in _rows(database, Grade, columns, assignment, student):
        score = automatic if given is None else given
        found.setdefault(name, {})[cell] = Mark(None if score is None else score + (extra or 0.0), given, waits)
    return found


def comments_in(database: Any, assignment: str) -> dict[str, dict[str, str]]:
    """Student -> cell -> the comment that stands there: a person's, or else the automatic one."""
    from nbgrader.api import Comment

    found: dict[str, dict[str, str]] = {}
    columns = Comment.auto_comment, Comment.manual_comment
    for name, cell, automatic, given in _rows(database, Comment, columns, assignment):
        if comment := automatic if given is None else given:
            found.setdefault(name, {})[cell] = comment
    return found


def _rows(database: Any, kind: Any, columns: Iterable[Any], assignment: str, student: str = "") -> Any:
    """Student, cell and columns of all grades or comments of an assignment, in one query: row by row, nbgrader's own
    classes ask the database several times for each."""
    from nbgrader.api import Assignment, BaseCell, SubmittedAssignment, SubmittedNotebook

    query = database.query(SubmittedAssignment.student_id, BaseCell.name, *columns)
    query = query.select_from(kind).join(BaseCell, kind.cell_id == BaseCell.id)
    query = query.join(SubmittedNotebook, kind.notebook_id == SubmittedNotebook.id)
    query = query.join(SubmittedAssignment, SubmittedNotebook.assignment_id == SubmittedAssignment.id)
    query = query.join(Assignment, SubmittedAssignment.assignment_id == Assignment.id)
    query = query.filter(Assignment.name == assignment)
    return query.filter(SubmittedAssignment.student_id == student) if student else query


def marks_of(course: ClassFolder, assignment: str) -> dict[str, dict[str, Mark]]:
    """The same from a course's gradebook."""
    with course.gradebook() as gradebook:
        return marks_in(gradebook.db, assignment)


def still_to_mark(course: ClassFolder, assignment: str) -> str:
    """How many answers wait for a person, in one line; empty where none does."""
    marks = marks_of(course, assignment).values()
    waiting = Counter(cell for cells in marks for cell, mark in cells.items() if mark.waits)
    each = ", ".join(f"{cell} {number}" for cell, number in sorted(waiting.items()))
    return f"{assignment}: still to mark: {waiting.total()} ({each})" if waiting else ""


def answers(notebook: str) -> dict[str, str]:
    """What each graded cell of a graded notebook grades: the answers since the one before it, or its own text."""
    found, since, all_of_them = dict[str, str](), list[str](), list[str]()
    for cell in json.loads(notebook)["cells"]:
        grading, source = cell["metadata"].get("nbgrader", {}), "".join(cell["source"]).strip()
        if grading.get("solution"):
            since.append(source)
            all_of_them.append(source)
        if grading.get("grade") or grading.get("task"):
            found[grading["grade_id"]] = "\n".join(since or all_of_them)
            since = []
    return found
