"""Grades what was handed in and is not graded yet, and enters it (``grade``)."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from course_utils.authoring.lint import exercises_of
from course_utils.base.errors import explain
from course_utils.base.words import points_of
from course_utils.classroom.books.gradebook import Records
from course_utils.classroom.books.gradebook_writer import Unusable
from course_utils.classroom.books.marks import marks_of
from course_utils.classroom.books.stored import (
    EarlierFile,
    StoredResult,
    differences,
    editions,
    keep,
    key_of,
    load,
    released_anew,
    save,
    stands,
    with_marks_of,
    without_texts,
)
from course_utils.classroom.course.folder import ClassFolder
from course_utils.classroom.course.lock import only_one
from course_utils.classroom.course.passed_over import refuse_unknown
from course_utils.classroom.course.submissions import Submission
from course_utils.classroom.course.times import read_time
from course_utils.classroom.judging.results import Report
from course_utils.classroom.rebuild.released import read_released
from course_utils.classroom.run.graders import Graders, NotGraded, one_line
from course_utils.classroom.run.table import NO_SUBMISSION, Row
from course_utils.classroom.run.tally import Tally

STRANGER = (
    "Not on your list of students, or there without a name. Where it is somebody's other name, rename the folder, and: "
    "nbgrader db student remove {id} --force; where it is right: nbgrader db student add {id}, with --first-name."
)


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

    def __init__(self, course: ClassFolder, books: Records, assignment: str, again: bool) -> None:
        self.course, self.books, self.assignment, self.again = course, books, assignment, again
        self.released = course.to_grade(assignment)
        _refuse_unknown_exercises(assignment, self.released)
        self.rows: dict[str, Row] = {}
        self.earlier: dict[str, EarlierFile | None] = {}  # by student, what was judged before another file came

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
        if before is None or not stands(before, submission, self.released):
            return False
        self.earlier[student] = before.earlier
        self.change(student, report=without_texts(before.report), remarks=_aside(submission))
        if not self.books.holds(before.report, submission.timestamp):
            self._enter(before.report, submission)
        return True

    def take(self, submission: Submission, result: Report) -> None:
        """Keeps a result and enters it; one that no file could hold is entered all the same, and made again later.

        Where it would change points and neither the student handed in something new nor the teacher released other
        points, nothing is changed, and it is said.
        """
        student = submission.student
        report = Report.from_json(result.to_json())  # it comes from another process, perhaps another machine
        report = replace(report, repairs=(*submission.remarks, *report.repairs))
        path = self.course.report(self.assignment, student)
        before = load(path)
        changes = differences(before, submission, report) if before and not self.again else {}
        anew = released_anew(before.report, report) if before else ""
        said = [f"Other points by the new release: {anew}."] * bool(anew)
        judged_by, key = editions(self.released), key_of(submission, self.released)
        self.earlier[student] = before.earlier if before else None
        if before and changes:
            kept = f"Judged anew, {', '.join(changes.values())}; the marks are as they were."
            said.append(f"{kept} grade --again enters the new ones.")
            if not anew:
                remarks = (*_aside(submission), *said)
                self.change(student, report=without_texts(before.report), reason="", remarks=remarks)
                return
            report = with_marks_of(before.report, report, changes)
            judged_by, key = before.judged_by, before.key  # so that it is judged, and said, the next time too
        self.change(student, report=without_texts(report), news=True, reason="")
        try:
            if before and before.report != report:
                self._keep(before, submission, path)
            made = StoredResult(key, submission.timestamp, report, judged_by, submission.digest)
            save(path, replace(made, earlier=self.earlier[student]))
        except OSError as error:
            self.change(student, reason=f"the result was not kept, and is made again: {one_line(error)}")
        self._enter(report, submission, said)

    def _keep(self, before: StoredResult, submission: Submission, path: Path) -> None:
        """Keeps the result that another takes the place of; of another file, also what it had earned."""
        if not before.digest or before.digest == submission.digest:
            keep(path)
            return
        notebook = keep(path, before.report.notebook)
        earned = self.books.earned(self.assignment, submission.student)
        found, best = EarlierFile(earned, before.report.possible, before.timestamp, notebook), before.earlier
        self.earlier[submission.student] = best if best and best.beats(found.earned, found.possible) else found

    def _enter(self, report: Report, submission: Submission, said: Sequence[str] = ()) -> None:
        said = (*said, *self.books.enter(report, submission.timestamp))
        self.change(submission.student, remarks=(*_aside(submission), *said))

    def finish(self) -> None:
        """Applies late penalties, and notes what the gradebook did not take."""
        for student, said in self.books.apply_penalties(self.assignment).items():
            if student in self.rows:
                self.change(student, remarks=(*self.rows[student].remarks, said))
        for (assignment, student), error in self.books.refused.items():
            if assignment == self.assignment:
                self.change(student, reason=f"not in the gradebook: {one_line(error)}")
        for student, marks in marks_of(self.course, self.assignment).items():
            if student in self.rows:
                self.change(student, marks=marks)
        for student, found in self.earlier.items():
            row = self.rows[student]
            if found and row.report:
                earned = self.books.earned(self.assignment, student)
                if found.beats(earned, row.report.possible):
                    self.change(student, remarks=(*row.remarks, self._had_earned_more(student, found)))

    def _had_earned_more(self, student: str, found: EarlierFile) -> str:
        kept = self.course.report(self.assignment, student).with_name(found.notebook).relative_to(self.course.root)
        to = self.course.notebook("submitted", self.assignment, student).relative_to(self.course.root)
        time = f", and let timestamp.txt say {found.timestamp[:40]}" if found.timestamp else ""
        return (
            f"An earlier file had {points_of(found.earned, found.possible)} points, and the last one counts. "
            f"To let the earlier one count: cp {shlex.quote(str(kept))} {shlex.quote(str(to))}{time}; then grade."
        )


def grade(
    course: ClassFolder,
    assignments: Sequence[str],
    workers: Graders,
    *,
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
    with only_one(course.root), Records(course) as books:
        runs = [_AssignmentRun(course, books, name, again) for name in assignments]
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
            for student in strangers & run.rows.keys():
                run.change(student, remarks=(*run.rows[student].remarks, STRANGER.format(id=shlex.quote(student))))
        missing = {name: Row(name, reason=NO_SUBMISSION) for name in students or course.students()}
        return [
            GradedAssignment(run.assignment, [row for _, row in sorted((missing | run.rows).items())]) for run in runs
        ]


def _aside(submission: Submission) -> tuple[str, ...]:
    """What there is to say of the folder, whatever is graded."""
    return (*submission.left, *filter(None, [read_time(submission.timestamp).remark]))


def _refuse_unknown_exercises(assignment: str, released: str) -> None:
    """Before the first student is told so: a check that no edition of the course that is installed can make."""
    checks = {(cell.lesson, cell.exercise) for cell in read_released(released).graded if cell.lesson}
    unknown = sorted(name for lesson, name in checks if name not in (exercises_of(lesson) or {}))
    if unknown:
        raise ValueError(
            explain(
                f"{assignment} is not graded: its release checks {', '.join(unknown)}, which this course lacks.",
                "a release of this edition of the course.",
                "every student's answer would end in an error.",
                f"install the edition that it was released with, or leave the exercise out of source/{assignment} and "
                f"run: autograd-control classroom release {assignment}",
            )
        )


def _grade_all(waiting: list[tuple[_AssignmentRun, str]], workers: Graders) -> None:
    def work() -> Iterator[tuple[Submission, str]]:
        # Read again, one by one: all of a class at once would not fit into memory.
        for run, student in waiting:
            with run.alone(student):
                yield run.course.submission(run.assignment, student), run.released
                continue
            tally.add(None)

    runs = {run.assignment: run for run, _ in waiting}
    workers.expect(len(waiting))
    with workers, Tally(len(waiting)) as tally:
        for remark in workers.remarks:
            tally.say(remark)
        for submission, result in workers.grade(work()):
            run, student = runs[submission.assignment], submission.student
            with run.alone(student):
                if isinstance(result, NotGraded):
                    run.change(student, reason=str(result))
                else:
                    run.take(submission, result)
            tally.add(run.rows[student].report)
