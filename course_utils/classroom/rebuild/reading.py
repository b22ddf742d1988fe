"""Reads notebooks: what was released (``read_released``): what each cell is, what each check looks at; and, without
trusting either, what was handed in (``read_cells``), and outputs of its cells (``outputs_of``).

Every text that comes out of here can be written as UTF-8.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Any, Literal

from course_utils.base.text import format_bytes
from course_utils.classroom.course.folder import EARLIER, HIDDEN_TESTS
from course_utils.classroom.course.source import Code, called_on_lesson, lessons_made, read_code
from course_utils.classroom.course.submissions import LARGEST_BYTES
from course_utils.classroom.sandbox.supervisor import LONGEST_OUTPUT

Role = Literal["set-up", "answer", "check", "by hand", "experiment", "text"]

_MOST_CELLS = 2000
_LONGEST_SOURCE = 2**20  # characters of one cell
_MOST_VALUES = 3_000_000  # of JSON: beyond this they take many seconds and gigabytes
_MORE = "[More was printed or shown, and left out]\n"
_PICTURES = ("image/png", "image/jpeg")
_BASE64 = re.compile(r"[A-Za-z0-9+/=\s]+")


class Unreadable(Exception):
    """The file is no notebook that can be graded. The message is one sentence for the teacher and the student."""


@dataclass
class Cell:
    """A cell as a file has it.

    Attributes:
        position: its place in the file, from 0.
        id: nbformat's id; empty where it has none.
        kind: ``"code"``, ``"markdown"`` or ``"raw"``.
        source: its text.
        grade_id: nbgrader's name for it; empty where it has none.
    """

    position: int
    id: str
    kind: str
    source: str
    grade_id: str


def read_cells(content: bytes | None) -> tuple[list[Cell], list[str]]:
    """The cells of a notebook, and what is odd about it or had to be left out, one sentence each.

    Raises:
        Unreadable: there is no file, it is too large, or it is no notebook.
    """
    if content is None:
        raise Unreadable("No notebook was found.")
    if not content.strip():
        raise Unreadable("The file is empty.")
    if len(content) > LARGEST_BYTES:
        most = format_bytes(LARGEST_BYTES)
        raise Unreadable(f"The file is larger than the {most} that are read. Clear the outputs and hand it in again.")
    items, repairs = _got(_parse(content), "cells"), list[str]()
    if not isinstance(items, list):
        raise Unreadable("The file is JSON, but no notebook of format 4 with a list of cells.")
    if len(items) > _MOST_CELLS:
        raise Unreadable(f"The notebook has {len(items)} cells, more than the {_MOST_CELLS} that are read.")
    return [_cell(position, item, repairs) for position, item in enumerate(items)], repairs


def _parse(content: bytes) -> Any:
    try:
        text = content.decode("utf-8-sig", "surrogatepass")
        if sum(map(text.count, "[{,")) > _MOST_VALUES:
            raise Unreadable("The file holds more values than are read. Clear the outputs and hand it in again.")
        return json.loads(text)
    except UnicodeDecodeError:
        raise Unreadable("The file is not in UTF-8, as notebooks are. Save it in Jupyter.") from None
    except json.JSONDecodeError as error:
        if text.lstrip()[:1] == "{" and text.rstrip()[-1:] != "}":
            raise Unreadable("The file ends in the middle of the notebook: it was cut off on its way.") from None
        raise Unreadable(f"The file is not JSON, so it is no notebook ({error.msg} in line {error.lineno}).") from None
    except (RecursionError, ValueError):  # nested too deeply, or a number of thousands of digits
        raise Unreadable("The file is nested too deeply, or holds too long a number, so it is no notebook.") from None


def _cell(position: int, item: Any, repairs: list[str]) -> Cell:
    kind, source = _got(item, "cell_type"), _text(_got(item, "source"))
    if source is None or kind not in ("code", "markdown", "raw"):
        repairs.append(f"Cell {position + 1} is no cell as Jupyter writes it; what is text in it was read.")
    source = (source or "").replace("\r\n", "\n").replace("\r", "\n")
    if len(source) > _LONGEST_SOURCE:
        repairs.append(f"Cell {position + 1} has {len(source):,} characters; it was cut after {_LONGEST_SOURCE:,}.")
    grade_id = _text(_got(_got(_got(item, "metadata"), "nbgrader"), "grade_id")) or ""
    kind = kind if kind in ("code", "markdown") else "raw"
    return Cell(position, _text(_got(item, "id")) or "", kind, source[:_LONGEST_SOURCE], grade_id)


def _got(value: Any, name: str) -> Any:
    return value.get(name) if isinstance(value, dict) else None


def _text(value: Any) -> str | None:
    """A text, or the lines of one, as UTF-8 can hold it; None where it is neither."""
    text = "".join(line for line in value if isinstance(line, str)) if isinstance(value, list) else value
    # Halves of surrogate pairs can stand in JSON, and nowhere else.
    return text.encode("utf-8", "replace").decode() if isinstance(text, str) else None


def outputs_of(reply: dict[str, Any], room: int) -> list[dict[str, Any]]:
    """A cell's outputs in nbformat's form, whatever the student's process sent: text and pictures, no more characters
    than there is room for."""
    said = {name: (_text(reply.get(name)) or "")[:LONGEST_OUTPUT] for name in ("stdout", "stderr")}
    found: list[dict[str, Any]] = [
        {"output_type": "stream", "name": name, "text": text} for name, text in said.items() if text
    ]
    for data in shown if isinstance(shown := reply.get("shown"), list) else ():
        shown_as = {kind: _text(_got(data, kind)) or "" for kind in _PICTURES}
        kept = {kind: text for kind, text in shown_as.items() if _BASE64.fullmatch(text)}
        kept |= {"text/plain": _text(_got(data, "text/plain")) or ""}
        found.append({"output_type": "display_data", "data": kept, "metadata": {}})
    for number, output in enumerate(found):
        room -= len(str(output))
        if room < 0:
            return [*found[:number], {"output_type": "stream", "name": "stderr", "text": _MORE}]
    return found


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
        earlier: what some of them were in releases before it.
    """

    notebook: dict[str, Any]
    cells: tuple[ReleasedCell, ...]
    earlier: tuple[ReleasedCell, ...]
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
        cells = [_released(cell, item["metadata"]) for cell, item in zip(found, notebook["cells"], strict=True)]
        before = notebook["metadata"].pop(EARLIER, ())
        earlier = [_released(_cell(place, item, []), item["metadata"]) for place, item in enumerate(before)]
    except (Unreadable, ValueError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"A released notebook could not be read: {error!r}.\nTry: release it again.") from error
    _pair(cells)
    return ReleasedNotebook(notebook, tuple(cells), tuple(earlier), {cell.id: cell for cell in cells})


def _released(cell: Cell, metadata: dict[str, Any]) -> ReleasedCell:
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
