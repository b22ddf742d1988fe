"""From what a check said to what the gradebook and the student get (``judged``, ``stopped``, ``unreadable`` ...).

Everything that a student's process sends is checked here before it is used.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from html import escape
from typing import Any, get_type_hints

from course_utils.base.words import rounded
from course_utils.checks.score import Claim, Score, Status
from course_utils.classroom.judging.results import ExerciseResult, Outcome, made
from course_utils.classroom.rebuild.reading import ReleasedCell
from course_utils.classroom.sandbox.protocol import Ended

WITHHELD = "Your teacher looks at this answer before its points are entered."
_MOST_CLAIMS = 60
_CELL_FILE = re.compile("<ipython-input-[^>]*>, ")  # what IPython calls a cell, in the text of a SyntaxError
_WHY = ("raised", "stopped", "said")  # details of a claim that say why it does not hold
_TOLD_BY_CHECK = ("possible", "status", "claims", "notes", "output")  # of a score


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
        reviews: why its points wait until the teacher has looked, one sentence each.
        raised: whether it raised anything.
    """

    earned: float
    outcome: Outcome
    score: Score | None = None
    text: str = ""
    seconds: float = 0.0
    undefined: str = ""
    reviews: tuple[str, ...] = ()
    raised: bool = False

    def or_better(self, other: Verdict) -> Verdict:
        """The one that earned more, in doubt this one, with the seconds of both."""
        best = other if other.earned > self.earned else self
        best.seconds = self.seconds + other.seconds
        return best


def judged(cell: ReleasedCell, result: dict[str, Any]) -> Verdict | None:
    """A check's own result; None where it is not what a check sends."""
    hints = get_type_hints(Score)
    try:
        told = {name: made(hints[name], result[name], name) for name in _TOLD_BY_CHECK}
        earned: float = made(float, result["earned"], "earned")
    except (KeyError, ValueError):
        return None
    status, possible, claims = told["status"], told["possible"], told["claims"]
    full = status == "passed" and earned == possible and all(claim.held for claim in claims)
    if not 0 <= earned <= possible or len(claims) > _MOST_CLAIMS:
        return None
    if (status == "passed") != full or (earned >= possible > 0 and not full):
        return None  # the engine gives full points if, and only if, every claim holds
    outcome: Outcome = "passed" if full else "not attempted" if status == "not attempted" else "partial"
    if outcome == "partial" and earned == 0:
        outcome = "raised" if status == "error" else "wrong"
    points = rounded(cell.points * earned / possible if possible else 0.0, cell.points)
    errors = [value for claim in claims if not claim.held for label, value in claim.details if label == "raised"]
    told["possible"] = cell.points  # which a teacher may have changed
    score = Score(points, lesson=cell.lesson, exercise=cell.name, **told)
    undefined = next(filter(None, map(name_in, errors)), "")
    return Verdict(points, outcome, score, undefined=undefined, raised=bool(errors))


def not_attempted(cell: ReleasedCell) -> Verdict:
    if cell.role == "by hand":
        return Verdict(0.0, "not attempted", text="No answer was written.")
    return Verdict(0.0, "not attempted", _nothing(cell, "not attempted"))


def by_hand() -> Verdict:
    return Verdict(0.0, "review by hand", text="Your teacher reads and grades this answer.")


def raised(cell: ReleasedCell, error: list[str], what: str = "the answer's cell runs") -> Verdict:
    """The answer's own cell raised, or there is no answer to judge."""
    message = _CELL_FILE.sub("", f"{error[0]}: {error[1]}".rstrip(": "))
    claim = Claim(what, False, details=(("raised", message),))
    return Verdict(0.0, "raised", _nothing(cell, "error", claim), undefined=name_in(message), raised=True)


def stopped(cell: ReleasedCell, ended: Ended) -> Verdict:
    """The answer's process was killed or ran out of time; without an outcome, that was not the answer's doing."""
    if not ended.outcome:
        return unjudged(str(ended))
    claim = Claim("comes to an end by itself", False, details=(("stopped", str(ended)),))
    return Verdict(0.0, "timed out" if ended.outcome == "timed out" else "killed", _nothing(cell, "partial", claim))


