"""Grades what was handed in and is not graded yet, and enters it (``grade``)."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from course_utils.classroom.books.gradebook import Books
from course_utils.classroom.books.kept import Kept, keep, kept, key_of
from course_utils.classroom.books.ledger import Unusable
from course_utils.classroom.course.folder import ClassFolder
from course_utils.classroom.course.lock import only_one
from course_utils.classroom.course.submissions import Submission
from course_utils.classroom.judging.results import Report
from course_utils.classroom.run.schedule import Crew, NotGraded, one_line
from course_utils.classroom.run.table import NO_SUBMISSION, Row
from course_utils.classroom.run.tally import Tally


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
        """Whether everything that was handed in has a result, and all of it is written down."""
        return all(row.reason in ("", NO_SUBMISSION) for row in self.rows)


@dataclass
class _Desk:
    """One assignment while it is graded."""

    assignment: str
    released: str
    rows: dict[str, Row] = field(default_factory=dict)

    def change(self, student: str, **changes: Any) -> None:
        """Sets fields of a student's row, which is made where there is none."""
        self.rows[student] = dataclasses.replace(self.rows.get(student, Row(student)), **changes)

    @contextmanager
    def alone(self, student: str) -> Iterator[None]:
        """Whatever goes wrong in the block with one student's work is the reason in their row, and stops nobody."""
        try:
            yield
        except Unusable:
            raise
        except Exception as error:
            self.change(student, reason=one_line(error))


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
        waiting: list[tuple[_Desk, str]] = []
        for desk in desks:
            for student, trouble in course.handed_in(desk.assignment).items():
                if students and student not in students:
                    continue
                with desk.alone(student):
                    if trouble:
                        desk.change(student, reason=trouble)
                    elif again or not _stands(course, desk, books, crew.sandbox, student):
                        desk.change(student, reason="no result came back")
                        waiting.append((desk, student))
        if waiting:
            _grade_all(course, waiting, crew, books)
        for desk in desks:
            for student, said in books.apply_penalties(desk.assignment).items():
                if student in desk.rows:
                    desk.change(student, remarks=(*desk.rows[student].remarks, said))
            for (assignment, student), error in books.refused.items():
                if assignment == desk.assignment:
                    desk.change(student, reason=f"not in the gradebook: {one_line(error)}")
        everybody = set(students) or set(course.students())
        for desk in desks:
            for student in everybody - set(desk.rows):
                desk.change(student, reason=NO_SUBMISSION)
        return [Outcome(desk.assignment, [desk.rows[name] for name in sorted(desk.rows)]) for desk in desks]


def _stands(course: ClassFolder, desk: _Desk, books: Books, sandbox: bool, student: str) -> bool:
    """Whether a submission is graded already; then it gets its row, and is entered where it is not."""
    submission = course.submission(desk.assignment, student)
    before = kept(course.report(desk.assignment, student))
    if before is None or before.key != key_of(submission, desk.released):
        return False
    if before.report.sandbox == "none" and sandbox:
        return False
    desk.change(student, report=_short(before.report))
    if not books.holds(before.report, submission.timestamp):
        desk.change(student, remarks=books.enter(before.report, submission.timestamp))
    return True


def _grade_all(course: ClassFolder, waiting: list[tuple[_Desk, str]], crew: Crew, books: Books) -> None:
    desks = {desk.assignment: desk for desk, _ in waiting}

    def work() -> Iterator[tuple[Submission, str]]:
        # Read again, one by one: all of a class at once would not fit into memory.
        for desk, student in waiting:
            with desk.alone(student):
                yield course.submission(desk.assignment, student), desk.released
                continue
            tally.add(None)

    crew.expect(len(waiting))
    with crew, Tally(len(waiting)) as tally:
        for remark in crew.remarks:
            tally.say(remark)
        for submission, result in crew.grade(work()):
            desk, student = desks[submission.assignment], submission.student
            with desk.alone(student):
                if isinstance(result, NotGraded):
                    desk.change(student, reason=str(result))
                else:
                    _take(course, desk, books, submission, result)
            tally.add(desk.rows[student].report)


def _take(course: ClassFolder, desk: _Desk, books: Books, submission: Submission, result: Report) -> None:
    """Keeps a result and enters it. One that no file could hold is entered all the same, and made again next time."""
    student = submission.student
    report = Report.from_json(result.to_json())  # it comes from another process, perhaps another machine
    report = dataclasses.replace(report, repairs=(*submission.remarks, *report.repairs))
    desk.change(student, report=_short(report), news=True, reason="")
    try:
        keep(
            course.report(desk.assignment, student),
            Kept(key_of(submission, desk.released), submission.timestamp, report),
        )
    except OSError as error:
        desk.change(student, reason=f"the result was not kept, and is made again: {one_line(error)}")
    desk.change(student, remarks=books.enter(report, submission.timestamp))


def _short(report: Report) -> Report:
    """The report without its notebook and cards, which are on disk: a class of thousands fits into memory."""
    exercises = tuple(dataclasses.replace(result, text="", html="") for result in report.exercises)
    return dataclasses.replace(report, notebook="", exercises=exercises)
