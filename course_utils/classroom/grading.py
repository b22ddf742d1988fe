"""Grades what was handed in and is not graded yet, and enters it (``grade``).

Imports the package's other modules: what to grade is found in course, judged by schedule's workers, kept by kept,
entered by gradebook, shown by table.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from course_utils.classroom.course import ClassFolder
from course_utils.classroom.gradebook import Books
from course_utils.classroom.kept import Kept, keep, kept, key_of
from course_utils.classroom.lock import only_one
from course_utils.classroom.results import Report
from course_utils.classroom.schedule import Crew, NotGraded
from course_utils.classroom.submissions import Submission
from course_utils.classroom.table import NO_SUBMISSION, Row
from course_utils.classroom.tally import Tally


@dataclass
class Outcome:
    """What grading an assignment came to.

    Attributes:
        assignment: its name.
        rows: one for every student of the class.
    """

    assignment: str
    rows: list[Row]

    @property
    def complete(self) -> bool:
        """Whether everything that was handed in has a result."""
        return all(row.report or row.reason == NO_SUBMISSION for row in self.rows)


@dataclass
class _Desk:
    """One assignment while it is graded."""

    assignment: str
    released: str
    rows: dict[str, Row] = field(default_factory=dict)


def grade(
    course: ClassFolder,
    assignments: Sequence[str],
    crew: Crew,
    *,
    students: Sequence[str] = (),
    again: bool = False,
) -> list[Outcome]:
    """Grades every submission of released assignments that is new or has changed, and enters all results.

    Whatever ends this early loses nothing: results are written one by one, and the next call goes on.

    Args:
        course: the course folder.
        assignments: names of released assignments.
        crew: who grades; entered here, and only where there is something to grade.
        students: only these; everybody where it is empty.
        again: whether to grade what has not changed, too.

    Raises:
        ValueError: another command works in the folder, the crew cannot grade, or the gradebook cannot be written.
    """
    with only_one(course.root), Books(course) as books:
        desks = [_Desk(name, course.notebook("release", name).read_text(encoding="utf-8")) for name in assignments]
        waiting = [
            (desk, student)
            for desk in desks
            for student in _take_stock(course, desk, books, crew.sandbox, students, again)
        ]
        if waiting:
            _grade_all(course, waiting, crew, books)
        for desk in desks:
            for said in books.apply_penalties(desk.assignment):
                _remark(desk, *said.split(": ", 1))
        everybody = set(students) or set(course.students())
        for desk in desks:
            for student in everybody - set(desk.rows):
                desk.rows[student] = Row(student, reason=NO_SUBMISSION)
        return [Outcome(desk.assignment, [desk.rows[name] for name in sorted(desk.rows)]) for desk in desks]


def _take_stock(
    course: ClassFolder, desk: _Desk, books: Books, sandbox: bool, students: Sequence[str], again: bool
) -> Iterator[str]:
    """Yields whose submission is to be graded; what is graded already gets its row, and is entered where it is not."""
    for student in course.submitters(desk.assignment):
        if students and student not in students:
            continue
        submission = course.submission(desk.assignment, student)
        before = None if again else kept(course.report(desk.assignment, student))
        good = before is not None and before.key == key_of(submission, desk.released)
        if before is None or not good or (before.report.sandbox == "none" and sandbox):
            yield student
            continue
        remarks: tuple[str, ...] = ()
        if not books.holds(before.report, submission.timestamp):
            remarks = books.enter(before.report, submission.timestamp)
        desk.rows[student] = Row(student, _short(before.report), remarks=remarks)


def _grade_all(course: ClassFolder, waiting: list[tuple[_Desk, str]], crew: Crew, books: Books) -> None:
    desks = {desk.assignment: desk for desk, _ in waiting}

    def work() -> Iterator[tuple[Submission, str]]:
        # Read again, one by one: all of a class at once would not fit into memory.
        for desk, student in waiting:
            yield course.submission(desk.assignment, student), desk.released

    crew.expect(len(waiting))
    with crew, Tally(len(waiting)) as tally:
        for remark in crew.remarks:
            tally.say(remark)
        for submission, result in crew.grade(work()):
            desk, student = desks[submission.assignment], submission.student
            if isinstance(result, NotGraded):
                desk.rows[student] = Row(student, reason=str(result))
                tally.add(None)
                continue
            report = _with_remarks(result, submission)
            keep(
                course.report(desk.assignment, student),
                Kept(key_of(submission, desk.released), submission.timestamp, report),
            )
            remarks = books.enter(report, submission.timestamp)
            desk.rows[student] = Row(student, _short(report), news=True, remarks=remarks)
            tally.add(report)


def _with_remarks(report: Report, submission: Submission) -> Report:
    return dataclasses.replace(report, repairs=(*submission.remarks, *report.repairs))


def _short(report: Report) -> Report:
    """The report without its notebook and cards, which are on disk: a class of thousands fits into memory."""
    exercises = tuple(dataclasses.replace(result, text="", html="") for result in report.exercises)
    return dataclasses.replace(report, notebook="", exercises=exercises)


def _remark(desk: _Desk, student: str, text: str) -> None:
    if student in desk.rows:
        row = desk.rows[student]
        desk.rows[student] = dataclasses.replace(row, remarks=(*row.remarks, text))
