"""Grades what was handed in and is not graded yet, and enters it (``grade``)."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from course_utils.classroom.books.gradebook import Records, Unusable, kept, marks_of, without_texts
from course_utils.classroom.course.folder import ClassFolder
from course_utils.classroom.course.submissions import Submission
from course_utils.classroom.judging.results import Report
from course_utils.classroom.run.graders import Graders
from course_utils.classroom.run.table import NO_SUBMISSION, Row


def grade(
    course: ClassFolder,
    assignments: Sequence[str],
    workers: Graders,
    students: Sequence[str] = (),
    again: bool = False,
) -> dict[str, list[Row]]:
    """Grades every submission of released assignments that is new or has changed, and enters all results.

    Whatever ends this early loses nothing: results are entered one by one, and the next call goes on.

    Args:
        course: the course folder.
        assignments: names of released ones.
        workers: who grades; entered here, and only where there is something to grade.
        students: only these; everybody where it is empty.
        again: whether to grade what has not changed, too.

    Returns:
        For each assignment, a row for every student of the class, in order.

    Raises:
        ValueError: one of ``students`` is unknown, another command works in the folder,
            the workers cannot grade, or the gradebook cannot be written.
    """
    from rich.console import Console
    from rich.progress import track

    course.refuse_unknown(students)
    with course.only_one(), Records(course) as books:
        runs = {name: _AssignmentRun(course, books, name) for name in assignments}
        waiting = [(run, name) for run in runs.values() for name in run.to_grade(students, again)]

        def work() -> Iterator[tuple[Submission, str]]:
            # Read again, one by one: all of a class at once would not fit into memory.
            for run, student in waiting:
                with run.alone(student):
                    yield run.course.submission(run.assignment, student), run.released

        if waiting:
            with workers:
                results, bar = workers.grade(work()), Console(stderr=True)
                for submission, result in track(results, "grading", total=len(waiting), console=bar):
                    runs[submission.assignment].take(submission, result)
        everybody = students or course.students()
        return {name: run.finished(everybody) for name, run in runs.items()}


class _AssignmentRun:
    """One assignment while it is graded."""

    def __init__(self, course: ClassFolder, books: Records, assignment: str) -> None:
        self.course, self.books, self.assignment = course, books, assignment
        self.released = course.to_grade(assignment)
        self.rows: dict[str, Row] = {}

    def change(self, student: str, **changes: Any) -> None:
        """Sets fields of a student's row, which is made where there is none."""
        self.rows[student] = replace(self.rows.get(student, Row(student)), **changes)

    @contextmanager
    def alone(self, student: str) -> Iterator[None]:
        """Whatever goes wrong in the block with one student's work is the reason in their row, and stops nobody."""
        try:
            yield
        except Unusable:
            raise
        except Exception as error:
            self.change(student, reason=" ".join(f"{type(error).__name__}: {error}".split())[:300])

    def to_grade(self, students: Sequence[str], again: bool) -> list[str]:
        """Who is to be graded; everybody else who handed in gets their row."""
        waiting = []
        for student, trouble in self.course.handed_in(self.assignment).items():
            if not students or student in students:
                with self.alone(student):
                    self.change(student, reason=trouble)
                    if not trouble and (again or not self._stands(student)):
                        self.change(student, reason="no result came back")
                        waiting.append(student)
        return waiting

    def _stands(self, student: str) -> bool:
        """Whether a submission is graded already; where the gradebook has lost it, it is entered."""
        submission = self.course.submission(self.assignment, student)
        before = kept(self.course, self.assignment, student)
        if before is None or before[0] != self._key(submission):
            return False
        self.change(student, report=without_texts(before[1]), remarks=submission.aside)
        if not self.books.holds(before[1], submission.time):
            self._enter(before[1], submission)
        return True

    def _key(self, submission: Submission) -> str:
        """A text that stays the same as long as the same is graded against the same."""
        content = "none" if submission.content is None else hashlib.sha256(submission.content).hexdigest()
        text = "\n".join((content, *submission.remarks, self.released))
        return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()

    def take(self, submission: Submission, result: Report | BaseException) -> None:
        """Enters a result."""
        with self.alone(submission.student):
            if isinstance(result, BaseException):
                raise result
            report = Report.from_json(result.to_json())  # it comes from another process, perhaps another machine
            report = replace(report, repairs=(*submission.remarks, *report.repairs))
            self.change(submission.student, report=without_texts(report), news=True, reason="")
            self._enter(report, submission)

    def _enter(self, report: Report, submission: Submission) -> None:
        said = self.books.enter(report, self._key(submission), submission.time)
        self.change(submission.student, remarks=(*submission.aside, *said))

    def finished(self, everybody: Sequence[str]) -> list[Row]:
        """The rows of everybody, with late penalties, and marks as they are now."""
        late, marks = self.books.apply_penalties(self.assignment), marks_of(self.course, self.assignment)
        for student, row in self.rows.items():
            remarks = (*row.remarks, late[student]) if student in late else row.remarks
            self.change(student, remarks=remarks, marks=marks.get(student, {}))
        missing = {name: Row(name, reason=NO_SUBMISSION) for name in everybody}
        return [row for _, row in sorted((missing | self.rows).items())]
