"""Enters reports into nbgrader's gradebook and ``autograded/`` (``Records``), as ``nbgrader autograde`` would.

What nbgrader does with a graded notebook is done here with a report: automatic scores, what a person still has to look
at, comments, timestamps, late penalties by the course's own plugin. A mark that a person gave is never touched. One
process writes.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from nbformat import NotebookNode, from_dict

from course_utils.classroom.books.gradebook_writer import GradebookWriter, Marks, Unusable, notebook_of
from course_utils.classroom.books.marks import answers, marks_in
from course_utils.classroom.course.folder import ClassFolder
from course_utils.classroom.course.graded_cells import UNREAD
from course_utils.classroom.course.times import read_time
from course_utils.classroom.judging.results import Report

if TYPE_CHECKING:
    from nbgrader.api import SubmittedAssignment


class Records:
    """The gradebook and ``autograded/`` of a course, open for one writer for the length of a ``with`` block."""

    def __init__(self, course: ClassFolder) -> None:
        self.course = course

    def __enter__(self) -> Records:
        self._ledger = GradebookWriter(self.course.gradebook())
        return self

    def __exit__(self, kind: type[BaseException] | None, *error: object) -> None:
        with self._ledger.gradebook:
            if kind is None or not issubclass(kind, Unusable):
                self._ledger.commit()

    @property
    def refused(self) -> dict[tuple[str, str], Exception]:
        """(assignment, student) -> what the gradebook did not take, once everything is committed."""
        return self._ledger.refused

    def enter(self, report: Report, timestamp: str) -> tuple[str, ...]:
        """Enters a report: the notebook at once, the marks with others in one transaction.

        Args:
            report: of a released assignment.
            timestamp: when it was handed in, as ``timestamp.txt`` says; empty where that is not known.

        Returns:
            What the teacher should know of it, one sentence each.

        Raises:
            Unusable: the gradebook does not know the assignment or its graded cells, or cannot be written.
            OSError: the notebook cannot be written.
        """
        marks = _marks(report, timestamp)
        notebook = self.course.notebook("autograded", report.assignment, report.student)
        found = marks_in(self._ledger.gradebook.db, report.assignment, report.student)
        marked = {name: mark.given for name, mark in found.get(report.student, {}).items() if mark.given is not None}
        unread = bool(marked) and self._ledger.was_unread(report.assignment, report.student)
        stale = self._answered_anew(notebook, report, unread) & marked.keys()
        self._ledger.enter(replace(marks, changed=stale))
        if stale:
            self._ledger.commit()  # before what was marked is written over
        notebook.parent.mkdir(parents=True, exist_ok=True)
        self._write(notebook, report.notebook)
        said = [
            f"The answer to {result.exercise} is another than the one that got {marked[result.grade_id]:g} of "
            f"{result.possible:g} points by hand; "
            + (
                "that one's file could not be read, so its mark was taken back."
                if unread
                else "mark it again in the Formgrader, or press Resolve."
            )
            for result in report.exercises
            if result.grade_id in stale
        ]
        if marks.timestamp:
            self._write(notebook.with_name("timestamp.txt"), read_time(timestamp).text + "\n")
        else:
            notebook.with_name("timestamp.txt").unlink(missing_ok=True)
        return tuple(said)

    def _answered_anew(self, notebook: Path, report: Report, unread: bool) -> frozenset[str]:
        try:
            before = answers(notebook.read_text(encoding="utf-8"))
        except (OSError, ValueError, KeyError, TypeError, AttributeError):  # there is none, or nbgrader's own is broken
            return frozenset()
        now = answers(report.notebook)
        anew = not any(result.outcome == "unreadable" for result in report.exercises)
        # What the file that could not be read lacks had been left out of its release.
        lacking = {name for name in now.keys() - before.keys() if unread and anew}
        return frozenset(lacking.union(name for name, text in now.items() if before.get(name, text) != text))

    def earned(self, assignment: str, student: str) -> float:
        """The points that a student has now, marks by hand and lateness reckoned in."""
        from nbgrader.api import MissingEntry

        self._ledger.commit()
        marks = marks_in(self._ledger.gradebook.db, assignment, student).get(student, {})
        try:
            penalty = self._ledger.gradebook.find_submission(assignment, student).late_submission_penalty
        except MissingEntry:
            return 0.0
        return max(0.0, sum(mark.score or 0.0 for mark in marks.values()) - (penalty or 0.0))

    def holds(self, report: Report, timestamp: str) -> bool:
        """Whether all that ``enter`` would write is there, and what it wrote was committed."""
        notebook = self.course.notebook("autograded", report.assignment, report.student)
        try:
            if notebook.read_text(encoding="utf-8") != report.notebook:
                return False
            submission = self._ledger.gradebook.find_submission(report.assignment, report.student)
        except (OSError, ValueError):  # of which nbgrader's MissingEntry is one
            return False
        scores = {grade.name: grade.auto_score for grade in notebook_of(submission).grades}
        wanted = _marks(report, timestamp)
        forgotten = wanted.no_time and submission.timestamp is not None
        known = not forgotten and wanted.timestamp in (None, submission.timestamp)
        return known and scores == {**scores, **wanted.scores}

    def apply_penalties(self, assignment: str) -> dict[str, str]:
        """Sets every late penalty of an assignment anew, by the plugin that the course's configuration names.

        Returns:
            Student -> one sentence, for each submission that lost points.
        """
        self._ledger.commit()
        said = {}
        for submission in self._ledger.gradebook.assignment_submissions(assignment):
            student = submission.student.id
            try:
                if sentence := self._penalty(submission):
                    said[student] = sentence
            except Unusable:
                raise
            except Exception as error:  # a plugin is anybody's code
                self.refused[assignment, student] = error
        return said

    def _penalty(self, submission: SubmittedAssignment) -> str:
        from nbgrader.preprocessors import AssignLatePenalties

        late, notebook, database = submission.total_seconds_late, notebook_of(submission), self._ledger.gradebook.db
        if late <= 0 and not notebook.late_submission_penalty:
            return ""
        about = {"notebook": notebook.name, "assignment": submission.name, "student": submission.student.id}
        about["db_url"] = self.course.api.coursedir.db_url
        database.commit()  # ends the reading: nbgrader reads and writes through a connection of its own
        step = AssignLatePenalties(parent=self.course.api)
        step.log.setLevel("ERROR")
        self._ledger.patiently(partial(step.preprocess, NotebookNode(cells=[]), {"nbgrader": about}))
        database.expire_all()
        if not notebook.late_submission_penalty:
            return ""
        lost = round(notebook.late_submission_penalty, 2)
        return f"{late / 3600:.1f} hours late, {lost:g} point{'' if lost == 1 else 's'} less."

    def _write(self, path: Path, text: str) -> None:
        """Writes a file whole or not at all. What a power cut takes of it, the kept result gives back."""
        part = path.with_name(f".{path.name}.part")
        part.unlink(missing_ok=True)
        with part.open("x", encoding="utf-8", newline="") as file:
            file.write(text)
        # nbgrader's own default, see BaseConverter.permissions: graded notebooks are for reading.
        part.chmod(0o664 if self.course.api.coursedir.groupshared else 0o444)
        os.replace(part, path)


def settle(course: ClassFolder, assignments: Iterable[str]) -> list[str]:
    """Sets late penalties anew, as marks and deadlines are now. Returns what the gradebook refused, a line each."""
    with Records(course) as books:
        for assignment in assignments:
            books.apply_penalties(assignment)
    refused = books.refused.items()
    return [f"{assignment}: {student}: no late penalty: {error}" for (assignment, student), error in refused]


def _marks(report: Report, timestamp: str) -> Marks:
    from nbgrader.utils import compute_checksum

    scores = {result.grade_id: None if result.waits else result.earned for result in report.exercises}
    comments: dict[str, str | None] = {}
    unreadable = next((result.text for result in report.exercises if result.outcome == "unreadable"), "")
    for values in json.loads(report.notebook)["cells"]:
        if values["metadata"].get("nbgrader", {}).get("solution"):
            # Attachments and outputs, which may be anything, are left out.
            kept = {"cell_type": values["cell_type"], "metadata": values["metadata"]}
            cell = from_dict({**kept, "source": "".join(values["source"])})
            grading = cell.metadata.nbgrader
            if unreadable:
                why = f"{UNREAD} {unreadable.partition(': ')[2]}"
                why += "" if "hand it in again" in why else " Ask your teacher to look at it."
                comments[grading.grade_id] = None if comments else why
                continue
            waits = scores.get(grading.grade_id, 0.0) is None  # a written answer, which may stand in another cell
            untouched = not waits and grading.get("checksum") == compute_checksum(cell)
            comments[grading.grade_id] = "No response." if untouched else None
    time = read_time(timestamp).time
    no_time = bool(timestamp) and time is None
    return Marks(report.student, report.assignment, time, scores, comments, no_time=no_time)
