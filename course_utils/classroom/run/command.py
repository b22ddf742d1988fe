"""Grades what was handed in and is not graded yet, and enters it (``grade``); says in words what came of it
(``class_table``).
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from course_utils.base import columns, rounded, shown
from course_utils.classroom.books import gradebook as books
from course_utils.classroom.books.gradebook import LATE, Mark, Unusable, mark_of, so_far, without_texts
from course_utils.classroom.course.folder import ClassFolder
from course_utils.classroom.course.submissions import Submission
from course_utils.classroom.judging.results import OUTCOMES, ExerciseResult, Report, one_line, some
from course_utils.classroom.run.graders import Graders

if TYPE_CHECKING:
    from nbgrader.api import Gradebook

NO_SUBMISSION = "no submission"
_MARKED = "marked by hand"
STUDENT_WIDTH = 28  # characters of a student's id that are shown


@dataclass
class Row:
    """One student's line.

    Attributes:
        report: the result; None where there is none.
        reason: why there is no result, or not in the gradebook: ``NO_SUBMISSION``, or what went wrong; else empty.
        news: whether it was graded now and not before.
        remarks: what the teacher should know beyond the report, one sentence each.
        marks: what the gradebook holds, by graded cell.
    """

    student: str
    report: Report | None = None
    reason: str = ""
    news: bool = False
    remarks: tuple[str, ...] = ()
    marks: Mapping[str, Mark] = field(default_factory=dict)

    @property
    def failed(self) -> bool:
        """Whether something was handed in and has no result, or not everywhere."""
        return self.reason not in ("", NO_SUBMISSION)


def grade(
    course: ClassFolder, assignments: Sequence[str], workers: Graders, students: Sequence[str] = (), again: bool = False
) -> dict[str, list[Row]]:
    """Grades every submission of released assignments that is new or has changed, and enters all results.

    Whatever ends this early loses nothing: results are entered one by one, and the next call goes on.

    Args:
        course: the course folder.
        assignments: names of released ones.
        workers: who grades; started only where there is something to grade.
        students: only these; everybody where it is empty.
        again: whether to grade what has not changed, too.

    Returns:
        For each assignment, a row for every student of the class, in order.

    Raises:
        ValueError: one of ``students`` is unknown, another command works in the folder, the workers cannot grade, or
            the gradebook cannot be written.
    """
    from rich.console import Console
    from rich.progress import track

    course.refuse_unknown(students)
    with course.only_one(), course.gradebook() as gradebook:
        runs = {name: _AssignmentRun(course, gradebook, name) for name in assignments}
        waiting = [(run, name) for run in runs.values() for name in run.to_grade(students, again)]

        def work() -> Iterator[tuple[Submission, str]]:
            # Read again, one by one: all of a class at once would not fit into memory.
            for run, student in waiting:
                with run.alone(student):
                    yield run.course.submission(run.assignment, student), run.released

        if waiting:
            with closing(workers.grade(work())) as results:
                bar = Console(stderr=True)
                for submission, result in track(results, "grading", total=len(waiting), console=bar):
                    runs[submission.assignment].take(submission, result)
        return {name: run.finished(students or course.students()) for name, run in runs.items()}


class _AssignmentRun:
    """One assignment while it is graded."""

    def __init__(self, course: ClassFolder, gradebook: Gradebook, assignment: str) -> None:
        self.course, self.gradebook, self.assignment = course, gradebook, assignment
        self.released = course.to_grade(assignment)
        self.rows: dict[str, Row] = {}

    def row(self, student: str) -> Row:
        """A student's row, which is made where there is none."""
        return self.rows.setdefault(student, Row(student))

    @contextmanager
    def alone(self, student: str) -> Iterator[None]:
        """Whatever goes wrong in the block with one student's work is the reason in their row, and stops nobody."""
        try:
            yield
        except Unusable:
            raise
        except Exception as error:
            self.row(student).reason = one_line(f"{type(error).__name__}: {error}".partition("\n")[0], 200)

    def to_grade(self, students: Sequence[str], again: bool) -> list[str]:
        """Who is to be graded; everybody else who handed in gets their row."""
        waiting = []
        for student, trouble in self.course.handed_in(self.assignment).items():
            if not students or student in students:
                self.row(student).reason = trouble
                with self.alone(student):
                    if not trouble and (again or not self._stands(self.row(student))):
                        self.row(student).reason = "no result came back"
                        waiting.append(student)
        return waiting

    def _stands(self, row: Row) -> bool:
        """Whether a submission is graded already; where the gradebook has lost it, it is entered."""
        submission = self.course.submission(self.assignment, row.student)
        before = books.kept(self.course, self.assignment, row.student)
        if before is None or before[0] != self._key(submission):
            return False
        row.report, row.remarks = without_texts(before[1]), submission.aside
        if not books.holds(self.gradebook, before[1], submission.time):
            books.enter(self.course, self.gradebook, before[1], before[0], submission.time)
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
            row = self.row(submission.student)
            row.report, row.news, row.reason, row.remarks = without_texts(report), True, "", submission.aside
            books.enter(self.course, self.gradebook, report, self._key(submission), submission.time)

    def finished(self, everybody: Sequence[str]) -> list[Row]:
        """The rows of everybody, with late penalties, and marks as they are now."""
        late = books.apply_penalties(self.course, self.gradebook, self.assignment)
        marks = books.marks_of(self.course, self.assignment)
        for student, row in self.rows.items():
            row.remarks += (late[student],) if student in late else ()
            row.marks = marks.get(student, {})
        missing = {name: Row(name, reason=NO_SUBMISSION) for name in everybody}
        return [row for _, row in sorted((missing | self.rows).items())]


