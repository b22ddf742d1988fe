"""What a lesson says to a wrong prediction (``thoughts``, ``thought_behind``), as its ``predictions.toml`` holds it."""

import ast
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from course_utils.base.files import prose, read_toml, require_fields

OTHER = "other"  # what is said to every wrong guess that is not listed


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
