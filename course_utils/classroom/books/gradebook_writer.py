"""Writes marks into nbgrader's gradebook, many in one transaction (``GradebookWriter``).

nbgrader's own methods commit each student, each submission and each mark, three waits for the disk a submission; for a
large class that, and not the grading, would be what everybody waits for. The rows are the same, through the same mapped
classes.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING

from course_utils.base.errors import explain
from course_utils.classroom.course.folder import without_log
from course_utils.classroom.course.graded_cells import is_unread

if TYPE_CHECKING:
    from nbgrader.api import Gradebook, SubmittedAssignment, SubmittedNotebook

PATIENCE_SECONDS = 60.0  # for a gradebook that somebody else is writing to: a formgrader, a colleague
ATTEMPTS = 3  # where others enter the same rows
MOST_PENDING = 100  # marks of so many submissions wait for one transaction,
LONGEST_PENDING_SECONDS = 2.0  # but none longer than this


@dataclass(frozen=True)
class Marks:
    """What goes into the gradebook for one submission.

    Attributes:
        assignment: its name; its notebook is called the same.
        timestamp: when it was handed in, in UTC; None where that is not known.
        scores: graded cell -> automatic score; None where a person has to give one.
        comments: solution cell -> automatic comment, None for none.
        changed: the graded cells whose answer is another than the one that lay there to be marked. Where the file of
            that one could not be read, the mark is taken back.
        no_time: whether ``timestamp.txt`` holds what is no time, so that one that was entered before counts no more.
    """

    student: str
    assignment: str
    timestamp: datetime | None
    scores: Mapping[str, float | None]
    comments: Mapping[str, str | None]
    changed: frozenset[str] = frozenset()
    no_time: bool = False


class Unusable(ValueError):
    """The gradebook takes no marks, whosever they are."""


class GradebookWriter:
    """The marks of a course, for one writer.

    Args:
        gradebook: open, and nobody else's in this process.

    Attributes:
        refused: (assignment, student) -> why the gradebook did not take what was to be written of this one.
    """

    def __init__(self, gradebook: Gradebook) -> None:
        self.gradebook = gradebook
        self.refused: dict[tuple[str, str], Exception] = {}
        self._graded: dict[str, set[str]] = {}  # assignment -> its graded cells
        self._pending: dict[tuple[str, str], Marks] = {}
        self._since = 0.0

    def enter(self, marks: Marks) -> None:
        """Takes marks; they are in the gradebook by the next ``commit``, which comes by itself when many wait.

        Raises:
            Unusable: the gradebook does not know the assignment or one of the cells; or it cannot be written.
        """
        if unknown := sorted(set(marks.scores) - self._graded_cells(marks.assignment)):
            raise Unusable(_not_released(f"graded cell {', '.join(unknown)} in {marks.assignment}", marks.assignment))
        if not self._pending:
            self._since = time.monotonic()
        self._pending[marks.assignment, marks.student] = marks
        if len(self._pending) >= MOST_PENDING or time.monotonic() - self._since >= LONGEST_PENDING_SECONDS:
            self.commit()

    def was_unread(self, assignment: str, student: str) -> bool:
        """Whether what is entered of this student is a file that could not be read."""
        return is_unread(notebook_of(self.gradebook.find_submission(assignment, student)))

    def _graded_cells(self, name: str) -> set[str]:
        from nbgrader.api import MissingEntry

        if name not in self._graded:
            try:
                notebook = self.gradebook.find_notebook(name, name)
            except MissingEntry:
                raise Unusable(_not_released(f"notebook {name} in an assignment {name}", name)) from None
            self._graded[name] = {cell.name for cell in (*notebook.grade_cells, *notebook.task_cells)}
        return self._graded[name]

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

    def patiently(self, write: Callable[[], object]) -> None:
        """Runs something that writes, again and again while somebody else holds the gradebook.

        Raises:
            Unusable: it did not come free, or cannot be written at all.
        """
        from nbgrader.api import InvalidEntry
        from sqlalchemy.exc import IntegrityError, OperationalError

        deadline, attempts = time.monotonic() + PATIENCE_SECONDS, 0
        while True:
            try:
                with without_log("tornado.application"):  # where nbgrader logs the traceback
                    write()
                return
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
                attempts += 1
                # Else somebody has entered the same student or submission meanwhile.
                if not isinstance(error, IntegrityError) or attempts == ATTEMPTS:
                    raise

    def _write(self, waiting: list[Marks]) -> None:
        from nbgrader.api import Student

        database = self.gradebook.db
        students = {marks.student for marks in waiting}
        with database.no_autoflush:
            known = {name for (name,) in database.query(Student.id).filter(Student.id.in_(students))}
            database.add_all(Student(id=name) for name in sorted(students - known))
            for marks in waiting:
                self._set(self._submission(marks.assignment, marks.student), marks)
            database.commit()

    def _set(self, submission: SubmittedAssignment, marks: Marks) -> None:
        if marks.timestamp is not None or marks.no_time:
            submission.timestamp = marks.timestamp
        notebook = notebook_of(submission)
        unread = is_unread(notebook)
        for grade in notebook.grades:
            if grade.name in marks.scores:
                grade.auto_score = marks.scores[grade.name]
                if unread and grade.name in marks.changed:
                    grade.manual_score = None  # it was for a file that nobody could read, and this is another one
                if grade.manual_score is None:
                    grade.needs_manual_grade = grade.auto_score is None
                elif grade.name in marks.changed:  # the mark stays, and asks to be looked at again
                    grade.needs_manual_grade = True
        for comment in notebook.comments:
            if comment.name in marks.comments:
                comment.auto_comment = marks.comments[comment.name]

    def _submission(self, name: str, student: str) -> SubmittedAssignment:
        """The submission's row; made, with those below it, where there is none."""
        from nbgrader.api import Comment, Grade, MissingEntry, SubmittedAssignment, SubmittedNotebook

        try:
            return self.gradebook.find_submission(name, student)
        except MissingEntry:
            pass
        # The rows that Gradebook.add_submission makes:
        # https://github.com/jupyter/nbgrader/blob/v0.9.5/nbgrader/api.py#L2197
        submission = SubmittedAssignment(assignment=self.gradebook.find_assignment(name), student_id=student)
        for notebook in submission.assignment.notebooks:
            row = SubmittedNotebook(notebook=notebook, assignment=submission)
            for cell in (*notebook.grade_cells, *notebook.task_cells):
                Grade(cell=cell, notebook=row, needs_manual_grade=True)
            for cell in (*notebook.solution_cells, *notebook.task_cells):
                Comment(cell=cell, notebook=row)
        self.gradebook.db.add(submission)
        return submission


def _not_released(what: str, assignment: str) -> str:
    return explain(
        f"The gradebook knows no {what}.",
        "the assignment was released, and its notebook is called the same.",
        try_this=f"autograd-control classroom release {assignment}",
    )


def notebook_of(submission: SubmittedAssignment) -> SubmittedNotebook:
    """The one of a submission's notebooks that is graded here: it is called as the assignment.

    Raises:
        ValueError: the gradebook has none for this submission.
    """
    for notebook in submission.notebooks:
        if notebook.name == submission.name:
            return notebook
    raise ValueError(f"The gradebook's submission has no notebook {submission.name}.")