def class_table(assignment: str, rows: Sequence[Row]) -> str:
    """The whole class in one assignment, as text: a line for each row with points and outcome for each exercise, how
    often each outcome came, what was put right, and whatever a person has to look at, by name."""
    missing = [one_line(row.student, STUDENT_WIDTH) for row in rows if row.reason == NO_SUBMISSION]
    if len(missing) == len(rows):
        return f"{assignment}: nobody of {len(rows)} handed it in"
    graded = [(row, row.report) for row in rows if row.report]
    new, failed = sum(row.news for row in rows), len(rows) - len(missing) - len(graded)
    text = f"{assignment}: {len(graded)} graded ({new} now, {len(graded) - new} unchanged)"
    text += f", {len(missing)} without a submission" * bool(missing) + f", {failed} not graded" * bool(failed)
    text += f"\n\n{_lines(assignment, rows)}\n"
    text += f"\nWithout a submission: {', '.join(some(missing))}\n" * bool(missing)
    results = [(row, result, mark_of(result, row.marks)) for row, report in graded for result in report.exercises]
    counts = Counter(result.outcome if mark.given is None else _MARKED for _, result, mark in results)
    named = ", ".join(f"{counts[name]} {name}" for name in (*OUTCOMES, _MARKED) if name in counts)
    text += f"\nOutcomes: {named}\n" * bool(named)
    is_read = {row.student: all(r.outcome != "unreadable" for r in report.exercises) for row, report in graded}
    repairs = [(row, report.repairs) for row, report in graded if is_read[row.student] and report.repairs]
    unread = [(row, [" ".join(report.repairs)]) for row, report in graded if not is_read[row.student]]
    anew = [(row, [result.exercise]) for row, result, mark in results if mark.given is not None and mark.waits]
    text += _paragraph("Put right before grading, and harmless", repairs)
    text += _paragraph("Look at these by hand", ((row, report.reviews) for row, report in graded))
    text += _paragraph("Answered anew since you marked it; mark it again in the Formgrader, or press Resolve", anew)
    text += _paragraph("Could not be read; put it right, ask for the file again, or mark it by hand", unread)
    text += _paragraph("Worth knowing, at no cost in points", ((row, report.listed) for row, report in graded))
    text += _paragraph("Also", ((row, row.remarks) for row in rows))
    text += _paragraph("Not in the gradebook", ((row, [row.reason]) for row in rows if row.failed))
    return text.rstrip("\n")


def _paragraph(title: str, said: Iterable[tuple[Row, Sequence[str]]]) -> str:
    lines = [f"  {one_line(row.student)}: {one_line(each)}\n" for row, sentences in said for each in some(sentences)]
    return f"\n{title}:\n{''.join(lines)}" if lines else ""


def _lines(assignment: str, rows: Sequence[Row]) -> str:
    """The head, and a line for everybody who handed in, in columns."""
    results = next((row.report.exercises for row in rows if row.report), ())
    topic = assignment.partition("_")[2]
    names = [f"{result.exercise.removeprefix(f'{topic}-')}/{shown(result.possible)}" for result in results]
    head = ["student", f"of {shown(sum(result.possible for result in results))}", *names]
    lines = [_line(row, len(head)) for row in rows if row.reason != NO_SUBMISSION]
    widths = [max(map(len, column)) for column in zip(head, *lines, strict=True)]
    return columns([head, ["-" * width for width in widths], *lines], left=range(len(head)))


def _line(row: Row, width: int) -> list[str]:
    student = one_line(row.student, STUDENT_WIDTH)
    if row.report is None:
        return [student, "not graded", *[""] * (width - 2)]
    held = {result.grade_id: mark_of(result, row.marks) for result in row.report.exercises}
    total = shown(rounded(so_far({**row.marks, **held}.values()), row.report.possible))
    total += "+?" * any(mark.waits for mark in held.values()) + " late" * (LATE in row.marks)
    return [student, total, *map(_cell, row.report.exercises, held.values())]


def _cell(result: ExerciseResult, mark: Mark) -> str:
    """One exercise of one student: points and outcome. A bare 0 says nothing, so it never stands alone."""
    if mark.given is not None and mark.score is not None:
        return f"{shown(mark.score)}{'?' if mark.waits else ''} by hand"
    if result.outcome == "review by hand":
        return "? by hand"
    return f"{'?' if result.waits else shown(rounded(result.earned, result.possible))} {result.outcome}"
