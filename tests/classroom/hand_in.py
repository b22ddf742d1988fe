"""Submissions as students make them (``hand_in``, ``solved``), from the released notebook."""

import json
import textwrap
from pathlib import Path

from course_utils.authoring.files import read
from course_utils.classroom.course.folder import ClassFolder


def released(course: ClassFolder, assignment: str) -> dict:
    return json.loads(course.notebook("release", assignment).read_text(encoding="utf-8"))


def answered(notebook: dict, answers: dict[str, str]) -> dict:
    """The notebook with the sources of these answer cells; by the exercise's name, which is the cell's id."""
    cells = {cell["id"]: cell for cell in notebook["cells"]}
    for exercise, source in answers.items():
        cells[exercise]["source"] = textwrap.dedent(source).strip("\n")
    return notebook


def solved(course: ClassFolder, assignment: str) -> dict[str, str]:
    """The course's own answers, by exercise; the written one too."""
    found = {}
    for cell in read(course.notebook("source", assignment)).cells:
        if cell.metadata.get("nbgrader", {}).get("solution"):
            found[cell.id] = "\n".join(line for line in cell.source.split("\n") if "### " not in line)
    return found


def put(
    course: ClassFolder, student: str, assignment: str, content: bytes, name: str = "", timestamp: str = ""
) -> Path:
    """Hands in these bytes."""
    path = course.path("submitted", student, assignment) / (name or f"{assignment}.ipynb")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    if timestamp:
        path.with_name("timestamp.txt").write_text(timestamp + "\n")
    return path


def hand_in(course: ClassFolder, student: str, assignment: str, answers: dict[str, str] | None = None, **how) -> Path:
    """Hands in the released notebook with these answers."""
    notebook = answered(released(course, assignment), answers or {})
    return put(course, student, assignment, json.dumps(notebook, indent=1).encode(), **how)
