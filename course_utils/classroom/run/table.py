"""The table at the end of grading: every student, every exercise, in words (``class_table``).

Data in, text out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from course_utils.base.markup import clean
from course_utils.base.words import columns, rounded, shown
from course_utils.classroom.books.gradebook import Mark, mark_of
from course_utils.classroom.judging.results import OUTCOMES, ExerciseResult, Report

NO_SUBMISSION = "no submission"
_MARKED = "marked by hand"
_MOST_SAID = 10  # of one student: code can do hundreds of things that are reported
STUDENT_WIDTH = 28  # characters of a student's id that are shown


@dataclass(frozen=True)
class Row:
    """One student's line.

    Attributes:
        report: the result; None where there is none.
        reason: why there is no result, or why it is not written down everywhere: ``NO_SUBMISSION``, or what went wrong;
            else empty.
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


def class_table(assignment: str, rows: Sequence[Row], verbose: bool = False) -> str:
    """The whole class in one assignment, as text: a line for each row with points and outcome for each exercise, how
    often each outcome came, and below whatever a person has to look at, by name.

    Args:
        verbose: whether to list what was put right before grading, which is harmless and else only counted.
    """
    missing = [_one_line(row.student, STUDENT_WIDTH) for row in rows if row.reason == NO_SUBMISSION]
    if len(missing) == len(rows):
        return f"{assignment}: nobody of {len(rows)} handed it in"
    graded = [(row, row.report) for row in rows if row.report]
    new, failed = sum(row.news for row in rows), len(rows) - len(missing) - len(graded)
    text = f"{assignment}: {len(graded)} graded ({new} now, {len(graded) - new} unchanged)"
    text += f", {len(missing)} without a submission" * bool(missing) + f", {failed} not graded" * bool(failed)
    text += f"\n\n{_lines(assignment, rows)}\n"
    text += f"\nWithout a submission: {', '.join(missing)}\n" * bool(missing)
    results = [(result, mark_of(result, row.marks)) for row, report in graded for result in report.exercises]
    counts = Counter(result.outcome if mark.given is None else _MARKED for result, mark in results)
    named = ", ".join(f"{counts[name]} {name}" for name in (*OUTCOMES, _MARKED) if name in counts)
    text += f"\nOutcomes: {named}\n" * bool(named)
    is_read = {row.student: all(r.outcome != "unreadable" for r in report.exercises) for row, report in graded}
    repairs = [(row, report.repairs) for row, report in graded if is_read[row.student] and report.repairs]
    unread = [(row, [" ".join(report.repairs)]) for row, report in graded if not is_read[row.student]]
    unread_title = "Could not be read; put it right, ask for the file again, or mark it by hand"
    failures = [row for row in rows if row.failed]
    text += _paragraph("Look at these by hand", ((row, report.reviews) for row, report in graded))
    text += _paragraph(unread_title, unread)
    text += _paragraph("Worth knowing, at no cost in points", ((row, report.listed) for row, report in graded))
    if verbose:
        text += _paragraph("Put right before grading", repairs)
    elif repairs:
        number = sum(len(said) for _, said in repairs)
        text += f"\nPut right before grading, harmless: {number} (students: {len(repairs)}); --verbose lists them\n"
    text += _paragraph("Also", ((row, row.remarks) for row in rows))
    text += _paragraph("Without a result", ((row, [row.reason]) for row in failures if not row.report))
    text += _paragraph("Graded, but not in the gradebook", ((row, [row.reason]) for row in failures if row.report))
    return text.rstrip("\n")


def _paragraph(title: str, said: Iterable[tuple[Row, Sequence[str]]]) -> str:
    lines = []
    for row, sentences in said:
        lines += [f"  {_one_line(row.student)}: {_one_line(each)}\n" for each in sentences[:_MOST_SAID]]
        more = len(sentences) - _MOST_SAID
        lines += [f"  {_one_line(row.student)}: ... and {more} more\n"] * (more > 0)
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
    student = _one_line(row.student, STUDENT_WIDTH)
    if row.report is None:
        return [student, "not graded", *[""] * (width - 2)]
    held = [mark_of(result, row.marks) for result in row.report.exercises]
    total = shown(rounded(sum(mark.score or 0.0 for mark in held), row.report.possible))
    cells = map(_cell, row.report.exercises, held)
    return [student, total + "+?" * any(mark.waits for mark in held), *cells]


def _cell(result: ExerciseResult, mark: Mark) -> str:
    """One exercise of one student: points and outcome. A bare 0 says nothing, so it never stands alone."""
    if mark.given is not None and mark.score is not None:
        return f"{shown(mark.score)}{'?' if mark.waits else ''} by hand"
    if result.outcome == "review by hand":
        return "? by hand"
    return f"{'?' if result.waits else shown(rounded(result.earned, result.possible))} {result.outcome}"


def _one_line(text: str, limit: int = 400) -> str:
    return " ".join(clean(text, limit).split())
