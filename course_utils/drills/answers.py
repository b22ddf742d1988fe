"""Compares a learner's answers with PyTorch's (``score``)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from course_utils.base.text import describe
from course_utils.checks.judge import judge
from course_utils.checks.misconceptions import Misconception
from course_utils.checks.predictions import Predictions
from course_utils.checks.score import Claim
from course_utils.drills.card import DrillScore

if TYPE_CHECKING:
    from course_utils.drills.drill import Drill
    from course_utils.drills.programs import Question

_WRONG = Misconception("wrong", "", "")


def score(drill: Drill, answers: Any) -> DrillScore:
    """What a learner's answers are worth, with the line that decides for each that is wrong."""
    questions = drill.program.questions
    choices = {question.key: question.choices for question in questions}
    found = {question.key: question.answer for question in questions}
    if type(answers) is dict:
        answers = {key: _as_text(value, choices.get(key, ())) for key, value in answers.items()}
    name, readings = f"{drill.topic} drill", [(key, _WRONG.name) for key in choices]
    known = {_WRONG.name: _WRONG}
    made = Predictions(name, float(len(choices)), (), known, keys=list(choices), readings=readings, choices=choices)
    # Each line is told, and there are no points to earn by chance.
    made.truth, made.may_be_constant = lambda trial: found, True
    judged = judge(made, answers, "drill")
    claims: Sequence[Claim] = judged.claims
    if isinstance(answers, Mapping):
        asked = zip(questions, claims, strict=False)
        claims = [_told(claim, question, answers.get(question.key, ...), drill) for question, claim in asked]
    return DrillScore.of(judged, claims, drill.topic, drill.level, drill.seed)


def _as_text(value: Any, choices: Sequence[str]) -> Any:
    """What an answer with quotes too few or too many stands for, else the answer as it is."""
    if not choices and isinstance(value, str):
        return {"true": True, "false": False}.get(value.strip().casefold(), value)
    if value is None:
        return next((choice for choice in choices if choice in ("none", "nothing")), None)
    if type(value) in (int, float):
        text = format(value, "g")
        return text if text in choices else value
    return value


def _told(claim: Claim, question: Question, given: Any, drill: Drill) -> Claim:
    """The claim as a learner of a drill is told: a wrong answer with the line that decides it."""
    if given is None or given is ...:
        return replace(claim, details=(), judged=False)
    if claim.misconception is not _WRONG:
        return claim
    line = f"line {question.line}", drill.program.lines[question.line - 1].strip()
    details = ("you said", describe(given, 40)), ("PyTorch", describe(question.answer)), line
    explanation = f"Line {question.line} decides. {question.explanation}"
    return replace(claim, misconception=Misconception("", explanation, ""), details=details)
