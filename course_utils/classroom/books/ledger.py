"""Writes marks into nbgrader's gradebook, many in one transaction (``Ledger``).

nbgrader's own methods commit each student, each submission and each mark, three waits for the disk a submission; for a
large class that, and not the grading, would be what everybody waits for. The rows are the same, through the same mapped
classes.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from course_utils.base.errors import explain
from course_utils.classroom.course.folder import quiet

if TYPE_CHECKING:
    from nbgrader.api import Gradebook, SubmittedAssignment, SubmittedNotebook

PATIENCE_SECONDS = 60.0  # for a gradebook that somebody else is writing to: a formgrader, a colleague
ATTEMPTS = 3  # where others enter the same rows
MOST_PENDING = 100  # marks of so many submissions wait for one transaction,
LONGEST_PENDING_SECONDS = 2.0  # but none longer than this
_Result = TypeVar("_Result")


@dataclass(frozen=True)
class Marks:
    """What goes into the gradebook for one submission.

    Attributes:
        student: nbgrader's student id.
        assignment: the assignment's name; its notebook is called the same.
        timestamp: when it was handed in, in UTC; None where that is not known.
        scores: graded cell -> automatic score; None where a person has to give one.
        comments: solution cell -> automatic comment, None for none.
    """

    student: str
    assignment: str
    timestamp: datetime | None
    scores: Mapping[str, float | None]
    comments: Mapping[str, str | None]


@dataclass(frozen=True)
class _Plan:
    """An assignment's rows: the ids of its notebooks, and of their cells by name."""

    assignment_id: str
    notebooks: Mapping[str, tuple[str, Mapping[str, str], Mapping[str, str]]]  # name -> id, graded, commented


class Unusable(ValueError):
    """The gradebook takes no marks, whosever they are."""


