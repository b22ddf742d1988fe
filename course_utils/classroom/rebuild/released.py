"""A released notebook as the grader sees it (``ReleasedNotebook``): what each cell is, what each check looks at."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any, Literal

from course_utils.base.errors import explain
from course_utils.classroom.course.folder import HIDDEN_TESTS
from course_utils.classroom.course.source import Code, called_on_lesson, lessons_made, read_code

Role = Literal["set-up", "answer", "check", "by hand", "experiment", "text"]


@dataclass
class ReleasedCell:
    """One cell of the released notebook.

    Attributes:
        id: nbformat's id.
        kind: ``"code"``, ``"markdown"`` or ``"raw"``.
        source: its text.
        role: ``"set-up"`` is locked code, ``"by hand"`` is graded by a person, ``"experiment"`` is all other code.
        grade_id: nbgrader's name for it; empty where it has none.
        points: what it can earn.
        full: of a check cell, its text with the hidden tests that the release left out.
        lesson: of a check cell, the lesson's name; empty where the check is a teacher's own.
        exercise: of a check cell, the exercise's name; of others empty.
        expression: of a check cell, the answer as an expression.
        answer: of a check cell, the id of the answer cell that it looks at; empty where there is none.
        names: of an answer cell, what it is to define.
        is_task: whether the student's work stands in cells of their own after it.
        code: what is known of its source.
    """

    id: str
    kind: str
    source: str
    role: Role
    grade_id: str = ""
    points: float = 0.0
    lesson: str = ""
    exercise: str = ""
    expression: str = ""
    answer: str = ""
    names: frozenset[str] = frozenset()
    is_task: bool = False
    full: str = ""
    code: Code = field(default_factory=Code)

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


def read_released(text: str) -> ReleasedNotebook:
    """Reads a released notebook.

    Raises:
        ValueError: it is no notebook of format 4.
    """
    try:
        notebook = json.loads(text)
        cells = [_cell(item, position) for position, item in enumerate(notebook["cells"])]
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        said = f"A released notebook could not be read: {error!r}."
        wanted = "a notebook of format 4, as `release` writes it."
        raise ValueError(explain(said, wanted, try_this="release the assignment again.")) from error
    _pair(cells)
    return ReleasedNotebook(notebook, tuple(cells), {cell.id: cell for cell in cells})


def _cell(item: dict[str, Any], position: int) -> ReleasedCell:
    source = item["source"] if isinstance(item["source"], str) else "".join(item["source"])
    grading = item.get("metadata", {}).get("nbgrader", {})
    kind = item["cell_type"]
    grade, solution, task = (bool(grading.get(name)) for name in ("grade", "solution", "task"))
    role: Role
    if task or (grade and solution):
        role = "by hand"
    elif grade and kind == "code":
        role = "check"
    elif solution and kind == "code":
        role = "answer"
    elif kind != "code":
        role = "text"
    else:
        role = "set-up" if grading.get("locked") else "experiment"
    grade_id = str(grading.get("grade_id", ""))
    name = item.get("id") or grade_id or f"cell-{position + 1}"
    points, code = float(grading.get("points", 0) or 0), read_code(source) if kind == "code" else Code()
    full = str(item.get("metadata", {}).pop(HIDDEN_TESTS, source))  # no notebook that is graded holds them
    return ReleasedCell(name, kind, source, role, grade_id, points, is_task=task, full=full, code=code)


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
