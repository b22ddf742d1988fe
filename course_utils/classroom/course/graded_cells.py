"""Brings the gradebook's cells in line with a new release, where students have handed in already (``align``).

nbgrader refuses to add or remove a cell then. Leaving out an exercise and adding one are what teachers do in
mid-term, and no mark has to be lost by it: results are kept on disk, and what a person gave for an exercise that is
left out is kept beside the earlier releases, and comes back with the exercise.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from nbformat import NotebookNode

from course_utils.base.files import write_whole
from course_utils.classroom.course.folder import ClassFolder

if TYPE_CHECKING:
    from nbgrader.api import Notebook, SubmittedNotebook

GIVEN = {"grades": ("manual_score", "extra_credit"), "comments": ("manual_comment",)}  # what a person enters
UNREAD = "Your file could not be read."  # how the comment begins that such a submission gets


def is_unread(notebook: SubmittedNotebook) -> bool:
    """Whether what is entered is a file that could not be read."""
    return any((comment.auto_comment or "").startswith(UNREAD) for comment in notebook.comments)


def align(course: ClassFolder, assignment: str, cells: Iterable[NotebookNode]) -> list[str]:
    """Adds and removes cells of an assignment in the gradebook, in one transaction.

    Args:
        cells: those of the notebook that is to be released.

    Returns:
        What it did, a line each; nothing where nobody has handed in yet, since nbgrader writes its cells then.
    """
    from nbgrader.api import Comment, Grade, GradeCell, MissingEntry, SolutionCell, SourceCell, TaskCell

    kinds = {"grade": GradeCell, "solution": SolutionCell, "task": TaskCell, "locked": SourceCell}
    wanted: dict[str, dict[str, NotebookNode]] = {kind: {} for kind in kinds}
    for cell in cells:
        grading = cell.metadata.get("nbgrader", {})
        for kind in kinds:
            if grading.get(kind) or (kind == "locked" and any(grading.get(other) for other in kinds)):
                wanted[kind][grading["grade_id"]] = cell
    with course.gradebook() as gradebook:
        try:
            book = gradebook.find_notebook(assignment, assignment)
        except MissingEntry:
            return []
        if not book.submissions:
            return []
        file = course.earlier(assignment) / "given.json"
        given = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
        there = {"grade": book.grade_cells, "solution": book.solution_cells, "task": book.task_cells}
        there |= {"locked": book.source_cells}
        gone = {kind: [cell for cell in there[kind] if cell.name not in wanted[kind]] for kind in kinds}
        new = {kind: wanted[kind].keys() - {cell.name for cell in there[kind]} for kind in kinds}
        graded_gone = sorted(cell.name for kind in ("grade", "task") for cell in gone[kind])
        graded_new = sorted(new["grade"] | new["task"])
        changed = list(_other_points(book, wanted))
        if graded_gone:
            _remember(given, book, {cell.name for kind in kinds for cell in gone[kind]})
            file.parent.mkdir(parents=True, exist_ok=True)
            write_whole(file, json.dumps(given, indent=1))
        with gradebook.db.no_autoflush:
            for row in book.submissions:
                for old in (*row.grades, *row.comments):
                    if old.cell in (cell for cells in gone.values() for cell in cells):
                        gradebook.db.delete(old)
            for cell in (cell for cells in gone.values() for cell in cells):
                gradebook.db.delete(cell)
            for kind, names in new.items():
                for name in sorted(names):
                    made = kinds[kind](name=name, notebook=book, **_fields(kind, wanted[kind][name]))
                    gradebook.db.add(made)
                    for row in book.submissions if kind != "locked" else ():
                        back = given.get(name, {}).get(row.student.id, {})
                        if back.get("unread") and not is_unread(row):
                            back = {}  # it was for a file that nobody could read, and this is another one
                        if kind in ("grade", "task"):
                            marks = {field: back.get(field) for field in GIVEN["grades"]}
                            waits = bool(back) or kind == "task" or name in wanted["solution"]  # else grade judges it
                            gradebook.db.add(Grade(cell=made, notebook=row, needs_manual_grade=waits, **marks))
                        if kind in ("solution", "task"):
                            gradebook.db.add(
                                Comment(cell=made, notebook=row, manual_comment=back.get("manual_comment"))
                            )
            gradebook.db.commit()
    said = [f"left out, though students have handed it in: {name}; it no longer counts" for name in graded_gone]
    said += [f"other points: {change}; run grade to reckon them for everybody" for change in changed]
    return said + [
        f"new, though students have handed in: {name}; run grade to judge it for everybody" for name in graded_new
    ]


def _remember(given: dict[str, Any], book: Notebook, names: set[str]) -> None:
    """Adds what people gave for these cells: cell -> student -> field -> value."""
    for row in book.submissions:
        unread = {"unread": is_unread(row)}
        for rows, fields in GIVEN.items():
            for old in getattr(row, rows):
                values = {field: getattr(old, field) for field in fields if getattr(old, field) is not None}
                if old.name in names and values:
                    given.setdefault(old.name, {}).setdefault(row.student.id, {}).update(values | unread)


def _other_points(book: Notebook, wanted: dict[str, dict[str, NotebookNode]]) -> Iterator[str]:
    """Each graded cell whose points are others now, with whose marks by hand stay as they are."""
    for cell in (*book.grade_cells, *book.task_cells):
        now = (wanted["grade"] | wanted["task"]).get(cell.name)
        if now is not None and now.metadata["nbgrader"]["points"] != cell.max_score:
            marked = sorted(row.notebook.student.id for row in cell.grades if row.manual_score is not None)
            stay = f" (marks by hand stay as they were given: {', '.join(marked)})" if marked else ""
            yield f"{cell.name} {cell.max_score:g} -> {now.metadata['nbgrader']['points']:g}{stay}"


def _fields(kind: str, cell: NotebookNode) -> dict[str, Any]:
    """What nbgrader's own ``SaveCells`` notes of a cell:
    https://github.com/jupyter/nbgrader/blob/v0.9.5/nbgrader/preprocessors/savecells.py"""
    grading = cell.metadata["nbgrader"]
    if kind in ("grade", "task"):
        return {"max_score": float(grading["points"]), "cell_type": cell.cell_type}
    if kind == "locked":
        locked = {"locked": bool(grading.get("locked")), "checksum": grading.get("checksum")}
        return {"cell_type": cell.cell_type, "source": cell.source, **locked}
    return {}
