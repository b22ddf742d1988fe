"""A released notebook as the grader sees it (``ReleasedNotebook``): what each cell is, what each check looks at."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any, Literal

from course_utils.base.errors import explain
from course_utils.classroom.course.folder import HIDDEN_TESTS
from course_utils.classroom.course.source import Code, called_on_lesson, lessons_made, read_code
from course_utils.classroom.rebuild.reading import Cell, Unreadable, read_cells

Role = Literal["set-up", "answer", "check", "by hand", "experiment", "text"]


@dataclass
class ReleasedCell(Cell):
    """One cell of the released notebook.

    Attributes:
        role: ``"set-up"`` is locked code, ``"by hand"`` is graded by a person, ``"experiment"`` is all other code.
        points: what it can earn.
        is_task: whether the student's work stands in cells of their own after it.
        full: of a check cell, its text with the hidden tests that the release left out.
        code: what is known of its source.
        lesson: of a check cell, the lesson's name; empty where the check is a teacher's own.
        exercise: of a check cell, the exercise's name; of others empty.
        expression: of a check cell, the answer as an expression.
        answer: of a check cell, the id of the answer cell that it looks at; empty where there is none.
        names: of an answer cell, what it is to define.
    """

    role: Role
    points: float
    is_task: bool
    full: str
    code: Code
    lesson: str = ""
    exercise: str = ""
    expression: str = ""
    answer: str = ""
    names: frozenset[str] = frozenset()

    @property
    def name(self) -> str:
        """What its results go by."""
        return self.exercise or self.grade_id or self.id


@dataclass(frozen=True)
class ReleasedNotebook:
    """The released notebook.

    Attributes:
        notebook: as it was read.
        cells: in its order.
    """

    notebook: dict[str, Any]
    cells: tuple[ReleasedCell, ...]
    by_id: dict[str, ReleasedCell] = field(compare=False)

    @property
    def graded(self) -> tuple[ReleasedCell, ...]:
        """The cells that earn points or are graded by hand, in order."""
        return tuple(cell for cell in self.cells if cell.role in ("check", "by hand"))

    def name_of(self, cell: ReleasedCell) -> str:
        """What the exercise of a check or an answer is called, in backticks."""
        return f"`{next((check for check in self.cells if check.answer == cell.id), cell).name}`"


def read_released(text: str) -> ReleasedNotebook:
    """Reads a released notebook.

    Raises:
        ValueError: it is no notebook of format 4.
    """
    try:
        found, _ = read_cells(text.encode())
        notebook = json.loads(text)
        cells = [_cell(cell, item["metadata"]) for cell, item in zip(found, notebook["cells"], strict=True)]
    except (Unreadable, ValueError, KeyError, TypeError, AttributeError) as error:
        said = f"A released notebook could not be read: {error!r}."
        wanted = "a notebook of format 4, as `release` writes it."
        raise ValueError(explain(said, wanted, try_this="release the assignment again.")) from error
    _pair(cells)
    return ReleasedNotebook(notebook, tuple(cells), {cell.id: cell for cell in cells})


def _cell(cell: Cell, metadata: dict[str, Any]) -> ReleasedCell:
    grading = metadata.get("nbgrader", {})
    grade, solution, task = (bool(grading.get(name)) for name in ("grade", "solution", "task"))
    role: Role = "set-up" if grading.get("locked") else "experiment"
    if task or (grade and solution):
        role = "by hand"
    elif cell.kind != "code":
        role = "text"
    elif grade or solution:
        role = "check" if grade else "answer"
    name = cell.id or cell.grade_id or f"cell-{cell.position + 1}"
    full = str(metadata.pop(HIDDEN_TESTS, cell.source))  # no notebook that is graded holds them
    code = read_code(cell.source) if cell.kind == "code" else Code()
    points = float(grading.get("points", 0) or 0)
    return ReleasedCell(cell.position, name, cell.kind, cell.source, cell.grade_id, role, points, task, full, code)


def _pair(cells: list[ReleasedCell]) -> None:
    """Finds out which answer each check looks at, and what each answer is to define."""
    lessons: dict[str, str] = {}
    before: list[ReleasedCell] = []
    for cell in cells:
        if cell.kind == "code":
            lessons |= lessons_made(cell.source)
        if cell.role == "answer":
            before.append(cell)
        if cell.role == "check":
            call = called_on_lesson(cell.full)
            if call and call[0] in lessons:
                cell.lesson, cell.exercise, cell.expression = lessons[call[0]], call[1], call[2]
            # The answer cell that defines what the check looks at; where none does, the one before it.
            names = frozenset({cell.expression}) if cell.expression else read_code(cell.full).uses
            answer = next((a for a in reversed(before) if names & a.code.defines), before[-1] if before else None)
            if answer is not None:
                cell.answer = answer.id
                answer.names |= names if cell.expression else answer.code.defines
    for answer in before:
        answer.names = answer.names or answer.code.defines
