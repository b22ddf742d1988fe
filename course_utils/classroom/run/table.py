"""The table at the end of grading: every student, every exercise, in words (``class_table``).

Data in, text out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from course_utils.base.markup import clean
from course_utils.base.words import rounded, shown
from course_utils.classroom.books.marks import Mark
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


def cell(result: ExerciseResult, mark: Mark | None = None) -> str:
    """One exercise of one student: points and outcome. A bare 0 says nothing, so it never stands alone."""
    if mark is not None and mark.given is not None and mark.score is not None:
        return f"{shown(mark.score)}{'?' if mark.waits else ''} by hand"
    if result.outcome == "review by hand":
        return "? by hand"
    return f"{'?' if result.waits else shown(rounded(result.earned, result.possible))} {result.outcome}"


def class_table(assignment: str, rows: Sequence[Row], verbose: bool = False) -> str:
    """The whole class in one assignment, as text: a line for each row with points and outcome for each exercise, how
    often each outcome came, and below whatever a person has to look at, by name.

    Args:
        verbose: whether to list what was put right before grading, which is harmless and else only counted.
    """
    if all(row.reason == NO_SUBMISSION for row in rows):
        return f"{assignment}: nobody of {len(rows)} handed it in"
    missing = [_one_line(row.student, STUDENT_WIDTH) for row in rows if row.reason == NO_SUBMISSION]
    text = [f"{assignment}: {_counted(rows)}", "", *_lines(assignment, rows)]
    text += ["", f"Without a submission: {', '.join(missing)}"] * bool(missing)
    graded = [(row, row.report) for row in rows if row.report]
    counts = Counter(_outcome(result, row.marks) for row, report in graded for result in report.exercises)
    named = ", ".join(f"{counts[name]} {name}" for name in (*OUTCOMES, _MARKED) if name in counts)
    text += ["", f"Outcomes: {named}"] * bool(named)

    def paragraph(title: str, said: Iterable[tuple[Row, Iterable[str]]]) -> None:
        lines = []
        for row, sentences in said:
            lines += [f"  {_one_line(row.student)}: {_one_line(each)}" for each in [*sentences][:_MOST_SAID]]
            more = len([*sentences]) - _MOST_SAID
            lines += [f"  {_one_line(row.student)}: ... and {more} more"] * (more > 0)
        text.extend(["", f"{title}:", *lines] if lines else [])

    paragraph("Look at these by hand", ((row, report.reviews) for row, report in graded))
    unread = [(row, report) for row, report in graded if any(r.outcome == "unreadable" for r in report.exercises)]
    title = "Could not be read; put it right, ask for the file again, or mark it by hand"
    paragraph(title, ((row, [" ".join(report.repairs)]) for row, report in unread))
    paragraph("Worth knowing, at no cost in points", ((row, report.listed) for row, report in graded))
    repairs = [(row, report.repairs) for row, report in graded if (row, report) not in unread and report.repairs]
    if verbose:
        paragraph("Put right before grading", repairs)
    elif repairs:
        number = sum(len(said) for _, said in repairs)
        text += ["", f"Put right before grading, harmless: {number} (students: {len(repairs)}); --verbose lists them"]
    paragraph("Also", ((row, row.remarks) for row in rows))
    troubled = [row for row in rows if row.reason not in ("", NO_SUBMISSION)]
    paragraph("Without a result", ((row, [row.reason]) for row in troubled if not row.report))
    paragraph("Graded, but not written down everywhere", ((row, [row.reason]) for row in troubled if row.report))
    return "\n".join(text)


def _lines(assignment: str, rows: Sequence[Row]) -> list[str]:
    """The head, and a line for everybody who handed in, in columns."""
    head, exercises, topic = ["student", ""], list[str](), assignment.partition("_")[2]
    if report := next((row.report for row in rows if row.report), None):
        exercises = [result.exercise for result in report.exercises]
        head = ["student", f"of {shown(report.possible)}"]
        head += [f"{result.exercise.removeprefix(f'{topic}-')}/{shown(result.possible)}" for result in report.exercises]
    lines = [_line(row, exercises) for row in rows if row.reason != NO_SUBMISSION]
    widths = [max(len(line[i]) for line in [head, *lines] if len(line) > i) for i in range(len(head))]
    table = [head, ["-" * width for width in widths], *lines]
    return ["  ".join(f"{text:<{width}}" for text, width in zip(line, widths, strict=False)).rstrip() for line in table]


def _outcome(result: ExerciseResult, marks: Mapping[str, Mark]) -> str:
    mark = marks.get(result.grade_id)
    return result.outcome if mark is None or mark.given is None else _MARKED


def _counted(rows: Sequence[Row]) -> str:
    graded = sum(row.report is not None for row in rows)
    new = sum(row.news for row in rows)
    missing = sum(row.reason == NO_SUBMISSION for row in rows)
    failed = len(rows) - graded - missing
    said = [f"{graded} graded ({new} now, {graded - new} unchanged)"]
    said += [f"{missing} without a submission"] * bool(missing) + [f"{failed} not graded"] * bool(failed)
    return ", ".join(said)


def _line(row: Row, exercises: Sequence[str]) -> list[str]:
    student = _one_line(row.student, STUDENT_WIDTH)
    if row.report is None:
        return [student, "not graded"]
    results = {result.exercise: result for result in row.report.exercises}
    marks = {name: row.marks.get(result.grade_id) for name, result in results.items()}
    scores = [mark.score if (mark := marks[name]) else result.earned for name, result in results.items()]
    withheld = any(mark.waits if mark else results[name].waits for name, mark in marks.items())
    earned = shown(rounded(sum(score or 0.0 for score in scores), row.report.possible)) + "+?" * withheld
    return [student, earned, *(cell(results[name], marks[name]) if name in results else "" for name in exercises)]


def _one_line(text: str, limit: int = 400) -> str:
    return " ".join(clean(text, limit).split())
