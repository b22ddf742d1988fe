"""The course's own answers as objects, made by running the answer cells of a solution notebook (``own_answers``)."""

from pathlib import Path
from typing import Any

from course_utils.authoring.files import read, topic_of


def own_answers(path: Path) -> dict[str, Any]:
    """Each exercise's solved answer, by the exercise's name, in the notebook's order.

    Every answer cell is run on its own after the set-up cell, in a namespace of its own: no answer can lean on the
    cells between.

    Args:
        path: a solution notebook.

    Raises:
        KeyError: an answer cell does not define what it is named after.
    """
    code = [cell for cell in read(path).cells if cell.cell_type == "code"]
    answers = {}
    for cell in code:
        nbgrader = cell.metadata.get("nbgrader", {})
        if nbgrader.get("solution"):
            name = nbgrader["grade_id"].removeprefix(f"{topic_of(path)}-")
            namespace: dict[str, Any] = {"__name__": "__main__"}
            exec(compile(code[0].source, f"<set-up of {path.stem}>", "exec"), namespace)
            exec(compile(cell.source, f"<{name}>", "exec"), namespace)
            answers[name] = namespace[name]
    return answers
