"""Right answers to a lesson, written otherwise than the course's own, and the known mistakes; all as source.

``right/detach.py`` has them as cells of a notebook: what a learner would write, under a line with the exercise's name
and what is different. Its first cell holds what several of them use. Small edits of the course's own answer stand in
``right/edits.toml``, in the form that the known mistakes have in the exercises' text files.
"""

import ast
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import nbformat

from course_utils import Lesson
from course_utils.base.files import read_toml
from course_utils.catalogue import find
from course_utils.checks.compare import edited
from course_utils.checks.misconceptions import LESSONS
from course_utils.lesson import SOLUTIONS

FOLDER = Path(__file__).with_name("right")


@dataclass(frozen=True)
class Answer:
    """An answer: its exercise, what is different in it, and its cell as a learner would write it."""

    exercise: str
    name: str
    source: str


def cells(lesson: str) -> list[str]:
    """The cells of a lesson's file: the shared one, and an answer in each of the others, below its title."""
    text = (FOLDER / f"{lesson}.py").read_text(encoding="utf-8")
    return [cell.strip() for cell in re.split(r"^# %%", text, flags=re.MULTILINE)[1:]]


@cache
def right_answers(lesson: str) -> tuple[Answer, ...]:
    """All of a lesson. A cell that reads its own exercise's name has the course's own answer above it."""
    own = {name: exercise.source.strip() for name, exercise in Lesson(lesson).exercises.items()}
    found = []
    for cell in cells(lesson)[1:]:
        title, _, source = cell.partition("\n")
        exercise, _, name = title.partition(": ")
        names = (node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Name))
        if any(node.id == exercise and isinstance(node.ctx, ast.Load) for node in names):
            source = f"{own[exercise]}\n\n\n{source}"
        found.append(Answer(exercise, name, source))
    for exercise, named in read_toml(FOLDER / "edits.toml").get(lesson, {}).items():
        found += [Answer(exercise, name, edited(own[exercise], edits, name)) for name, edits in named.items()]
    return tuple(found)


@cache
def _before(lesson: str) -> dict[str, Any]:
    """What a notebook has where an answer is written: its set-up, and what the answers share."""
    notebook = nbformat.read(SOLUTIONS / f"{find(lesson).notebook}.ipynb", as_version=4)
    space = {"__name__": "__main__"}
    for source in (next(cell.source for cell in notebook.cells if cell.cell_type == "code"), cells(lesson)[0]):
        exec(compile(source, f"<set-up of {lesson}>", "exec"), space)
    return space


def made(lesson: str, exercise: str, source: str) -> Any:
    """The object that an answer's cell makes."""
    space = dict(_before(lesson))
    exec(compile(source, f"<{exercise}>", "exec"), space)
    return space[exercise]


@cache
def wrong_answers(lesson: str) -> tuple[Answer, ...]:
    """The known mistakes of a lesson, named by the keys of their misconceptions: edits, and wrong predictions."""
    found = []
    for name, exercise in Lesson(lesson).exercises.items():
        own, fields = exercise.source.strip(), read_toml(LESSONS / lesson / f"{name}.toml")
        found += [Answer(name, key, edited(own, edits, key)) for key, edits in getattr(exercise, "ways", ())]
        for keys, *values, key in fields.get("readings", ()):
            keys, values = ([keys], values) if isinstance(keys, str) else (keys, values[0] if values else [])
            right, choices = made(lesson, name, own), fields.get("choices", ())
            values = values or [_other_than(right[place], choices) for place in keys]
            wrong = dict(zip(keys, values, strict=True))
            found.append(Answer(name, key, f"{own}\n{name} |= {wrong}"))
    return tuple(found)


def _other_than(right: Any, choices: Sequence[Any]) -> Any:
    """A wrong prediction of the right one's kind."""
    if isinstance(right, bool):
        return not right
    return (*right, 0) if isinstance(right, tuple) else next(one for one in (*choices, 1, 2) if one != right)
