"""Which misunderstandings a class showed, counted from its results (``count``), as CSV and Markdown.

Data in, text out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import groupby

from course_utils.base.markup import clean
from course_utils.classroom.course import spreadsheet
from course_utils.classroom.judging.results import Report


@dataclass
class ExerciseCounts:
    """One exercise of an assignment over the whole class.

    Attributes:
        attempted: students whose answer was looked at: everybody who changed the stub and whose file could be read.
        passed: students who earned all of it.
        named: each misunderstanding with the number of students whose card named it. A card may name several.
    """

    assignment: str
    exercise: str
    attempted: int = 0
    passed: int = 0
    named: Counter[str] = field(default_factory=Counter)

    def rows(self, otherwise: str = "") -> list[tuple[str, int]]:
        """The misunderstandings, most frequent first; where none was seen, one row that says so ``otherwise``."""
        return sorted(self.named.items(), key=lambda item: (-item[1], item[0])) or [(otherwise, 0)]


def count(reports: Iterable[Report]) -> list[ExerciseCounts]:
    """Counts over reports, by assignment and exercise, in the order of the reports; written answers are left out."""
    found: dict[tuple[str, str], ExerciseCounts] = {}
    for report in reports:
        for result in (result for result in report.exercises if not result.by_hand):
            key = report.assignment, result.exercise
            counts = found.setdefault(key, ExerciseCounts(*key))
            counts.attempted += result.attempted
            counts.passed += result.outcome == "passed"
            counts.named.update({" ".join(clean(text, 200).split()) for text in result.misconceptions})
    return list(found.values())


def as_csv(counts: Iterable[ExerciseCounts]) -> str:
    """A line for each misunderstanding of each exercise; an exercise in which none was seen has one without a name."""
    head = ("assignment", "exercise", "attempted", "passed", "misconception", "students")
    lines = ((one.assignment, one.exercise, one.attempted, one.passed, *row) for one in counts for row in one.rows())
    return spreadsheet.as_csv([head, *lines])


def as_markdown(counts: Iterable[ExerciseCounts]) -> str:
    """The same as a table to read or to paste, a section for each assignment."""
    lines = ["# What the class misunderstood", ""]
    for assignment, rows in groupby(counts, key=lambda row: row.assignment):
        lines += [f"## {assignment}", "", "| Exercise | Attempted | Passed | Misunderstanding | Students |"]
        lines += ["|---|---|---|---|---|"]
        for one in rows:
            head = f"{one.exercise} | {one.attempted} | {one.passed}"
            for name, students in one.rows("" if one.attempted == one.passed > 0 else "none seen"):
                share = f"{students} ({students / one.attempted:.0%})" if one.attempted and students else ""
                escaped = name.replace("|", "\\|")
                lines.append(f"| {head} | {escaped} | {share} |".replace("  ", " "))
                head = " | | "
        lines.append("")
    return "\n".join(lines)
