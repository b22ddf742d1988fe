"""Compares a learner's answers with PyTorch's (``score``)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from course_utils.base.text import describe
from course_utils.checks.exercise import normal_value
from course_utils.checks.score import Claim
from course_utils.drills.card import DrillScore

if TYPE_CHECKING:
    from course_utils.drills.drill import Drill
    from course_utils.drills.programs import Question


def score(drill: Drill, answers: Any) -> DrillScore:
    """What a learner's answers are worth, with the line that decides for each that is wrong."""
    questions = drill.program.questions
    keys = [question.key for question in questions]
    if not isinstance(answers, Mapping):
        if answers is None or answers is ... or (type(answers) is set and all(item is ... for item in answers)):
            return DrillScore.of(drill, [])
        details = (("expected", "a dict with the keys " + ", ".join(keys)), ("got", describe(answers)))
        return DrillScore.of(drill, [Claim("is a dict with one value a key", False, details=details)])
    if all(answers.get(key) in (None, ...) for key in keys):
        return DrillScore.of(drill, [])
    extra = [describe(key, 30) for key in answers if key not in keys]
    notes = ["Ignored, since the exercise does not ask for it: " + ", ".join(extra[:6]) + "."] if extra else []
    claims = [_claim(question, answers.get(question.key), drill.program.lines) for question in questions]
    return DrillScore.of(drill, claims, notes)


def _claim(question: Question, given: Any, lines: tuple[str, ...]) -> Claim:
    """The claim on one key. Where it fails, the details say whether the value is wrong or none that can be chosen."""
    text = f"`{question.key}`"
    if given is ... or (given is None and "none" not in question.choices):
        return Claim(text, False, judged=False)
    value = _read(given, question.choices)
    if value is None:
        offered = "one of " + ", ".join(map(repr, question.choices)) if question.choices else "True or False"
        details: tuple[tuple[str, str], ...] = (("your prediction", describe(given, 40)), ("expected", offered))
        return Claim(text, False, details=details)
    if value == question.answer:
        return Claim(text, True)
    line = f"line {question.line}", lines[question.line - 1].strip()
    details = ("you said", describe(given, 40)), ("PyTorch", describe(question.answer)), line
    return Claim(text, False, f"Line {question.line} decides. {question.explanation}", details=details)


def _read(given: Any, choices: tuple[str, ...]) -> bool | str | None:
    """The value that an answer stands for, with quotes too few or too many; None where it is none to choose."""
    if given is None:
        return "none"
    try:
        value = normal_value(given)
    except (TypeError, ValueError):
        value = format(given, "g") if isinstance(given, float) else None
    if not choices:
        value = {"true": True, "false": False}.get(value, value) if isinstance(value, str) else value
        return value if isinstance(value, bool) else None
    if isinstance(value, (bool, int)) and not isinstance(given, bool):
        value = format(float(value), "g")
    return value if isinstance(value, str) and value in choices else None
