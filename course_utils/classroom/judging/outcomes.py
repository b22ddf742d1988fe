"""From what a check said to what the gradebook and the student get (``judged``, ``stopped``, ``unreadable`` ...).

Everything that a student's process sends is checked here before it is used.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from html import escape
from typing import Any

from course_utils.checks.score import Claim, Score
from course_utils.classroom.judging.results import ExerciseResult, Outcome
from course_utils.classroom.rebuild.released import ReleasedCell

WITHHELD = "Your teacher looks at this answer before its points are entered."
_MOST_CLAIMS = 60


@dataclass
class Verdict:
    """What is known of one graded cell so far.

    Attributes:
        earned: of the released cell's points.
        outcome: see ``results``.
        score: the card; None for what has none.
        text: what is shown where there is no card.
        seconds: what judging took.
        undefined: a name that the answer could not find; empty where that was not the trouble.
        seen: what was replaced, refused or left running while the answer was judged, one phrase each: a teacher has to
            look at it first.
        changed: whether settings or the set-up's names were not what they had been.
    """

    earned: float
    outcome: Outcome
    score: Score | None = None
    text: str = ""
    seconds: float = 0.0
    undefined: str = ""
    seen: tuple[str, ...] = ()
    changed: bool = False


def judged(cell: ReleasedCell, result: dict[str, Any], seconds: float) -> Verdict | None:
    """A check's own result; None where it is not what a check sends."""
    try:
        earned, possible = float(result["earned"]), float(result["possible"])
        claims = tuple(_claim(item) for item in result["claims"])
        status = result["status"]
        notes = tuple(_text(note) for note in result["notes"])
        output = _text(result["output"])
    except (KeyError, TypeError, ValueError):
        return None
    plausible = math.isfinite(earned) and math.isfinite(possible) and 0 <= earned <= possible
    full = status == "passed" and earned == possible and all(claim.held for claim in claims)
    if not plausible or len(claims) > _MOST_CLAIMS or status not in ("passed", "partial", "not attempted", "error"):
        return None
    if (status == "passed") != full or (earned >= possible > 0 and not full):
        return None  # the engine gives full points if, and only if, every claim holds
    score = _score(cell, earned, possible, status, claims, notes, output)
    points = cell.points * earned / possible if possible else 0.0
    outcome: Outcome = "passed" if full else "not attempted" if status == "not attempted" else "partial"
    if outcome == "partial" and earned == 0:
        outcome = "raised" if status == "error" else "wrong"
    return Verdict(round(points, 6), outcome, score, seconds=seconds, undefined=_undefined(claims))


def own_check(cell: ReleasedCell, result: dict[str, Any], seconds: float) -> Verdict | None:
    """The result of a teacher's own check cell; None where it is not what such a check sends."""
    raised, value = result.get("raised"), result.get("value")
    if isinstance(raised, list) and len(raised) == 2:
        message = f"{_text(raised[0])}: {_text(raised[1])}"
        return Verdict(0.0, "wrong", text=f"The check said: {message}", seconds=seconds, undefined=_name_in(message))
    if raised is not None:
        return None
    if not isinstance(value, (int, float)) or not math.isfinite(value):
        return Verdict(cell.points, "passed", text="The check raised nothing.", seconds=seconds)
    earned = min(max(float(value), 0.0), cell.points)
    outcome: Outcome = "passed" if earned == cell.points else "partial" if earned else "wrong"
    return Verdict(earned, outcome, text=f"The check gave {earned:g} of {cell.points:g} points.", seconds=seconds)


def not_attempted(cell: ReleasedCell) -> Verdict:
    if cell.role == "by hand":
        return Verdict(0.0, "not attempted", text="No answer was written.")
    return Verdict(0.0, "not attempted", _score(cell, 0.0, cell.points, "not attempted"))


def by_hand(cell: ReleasedCell) -> Verdict:
    """A question that a person grades."""
    return Verdict(0.0, "review by hand", text="Your teacher reads and grades this answer.")


