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
Marks = Mapping[str, Mapping[str, Mapping[str, Mark]]]  # by assignment, student and graded cell
_NUMBER = re.compile(r"[+-]?[0-9]+(\.[0-9]+)?(e[+-]?[0-9]+)?")
# With these a formula begins, also in their wide forms: https://owasp.org/www-community/attacks/CSV_Injection
_SIGNS = tuple("=+-@\t\uff1d\uff0b\uff0d\uff20")


def export(course: ClassFolder, assignments: Sequence[str], target: Path) -> list[Path]:
    """Writes the files into a folder, which is made, in place of older ones of the same names. Returns them in order:

    - ``students.csv``: a row for each student, with totals; ``moodle.csv`` and ``canvas.csv``: for import there, where
      an empty cell leaves a grade as it is.
    - ``outcomes.csv``: a line for each student and exercise: points, outcome, misunderstandings.
    - ``misunderstood.csv`` and ``misunderstood.md``: how many students showed which misunderstanding.

    Raises:
        ValueError: of an assignment, exercises or points have been changed since something was graded.
    """
    settle(course, assignments)
    graded = [report for assignment in assignments for report in reports(course, assignment).values()]
    marks = {assignment: marks_of(course, assignment) for assignment in assignments}
    tables = _totals(course, marks) | {"outcomes": list(_outcomes(graded, marks))}
    tables["misunderstood"] = _misunderstood(graded)
    target.mkdir(parents=True, exist_ok=True)
    written = [write_whole(target / f"{name}.csv", _as_csv(rows)) for name, rows in tables.items()]
    return [*written, write_whole(target / "misunderstood.md", _as_markdown(tables["misunderstood"]))]


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


def _totals(course: ClassFolder, marks: Marks) -> dict[str, list[Line]]:
    """A row for each student: for people, with what is in the way of points, and for the imports of Moodle (Grades,
    Import, CSV file) and Canvas (Gradebook, Import)."""
    with course.gradebook() as gradebook:
        people = sorted((who.to_dict() for who in gradebook.students), key=lambda who: str(who["id"]))
        assignments = [one for one in gradebook.assignments if one.name in marks]
        possible = {one.name: one.max_score for one in assignments}
        late = {(one.name, s.student_id): s.late_submission_penalty for one in assignments for s in one.submissions}
    total, worth = _short(sum(possible.values())), map(_short, possible.values())
    head = ("student", "last_name", "first_name", "email", *possible, "total", "possible", "missing", "to_mark")
    students: list[Line] = [head]
    moodle: list[Line] = [("Username", "ID number", "Email address", *possible)]
    canvas: list[Line] = [("Student", "ID", "SIS User ID", "SIS Login ID", "Section", *possible)]
    canvas += [("Points Possible", "", "", "", "", *worth)]
    for who in people:
        name, last, first, email = (who[key] or "" for key in ("id", "last_name", "first_name", "email"))
        scores = [_score(marks[one].get(name, {}), late.get((one, name)) or 0.0) for one in possible]
        numbers = [score for score in scores if isinstance(score, float)]
        counts = total, scores.count("missing"), scores.count("to mark")
        students.append((name, last, first, email, *map(_short, scores), _short(sum(numbers)), *counts))
        imported = ["" if isinstance(score, str) else _short(score) for score in scores]
        moodle.append((name, name, email, *imported))
        canvas.append((", ".join(filter(None, (last, first))) or name, "", name, name, "", *imported))
    return {"students": students, "moodle": moodle, "canvas": canvas}


def _score(marks: Mapping[str, Mark], penalty: float) -> float | str:
    if not marks:
        return "missing"
    scores = [mark.score for mark in marks.values() if mark.score is not None]
    if any(mark.waits for mark in marks.values()) or len(scores) < len(marks):
        return "to mark"
    return max(0.0, sum(scores) - penalty)


def _short(value: float | str) -> str:
    return value if isinstance(value, str) else f"{round(value, 4):g}"


def _outcomes(graded: Iterable[Report], marks: Marks) -> Iterator[Line]:
    """A line for each exercise of each report."""
    points = ("earned", "possible", "outcome", "by_hand", "said")
    yield ("assignment", "student", "exercise", *points, "misconceptions")
    for report in graded:
        for result in report.exercises:
            mark = mark_of(result, marks[report.assignment].get(report.student, {}))
            earned = "" if mark.score is None else f"{mark.score:g}"  # what is still to be marked is not 0
            by_hand = "" if mark.given is None else "answered anew" if mark.waits else "marked"
            by_hand = "to mark" if mark.given is None and mark.waits else by_hand
            points = (earned, f"{result.possible:g}", result.outcome, by_hand, result.said or "")
            yield (report.assignment, report.student, result.exercise, *points, "; ".join(result.misconceptions))


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
