"""Feedback for students: nbgrader's own page of the graded notebook, with one cell on top (``feedback``)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from nbformat import NotebookNode
from nbformat.v4 import new_markdown_cell
from nbgrader.preprocessors import GetGrades

from course_utils.base.files import write_whole
from course_utils.base.markup import clean
from course_utils.base.words import points, rounded, shown
from course_utils.classroom.books.gradebook import Mark, mark_of, marks_of, reports, settle
from course_utils.classroom.course.folder import ClassFolder, last_words
from course_utils.classroom.judging.results import ExerciseResult, Report

MOST_REMARKS = 40  # of what happened to the file
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
    graded = [name for name in course.submitters(assignment) if not students or name in students]
    graded = [name for name in graded if course.notebook("autograded", assignment, name).is_file()]
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
    pages = [(name, who) for name in assignments for who in course.submitters(name)]
    pages = [(name, who) for name, who in pages if page(course, name, who).is_file()]
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
        nb.cells.insert(0, new_markdown_cell(summary))
        return nb, resources

    page(course, assignment, student).unlink(missing_ok=True)  # what lies there afterwards is new
    with temp_attrs(course.api.coursedir, assignment_id=assignment, student_id=student):
        app = GenerateFeedback(coursedir=course.api.coursedir, parent=course.api)
        app.preprocessors, app.force = [GetGrades, *[put_on_top] * bool(summary), CSSHTMLHeaderPreprocessor], True
        result = capture_log(app)
    if result["success"] and page(course, assignment, student).is_file():
        return ""
    return f"nbgrader made no page: {last_words(result)}"


def _summary(report: Report, marks: dict[str, Mark]) -> str:
    """The cell on top, as Markdown: the sum, what does not hold, and what happened to the file."""
    held = {result.grade_id: mark_of(result, marks) for result in report.exercises}
    waiting = sum(mark.score is None for mark in held.values())
    said = f"**Together: {points(sum(mark.score or 0.0 for mark in held.values()), report.possible)}**"
    said += f"; still to be marked: {waiting}" if waiting else ""
    lines = [f"# {report.assignment}: feedback", "", f"{said}.", "", "| Exercise | Points | What does not hold |"]
    lines += ["|---|---|---|"]
    for result in report.exercises:
        mark = held[result.grade_id]
        earned = "to be marked" if mark.score is None else points(mark.score, result.possible)
        why = "<br>".join(_why(result)) if mark.given is None else "Your teacher marked this answer."
        lines.append(f"| `{clean(result.exercise, 80)}` | {earned} | {why} |")
    if remarks := [*report.repairs, *report.notes, *report.listed]:
        lines += ["", "What happened to your file:", "", *(f"- {_cell(text)}" for text in remarks[:MOST_REMARKS])]
    return "\n".join(lines)


def _why(result: ExerciseResult) -> Iterator[str]:
    """Why points are missing, with how many."""
    if result.outcome in _SAID or (result.earned < result.possible and not result.lost):
        yield _SAID.get(result.outcome, f"It was {result.outcome}.")
        return
    for what, cost in result.lost:
        yield f"-{shown(rounded(cost, result.possible))}: {_cell(what)}"


def _cell(text: str) -> str:
    """A text as one cell of a table, or one line of a list."""
    return " ".join(clean(text, 400).split()).replace("|", "\\|")
