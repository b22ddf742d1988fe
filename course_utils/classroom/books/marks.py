"""What the gradebook holds of a class (``marks_of``), what waits for a person (``still_to_mark``), and which answer a
mark was given to (``answers``)."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from course_utils.classroom.course.folder import ClassFolder

if TYPE_CHECKING:
    from nbgrader.api import SubmittedAssignment


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


def marks_in(submission: SubmittedAssignment) -> dict[str, Mark]:
    """The marks of a submission, by graded cell."""
    found = {}
    for grade in (grade for notebook in submission.notebooks for grade in notebook.grades):
        is_known = grade.auto_score is not None or grade.manual_score is not None
        found[grade.name] = Mark(grade.score if is_known else None, grade.manual_score, grade.needs_manual_grade)
    return found


def marks_of(course: ClassFolder, assignment: str) -> dict[str, dict[str, Mark]]:
    """Student -> graded cell -> mark, of everybody who handed this assignment in."""
    with course.gradebook() as gradebook:
        return {one.student_id: marks_in(one) for one in gradebook.assignment_submissions(assignment)}


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
