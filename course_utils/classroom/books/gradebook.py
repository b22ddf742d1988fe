"""Enters reports into nbgrader's gradebook and ``autograded/`` (``Records``), as ``nbgrader autograde`` would.

What nbgrader does with a graded notebook is done here with a report, through nbgrader's own interface: automatic
scores, what a person still has to look at, comments, timestamps, late penalties by the course's own plugin. A mark that
a person gave is never touched. One process writes.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from nbformat import NotebookNode, from_dict

from course_utils.base.errors import explain
from course_utils.classroom.books.marks import answers
from course_utils.classroom.course.folder import ClassFolder, without_log
from course_utils.classroom.course.times import read_time
from course_utils.classroom.judging.results import Report

if TYPE_CHECKING:
    from nbgrader.api import SubmittedAssignment, SubmittedNotebook


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

    def enter(self, report: Report, timestamp: str) -> tuple[str, ...]:
        """Enters a report: marks first, then the notebook.

        Args:
            report: of a released assignment.
            timestamp: when it was handed in, as ``timestamp.txt`` says; empty where that is not known.

        Returns:
            What the teacher should know of it, one sentence each.

        Raises:
            Unusable: the gradebook does not know the assignment or its graded cells, or cannot be written.
            OSError: the notebook cannot be written.
        """
        path = self.course.notebook("autograded", report.assignment, report.student)
        before, now, time = _answers_in(path), answers(report.notebook), read_time(timestamp)[0]
        said = []
        with self._writing(report):
            released = self.gradebook.find_notebook(report.assignment, report.assignment)
            known = {cell.name for cell in (*released.grade_cells, *released.task_cells)}
            if unknown := sorted({result.grade_id for result in report.exercises} - known):
                raise Unusable(_not_released(f"graded cell {', '.join(unknown)}", report.assignment))
            self.gradebook.update_or_create_student(report.student)
            about = {} if time is None and not timestamp else {"timestamp": time}
            self.gradebook.update_or_create_submission(report.assignment, report.student, **about)
            notebook = self._notebook(report.assignment, report.student)
            results = {result.grade_id: result for result in report.exercises}
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
            comments = _comments(report)
            for comment in notebook.comments:
                if comment.name in comments:
                    comment.auto_comment = comments[comment.name]
            self.gradebook.db.commit()
        path.parent.mkdir(parents=True, exist_ok=True)
        self._write(path, report.notebook)
        if time:
            self._write(path.with_name("timestamp.txt"), f"{time} UTC\n")
        else:
            path.with_name("timestamp.txt").unlink(missing_ok=True)
        return tuple(said)

    def _notebook(self, assignment: str, student: str) -> SubmittedNotebook:
        """The one of a submission's notebooks that is graded here: it is called as the assignment."""
        return self.gradebook.find_submission_notebook(assignment, assignment, student)

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

    def holds(self, report: Report, timestamp: str) -> bool:
        """Whether all that ``enter`` would write is there."""
        path = self.course.notebook("autograded", report.assignment, report.student)
        try:
            if path.read_text(encoding="utf-8") != report.notebook:
                return False
            submission = self.gradebook.find_submission(report.assignment, report.student)
            notebook = self._notebook(report.assignment, report.student)
        except (OSError, ValueError):  # of which nbgrader's MissingEntry is one
            return False
        scores = {grade.name: grade.auto_score for grade in notebook.grades}
        wanted = {result.grade_id: None if result.waits else result.earned for result in report.exercises}
        return scores == scores | wanted and (not timestamp or submission.timestamp == read_time(timestamp)[0])

    def apply_penalties(self, assignment: str) -> dict[str, str]:
        """Sets every late penalty of an assignment anew, by the plugin that the course's configuration names.

        Returns:
            Student -> one sentence, for each submission that lost points, or of which the plugin made nothing.
        """
        said = {}
        for submission in self.gradebook.assignment_submissions(assignment):
            student = submission.student.id
            try:
                if sentence := self._penalty(submission):
                    said[student] = sentence
            except Exception as error:  # a plugin is anybody's code
                said[student] = f"no late penalty: {error}"
        return said

    def _penalty(self, submission: SubmittedAssignment) -> str:
        from nbgrader.preprocessors import AssignLatePenalties

        late, notebook = submission.total_seconds_late, self._notebook(submission.name, submission.student.id)
        if late <= 0 and not notebook.late_submission_penalty:
            return ""
        about = {"notebook": notebook.name, "assignment": submission.name, "student": submission.student.id}
        about["db_url"] = self.course.api.coursedir.db_url
        self.gradebook.db.commit()  # ends the reading: nbgrader reads and writes through a connection of its own
        step = AssignLatePenalties(parent=self.course.api)
        step.log.setLevel("ERROR")
        step.preprocess(NotebookNode(cells=[]), {"nbgrader": about})
        self.gradebook.db.expire_all()
        lost = round(notebook.late_submission_penalty or 0.0, 2)
        return f"{late / 3600:.1f} hours late, {lost:g} point{'' if lost == 1 else 's'} less." if lost else ""

    def _write(self, path: Path, text: str) -> None:
        """Writes a file whole or not at all. What a power cut takes of it, the kept result gives back."""
        part = path.with_name(f".{path.name}.part")
        part.unlink(missing_ok=True)
        with part.open("x", encoding="utf-8", newline="") as file:
            file.write(text)
        # nbgrader's own default, see BaseConverter.permissions: graded notebooks are for reading.
        part.chmod(0o664 if self.course.api.coursedir.groupshared else 0o444)
        os.replace(part, path)


def settle(course: ClassFolder, assignments: Iterable[str]) -> None:
    """Sets late penalties anew, as marks and deadlines are now."""
    with Records(course) as books:
        for assignment in assignments:
            books.apply_penalties(assignment)


def _answers_in(path: Path) -> dict[str, str]:
    """What each graded cell of a graded notebook grades; nothing where there is no such notebook."""
    try:
        return answers(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}


def _comments(report: Report) -> dict[str, str | None]:
    """The automatic comment of each answer's cell, None for none."""
    from nbgrader.utils import compute_checksum

    waiting = {result.grade_id for result in report.exercises if result.waits}
    unreadable = next((result.text for result in report.exercises if result.outcome == "unreadable"), "")
    comments: dict[str, str | None] = {}
    for values in json.loads(report.notebook)["cells"]:
        grading = values["metadata"].get("nbgrader", {})
        if not grading.get("solution"):
            continue
        # Attachments and outputs, which may be anything, are left out.
        kept = {"cell_type": values["cell_type"], "metadata": values["metadata"], "source": "".join(values["source"])}
        if unreadable:
            why = f"Your file could not be read. {unreadable.partition(': ')[2]}"
            why += "" if "hand it in again" in why else " Ask your teacher to look at it."
            comments[grading["grade_id"]] = None if comments else why
        else:
            untouched = grading["grade_id"] not in waiting and grading.get("checksum") == compute_checksum(
                from_dict(kept)
            )
            comments[grading["grade_id"]] = "No response." if untouched else None
    return comments


def _not_released(what: str, assignment: str) -> str:
    return explain(
        f"The gradebook knows no {what} in {assignment}.",
        "the assignment was released, and its notebook is called the same.",
        try_this=f"autograd-control classroom release {assignment}",
    )
