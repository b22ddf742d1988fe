"""Reads a submitted notebook (``read_cells``), and outputs of its cells (``clean_outputs``), without trusting either.

Every text that comes out of here can be written as UTF-8.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

from course_utils.base.text import format_bytes
from course_utils.classroom.course.submissions import LARGEST_BYTES

_MOST_CELLS = 2000
_LONGEST_SOURCE = 2**20  # characters of one cell
# The parser makes an object of each: beyond this they take many seconds and gigabytes.
_MOST_KEYS, _MOST_BRACKETS = 500_000, 3_000_000
_KEY = re.compile(r'"\s*:')
_PICTURES = ("image/png", "image/jpeg")
_BASE64 = re.compile(r"[A-Za-z0-9+/=\s]+")
_OVERHEAD = 100  # characters that an output takes beside its own, about


class Unreadable(Exception):
    """The file is no notebook that can be graded. The message is one sentence for the teacher and the student."""


@dataclass(frozen=True)
class SubmittedCell:
    """A cell as it was handed in.

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


def read_cells(content: bytes | None, largest_bytes: int = LARGEST_BYTES) -> tuple[list[SubmittedCell], list[str]]:
    """The cells of a submitted notebook, and what is odd about it or had to be left out, one sentence each.

    Raises:
        Unreadable: there is no file, it is too large, or it is no notebook.
    """
    if content is None:
        raise Unreadable("No notebook was found.")
    if not content.strip():
        raise Unreadable("The file is empty.")
    if len(content) > largest_bytes:
        raise Unreadable(
            f"The file is larger than the {format_bytes(largest_bytes)} that are read. "
            "Clear the outputs and hand it in again."
        )
    repairs: list[str] = []
    try:
        notebook = _parse(content.decode("utf-8-sig", "surrogatepass"))
    except UnicodeDecodeError:
        raise Unreadable(
            "The file is not in UTF-8, as notebooks are. Open it in Jupyter, save it, and hand it in again."
        ) from None
    items = _got(notebook, "cells")
    if not isinstance(items, list):
        raise Unreadable("The file is JSON, but no notebook of format 4 with a list of cells.")
    if len(items) > _MOST_CELLS:
        raise Unreadable(f"The notebook has {len(items)} cells, more than the {_MOST_CELLS} that are read.")
    cells = [_cell(position, item, repairs) for position, item in enumerate(items) if isinstance(item, dict)]
    repairs += [
        f"Cell {n} was left out: it is no cell." for n, item in enumerate(items, 1) if not isinstance(item, dict)
    ]
    return cells, repairs


def _parse(text: str) -> Any:
    if sum(1 for _ in _KEY.finditer(text)) > _MOST_KEYS or text.count("[") + text.count("{") > _MOST_BRACKETS:
        raise Unreadable("The file holds more values than are read. Clear the outputs and hand it in again.")
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        if text.lstrip()[:1] == "{" and text.rstrip()[-1:] != "}":
            raise Unreadable("The file ends in the middle of the notebook: it was cut off on its way.") from None
        raise Unreadable(f"The file is not JSON, so it is no notebook ({error.msg} in line {error.lineno}).") from None
    except RecursionError:
        raise Unreadable("The file is nested more deeply than any notebook.") from None
    except ValueError:  # a number of thousands of digits
        raise Unreadable("The file holds a number that is too long, so it is no notebook.") from None


def _cell(position: int, item: dict[str, Any], repairs: list[str]) -> SubmittedCell:
    kind, source = item.get("cell_type"), _text(item.get("source", ""))
    if source is None or kind not in ("code", "markdown", "raw"):
        repairs.append(f"Cell {position + 1} is no cell as Jupyter writes it; what is text in it was read.")
    source = (source or "").replace("\r\n", "\n").replace("\r", "\n")
    if len(source) > _LONGEST_SOURCE:
        repairs.append(f"Cell {position + 1} has {len(source):,} characters; it was cut after {_LONGEST_SOURCE:,}.")
    return SubmittedCell(
        position,
        _text(item.get("id")) or "",
        kind if kind in ("code", "markdown") else "raw",
        source[:_LONGEST_SOURCE],
        _text(_got(_got(item.get("metadata"), "nbgrader"), "grade_id")) or "",
    )


def _got(value: Any, name: str) -> Any:
    return value.get(name) if isinstance(value, dict) else None


def _text(value: Any) -> str | None:
    """A text, or the lines of one, as UTF-8 can hold it; None where it is neither."""
    text = "".join(line for line in value if isinstance(line, str)) if isinstance(value, list) else value
    # Halves of surrogate pairs can stand in JSON, and nowhere else.
    return text.encode("utf-8", "replace").decode() if isinstance(text, str) else None


def _pictures(data: Any) -> dict[str, str]:
    found = {kind: _text(_got(data, kind)) or "" for kind in _PICTURES}
    return {kind: picture for kind, picture in found.items() if _BASE64.fullmatch(picture)}


def clean_outputs(value: Any, room: int = 2**20) -> list[dict[str, Any]]:
    """Outputs as nbformat knows them, whatever the student's process sent.

    Args:
        value: what it sent.
        room: the most characters that are kept of it, pictures whole or not at all. A last line says what was left out.
    """
    outputs: list[dict[str, Any]] = []
    lost = 0

    def keep(value: Any, whole: bool = False) -> str:
        nonlocal room, lost
        text = _text(value) or ""
        kept = "" if room < 0 or (whole and len(text) > room) else text[:room]
        room, lost = room - len(kept), lost + len(text) - len(kept)
        return kept

    for item in value if isinstance(value, list) else ():
        room -= _OVERHEAD
        output = {"output_type": _got(item, "output_type")}
        match output["output_type"]:
            case "stream":
                name = "stderr" if item.get("name") == "stderr" else "stdout"
                output |= {"name": name, "text": keep(item.get("text"))}
            case "error":
                output |= {"ename": keep(item.get("ename")), "evalue": keep(item.get("evalue"))}
                lines = item["traceback"] if isinstance(item.get("traceback"), list) else []
                output["traceback"] = [text for line in lines if (text := keep(line))]
            case "display_data" | "execute_result" as kind:
                data = {name: keep(picture, whole=True) for name, picture in _pictures(item.get("data")).items()}
                data["text/plain"] = keep(_got(item.get("data"), "text/plain"))
                output |= {"data": {name: text for name, text in data.items() if text}, "metadata": {}}
                if kind == "execute_result":
                    count = item.get("execution_count")
                    output["execution_count"] = count if type(count) is int and 0 <= count < 2**31 else None
        if any(output.get(name) for name in ("text", "ename", "evalue", "data")):
            outputs.append(output)
    if lost:
        outputs.append({"output_type": "stream", "name": "stderr", "text": f"[{lost:,} characters were left out]\n"})
    return outputs
