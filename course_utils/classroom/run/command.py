"""Grades what was handed in and is not graded yet, and enters it (``grade``)."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from course_utils.authoring.lint import exercises_of
from course_utils.base.errors import explain
from course_utils.classroom.books.gradebook import Records, Unusable
from course_utils.classroom.books.marks import marks_of
from course_utils.classroom.books.stored import StoredResult, key_of, load, save, without_texts
from course_utils.classroom.course.folder import ClassFolder
from course_utils.classroom.course.passed_over import refuse_unknown
from course_utils.classroom.course.submissions import Submission
from course_utils.classroom.course.times import read_time
from course_utils.classroom.judging.results import Report
from course_utils.classroom.rebuild.released import read_released
from course_utils.classroom.run.graders import Graders, NotGraded, one_line
from course_utils.classroom.run.table import NO_SUBMISSION, Row


@dataclass
class GradedAssignment:
    """What grading an assignment came to: a row for every student of the class, in order.

    Attributes:
        strangers: who handed it in and is not on the teacher's list of students.
    """

    assignment: str
    rows: list[Row]
    strangers: tuple[str, ...] = ()

    @property
    def complete(self) -> bool:
        """Whether everything that was handed in has a result, and all of it is written down."""
        return all(row.reason in ("", NO_SUBMISSION) for row in self.rows)


class _AssignmentRun:
    """One assignment while it is graded."""

    def __init__(self, course: ClassFolder, books: Records, assignment: str) -> None:
        self.course, self.books, self.assignment = course, books, assignment
        self.released = course.to_grade(assignment)
        _refuse_unknown_exercises(assignment, self.released)
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
            self.change(student, reason=one_line(error))

    def stands(self, student: str) -> bool:
        """Whether a submission is graded already; then it gets its row, and is entered where it is not."""
        submission = self.course.submission(self.assignment, student)
        before = load(self.course.report(self.assignment, student))
        if before is None or before.key != key_of(submission, self.released):
            return False
        self.change(student, report=without_texts(before.report), remarks=_aside(submission))
        if not self.books.holds(before.report, submission.timestamp):
            self._enter(before.report, submission)
        return True

    def take(self, submission: Submission, result: Report) -> None:
        """Keeps a result and enters it; one that no file could hold is entered all the same, and made again later."""
        report = Report.from_json(result.to_json())  # it comes from another process, perhaps another machine
        report = replace(report, repairs=(*submission.remarks, *report.repairs))
        self.change(submission.student, report=without_texts(report), news=True, reason="")
        try:
            path = self.course.report(self.assignment, submission.student)
            save(path, StoredResult(key_of(submission, self.released), report))
        except OSError as error:
            reason = f"the result was not kept, and is made again: {one_line(error)}"
            self.change(submission.student, reason=reason)
        self._enter(report, submission)

    def _enter(self, report: Report, submission: Submission) -> None:
        try:
            said = self.books.enter(report, submission.timestamp)
        except Unusable:
            raise
        except Exception as error:  # about this one alone
            self.change(submission.student, reason=f"not in the gradebook: {one_line(error)}")
        else:
            self.change(submission.student, remarks=(*_aside(submission), *said))

    def finish(self) -> None:
        """Applies late penalties, and notes the marks."""
        for student, said in self.books.apply_penalties(self.assignment).items():
            if student in self.rows:
                self.change(student, remarks=(*self.rows[student].remarks, said))
        for student, marks in marks_of(self.course, self.assignment).items():
            if student in self.rows:
                self.change(student, marks=marks)


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
    strangers = course.strangers()
    with course.only_one(), Records(course) as books:
        runs = [_AssignmentRun(course, books, name) for name in assignments]
        waiting: list[tuple[_AssignmentRun, str]] = []
        for run in runs:
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
            _grade_all(waiting, workers)
        for run in runs:
            run.finish()
        missing = {name: Row(name, reason=NO_SUBMISSION) for name in students or course.students()}
        return [
            GradedAssignment(
                run.assignment,
                [row for _, row in sorted((missing | run.rows).items())],
                tuple(sorted(strangers & run.rows.keys())),
            )
            for run in runs
        ]


def _aside(submission: Submission) -> tuple[str, ...]:
    """What there is to say of the folder, whatever is graded."""
    return (*submission.left, *filter(None, [read_time(submission.timestamp)[1]]))


def _refuse_unknown_exercises(assignment: str, released: str) -> None:
    """Before the first student is told so: a check that the course that is installed cannot make."""
    checks = {(cell.lesson, cell.exercise) for cell in read_released(released).graded if cell.lesson}
    unknown = sorted(name for lesson, name in checks if name not in (exercises_of(lesson) or {}))
    if unknown:
        raise ValueError(
            explain(
                f"{assignment} is not graded: its release checks {', '.join(unknown)}, which this course lacks.",
                "the version of the course that it was released with.",
                "every student's answer would end in an error.",
                "install that version, and keep to it for the term.",
            )
        )


def _grade_all(waiting: list[tuple[_AssignmentRun, str]], workers: Graders) -> None:
    from rich.console import Console
    from rich.progress import track

    def work() -> Iterator[tuple[Submission, str]]:
        # Read again, one by one: all of a class at once would not fit into memory.
        for run, student in waiting:
            with run.alone(student):
                yield run.course.submission(run.assignment, student), run.released

    runs = {run.assignment: run for run, _ in waiting}
    workers.expect(len(waiting))
    with workers:
        print("".join(f"{remark}\n" for remark in workers.remarks), end="", file=sys.stderr)
        results, bar = workers.grade(work()), Console(stderr=True)
        for submission, result in track(results, "grading", total=len(waiting), console=bar):
            run, student = runs[submission.assignment], submission.student
            with run.alone(student):
                if isinstance(result, NotGraded):
                    run.change(student, reason=str(result))
                else:
                    run.take(submission, result)