def raised(cell: ReleasedCell, error: list[str], what: str = "the answer's cell runs") -> Verdict:
    """The answer's own cell raised, or there is no answer to judge."""
    message = f"{error[0]}: {error[1]}".rstrip(": ")
    claim = Claim(what, False, details=(("raised", message),))
    return Verdict(0.0, "raised", _score(cell, 0.0, cell.points, "error", (claim,)), undefined=_name_in(message))


def stopped(cell: ReleasedCell, outcome: str, why: str, seconds: float = 0.0) -> Verdict:
    """The answer's process was killed or ran out of time; without an outcome, that was not the answer's doing."""
    if not outcome:
        return unjudged(cell, why)
    kind: Outcome = "timed out" if outcome == "timed out" else "killed"
    claim = Claim("comes to an end by itself", False, details=(("stopped", why),))
    return Verdict(0.0, kind, _score(cell, 0.0, cell.points, "error", (claim,)), seconds=seconds)


def unjudged(cell: ReleasedCell, why: str) -> Verdict:
    """The check could not be run, which is nobody's answer's fault."""
    return Verdict(0.0, "review by hand", text=f"This answer could not be judged: {why}. Your teacher looks at it.")


def unreadable(cell: ReleasedCell, reason: str) -> Verdict:
    return Verdict(0.0, "unreadable", text=reason)


def result_of(cell: ReleasedCell, verdict: Verdict) -> ExerciseResult:
    """The result for the report. Points that have to wait for the teacher are withheld."""
    name = cell.exercise or cell.grade_id or cell.id
    earned, outcome, said = verdict.earned, verdict.outcome, None
    score, text = verdict.score, verdict.text
    if verdict.seen and earned > 0:
        said = f"{earned:g} of {cell.points:g} points"
        earned, outcome = 0.0, "review by hand"
        text = WITHHELD
        if score is not None:
            score.notes = (WITHHELD, *score.notes)
    failed = [] if score is None else [claim.misconception for claim in score.claims if not claim.held]
    return ExerciseResult(
        grade_id=cell.grade_id,
        exercise=name,
        earned=earned,
        possible=cell.points,
        outcome=outcome,
        said=said,
        misconceptions=tuple(dict.fromkeys(name for name in failed if name)),
        text=str(score) if score is not None else f"{name}: {text}",
        html=score._repr_html_() if score is not None else f"<p><code>{escape(name)}</code>: {escape(text)}</p>",
        wall_seconds=round(verdict.seconds, 4),
    )


def _score(
    cell: ReleasedCell,
    earned: float,
    possible: float,
    status: Any,
    claims: tuple[Claim, ...] = (),
    notes: tuple[str, ...] = (),
    output: str = "",
) -> Score:
    name = cell.exercise or cell.grade_id
    return Score(
        earned,
        lesson=cell.lesson,
        exercise=name,
        possible=possible,
        status=status,
        claims=claims,
        notes=notes,
        output=output,
    )


def _claim(item: dict[str, Any]) -> Claim:
    details = tuple((_text(label), _text(value)) for label, value in item["details"])
    weight = float(item["weight"])
    if not math.isfinite(weight):
        raise ValueError("a weight is no number")
    return Claim(
        _text(item["text"]),
        item["held"] is True,
        _text(item["diagnosis"]),
        _text(item["misconception"]),
        _text(item["next_step"]),
        details,
        weight,
        item["judged"] is True,
    )


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError("a text was expected")
    return value[:20_000]


def _undefined(claims: tuple[Claim, ...]) -> str:
    details = [value for claim in claims if not claim.held for label, value in claim.details if label == "raised"]
    return next((name for name in map(_name_in, details) if name), "")


def _name_in(message: str) -> str:
    """The name that a NameError is about."""
    if not message.startswith(("NameError: name '", "UnboundLocalError: name '")):
        return ""
    return message.split("'")[1]