class Ledger:
    """The marks of a course, for one writer.

    Args:
        gradebook: open, and nobody else's in this process.

    Attributes:
        refused: (assignment, student) -> why the gradebook did not take what was to be written of this one.
    """

    def __init__(self, gradebook: Gradebook) -> None:
        self.gradebook = gradebook
        self.refused: dict[tuple[str, str], Exception] = {}
        self._plans: dict[str, _Plan] = {}
        self._pending: dict[tuple[str, str], Marks] = {}
        self._since = 0.0
        self._forget()

    def enter(self, marks: Marks) -> None:
        """Takes marks; they are in the gradebook by the next ``commit``, which comes by itself when many wait.

        Raises:
            Unusable: the gradebook does not know the assignment or one of the cells; or it cannot be written.
        """
        _, graded, _ = self._plan(marks.assignment).notebooks[marks.assignment]
        unknown = sorted(set(marks.scores) - set(graded))
        if unknown:
            raise Unusable(
                explain(
                    f"The gradebook knows no graded cell {', '.join(unknown)} in {marks.assignment}.",
                    "the released notebook and the gradebook agree.",
                    try_this=f"python -m course_utils.classroom release {marks.assignment}",
                )
            )
        if not self._pending:
            self._since = time.monotonic()
        self._pending[marks.assignment, marks.student] = marks
        if len(self._pending) >= MOST_PENDING or time.monotonic() - self._since >= LONGEST_PENDING_SECONDS:
            self.commit()

    def commit(self) -> None:
        """Writes what waits, in one transaction; what the gradebook does not take of one submission is in ``refused``.

        Raises:
            Unusable: somebody else holds the gradebook, for longer than it is waited, or nothing can be written.
        """
        if self._pending:
            self._write_all(list(self._pending.values()))
            self._pending.clear()

    def _write_all(self, waiting: list[Marks]) -> None:
        try:
            self.patiently(partial(self._write, waiting))
        except Unusable:
            raise
        except Exception as error:  # whatever it is, it is about one of them, and must cost the others nothing
            if len(waiting) == 1:
                self.refused[waiting[0].assignment, waiting[0].student] = error
            else:
                for marks in waiting:
                    self._write_all([marks])

    def find(self, assignment: str, student: str) -> SubmittedAssignment | None:
        """The submission's row; None where there is none."""
        if student not in self._those_who_submitted(assignment):
            return None
        self.commit()
        return self.gradebook.find_submission(assignment, student)

    def patiently(self, write: Callable[[], _Result]) -> _Result:
        """Runs something that writes, again and again while somebody else holds the gradebook.

        Raises:
            Unusable: it did not come free, or cannot be written at all.
        """
        from nbgrader.api import InvalidEntry
        from sqlalchemy.exc import IntegrityError, OperationalError

        deadline = time.monotonic() + PATIENCE_SECONDS
        for attempt in itertools.count(1):
            try:
                with quiet("tornado.application"):  # where nbgrader logs the traceback
                    return write()
            except (OperationalError, InvalidEntry) as error:  # nbgrader wraps the one into the other
                self.gradebook.db.rollback()
                if "locked" not in str(error) or time.monotonic() > deadline:
                    raise Unusable(
                        explain(
                            f"The gradebook cannot be written: {str(error).splitlines()[0]}.",
                            "a gradebook that nobody else holds.",
                            "no mark is lost: results are kept beside it.",
                            "close what has it open, and run the same command again.",
                        )
                    ) from error
                time.sleep(0.2)
            except Exception as error:
                self.gradebook.db.rollback()
                self._forget()
                # Else somebody has entered the same student or submission meanwhile.
                if not isinstance(error, IntegrityError) or attempt == ATTEMPTS:
                    raise
        raise AssertionError("unreachable: the loop above ends by returning or raising")

    def _forget(self) -> None:
        self._students = {student.id for student in self.gradebook.students}
        self._submitted: dict[str, set[str]] = {}

    def _write(self, waiting: list[Marks]) -> None:
        from nbgrader.api import Student

        database = self.gradebook.db
        new = {marks.student for marks in waiting} - self._students
        with database.no_autoflush:
            database.add_all(Student(id=student) for student in sorted(new))
            for marks in waiting:
                if marks.student in self._those_who_submitted(marks.assignment):
                    self._change(marks)
                else:
                    self._add(marks)
            database.commit()
        self._students |= new
        for marks in waiting:
            self._those_who_submitted(marks.assignment).add(marks.student)

    def _add(self, marks: Marks) -> None:
        # The rows that Gradebook.add_submission makes:
        # https://github.com/jupyter/nbgrader/blob/v0.9.5/nbgrader/api.py#L2197
        from nbgrader.api import Comment, Grade, SubmittedAssignment, SubmittedNotebook

        plan = self._plan(marks.assignment)
        submission = SubmittedAssignment(
            assignment_id=plan.assignment_id, student_id=marks.student, timestamp=marks.timestamp
        )
        for name, (notebook_id, graded, commented) in plan.notebooks.items():
            notebook = SubmittedNotebook(notebook_id=notebook_id, assignment=submission)
            ours = name == marks.assignment
            for cell, cell_id in graded.items():
                score = marks.scores.get(cell) if ours else None
                Grade(cell_id=cell_id, notebook=notebook, auto_score=score, needs_manual_grade=score is None)
            for cell, cell_id in commented.items():
                Comment(cell_id=cell_id, notebook=notebook, auto_comment=marks.comments.get(cell) if ours else None)
        self.gradebook.db.add(submission)

    def _change(self, marks: Marks) -> None:
        submission = self.gradebook.find_submission(marks.assignment, marks.student)
        if marks.timestamp is not None:
            submission.timestamp = marks.timestamp
        notebook = notebook_of(submission)
        for grade in notebook.grades:
            if grade.name in marks.scores:
                grade.auto_score = marks.scores[grade.name]
                # As nbgrader has it: a mark that a person gave stays, and asks to be looked at again.
                grade.needs_manual_grade = grade.manual_score is not None or grade.auto_score is None
        for comment in notebook.comments:
            if comment.name in marks.comments:
                comment.auto_comment = marks.comments[comment.name]

    def _those_who_submitted(self, assignment: str) -> set[str]:
        if assignment not in self._submitted:
            from nbgrader.api import SubmittedAssignment

            plan = self._plan(assignment)
            rows = self.gradebook.db.query(SubmittedAssignment.student_id).filter_by(assignment_id=plan.assignment_id)
            self._submitted[assignment] = {student for (student,) in rows}
        return self._submitted[assignment]

    def _plan(self, name: str) -> _Plan:
        if name not in self._plans:
            from nbgrader.api import MissingEntry

            try:
                assignment = self.gradebook.find_assignment(name)
                notebooks = {}
                for notebook in assignment.notebooks:
                    tasks = {cell.name: cell.id for cell in notebook.task_cells}
                    graded = {cell.name: cell.id for cell in notebook.grade_cells} | tasks
                    commented = {cell.name: cell.id for cell in notebook.solution_cells} | tasks
                    notebooks[notebook.name] = (notebook.id, graded, commented)
                notebooks[name]
            except (MissingEntry, KeyError):
                raise Unusable(
                    explain(
                        f"The gradebook knows no notebook {name} in an assignment {name}.",
                        "the assignment was released, and its notebook is called the same.",
                        try_this=f"python -m course_utils.classroom release {name}",
                    )
                ) from None
            self._plans[name] = _Plan(assignment.id, notebooks)
        return self._plans[name]


def notebook_of(submission: SubmittedAssignment) -> SubmittedNotebook:
    """The one of a submission's notebooks that is graded here: it is called as the assignment.

    Raises:
        ValueError: the gradebook has none for this submission.
    """
    for notebook in submission.notebooks:
        if notebook.name == submission.name:
            return notebook
    raise ValueError(f"The gradebook's submission has no notebook {submission.name}.")
