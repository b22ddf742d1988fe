"""Which misunderstandings a class showed, counted from its results (``count``), as CSV and Markdown.

Data in, text out; imports results, spreadsheet and markup's cleaning.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from course_utils.base.markup import clean
from course_utils.classroom.course import spreadsheet
from course_utils.classroom.judging.results import Report


@dataclass(frozen=True)
class ExerciseCounts:
    """One exercise of an assignment over the whole class.

    Attributes:
        assignment: the assignment's name.
        exercise: the exercise's name.
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
    """Counts over the reports of one assignment, by exercise, in the notebook's order; written answers are left out."""
    order: dict[str, None] = {}
    attempted: Counter[str] = Counter()
    passed: Counter[str] = Counter()
    shown: dict[str, Counter[str]] = {}
    assignment = ""
    for report in reports:
        assignment = report.assignment
        for result in report.exercises:
            if not result.grade_id.endswith("-check"):
                continue
            name = result.exercise
            order.setdefault(name)
            attempted[name] += result.outcome not in ("not attempted", "unreadable")
            passed[name] += result.outcome == "passed"
            shown.setdefault(name, Counter()).update(
                {" ".join(clean(text, 200).split()) for text in result.misconceptions}
            )
    return [
        ExerciseCounts(assignment, name, attempted[name], passed[name], _most_frequent(shown[name])) for name in order
    ]


def _most_frequent(counter: Counter[str]) -> tuple[tuple[str, int], ...]:
    return tuple(sorted(counter.items(), key=lambda item: (-item[1], item[0])))


def as_csv(counts: Iterable[ExerciseCounts]) -> str:
    """A line for each misunderstanding of each exercise; an exercise in which none was seen has one without a name."""
    lines: list[tuple[object, ...]] = [("assignment", "exercise", "attempted", "passed", "misconception", "students")]
    for row in counts:
        for name, students in row.misconceptions or (("", 0),):
            lines.append((row.assignment, row.exercise, row.attempted, row.passed, name, students))
    return spreadsheet.as_csv(lines)


def as_markdown(counts: Sequence[ExerciseCounts]) -> str:
    """The same as a table to read or to paste, a section for each assignment."""
    lines = ["# What the class misunderstood", ""]
    for assignment in dict.fromkeys(row.assignment for row in counts):
        lines += [f"## {assignment}", "", "| Exercise | Attempted | Passed | Misunderstanding | Students |"]
        lines += ["|---|---|---|---|---|"]
        for row in counts:
            if row.assignment == assignment:
                lines += _table_lines(row)
        lines.append("")
    return "\n".join(lines)


def _table_lines(row: ExerciseCounts) -> list[str]:
    lines, head = [], f"{row.exercise} | {row.attempted} | {row.passed}"
    for name, students in row.misconceptions or (("" if row.understood else "none seen", 0),):
        of = f"{students} ({students / row.attempted:.0%})" if row.attempted and students else ""
        lines.append(f"| {head} | {_escaped(name)} | {of} |".replace("  ", " "))
        head = " | | "
    return lines


def _escaped(text: str) -> str:
    return text.replace("|", "\\|")
