"""Compares a learner's answers with PyTorch's (``judged``)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from course_utils.base.text import describe
from course_utils.checks.exercise import is_blank
from course_utils.checks.predictions import normal_value

if TYPE_CHECKING:
    from course_utils.drills.moves import Question

NOTHING = ("none", "nothing")  # the choices that None stands for, where a question has one of them


class Judged(NamedTuple):
    """What became of one key: whether it is right (None where there is no answer yet), the explanation of a wrong one
    (empty where it is no answer to the question), and what else a card shows, as pairs of a label and a text."""

    key: str
    is_right: bool | None
    explanation: str = ""
    details: tuple[tuple[str, str], ...] = ()


def judged(
    questions: Sequence[Question], lines: Sequence[str], answers: Any
) -> tuple[tuple[Judged, ...], tuple[str, ...]]:
    """What became of each key, and remarks; nothing of either where nothing has been answered."""
    if is_blank(answers) or (type(answers) is set and all(item is ... for item in answers)):
        return (), ()
    keys = [question.key for question in questions]
    if not isinstance(answers, Mapping):
        expected = "a dict with the keys " + ", ".join(keys)
        return (Judged("your answer", False, "", (("you said", describe(answers, 40)), ("expected", expected))),), ()
    given = {key: answers.get(key, ...) for key in keys}
    if all(value is None or value is ... for value in given.values()):
        return (), ()
    extra = [describe(key, 30) for key in answers if key not in keys]
    remarks = (f"Ignored, since the drill does not ask for it: {', '.join(extra[:6])}.",) if extra else ()
    return tuple(_one(question, lines, given[question.key]) for question in questions), remarks


def _one(question: Question, lines: Sequence[str], given: Any) -> Judged:
    value = _value(given, question.choices)
    if value is ...:
        return Judged(question.key, None)
    if value == question.answer:
        return Judged(question.key, True)
    said = "you said", describe(given, 40)
    if value not in question.choices:
        values = ", ".join(map(repr, question.choices))
        expected = "True or False" if True in question.choices else f"one of {values}"
        return Judged(question.key, False, "", (said, ("expected", expected)))
    line = f"line {question.line}", lines[question.line - 1].strip()
    explanation = f"Line {question.line} decides. {question.explanation}"
    return Judged(question.key, False, explanation, (said, ("PyTorch", describe(question.answer)), line))


def _value(given: Any, choices: Sequence[Any]) -> Any:
    """What an answer stands for: a choice, ``...`` for none yet, or something else.

    Quotes may be too few or too many, truth values NumPy's and torch's, texts in any case.
    """
    if given is None:
        return next((choice for choice in choices if choice in NOTHING), ...)
    if given is ...:
        return ...
    if type(given) in (int, float) and not isinstance(choices[0], bool):
        return format(given, "g")
    try:
        value = normal_value(given)
    except (TypeError, ValueError):
        return describe(given)
    if isinstance(choices[0], bool):
        return {"true": True, "false": False}.get(value, value) if isinstance(value, str) else value
    return next((choice for choice in choices if choice.casefold() == value), value)
