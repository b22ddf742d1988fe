"""What a lesson's text files say to wrong answers and wrong guesses. Misunderstandings that checks recognise
(``Misconception``), as the exercises' files hold them (``read``); and what is said to a wrong prediction (``thoughts``,
``thought_behind``), as ``predictions.toml`` holds it.
"""

import ast
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from course_utils import catalogue
from course_utils.base.files import prose, read_toml, require_fields
from course_utils.base.text import count_of

LESSONS = Path(__file__).resolve().parents[1] / "lessons"
OTHER = "other"  # what is said to every wrong guess that is not listed
PROSE = ("name", "explanation", "next_step")


@dataclass(frozen=True)
class Misconception:
    """A misunderstanding that a check recognises.

    Attributes:
        name: what it is called, as the learner would say it: "detach() makes a copy".
        explanation: what is really so, in one to three sentences. Never the solution.
        next_step: one thing to try.
        explained: where the course explains it: a lesson's name and one of its headings; empty where nowhere.
        home: its one place in the course, ``"detach/snapshot/alias"``; empty for those of every exercise.
        program: a complete program of at most eight lines that shows it.
        prints: what the program prints.
        wrong: ways to make the mistake in the exercise's model answer; see ``compare.edited``.
    """

    name: str
    explanation: str
    next_step: str
    explained: tuple[str, ...] = ()
    home: str = ""
    program: str = ""
    prints: str = ""
    wrong: tuple[tuple[str, ...], ...] = ()

    @property
    def place(self) -> tuple[str, str] | tuple[()]:
        """Where it is explained, as notebook and heading: ``("03_detach", "A view, not a copy")``."""
        return (catalogue.find(self.explained[0]).notebook, self.explained[1]) if self.explained else ()


def read(path: Path) -> dict[str, Any]:
    """An exercise's text file, its misconceptions made.

    A misconception is ``explained`` under a heading of the lesson, or under one of an earlier lesson
    (``["leaf_tensors", "How to change a leaf"]``).
    Its ``program`` shows it in at most eight lines, and ``prints`` holds what that prints. One that has its home in
    another exercise says ``same_as = "lesson/exercise/key"``, and may have a ``next_step`` of its own.

    Raises:
        ValueError: it is no TOML, a field is missing or unknown, or ``same_as`` leads nowhere; the message names the
            file.
    """
    values = dict(read_toml(path))
    values["hints"] = [prose(hint) for hint in values.get("hints", ())]
    found = values.get("misconceptions", {}).items()
    values["misconceptions"] = {key: _made(path, key, fields) for key, fields in found}
    return values


def heading(path: Path, values: Mapping[str, Any]) -> str:
    """The heading of an exercise in its notebook: ``"Exercise 3.3 · mean_loss · 2 points, 8 minutes"``.

    Args:
        path: the exercise's text file.
        values: what stands in it; here ``number``, ``points`` and ``minutes``.

    Raises:
        ValueError: one of them is missing; the message names the file.
    """
    require_fields(path, "the exercise", values, {"number", "points", "minutes"}, {*values})
    lesson, points, minutes = catalogue.find(path.parent.name), values["points"], f"{values['minutes']} minutes"
    costs = f"{count_of(points, 'point')}, {minutes}" if points else f"{minutes}, no points"
    return f"Exercise {lesson.number}.{values['number']} · {path.stem} · {costs}"


def _made(path: Path, key: str, fields: Mapping[str, Any]) -> Misconception:
    what, wrong = f"misconception {key!r}", tuple(map(tuple, fields.get("wrong", ())))
    if "same_as" in fields:
        require_fields(path, what, fields, {"same_as"}, {"next_step", "wrong"})
        *place, its_key = fields["same_as"].split("/", 2)
        home = LESSONS.joinpath(*place).with_suffix(".toml")
        there = read_toml(home)["misconceptions"] if home.is_file() else {}
        if its_key not in there or "same_as" in there[its_key]:
            raise ValueError(f"{path}: {what} is the same as {fields['same_as']!r}, which is no misconception's home.")
        found = _made(home, its_key, there[its_key])
        return replace(found, next_step=prose(fields.get("next_step", found.next_step)), wrong=wrong)
    require_fields(path, what, fields, {*PROSE, "explained"}, {"program", "prints", "wrong"})
    place = fields["explained"]  # a heading of its own lesson, or with its lesson
    explained = (path.parent.name, place) if isinstance(place, str) else tuple(place)
    return _with(fields, explained=explained, home=f"{path.parent.name}/{path.stem}/{key}", wrong=wrong)


def _with(fields: Mapping[str, Any], **more: Any) -> Misconception:
    more |= {name: prose(fields[name]) for name in PROSE}
    more |= {name: fields[name].strip("\n") for name in ("program", "prints") if name in fields}
    return Misconception(**more)


def thoughts(folder: Path) -> Mapping[str, Mapping[str, str]]:
    """For each question of a lesson, letter by letter, what is said to a wrong guess.

    A question's table has the guess as Python writes it for its key, and ``other`` for any other wrong one.

    Args:
        folder: the lesson's folder.

    Raises:
        ValueError: it is no TOML, a key is no Python literal, or a question has no ``other``; the message names the
            file.
    """
    path = folder / "predictions.toml"
    questions = read_toml(path) if path.is_file() else {}
    for question, answers in questions.items():
        require_fields(path, repr(question), answers, {OTHER}, {*answers})
        for guess in answers.keys() - {OTHER}:
            try:
                ast.literal_eval(guess)
            except (ValueError, SyntaxError):
                raise ValueError(f"{path}: {question!r} has {guess!r}, which is no value of Python's.") from None
    return {
        question: {guess: prose(text) for guess, text in answers.items()} for question, answers in questions.items()
    }


def thought_behind(said: Mapping[str, str], guess: Any, agree: Callable[[Any, Any], bool]) -> str:
    """The sentence for a wrong guess; empty where the question has none.

    Args:
        said: one question's entry of ``thoughts``.
        guess: the learner's.
        agree: whether a guess is a value.
    """
    listed = (text for value, text in said.items() if value != OTHER and agree(guess, ast.literal_eval(value)))
    return next(listed, said.get(OTHER, ""))


# What can go wrong in any exercise.
GENERAL = {key: _with(fields) for key, fields in read_toml(Path(__file__).with_name("general.toml")).items()}
