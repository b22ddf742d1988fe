"""The table at the end of grading: every student, every exercise, in words (``class_table``).

Data in, text out; imports results and markup's cleaning.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from course_utils.base.markup import clean
from course_utils.classroom.judging.results import OUTCOMES, ExerciseResult, Report

NO_SUBMISSION = "no submission"
NOT_GRADED = "not graded"
STUDENT_WIDTH = 28  # characters of a student's id that are shown


@dataclass(frozen=True)
class Row:
    """One student's line.

    Attributes:
        student: nbgrader's student id.
        report: the result; None where there is none.
        reason: why there is no result, or why it is not written down everywhere: ``NO_SUBMISSION``, or what went wrong;
            else empty.
        news: whether it was graded now and not before.
        remarks: what the teacher should know beyond the report, one sentence each.
    """

    student: str
    report: Report | None = None
    reason: str = ""
    news: bool = False
    remarks: tuple[str, ...] = ()


def points(value: float) -> str:
    """Points with at most two decimals, never rounded to more than they are: ``2``, ``0.66``."""
    return f"{int(value * 100 + 1e-6) / 100:g}"


def cell(result: ExerciseResult) -> str:
    """One exercise of one student: points and outcome. A bare 0 says nothing, so it never stands alone."""
    if result.outcome == "passed":
        return f"{points(result.earned)} passed"
    if result.outcome == "review by hand":
        return "? by hand"
    return f"{points(result.earned)} {result.outcome}"


def class_table(assignment: str, rows: Sequence[Row]) -> str:
    """The whole class in one assignment, as text.

    Args:
        assignment: its name.
        rows: one for every student of the class, in the order in which they are shown.

    Returns:
        A line a student with points and outcome for each exercise, how often each outcome came, and below whatever a
        person has to look at, by name.
    """
    if all(row.reason == NO_SUBMISSION for row in rows):
        return f"{assignment}: nobody of {len(rows)} handed it in"
    reports = [row.report for row in rows if row.report]
    names = [result.exercise for result in reports[0].exercises] if reports else []
    topic = assignment.partition("_")[2]
    possible = [f"{result.exercise.removeprefix(f'{topic}-')}/{points(result.possible)}" for result in _first(reports)]
    head = ["student", f"of {points(reports[0].possible)}" if reports else "", *possible]
    lines = [_line(row, names) for row in rows]
    widths = [max(len(line[i]) for line in [head, *lines] if len(line) > 2 or i < 2) for i in range(len(head))]
    text = [f"{assignment}: {_counted(rows)}", "", _joined(head, widths), "  ".join("-" * width for width in widths)]
    text += [_joined(line, widths) for line in lines]
    text += _outcomes(reports)
    text += _paragraph("Look at these by hand", _sentences(rows, lambda report: report.reviews))
    text += _paragraph("Put right before grading", _sentences(rows, lambda report: report.repairs))
    text += _paragraph(
        "Not in a sandbox", [_one_line(row.student) for row in rows if row.report and row.report.sandbox == "none"]
    )
    text += _paragraph(
        "Also", [f"{_one_line(row.student)}: {_one_line(remark)}" for row in rows for remark in row.remarks]
    )
    troubled = [row for row in rows if row.reason not in ("", NO_SUBMISSION)]
    for title, graded in (("Without a result", False), ("Graded, but not written down everywhere", True)):
        chosen = [row for row in troubled if bool(row.report) is graded]
        text += _paragraph(title, [f"{_one_line(row.student)}: {_one_line(row.reason)}" for row in chosen])
    return "\n".join(text)


def _first(reports: Sequence[Report]) -> Sequence[ExerciseResult]:
    return reports[0].exercises if reports else ()


def _counted(rows: Sequence[Row]) -> str:
    graded = sum(row.report is not None for row in rows)
    new = sum(row.news for row in rows)
    missing = sum(row.reason == NO_SUBMISSION for row in rows)
    failed = len(rows) - graded - missing
    said = [f"{graded} graded ({new} now, {graded - new} unchanged)"]
    said += [f"{missing} without a submission"] * bool(missing) + [f"{failed} not graded"] * bool(failed)
    return ", ".join(said)


def _line(row: Row, names: Sequence[str]) -> list[str]:
    student = _one_line(row.student, STUDENT_WIDTH)
    if row.report is None:
        return [student, NO_SUBMISSION if row.reason == NO_SUBMISSION else NOT_GRADED]
    results = {result.exercise: result for result in row.report.exercises}
    cells = [cell(results[name]) if name in results else "" for name in names]
    withheld = any(result.outcome == "review by hand" for result in row.report.exercises)
    return [student, points(row.report.earned) + ("+?" if withheld else ""), *cells]


def _joined(line: Sequence[str], widths: Sequence[int]) -> str:
    return "  ".join(f"{text:<{width}}" for text, width in zip(line, widths, strict=False)).rstrip()


def _outcomes(reports: Sequence[Report]) -> list[str]:
    counts: Counter[str] = Counter(result.outcome for report in reports for result in report.exercises)
    if not counts:
        return []
    return ["", "Outcomes: " + ", ".join(f"{counts[name]} {name}" for name in OUTCOMES if counts[name])]


def _sentences(rows: Sequence[Row], choose: Callable[[Report], Sequence[str]]) -> list[str]:
    return [f"{_one_line(row.student)}: {_one_line(text)}" for row in rows if row.report for text in choose(row.report)]


def _paragraph(title: str, lines: Iterable[str]) -> list[str]:
    lines = [f"  {line}" for line in lines]
    return ["", f"{title}:", *lines] if lines else []


def _one_line(text: str, limit: int = 400) -> str:
    return " ".join(clean(text, limit).split())
