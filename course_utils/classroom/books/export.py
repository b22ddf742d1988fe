"""Everything that leaves the course folder: nbgrader's own page for each student, with one cell on top (``feedback``);
points, outcomes, and who misunderstood what (``export``).

Nobody's points are made up: what was not handed in, and what is still to be marked, is empty and never 0.
"""

from __future__ import annotations

import csv
import io
import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from nbformat import NotebookNode
from nbformat.v4 import new_markdown_cell
from nbgrader.preprocessors import GetGrades

from course_utils.base import markdown_table, points, rounded, shown
from course_utils.base.files import write_whole
from course_utils.base.markup import visible
from course_utils.classroom.books.gradebook import LATE, Mark, mark_of, marks_of, reports, settle, so_far
from course_utils.classroom.course.folder import ClassFolder, last_words
from course_utils.classroom.judging.results import ExerciseResult, Report, one_line, some

Line = tuple[Any, ...]
Marks = Mapping[str, Mapping[str, Mapping[str, Mark]]]  # by assignment, student and graded cell
_NUMBER = re.compile(r"[+-]?[0-9]+(\.[0-9]+)?(e[+-]?[0-9]+)?")
# With these a formula begins, also in their wide forms: https://owasp.org/www-community/attacks/CSV_Injection
_SIGNS = tuple("=+-@\t\uff1d\uff0b\uff0d\uff20")
_STYLE = "table td, table th { padding: 0.3em 1.5em 0.3em 0; vertical-align: top } summary { display: list-item }"
_SAID = {
    "not attempted": "You wrote no answer.",
    "review by hand": "Your teacher looks at this answer; its points are not in the sum yet.",
    "unreadable": "Your file could not be read, so that nothing was graded.",
}


def feedback(course: ClassFolder, assignment: str, students: Sequence[str] = ()) -> dict[str, str]:
    """Writes ``feedback/STUDENT/ASSIGNMENT/ASSIGNMENT.html`` anew for everybody who was graded, or for these students
    alone.

    Returns:
        Student -> why there is no page, in one sentence; empty where it was written.

    Raises:
        ValueError: nothing of the assignment is graded yet, or not since its points were changed.
    """
    graded = [name for name in course.graded(assignment) if not students or name in students]
    if not graded:
        raise ValueError(f"Nothing of {assignment} is graded yet.\nTry: autograd-control classroom grade {assignment}")
    found = reports(course, assignment)
    settle(course, [assignment])
    marks = marks_of(course, assignment)
    summaries = {name: _summary(found[name], marks.get(name, {})) if name in found else "" for name in graded}
    return {name: _convert(course, assignment, name, summary) for name, summary in summaries.items()}


def page(course: ClassFolder, assignment: str, student: str) -> Path:
    """Where a student's feedback lies."""
    return course.notebook("feedback", assignment, student).with_suffix(".html")


def hand_out(course: ClassFolder, assignments: Sequence[str], folder: Path) -> int:
    """Copies the pages that are there into a folder: ``ASSIGNMENT/STUDENT.html``. Returns how many."""
    pairs = ((name, who) for name in assignments for who in course.submitters(name))
    pages = [(name, who) for name, who in pairs if page(course, name, who).is_file()]
    for name, who in pages:
        (folder / name).mkdir(parents=True, exist_ok=True)
        write_whole(folder / name / f"{who}.html", page(course, name, who).read_bytes())
    return len(pages)


def _convert(course: ClassFolder, assignment: str, student: str, summary: str) -> str:
    """Has nbgrader make the page. Returns why it could not; empty where it is there."""
    from nbconvert.preprocessors import CSSHTMLHeaderPreprocessor
    from nbgrader.converters import GenerateFeedback
    from nbgrader.utils import capture_log, temp_attrs

    def put_on_top(nb: NotebookNode, resources: dict[str, Any]) -> tuple[NotebookNode, dict[str, Any]]:
        nb.cells[:0] = [new_markdown_cell(summary)] * bool(summary)
        resources["inlining"]["css"].append(_STYLE)
        return nb, resources

    page(course, assignment, student).unlink(missing_ok=True)  # what lies there afterwards is new
    with temp_attrs(course.api.coursedir, assignment_id=assignment, student_id=student):
        app = GenerateFeedback(coursedir=course.api.coursedir, parent=course.api)
        app.preprocessors, app.force = [GetGrades, CSSHTMLHeaderPreprocessor, put_on_top], True
        result = capture_log(app)
    is_made = result["success"] and page(course, assignment, student).is_file()
    return "" if is_made else f"nbgrader made no page: {last_words(result)}"


