"""What rules look at, a ``Notebook`` of ``Cell``, and what they find: a ``Problem``; ``report`` lists several."""

from collections.abc import Iterable, Set
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from textwrap import shorten
from typing import NamedTuple

from nbformat import NotebookNode

from course_utils.base import count_of


class Problem(NamedTuple):
    """One thing to mend: the notebook, or a cell of it, and what is wrong there."""

    place: str
    text: str


class Cell:
    """One cell, its number from 1, and what rules ask of it; what it lacks is empty."""

    def __init__(self, number: int, node: NotebookNode) -> None:
        grading = node.metadata.get("nbgrader", {})
        is_code, is_graded, is_solution = node.cell_type == "code", bool(grading.get("grade")), grading.get("solution")
        self.number, self.node, self.kind = number, node, node.cell_type
        self.id, self.source, self.outputs = node.get("id", ""), node.source, node.get("outputs", [])
        self.grade_id = str(grading.get("grade_id", ""))
        self.is_answer = is_code and bool(is_solution)
        self.is_check = is_code and is_graded and not is_solution
        self.is_written = node.cell_type == "markdown" and bool(is_graded or is_solution)

    @property
    def first_line(self) -> str:
        return shorten(next(iter(self.source.strip().splitlines()), ""), 80)

    @property
    def plain_code(self) -> str:
        return plain_code(self.source)


@dataclass(frozen=True)
class Notebook:
    """A notebook, and what is expected of it.

    Attributes:
        name: the notebook's path as messages show it.
        topic: the lesson's name: ``detach``.
        node: as ``files.read`` gives it.
        folder: where its readers open it; what it links to is looked for there.
        questions: the predictions for which the lesson has a word to who guesses wrong.
    """

    name: str
    topic: str
    node: NotebookNode
    folder: Path = Path()
    questions: Set[str] = frozenset()

    @cached_property
    def cells(self) -> list[Cell]:
        return [Cell(number, node) for number, node in enumerate(self.node.cells, start=1)]

    @property
    def code(self) -> list[Cell]:
        """The code cells that hold code."""
        return [cell for cell in self.cells if cell.kind == "code" and cell.source.strip()]

    def problem(self, rule: str, what: str, mend: str, cell: Cell | None = None) -> Problem:
        """What a rule of this name yields: what is wrong with the cell, or with the whole notebook, and what to do."""
        place = self.name
        if cell:
            place += f", cell {cell.number} (id {cell.id or 'missing'}): {cell.first_line}"
        return Problem(place, f"{what} [{rule}]\n  Mend: {mend}")


def plain_code(source: str) -> str:
    """A code cell's source as Python, magics turned into calls of ``get_ipython()``."""
    from IPython.core.inputtransformer2 import TransformerManager

    return TransformerManager().transform_cell(source)


def report(problems: Iterable[Problem]) -> str:
    """The problems as text, one paragraph each, and how many there are."""
    paragraphs = [f"{problem.place}\n  {problem.text}\n" for problem in problems]
    return "\n".join([*paragraphs, f"{count_of(len(paragraphs), 'problem')}."])
