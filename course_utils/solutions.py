"""The course's own answers, read from the solution notebooks (``find``). Imports nothing of the course."""

import json
from pathlib import Path

FOLDER = Path(__file__).resolve().parent.parent / "notebooks" / "solutions"


def find(notebook: str, topic: str, exercise: str) -> str | None:
    """The source of an exercise's solved cell, without the markers around the solution.

    Args:
        notebook: the notebook's name without ending: ``"03_detach"``.
        topic: the lesson's name.
        exercise: the exercise's name.

    Returns:
        The code, or None where the copy of the course holds no solutions or not this one.
    """
    path = FOLDER / f"{notebook}.ipynb"
    if not path.is_file():
        return None
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        if cell.get("metadata", {}).get("nbgrader", {}).get("grade_id") == f"{topic}-{exercise}":
            lines = "".join(cell["source"]).splitlines()
            return "\n".join(line for line in lines if not line.strip().startswith("### ")).strip()
    return None