def _summary(report: Report, marks: dict[str, Mark]) -> str:
    """The cell on top, as Markdown: the sum, what does not hold, and what happened to the file."""
    held = {result.grade_id: mark_of(result, marks) for result in report.exercises}
    waiting = sum(mark.score is None for mark in held.values())
    said = f"**Together: {points(so_far((marks | held).values()), report.possible)}**"
    said += f", {shown(-(marks[LATE].score or 0.0))} less for being late" if LATE in marks else ""
    said += f"; still to be marked: {waiting}" if waiting else ""
    rows = [("Exercise", "Points", "What does not hold")]
    for result in report.exercises:
        mark = held[result.grade_id]
        earned = "to be marked" if mark.score is None else points(mark.score, result.possible)
        why = "<br>".join(_why(result)) if mark.given is None else "Your teacher marked this answer."
        rows.append((f"`{one_line(result.exercise, 80)}`", earned, why))
    lines = [f"# {report.assignment}: feedback", "", f"{said}.", "", markdown_table(rows, left=range(3))]
    if remarks := [*report.repairs, *report.listed]:
        lines += ["", "What happened to your file:", "", *(f"- {_in_table(text)}" for text in some(remarks, 40))]
    return "\n".join(lines)


def _why(result: ExerciseResult) -> Iterator[str]:
    """Why points are missing, with how many."""
    if result.outcome in _SAID or (result.earned < result.possible and not result.lost):
        yield _SAID.get(result.outcome, result.said or f"It was {result.outcome}.")
        return
    for what, cost in result.lost:
        yield f"-{shown(rounded(cost, result.possible))}: {_in_table(what)}"


def _in_table(text: str) -> str:
    """A text as one cell of a table in Markdown, or one line of a list."""
    return one_line(text).replace("|", "\\|")


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
        possible = {one.name: one.max_score for one in gradebook.assignments if one.name in marks}
    there = {(name, one) for one in possible for name in course.handed_in(one)}
    there |= {(name, one) for place, meant in course.passed_over() for name in place.parts for one in meant}
    total, worth = shown(sum(possible.values())), map(shown, possible.values())
    head = ("student", "last_name", "first_name", "email", *possible, "total", "possible", "missing", "to_mark")
    students: list[Line] = [head]
    moodle: list[Line] = [("Username", "ID number", "Email address", *possible)]
    canvas: list[Line] = [("Student", "ID", "SIS User ID", "SIS Login ID", "Section", *possible)]
    canvas += [("Points Possible", "", "", "", "", *worth)]
    for who in people:
        name, last, first, email = (who[key] or "" for key in ("id", "last_name", "first_name", "email"))
        held = {one: marks[one].get(name, {}).values() for one in possible}
        scores = [_score(those, (name, one) in there) for one, those in held.items()]
        imported = [score if _NUMBER.fullmatch(score) else "" for score in scores]
        counts = scores.count("missing"), imported.count("") - scores.count("missing")
        together = shown(sum(map(so_far, held.values()))) + "+?" * bool(counts[1])
        students.append((name, last, first, email, *scores, together, total, *counts))
        moodle.append((name, name, email, *imported))
        canvas.append((", ".join(filter(None, (last, first))) or name, "", name, name, "", *imported))
    return {"students": students, "moodle": moodle, "canvas": canvas}


def _score(marks: Collection[Mark], is_there: bool) -> str:
    if not marks:
        return "not graded" if is_there else "missing"
    return shown(so_far(marks)) + "+?" * any(mark.waits or mark.score is None for mark in marks)


def _outcomes(graded: Iterable[Report], marks: Marks) -> Iterator[Line]:
    """A line for each exercise of each report."""
    yield ("assignment", "student", "exercise", "earned", "possible", "outcome", "by_hand", "said", "misconceptions")
    for report in graded:
        for result in report.exercises:
            mark = mark_of(result, marks[report.assignment].get(report.student, {}))
            earned = "" if mark.score is None else f"{mark.score:g}"  # what is still to be marked is not 0
            by_hand = (("", "to mark"), ("marked", "answered anew"))[mark.given is not None][mark.waits]
            points = (earned, f"{result.possible:g}", result.outcome, by_hand, result.said)
            yield (report.assignment, report.student, result.exercise, *points, "; ".join(result.misconceptions))


def _misunderstood(graded: Iterable[Report]) -> list[Line]:
    """A line for each misunderstanding of each exercise, most frequent first; one without a name where none was seen.
    Attempted is what was looked at: all but an untouched stub and a file that cannot be read; and no written answers.
    """
    attempted, passed, named = Counter[Line](), Counter[Line](), defaultdict[Line, Counter[str]](Counter)
    for report in graded:
        for result in (result for result in report.exercises if not result.by_hand):
            exercise = report.assignment, result.exercise
            attempted[exercise] += result.outcome not in ("not attempted", "unreadable")
            passed[exercise] += result.outcome == "passed"
            named[exercise].update({one_line(text, 200) for text in result.misconceptions})
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
    text, head = "# What the class misunderstood\n", ("Exercise", "Attempted", "Passed", "Misunderstanding", "Students")
    for assignment, those in groupby(rows[1:], key=lambda row: row[0]):
        lines = [head]
        for _, exercise, attempted, passed, name, students in those:
            share = f"{students} ({students / attempted:.0%})" if students else ""
            lines.append((exercise, str(attempted), str(passed), _in_table(name) or "none seen", share))
        text += f"\n## {assignment}\n\n{markdown_table(lines, left=range(5))}\n"
    return text
