"""Grades what was handed in and is not graded yet, and enters it (``grade``)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from course_utils.classroom.books.gradebook import Records, Unusable
from course_utils.classroom.books.marks import marks_of
from course_utils.classroom.books.stored import StoredResult, key_of, load, save, without_texts
from course_utils.classroom.course.folder import ClassFolder
from course_utils.classroom.course.passed_over import refuse_unknown
from course_utils.classroom.course.submissions import Submission
from course_utils.classroom.judging.results import Report
from course_utils.classroom.run.graders import Graders
from course_utils.classroom.run.table import NO_SUBMISSION, Row


@dataclass
class GradedAssignment:
    """What grading an assignment came to: a row for every student of the class, in order."""

    assignment: str
    rows: list[Row]

    @property
    def complete(self) -> bool:
        """Whether everything that was handed in has a result, and all of it is written down."""
        return all(row.reason in ("", NO_SUBMISSION) for row in self.rows)


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
    def alone(self, student: str, doing: str = "") -> Iterator[None]:
        """Whatever goes wrong in the block with one student's work is the reason in their row, and stops nobody."""
        try:
            yield
        except Unusable:
            raise
        except Exception as error:
            said = " ".join(f"{type(error).__name__}: {error}".split())[:300]
            self.change(student, reason=f"{doing}{said}")

    def stands(self, student: str) -> bool:
        """Whether a submission is graded already; then it gets its row, and is entered where it is not."""
        submission = self.course.submission(self.assignment, student)
        before = load(self.course.report(self.assignment, student))
        if before is None or before.key != key_of(submission, self.released):
            return False
        self.change(student, report=without_texts(before.report), remarks=submission.aside)
        if not self.books.holds(before.report, submission.time):
            self._enter(before.report, submission)
        return True

    def take(self, submission: Submission, result: Report) -> None:
        """Keeps a result and enters it; one that no file could hold is entered all the same, and made again later."""
        report = Report.from_json(result.to_json())  # it comes from another process, perhaps another machine
        report = replace(report, repairs=(*submission.remarks, *report.repairs))
        self.change(submission.student, report=without_texts(report), news=True, reason="", remarks=submission.aside)
        with self.alone(submission.student, "the result was not kept, and is made again: "):
            path = self.course.report(self.assignment, submission.student)
            save(path, StoredResult(key_of(submission, self.released), report))
        self._enter(report, submission)

    def _enter(self, report: Report, submission: Submission) -> None:
        with self.alone(submission.student, "not in the gradebook: "):
            said = self.books.enter(report, submission.time)
            self.change(submission.student, remarks=(*submission.aside, *said))

    def finish(self) -> None:
        """Applies late penalties, and notes the marks."""
        late, marks = self.books.apply_penalties(self.assignment), marks_of(self.course, self.assignment)
        for student, row in self.rows.items():
            remarks = (*row.remarks, late[student]) if student in late else row.remarks
            self.change(student, remarks=remarks, marks=marks.get(student, {}))


def grade(
    course: ClassFolder,
    assignments: Sequence[str],
    workers: Graders,
    students: Sequence[str] = (),
    again: bool = False,
) -> list[GradedAssignment]:
    """Grades every submission of released assignments that is new or has changed, and enters all results.

    Whatever ends this early loses nothing: results are written one by one, and the next call goes on.

    Args:
        course: the course folder.
        assignments: names of released ones.
        workers: who grades; entered here, and only where there is something to grade.
        students: only these; everybody where it is empty.
        again: whether to grade what has not changed, too.

    Raises:
        ValueError: one of ``students`` is unknown, another command works in the folder,
            the workers cannot grade, or the gradebook cannot be written.
    """
    refuse_unknown(course, list(students))
    with course.only_one(), Records(course) as books:
        runs = {name: _AssignmentRun(course, books, name) for name in assignments}
        waiting: list[tuple[_AssignmentRun, str]] = []
        for run in runs.values():
            for student, trouble in course.handed_in(run.assignment).items():
                if students and student not in students:
                    continue
                with run.alone(student):
                    if trouble:
                        run.change(student, reason=trouble)
                    elif again or not run.stands(student):
                        run.change(student, reason="no result came back")
                        waiting.append((run, student))
        if waiting:
            _grade_all(waiting, workers, runs)
        for run in runs.values():
            run.finish()
        missing = {name: Row(name, reason=NO_SUBMISSION) for name in students or course.students()}
        return [
            GradedAssignment(run.assignment, [row for _, row in sorted((missing | run.rows).items())])
            for run in runs.values()
        ]


def _grade_all(waiting: list[tuple[_AssignmentRun, str]], workers: Graders, runs: dict[str, _AssignmentRun]) -> None:
    from rich.console import Console
    from rich.progress import track

    def work() -> Iterator[tuple[Submission, str]]:
        # Read again, one by one: all of a class at once would not fit into memory.
        for run, student in waiting:
            with run.alone(student):
                yield run.course.submission(run.assignment, student), run.released

    with workers:
        results, bar = workers.grade(work()), Console(stderr=True)
        for submission, result in track(results, "grading", total=len(waiting), console=bar):
            run = runs[submission.assignment]
            with run.alone(submission.student):
                if isinstance(result, BaseException):
                    raise result
                run.take(submission, result)
