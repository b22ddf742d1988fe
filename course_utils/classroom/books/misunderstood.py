"""Which misunderstandings a class showed, counted from its results (``count``), as CSV and Markdown.

Data in, text out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby

from course_utils.base.markup import clean
from course_utils.classroom.course import spreadsheet
from course_utils.classroom.judging.results import ExerciseResult, Report


@dataclass(frozen=True)
class ExerciseCounts:
    """One exercise of an assignment over the whole class.

    Attributes:
        attempted: students whose answer was looked at: everybody who changed the stub and whose file could be read.
        passed: students who earned all of it.
        misconceptions: each misunderstanding with the number of students whose card named it, most frequent first. A
            card may name several.
    """

    assignment: str
    exercise: str
    attempted: int
    passed: int
    misconceptions: tuple[tuple[str, int], ...]

    @property
    def understood(self) -> bool:
        """Whether everybody who tried it passed, so that there was no misunderstanding to see."""
        return self.attempted == self.passed > 0


def count(reports: Iterable[Report]) -> list[ExerciseCounts]:
    """Counts over reports, by assignment and exercise, in the order of the reports; written answers are left out."""
    found: dict[tuple[str, str], list[ExerciseResult]] = {}
    for report in reports:
        for result in report.exercises:
            if not result.by_hand:
                found.setdefault((report.assignment, result.exercise), []).append(result)
    return [_counts(assignment, exercise, results) for (assignment, exercise), results in found.items()]


def _counts(assignment: str, exercise: str, results: Sequence[ExerciseResult]) -> ExerciseCounts:
    attempted = sum(result.attempted for result in results)
    passed = sum(result.outcome == "passed" for result in results)
    named: Counter[str] = Counter()
    for result in results:
        named.update({" ".join(clean(text, 200).split()) for text in result.misconceptions})
    by_number = sorted(named.items(), key=lambda item: (-item[1], item[0]))
    return ExerciseCounts(assignment, exercise, attempted, passed, tuple(by_number))


def as_csv(counts: Iterable[ExerciseCounts]) -> str:
    """A line for each misunderstanding of each exercise; an exercise in which none was seen has one without a name."""
    lines: list[tuple[object, ...]] = [("assignment", "exercise", "attempted", "passed", "misconception", "students")]
    for row in counts:
        for name, students in row.misconceptions or (("", 0),):
            lines.append((row.assignment, row.exercise, row.attempted, row.passed, name, students))
    return spreadsheet.as_csv(lines)


def as_markdown(counts: Iterable[ExerciseCounts]) -> str:
    """The same as a table to read or to paste, a section for each assignment."""
    lines = ["# What the class misunderstood", ""]
    for assignment, rows in groupby(counts, key=lambda row: row.assignment):
        lines += [f"## {assignment}", "", "| Exercise | Attempted | Passed | Misunderstanding | Students |"]
        lines += ["|---|---|---|---|---|"]
        for row in rows:
            head = f"{row.exercise} | {row.attempted} | {row.passed}"
            for name, students in row.misconceptions or (("" if row.understood else "none seen", 0),):
                share = f"{students} ({students / row.attempted:.0%})" if row.attempted and students else ""
                escaped = name.replace("|", "\\|")
                lines.append(f"| {head} | {escaped} | {share} |".replace("  ", " "))
                head = " | | "
        lines.append("")
    return "\n".join(lines)
