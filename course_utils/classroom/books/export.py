"""Everything that leaves the course folder (``export``): points, outcomes, and who misunderstood what.

Nobody's points are made up: what was not handed in, and what is still to be marked, is empty and never 0.
"""

from __future__ import annotations

import csv
import io
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from course_utils.base.files import write_whole
from course_utils.base.markup import clean, visible
from course_utils.classroom.books.gradebook import Mark, mark_of, marks_of, reports, settle
from course_utils.classroom.course.folder import ClassFolder
from course_utils.classroom.judging.results import Report

Line = tuple[Any, ...]
_NUMBER = re.compile(r"[+-]?[0-9]+(\.[0-9]+)?(e[+-]?[0-9]+)?")
# With these a formula begins, also in their wide forms: https://owasp.org/www-community/attacks/CSV_Injection
_SIGNS = tuple("=+-@\t\uff1d\uff0b\uff0d\uff20")


def export(course: ClassFolder, assignments: Sequence[str], target: Path) -> list[Path]:
    """Writes the files into a folder, which is made, in place of older ones of the same names. Returns them in order:

    - ``students.csv``: a row for each student, with totals; ``moodle.csv`` and ``canvas.csv``: for import there, where
      an empty cell leaves a grade as it is.
    - ``outcomes.csv``: a line for each student and exercise: points, outcome, misunderstandings.
    - ``misunderstood.csv`` and ``misunderstood.md``: how many students showed which misunderstanding.

    Args:
        course: the course folder.
        assignments: released ones.
        target: the folder.

    Raises:
        ValueError: of an assignment, exercises or points have been changed since something was graded.
    """
    settle(course, assignments)
    graded = [report for assignment in assignments for report in reports(course, assignment).values()]
    totals, misunderstood = _Totals(course, assignments), _misunderstood(graded)
    tables: dict[str, Iterable[Line]] = {"students": totals.students(), "moodle": totals.moodle()}
    tables |= {"canvas": totals.canvas(), "outcomes": totals.outcomes(graded), "misunderstood": misunderstood}
    target.mkdir(parents=True, exist_ok=True)
    written = [write_whole(target / f"{name}.csv", _as_csv(rows)) for name, rows in tables.items()]
    return [*written, write_whole(target / "misunderstood.md", _as_markdown(misunderstood))]


