"""Reads a submitted notebook (``read_cells``), and outputs of its cells (``clean_outputs``), without trusting either.

Imports text.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from course_utils.text import format_bytes

LARGEST_BYTES = 32 * 2**20
_MOST_CELLS = 2000
_LONGEST_SOURCE = 2**20


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
    """The cells of a submitted notebook, and what had to be left out of it, one sentence each.

    Raises:
        Unreadable: there is no file, it is too large, or it is no notebook of format 4.
    """
    if content is None:
        raise Unreadable("No notebook was handed in.")
    if not content.strip():
        raise Unreadable("The file is empty.")
    if len(content) > largest_bytes:
        raise Unreadable(
            f"The file has {format_bytes(len(content))}, more than the {format_bytes(largest_bytes)} that are read. "
            "Clear the outputs and hand it in again."
        )
    notebook = _parse(content)
    if not isinstance(notebook, dict) or "cells" not in notebook:
        version = notebook.get("nbformat") if isinstance(notebook, dict) else None
        if isinstance(version, int) and version < 4:
            raise Unreadable(f"The notebook is of format {version}, as Jupyter wrote it before 2015; format 4 is read.")
        raise Unreadable("The file is JSON, but no notebook.")
    version = notebook.get("nbformat")
    if version != 4:
        raise Unreadable(f"The notebook is of format {str(version)[:20]}; format 4 is read.")
    if not isinstance(notebook["cells"], list):
        raise Unreadable("The notebook's cells are no list.")
    if len(notebook["cells"]) > _MOST_CELLS:
        raise Unreadable(f"The notebook has {len(notebook['cells'])} cells, more than the {_MOST_CELLS} that are read.")
    cells, left_out = [], []
    for position, item in enumerate(notebook["cells"]):
        cell = _cell(position, item)
        if isinstance(cell, SubmittedCell):
            cells.append(cell)
        else:
            left_out.append(f"Cell {position + 1} was left out: {cell}.")
    return cells, left_out


def _parse(content: bytes) -> Any:
    try:
        return json.loads(content.decode("utf-8-sig"))
    except UnicodeDecodeError:
        raise Unreadable("The file is not in UTF-8, so it is no notebook.") from None
    except json.JSONDecodeError as error:
        if content.lstrip()[:1] == b"{" and content.rstrip()[-1:] != b"}":
            raise Unreadable("The file ends in the middle of the notebook: it was cut off on its way.") from None
        raise Unreadable(f"The file is not JSON, so it is no notebook ({error.msg} in line {error.lineno}).") from None
    except RecursionError:
        raise Unreadable("The file is nested more deeply than any notebook.") from None
    except ValueError as error:  # a number of thousands of digits
        raise Unreadable(f"The file is no notebook ({str(error)[:100]}).") from None


def _cell(position: int, item: object) -> SubmittedCell | str:
    if not isinstance(item, dict):
        return "it is no cell"
    kind, source, metadata = item.get("cell_type"), item.get("source", ""), item.get("metadata")
    if kind not in ("code", "markdown", "raw"):
        return "it is neither code nor text"
    if isinstance(source, list) and all(isinstance(line, str) for line in source):
        source = "".join(source)
    if not isinstance(source, str):
        return "its text is no text"
    if len(source) > _LONGEST_SOURCE:
        return f"it has {len(source):,} characters"
    # Halves of surrogate pairs can stand in JSON, and nowhere else.
    source = source.replace("\r\n", "\n").encode("utf-8", "replace").decode()
    name = item.get("id")
    grading = metadata.get("nbgrader") if isinstance(metadata, dict) else None
    grade_id = grading.get("grade_id") if isinstance(grading, dict) else None
    return SubmittedCell(
        position,
        name if isinstance(name, str) else "",
        kind,
        source,
        grade_id if isinstance(grade_id, str) else "",
    )


def clean_outputs(value: Any) -> list[dict[str, Any]]:
    """Outputs as nbformat knows them, whatever the student's process sent."""
    found: list[dict[str, Any]] = []
    for item in value if isinstance(value, list) else ():
        kind = item.get("output_type") if isinstance(item, dict) else None
        if kind == "stream" and isinstance(item.get("text"), str):
            name = "stderr" if item.get("name") == "stderr" else "stdout"
            found.append({"output_type": "stream", "name": name, "text": item["text"]})
        elif kind in ("display_data", "execute_result") and isinstance(item.get("data"), dict):
            allowed = ("text/plain", "image/png", "image/jpeg")
            data = {name: item["data"][name] for name in allowed if isinstance(item["data"].get(name), str)}
            output: dict[str, Any] = {"output_type": kind, "data": data, "metadata": {}}
            if kind == "execute_result":
                count = item.get("execution_count")
                output["execution_count"] = count if type(count) is int else None
            found.append(output)
        elif kind == "error" and isinstance(item.get("traceback"), list):
            lines = [str(line) for line in item["traceback"]]
            found.append(
                {
                    "output_type": "error",
                    "ename": str(item.get("ename", "")),
                    "evalue": str(item.get("evalue", "")),
                    "traceback": lines,
                }
            )
    return found
