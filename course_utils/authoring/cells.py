"""Small factories for cells with nbgrader's metadata right, for authors' scripts and for tests; and which lines of a
cell learners do not get (``solution_lines``).

    write(notebook([markdown("# 03 detach", "title"), setup("detach"), ...]), path)
"""

import re
from collections.abc import Iterable

import nbformat
from nbformat import NotebookNode

from course_utils.authoring.files import normalised
from course_utils.authoring.files import write as write

SCHEMA_VERSION = 3  # nbgrader's metadata, as of nbgrader 0.6 and newer
CHECK_SUFFIX = "-check"
WRITTEN_POINTS = 2
BEGIN, END = "### BEGIN SOLUTION", "### END SOLUTION"


def solution_lines(cell: NotebookNode) -> list[str]:
    """The lines between the markers; all of a model answer, which has none."""
    if cell.cell_type == "markdown":
        return cell.source.splitlines() if cell.metadata.get("nbgrader", {}).get("solution") else []
    regions = re.findall(rf"^ *{BEGIN} *\n(.*?)^ *{END} *$", cell.source, re.DOTALL | re.MULTILINE)
    return "".join(regions).splitlines()


def markdown(source: str, id: str) -> NotebookNode:
    """Prose. ``id`` is the cell's id: letters, digits, ``-`` and ``_``, unique in the notebook."""
    return nbformat.v4.new_markdown_cell(source.strip("\n"), id=id)


def code(source: str, id: str, tags: Iterable[str] = ()) -> NotebookNode:
    """Code that is not graded. Tags that matter here: ``nbval-ignore-output`` for what cannot be compared."""
    cell = nbformat.v4.new_code_cell(source.strip("\n"), id=id)
    if tags:
        cell.metadata["tags"] = list(tags)
    return cell


def setup(topic: str, imports: str = "import torch\n\nfrom course_utils import Lesson") -> NotebookNode:
    """The one set-up cell: imports and ``lesson = Lesson(topic)``, locked."""
    return graded(code(f'{imports}\n\nlesson = Lesson("{topic}")', "setup"), f"{topic}-setup", locked=True)


def answer(source: str, topic: str, exercise: str) -> NotebookNode:
    """The cell that a learner fills in; its cell id is the exercise's name.

    What stands between ``### BEGIN SOLUTION`` and ``### END SOLUTION`` in ``source`` becomes the stub.
    """
    return graded(code(source, exercise), f"{topic}-{exercise}", solution=True)


def check(topic: str, exercise: str, points: float) -> NotebookNode:
    """The check call, alone in its cell, locked, worth ``points``."""
    cell = code(f'lesson.check("{exercise}", {exercise})', exercise + CHECK_SUFFIX)
    return graded(cell, f"{topic}-{exercise}{CHECK_SUFFIX}", grade=True, locked=True, points=points)


def written(source: str, topic: str) -> NotebookNode:
    """The model answer and rubric of the written question; the learner's copy holds the text stub in its place.

    The question itself stands in a Markdown cell before it, because a learner overwrites the whole of this one.
    """
    cell = markdown(source, "written")
    return graded(cell, f"{topic}-written", grade=True, solution=True, points=WRITTEN_POINTS)


def notebook(cells: Iterable[NotebookNode]) -> NotebookNode:
    """A notebook of these cells, in its kept form."""
    return normalised(nbformat.v4.new_notebook(cells=list(cells)))


def graded(cell: NotebookNode, grade_id: str, **fields: float) -> NotebookNode:
    """The same cell, with nbgrader's metadata: ``grade``, ``solution``, ``locked``, ``points``; each false where it is
    not given, and no points."""
    usual = {"grade": False, "locked": False, "schema_version": SCHEMA_VERSION, "solution": False, "task": False}
    cell.metadata["nbgrader"] = {"grade_id": grade_id} | usual | fields
    return cell