def unjudged(why: str) -> Verdict:
    """The check could not be run, which is nobody's answer's fault."""
    return Verdict(0.0, "review by hand", text=f"This answer could not be judged: {why}. Your teacher looks at it.")


def reviews(verdict: Verdict, label: str, result: dict[str, Any]) -> Iterable[str]:
    """What a teacher has to look at first, one sentence each: what was replaced or left running where that earned
    something; what was asked for and refused where the answer then failed, though nothing is gained by asking."""
    replaced = [str(name)[:100] for name in result.get("replaced", ())]
    if replaced and verdict.earned:
        more = f" and {len(replaced) - 5} more" if len(replaced) > 5 else ""
        yield f"In {label}: {', '.join(replaced[:5])}{more} had been replaced."
    if result.get("threads") and verdict.earned:
        yield f"During {label}: the answer left threads running beside the check."
    for what in result.get("refused", ())[:10] if verdict.outcome != "passed" else ():
        yield f"In {label}: the code {str(what)[:200]}."


def result_of(cell: ReleasedCell, verdict: Verdict) -> ExerciseResult:
    """The result for the report. Points that have to wait for the teacher are withheld."""
    earned, outcome, said = verdict.earned, verdict.outcome, None
    score, text = verdict.score, verdict.text
    if verdict.reviews:
        said = f"{earned:g} of {cell.points:g} points"
        earned, outcome, text = 0.0, "review by hand", WITHHELD
        if score is not None:
            score.notes = (WITHHELD, *score.notes)
    failed = [] if score is None else [_likely(claim) for claim in score.claims if not claim.held]
    shown = f"<p><code>{escape(cell.name)}</code>: {escape(text)}</p>" if score is None else score._repr_html_()
    return ExerciseResult(
        grade_id=cell.grade_id,
        exercise=cell.name,
        earned=earned,
        possible=cell.points,
        outcome=outcome,
        said=said,
        misconceptions=tuple(dict.fromkeys(filter(None, failed))),
        text=_final(str(score)) if score is not None else f"{cell.name}: {text}",
        html=shown if score is None else _final(shown),
        wall_seconds=round(verdict.seconds, 4),
        by_hand=cell.role == "by hand",
        lost=() if outcome == "review by hand" or score is None else tuple(_lost(score)),
    )


def _final(card: str) -> str:
    """The card as the last word on an answer: nothing on it is still to come."""
    return card.replace("not judged yet", "not judged").replace("not attempted yet", "not attempted")


def _likely(claim: Claim) -> str:
    return claim.misconception.name if claim.misconception else ""


def _lost(score: Score) -> Iterable[tuple[str, float]]:
    """What does not hold, with the points that it costs: what is missing, shared out by the claims' weights."""
    failed = [claim for claim in score.claims if not claim.held]
    total = sum(claim.weight for claim in failed)
    costs = [(score.possible - score) * (claim.weight / total if total else 1 / len(failed)) for claim in failed]
    for claim, cost in zip(failed, costs, strict=True):
        if claim.judged:
            why = [f": {value}" for label, value in claim.details if label in _WHY and value not in claim.text]
            yield claim.text + "".join(why) + f" (likely: {_likely(claim)})" * bool(_likely(claim)), cost
    rest = {claim.text: cost for claim, cost in zip(failed, costs, strict=True) if not claim.judged}
    if rest:
        number = "one more claim" if len(rest) == 1 else f"{len(rest)} more claims"
        yield f"{number}, not judged, because an earlier one does not hold: {'; '.join(rest)}", sum(rest.values())


def _nothing(cell: ReleasedCell, status: Status, *claims: Claim) -> Score:
    """The card of an answer that was not judged, or had none of it hold."""
    return Score(0.0, lesson=cell.lesson, exercise=cell.name, possible=cell.points, status=status, claims=claims)


def name_in(message: str) -> str:
    """The name that a NameError is about."""
    if not message.startswith(("NameError: name '", "UnboundLocalError: name '")):
        return ""
    return message.split("'")[1]
