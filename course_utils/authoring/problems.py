"""What a lint reports: a ``Problem``; the notebook it looks at: a ``Notebook``.

Every rule is a function from a ``Notebook`` to problems; those about its parts are in ``rules_structure``, those about
its stored outputs in ``rules_outputs``.
"""

import ast
from collections.abc import Mapping, Set
from dataclasses import dataclass
from functools import cached_property

from nbformat import NotebookNode


@dataclass(frozen=True)
class Problem:
    """One thing to mend.

    Attributes:
        notebook: the notebook's path, relative to the course.
        rule: the broken rule's short name.
        what: what is wrong.
        mend: how to mend it.
        cell_number: the cell, counted from 1 over cells of every kind; None where it is about the whole notebook.
        cell_id: that cell's id.
        first_line: the first line of that cell's source.
    """

    notebook: str
    rule: str
    what: str
    mend: str
    cell_number: int | None = None
    cell_id: str = ""
    first_line: str = ""

    def __str__(self) -> str:
        place = self.notebook
        if self.cell_number is not None:
            place += f", cell {self.cell_number} (id {self.cell_id or 'missing'}): {self.first_line}"
        return f"{place}\n  {self.what} [{self.rule}]\n  Mend: {self.mend}"


@dataclass(frozen=True)
class Notebook:
    """A notebook under lint, and what is expected of it.

    Attributes:
        name: the notebook's path as messages show it.
        topic: the lesson's name: ``detach``.
        node: as ``files.read`` gives it.
        size_bytes: the file's size.
        questions: the predictions for which the lesson has a word to who guesses wrong.
        minutes: how long each sitting takes a learner; empty where that is not looked at.
        beside: the notebooks of the course that a link may lead to, as it is written here.
    """

    name: str
    topic: str
    node: NotebookNode
    size_bytes: int = 0
    questions: Set[str] = frozenset()
    minutes: tuple[int, ...] = ()
    beside: Set[str] = frozenset()

    @cached_property
    def cells(self) -> "list[Cell]":
        return [Cell(number, node) for number, node in enumerate(self.node.cells, start=1)]

    @property
    def code(self) -> "list[Cell]":
        """The code cells that hold code."""
        return [cell for cell in self.cells if cell.kind == "code" and cell.source.strip()]

    def problem(self, rule: str, what: str, mend: str, cell: "Cell | None" = None) -> Problem:
        if cell is None:
            return Problem(self.name, rule, what, mend)
        return Problem(self.name, rule, what, mend, cell.number, cell.id, cell.first_line)


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
    def tags(self) -> list[str]:
        return self.node.metadata.get("tags", [])

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

    @cached_property
    def plain_code(self) -> str:
        """The source as Python, magics turned into calls of ``get_ipython()``."""
        from IPython.core.inputtransformer2 import TransformerManager

        return TransformerManager().transform_cell(self.source)

    @cached_property
    def tree(self) -> ast.Module | None:
        """The source's syntax tree; None where it is not Python."""
        try:
            return ast.parse(self.plain_code)
        except SyntaxError:
            return None
