"""What rules look at, a ``Notebook`` of ``Cell``, and what they find: a ``Problem``; ``report`` lists several."""

import ast
from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from nbformat import NotebookNode

from course_utils.base.words import count_of


class Problem(NamedTuple):
    """One thing to mend: the notebook, or a cell of it, and what is wrong there."""

    place: str
    text: str


@dataclass(frozen=True)
class Notebook:
    """A notebook, and what is expected of it.

    Attributes:
        name: the notebook's path as messages show it.
        topic: the lesson's name: ``detach``.
        node: as ``files.read`` gives it.
        folder: where its readers open it; what it links to is looked for there.
        questions: the predictions for which the lesson has a word to who guesses wrong.
        minutes: how long each sitting takes a learner; empty where that is not looked at.
    """

    name: str
    topic: str
    node: NotebookNode
    folder: Path = Path()
    questions: Set[str] = frozenset()
    minutes: tuple[int, ...] = ()

    @cached_property
    def cells(self) -> "list[Cell]":
        return [Cell(number, node) for number, node in enumerate(self.node.cells, start=1)]

    @property
    def code(self) -> "list[Cell]":
        """The code cells that hold code."""
        return [cell for cell in self.cells if cell.kind == "code" and cell.source.strip()]

    def problem(self, rule: str, what: str, mend: str, cell: "Cell | None" = None) -> Problem:
        """What a rule of this name yields: what is wrong with the cell, or with the whole notebook, and what to do."""
        place = self.name
        if cell:
            place += f", cell {cell.number} (id {cell.id or 'missing'}): {cell.first_line}"
        return Problem(place, f"{what} [{rule}]\n  Mend: {mend}")


@dataclass(frozen=True)
class Cell:
    """One cell, with the questions that rules ask."""

    number: int
    node: NotebookNode

    @property
    def kind(self) -> str:
        return self.node.cell_type

    @property
    def id(self) -> str:
        return self.node.get("id", "")

    @property
    def source(self) -> str:
        return self.node.source

    @property
    def first_line(self) -> str:
        line = next((line for line in self.source.splitlines() if line.strip()), "")
        return line if len(line) <= 80 else line[:77] + "..."

    @property
    def outputs(self) -> list[NotebookNode]:
        return self.node.get("outputs", [])

    @property
    def grading(self) -> Mapping:
        """nbgrader's metadata; empty where there is none."""
        return self.node.metadata.get("nbgrader", {})

    @property
    def grade_id(self) -> str:
        return str(self.grading.get("grade_id", ""))

    @property
    def is_answer(self) -> bool:
        return self.kind == "code" and bool(self.grading.get("solution"))

    @property
    def is_check(self) -> bool:
        return self.kind == "code" and bool(self.grading.get("grade")) and not self.grading.get("solution")

    @property
    def is_written(self) -> bool:
        return self.kind == "markdown" and bool(self.grading.get("grade") or self.grading.get("solution"))

    @property
    def points(self) -> float:
        points = self.grading.get("points", 0)
        return float(points) if isinstance(points, (int, float)) else 0.0

    @property
    def plain_code(self) -> str:
        return plain_code(self.source)

    @cached_property
    def tree(self) -> ast.Module | None:
        """The source's syntax tree; None where it is not Python."""
        try:
            return ast.parse(self.plain_code)
        except SyntaxError:
            return None


def plain_code(source: str) -> str:
    """A code cell's source as Python, magics turned into calls of ``get_ipython()``."""
    from IPython.core.inputtransformer2 import TransformerManager

    return TransformerManager().transform_cell(source)


def report(problems: Iterable[Problem]) -> str:
    """The problems as text, one paragraph each, and how many there are."""
    paragraphs = [f"{problem.place}\n  {problem.text}\n" for problem in problems]
    return "\n".join([*paragraphs, f"{count_of(len(paragraphs), 'problem')}."])