def _as_csv(rows: Iterable[Line]) -> str:
    """The rows as CSV that a spreadsheet shows and never runs: an apostrophe stands before what it would take for a
    formula."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(map(_cell, row) for row in rows)
    return text.getvalue()


def _cell(value: object) -> object:
    if not isinstance(value, str):
        return value
    text = visible(value).replace("\n", " ")
    return f"'{text}" if text.lstrip(" ").startswith(_SIGNS) and not _NUMBER.fullmatch(text) else text


class _Totals:
    """What the gradebook holds of assignments, as rows."""

    def __init__(self, course: ClassFolder, assignments: Sequence[str]) -> None:
        self.possible, self.scores = dict[str, float](), dict[tuple[str, str], float | str]()
        self.marks = {name: marks_of(course, name) for name in assignments}
        with course.gradebook() as gradebook:
            self.people: list[dict[str, Any]] = [who.to_dict() for who in gradebook.students]
            for assignment in (one for one in gradebook.assignments if one.name in assignments):
                self.possible[assignment.name] = assignment.max_score
                for one in assignment.submissions:
                    marks = self.marks[assignment.name].get(one.student_id, {})
                    self.scores[assignment.name, one.student_id] = _score(marks, one.late_submission_penalty or 0.0)
        self.people.sort(key=lambda who: str(who["id"]))

    def students(self) -> Iterator[Line]:
        """Points or what is in their way for each assignment, and the sum of the points."""
        yield ("student", "last_name", "first_name", "email", *self.possible, "total", "possible", "missing", "to_mark")
        for who in self.people:
            scores = [self.scores.get((name, who["id"]), "missing") for name in self.possible]
            total = sum(score for score in scores if isinstance(score, float))
            about = (who["id"], who["last_name"] or "", who["first_name"] or "", who["email"] or "")
            counts = scores.count("missing"), scores.count("to mark")
            yield (*about, *map(_short, scores), _short(total), _short(sum(self.possible.values())), *counts)

    def moodle(self) -> Iterator[Line]:
        """For Moodle: Grades, Import, CSV file."""
        yield ("Username", "ID number", "Email address", *self.possible)
        for who in self.people:
            yield (who["id"], who["id"], who["email"] or "", *self._numbers(who["id"]))

    def canvas(self) -> Iterator[Line]:
        """For Canvas: Gradebook, Import."""
        yield ("Student", "ID", "SIS User ID", "SIS Login ID", "Section", *self.possible)
        yield ("Points Possible", "", "", "", "", *map(_short, self.possible.values()))
        for who in self.people:
            name = ", ".join(filter(None, (who["last_name"], who["first_name"]))) or who["id"]
            yield (name, "", who["id"], who["id"], "", *self._numbers(who["id"]))

    def _numbers(self, student: str) -> list[str]:
        scores = [self.scores.get((name, student)) for name in self.possible]
        return [_short(score) if isinstance(score, float) else "" for score in scores]

    def outcomes(self, graded: Iterable[Report]) -> Iterator[Line]:
        """A line for each exercise of each report."""
        points = ("earned", "possible", "outcome", "by_hand", "said")
        yield ("assignment", "student", "exercise", *points, "misconceptions")
        for report in graded:
            marks = self.marks[report.assignment].get(report.student, {})
            for result in report.exercises:
                mark = mark_of(result, marks)
                earned = "" if mark.score is None else f"{mark.score:g}"  # what is still to be marked is not 0
                by_hand = "" if mark.given is None else "answered anew" if mark.waits else "marked"
                by_hand = "to mark" if mark.given is None and mark.waits else by_hand
                points = (earned, f"{result.possible:g}", result.outcome, by_hand, result.said or "")
                yield (report.assignment, report.student, result.exercise, *points, "; ".join(result.misconceptions))


def _score(marks: Mapping[str, Mark], penalty: float) -> float | str:
    scores = [mark.score for mark in marks.values() if mark.score is not None]
    if any(mark.waits for mark in marks.values()) or len(scores) < len(marks):
        return "to mark"
    return max(0.0, sum(scores) - penalty)


def _short(value: float | str) -> str:
    return value if isinstance(value, str) else f"{round(value, 4):g}"


def _misunderstood(graded: Iterable[Report]) -> list[Line]:
    """A line for each misunderstanding of each exercise, most frequent first; one without a name where none was seen.
    Attempted is what was looked at: all but an untouched stub and a file that cannot be read; and no written answers.
    """
    attempted, passed, named = Counter[Line](), Counter[Line](), defaultdict[Line, Counter[str]](Counter)
    for report in graded:
        for result in (result for result in report.exercises if not result.by_hand):
            exercise = report.assignment, result.exercise
            attempted[exercise] += result.attempted
            passed[exercise] += result.outcome == "passed"
            named[exercise].update({" ".join(clean(text, 200).split()) for text in result.misconceptions})
    return [
        ("assignment", "exercise", "attempted", "passed", "misconception", "students"),
        *(
            (*exercise, attempted[exercise], passed[exercise], name, students)
            for exercise, names in named.items()
            for name, students in sorted(names.items(), key=lambda item: (-item[1], item[0])) or [("", 0)]
        ),
    ]


def _as_markdown(rows: Sequence[Line]) -> str:
    """The same as a table to read or to paste, a section for each assignment."""
    text = "# What the class misunderstood\n"
    for assignment, those in groupby(rows[1:], key=lambda row: row[0]):
        text += f"\n## {assignment}\n\n| Exercise | Attempted | Passed | Misunderstanding | Students |\n"
        text += "|---|---|---|---|---|\n"
        for _, exercise, attempted, passed, name, students in those:
            share = f" {students} ({students / attempted:.0%})" if students else ""
            said = name.replace("|", "\\|") or "none seen"
            text += f"| {exercise} | {attempted} | {passed} | {said} |{share} |\n"
    return text
