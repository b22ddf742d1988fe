"""A student's feedback as one HTML page (``page``): first what each exercise earned, why points are missing and what
happened to the file; then, exercise by exercise, what was written, its card, and the teacher's comments.

Data in, text out. Whatever a student wrote is shown and does nothing.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from itertools import accumulate, pairwise
from typing import Any

import nbformat
from nbformat import NotebookNode
from pygments import highlight  # type: ignore[import-untyped]  # it brings no types
from pygments.formatters import HtmlFormatter  # type: ignore[import-untyped]  # nor does this part
from pygments.lexers import PythonLexer  # type: ignore[import-untyped]  # nor this

from course_utils.base.markup import Html, clean, element, paragraph, prose, typed
from course_utils.base.words import points, rounded, shown
from course_utils.classroom.books.marks import Mark
from course_utils.classroom.books.shown import LONGEST_MARKED_UP, Room, markdown
from course_utils.classroom.books.stored import EarlierFile
from course_utils.classroom.judging.results import ExerciseResult, Report

_STYLE = """
body { font-family: sans-serif; line-height: 1.5; max-width: 60em; margin: 1.5em auto; padding: 0 1em; }
table { border-collapse: collapse; } th, td { text-align: left; vertical-align: top; padding: 0.3em 1em 0.3em 0; }
tr { border-bottom: 1px solid #aaa; } td ul { margin: 0; padding-left: 1.1em; } pre { overflow-wrap: anywhere; }
.highlight pre { white-space: pre-wrap; padding: 0.5em; border: 1px solid #ccc; } img { max-width: 100%; }
.comment { border-left: 3px solid #2f6fad; padding-left: 0.8em; } h3 { margin-top: 2em; }
"""
_SAID = {
    "not attempted": "You wrote no answer.",
    "review by hand": "Your teacher looks at this answer; its points are not in the sum yet.",
    "unreadable": "Your file could not be read, so that nothing was graded.",
}
_MOST_REMARKS = 40  # of what happened to the file


@dataclass(frozen=True)
class Sheet:
    """What a page is made of.

    Attributes:
        marks: what the gradebook holds, by graded cell.
        comments: by the cell that they stand at.
        penalty: points that lateness costs.
        hours_late: of the submission.
        judged_by: the lesson and the edition of its checks, as "detach 3"; empty where there is none.
        earlier: another file, which was judged before this one was handed in.
    """

    report: Report
    marks: Mapping[str, Mark]
    comments: Mapping[str, str]
    penalty: float = 0.0
    hours_late: float = 0.0
    judged_by: str = ""
    earlier: EarlierFile | None = None


def page(sheet: Sheet) -> str:
    """The page, whole, with nothing to load from elsewhere."""
    title = f"{sheet.report.assignment}: feedback"
    head = element("title", title) + element("style", Html(_STYLE + _colours()))
    head = '<meta charset="utf-8"><meta name="viewport" content="width=device-width">' + head
    body = [element("h1", title), *_summary(sheet), *_file(sheet.report), *_exercises(sheet)]
    whole = element("body", Html("\n" + "\n".join(body) + "\n"))
    return f'<!DOCTYPE html>\n<html lang="en">\n<head>{head}</head>\n{whole}\n</html>\n'


def _summary(sheet: Sheet) -> Iterator[str]:
    results = sheet.report.exercises
    scores = [_score(sheet, result) for result in results]
    earned = max(sum(score or 0.0 for score in scores) - sheet.penalty, 0.0)
    marks = [sheet.marks.get(result.grade_id) for result in results]  # one may wait because the answer is another now
    waiting = sum(score is None or bool(mark and mark.waits) for score, mark in zip(scores, marks, strict=True))
    said = points(earned, sheet.report.possible)
    said += f"; {waiting} {'answer is' if waiting == 1 else 'answers are'} still to be marked." if waiting else "."
    yield paragraph(said, "Together")
    if sheet.earlier and sheet.earlier.beats(earned, sheet.report.possible):
        had = points(sheet.earlier.earned, sheet.earlier.possible)
        yield paragraph(
            f"It had {had}. The last file counts; your teacher can let the earlier one count.", "Your earlier file"
        )
    if sheet.judged_by:
        yield paragraph(f"{sheet.judged_by}.", "Edition of the checks")
    if sheet.penalty:
        lost = points(sheet.penalty, sheet.penalty).partition(" of ")[2]
        yield paragraph(f"{sheet.hours_late:.1f} hours late: {lost} less, in the sum already.", "Late")
    cells = [element("th", name, scope="col") for name in ("Exercise", "Points", "What does not hold")]
    rows = [element("tr", *cells)]
    for result, score in zip(results, scores, strict=True):
        link = element("a", element("code", clean(result.exercise, 80)), href=f"#{result.grade_id}")
        shown = "to be marked" if score is None else points(score, result.possible)
        rows.append(element("tr", element("td", link), element("td", shown), element("td", _why(sheet, result, score))))
    yield element("table", Html("\n".join(rows)))


def _score(sheet: Sheet, result: ExerciseResult) -> float | None:
    mark = sheet.marks.get(result.grade_id)
    return mark.score if mark else result.earned


def _why(sheet: Sheet, result: ExerciseResult, score: float | None) -> Html:
    mark = sheet.marks.get(result.grade_id)
    if mark is not None and mark.given is not None:
        again = " Your answer is another than the one that was marked; your teacher looks at it." if mark.waits else ""
        return prose(f"Your teacher marked this answer.{again}")
    if score is not None and score >= result.possible:
        return Html("")
    if not result.lost or result.outcome in _SAID:
        return prose(_SAID.get(result.outcome, f"It was {result.outcome}."))
    costs = [f"-{shown(cost)}: " if cost >= 0.005 else "" for cost in _costs(result)]
    items = [element("li", cost, prose(what, 400)) for cost, (what, _) in zip(costs, result.lost, strict=True)]
    return element("ul", *items)


def _costs(result: ExerciseResult) -> list[float]:
    """What each reason cost, to 0.01, so that they add up to the points that are missing."""
    ends = [round(end, 2) for end in accumulate(cost for _, cost in result.lost)]
    ends[-1] = result.possible - rounded(result.earned, result.possible)
    return [end - before for before, end in pairwise([0.0, *ends])]


def _file(report: Report) -> Iterator[str]:
    said = [*report.repairs, *report.notes]
    if said:
        yield element("h2", "What happened to your file")
        more = [f"... and {len(said) - _MOST_REMARKS} more"] if len(said) > _MOST_REMARKS else []
        yield element("ul", *(element("li", prose(text, 400)) for text in [*said[:_MOST_REMARKS], *more]))


def _exercises(sheet: Sheet) -> Iterator[str]:
    results = {result.grade_id: result for result in sheet.report.exercises}
    waiting: list[NotebookNode] = []
    room = Room()
    is_unreadable = all(result.outcome == "unreadable" for result in results.values())
    # The notebook is then the release's: its stubs are nothing that the student wrote.
    yield element("h2", "What could not be read" if is_unreadable else "Your answers")
    for cell in nbformat.v4.to_notebook(json.loads(sheet.report.notebook)).cells:
        grading = cell.metadata.get("nbgrader", {})
        if grading.get("solution") or cell.get("id", "").startswith("added-"):
            waiting.append(cell)
        if grading.get("grade_id") not in results:
            continue
        result = results[grading["grade_id"]]
        yield element("h3", element("code", clean(result.exercise, 80)), id=result.grade_id)
        for written in waiting:
            if not is_unreadable:
                yield from _cell(written, room)
            comment = sheet.comments.get(written.metadata.get("nbgrader", {}).get("grade_id", ""))
            if comment:
                text = Html(_marked_up(comment, NotebookNode(metadata=NotebookNode())))
                yield element("div", element("strong", "Comment:"), text, **{"class": "comment"})
        mark = sheet.marks.get(result.grade_id)
        if mark is not None and mark.given is not None and mark.score is not None:
            yield paragraph(f"Your teacher gave {points(mark.score, result.possible)}.")
        if not result.by_hand:
            yield result.html
        waiting = []
    if waiting and not is_unreadable:  # where an answer that lost its place may stand
        yield element("h3", "Your other cells")
        for written in waiting:
            yield from _cell(written, room)


def _cell(cell: NotebookNode, room: Room) -> Iterator[str]:
    source = room.cut(cell.source)
    if cell.cell_type == "markdown":
        yield _marked_up(source, cell)
    elif source:
        coloured = cell.cell_type == "code" and len(source) <= LONGEST_MARKED_UP
        yield highlight(source, PythonLexer(), HtmlFormatter()) if coloured else typed(source)
    for output in cell.get("outputs", []):
        yield from _output(output, room)


def _output(output: NotebookNode, room: Room) -> Iterator[str]:
    data: Mapping[str, Any] = output.get("data", {})
    picture = next((kind for kind in ("image/png", "image/jpeg") if kind in data), "")
    text = output.get("text") or data.get("text/plain", "") or "\n".join(output.get("traceback", []))
    if picture and len(data[picture]) <= room.left:
        room.left -= len(data[picture])
        yield f'<img alt="what the cell drew" src="data:{picture};base64,{"".join(data[picture].split())}">'
    elif shown := room.cut(text):
        yield typed(shown)


def _marked_up(text: str, cell: NotebookNode) -> str:
    return markdown({"cell": cell}, text) if len(text) <= LONGEST_MARKED_UP else typed(text)


@cache
def _colours() -> str:
    return str(HtmlFormatter().get_style_defs(".highlight"))
