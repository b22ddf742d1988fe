"""Enters reports into nbgrader's gradebook and ``autograded/`` (``Records``), as ``nbgrader autograde`` would.

What nbgrader does with a graded notebook is done here with a report, through nbgrader's own interface: automatic
scores, what a person still has to look at, comments, timestamps, late penalties by the course's own plugin. A mark that
a person gave is never touched. One process writes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from nbformat import NotebookNode

from course_utils.base.errors import explain
from course_utils.base.files import write_whole
from course_utils.classroom.books.marks import answers
from course_utils.classroom.course.folder import ClassFolder, without_log
from course_utils.classroom.judging.results import Report

if TYPE_CHECKING:
    from nbgrader.api import SubmittedAssignment


class Unusable(ValueError):
    """The gradebook takes no marks, whosever they are."""


class Records:
    """The gradebook and ``autograded/`` of a course, open for one writer for the length of a ``with`` block."""

    def __init__(self, course: ClassFolder) -> None:
        self.course = course

    def __enter__(self) -> Records:
        self.gradebook = self.course.gradebook()
        return self

    def __exit__(self, *error: object) -> None:
        self.gradebook.close()

    def enter(self, report: Report, time: datetime | None) -> tuple[str, ...]:
        """Enters a report: marks first, then the notebook.

        Args:
            report: of a released assignment.
            time: when it was handed in, in UTC; None where that is not known.

        Returns:
            What the teacher should know of it, one sentence each.

        Raises:
            Unusable: the gradebook does not know the assignment or its graded cells, or cannot be written.
            OSError: the notebook cannot be written.
        """
        path = self._path(report)
        before, now, said = _answers_in(path), answers(report.notebook), []
        results = {result.grade_id: result for result in report.exercises}
        with self._writing(report):
            released = self.gradebook.find_notebook(report.assignment, report.assignment)
            known = {cell.name for cell in (*released.grade_cells, *released.task_cells)}
            if unknown := sorted(results.keys() - known):
                raise Unusable(_not_released(f"graded cell {', '.join(unknown)}", report.assignment))
            self.gradebook.update_or_create_student(report.student)
            self.gradebook.update_or_create_submission(report.assignment, report.student, timestamp=time)
            notebook = self.gradebook.find_submission_notebook(report.assignment, report.assignment, report.student)
            for grade in notebook.grades:
                if (result := results.get(grade.name)) is None:
                    continue
                grade.auto_score = None if result.waits else result.earned
                if grade.manual_score is None:
                    grade.needs_manual_grade = result.waits
                elif before.get(grade.name, now[grade.name]) != now[grade.name]:
                    grade.needs_manual_grade = True  # the mark stays, and asks to be looked at again
                    said.append(
                        f"The answer to {result.exercise} is another than the one that got {grade.manual_score:g} of "
                        f"{result.possible:g} points by hand; mark it again in the Formgrader, or press Resolve."
                    )
            for comment in notebook.comments:
                if result := results.get(comment.name):
                    why = f"{result.text.partition(': ')[2]} Ask your teacher to look at it."
                    comment.auto_comment = {
                        "not attempted": "No response.",
                        "unreadable": f"Your file could not be read. {why}",
                    }.get(result.outcome)
            self.gradebook.db.commit()
        path.parent.mkdir(parents=True, exist_ok=True)
        if time:
            self._write(path.with_name("timestamp.txt"), f"{time} UTC\n")
        else:
            path.with_name("timestamp.txt").unlink(missing_ok=True)
        self._write(path, report.notebook)
        return tuple(said)

    def holds(self, report: Report, time: datetime | None) -> bool:
        """Whether all that ``enter`` writes is there: the notebook comes last."""
        path = self._path(report)
        try:
            submission = self.gradebook.find_submission(report.assignment, report.student)
            return submission.timestamp == time and path.read_text(encoding="utf-8") == report.notebook
        except (OSError, ValueError):  # of which nbgrader's MissingEntry is one
            return False

    def _path(self, report: Report) -> Path:
        return self.course.notebook("autograded", report.assignment, report.student)

    @contextmanager
    def _writing(self, report: Report) -> Iterator[None]:
        from nbgrader.api import InvalidEntry, MissingEntry
        from sqlalchemy.exc import OperationalError

        try:
            # What nbgrader adds row by row must not be written half-way; and it logs tracebacks of what is raised here.
            with without_log("tornado.application"), self.gradebook.db.no_autoflush:
                yield
        except MissingEntry:
            raise Unusable(_not_released(f"notebook {report.assignment}", report.assignment)) from None
        except Exception as error:
            self.gradebook.db.rollback()
            if not isinstance(error, (OperationalError, InvalidEntry)) or "IntegrityError" in str(error):
                raise  # it is about this one alone; nbgrader wraps an OperationalError into InvalidEntry
            raise Unusable(
                explain(
                    f"The gradebook cannot be written: {str(error).splitlines()[0]}.",
                    "a gradebook that nobody else holds.",
                    "no mark is lost: results are kept beside it.",
                    "close what has it open, and run the same command again.",
                )
            ) from error

    def apply_penalties(self, assignment: str) -> dict[str, str]:
        """Sets every late penalty of an assignment anew, by the plugin that the course's configuration names.

        Returns:
            Student -> one sentence, for each submission that lost points, or of which the plugin made nothing.
        """
        said = {}
        for submission in self.gradebook.assignment_submissions(assignment):
            student, late = submission.student.id, submission.total_seconds_late
            try:
                if (late > 0 or submission.late_submission_penalty) and (lost := self._penalty(submission)):
                    points = f"{lost:g} point{'' if lost == 1 else 's'}"
                    said[student] = f"{late / 3600:.1f} hours late, {points} less."
            except Exception as error:  # a plugin is anybody's code
                said[student] = f"no late penalty: {error}"
        return said

    def _penalty(self, submission: SubmittedAssignment) -> float:
        from nbgrader.preprocessors import AssignLatePenalties

        about = {"notebook": submission.name, "assignment": submission.name, "student": submission.student.id}
        about["db_url"] = self.course.api.coursedir.db_url
        self.gradebook.db.commit()  # ends the reading: nbgrader reads and writes through a connection of its own
        step = AssignLatePenalties(parent=self.course.api)
        step.log.setLevel("ERROR")
        step.preprocess(NotebookNode(cells=[]), {"nbgrader": about})
        self.gradebook.db.expire_all()
        return round(submission.late_submission_penalty or 0.0, 2)

    def _write(self, path: Path, text: str) -> None:
        # nbgrader's own default, see BaseConverter.permissions: graded notebooks are for reading.
        write_whole(path, text).chmod(0o664 if self.course.api.coursedir.groupshared else 0o444)


def settle(course: ClassFolder, assignments: Iterable[str]) -> None:
    """Sets late penalties anew, as marks and deadlines are now."""
    with course.only_one(), Records(course) as books:
        for assignment in assignments:
            books.apply_penalties(assignment)


def _answers_in(path: Path) -> dict[str, str]:
    """What each graded cell of a graded notebook grades; nothing where there is no such notebook."""
    try:
        return answers(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}


def _not_released(what: str, assignment: str) -> str:
    return explain(
        f"The gradebook knows no {what} in {assignment}.",
        "the assignment was released, and its notebook is called the same.",
        try_this=f"autograd-control classroom release {assignment}",
    )
