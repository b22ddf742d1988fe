"""From what a check said to what the gradebook and the student get (``judged``, ``own_check``, ``stopped`` ...).

Everything that a student's process sends is checked here before it is used.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable
from dataclasses import dataclass
from html import escape
from typing import Any, get_args

from course_utils.base import rounded
from course_utils.checks.misconceptions import Misconception
from course_utils.checks.score import Claim, Score, Status
from course_utils.classroom.course.source import parse
from course_utils.classroom.judging.results import ExerciseResult, Outcome, some
from course_utils.classroom.rebuild.reading import ReleasedCell
from course_utils.classroom.sandbox.supervisor import Ended

WITHHELD = "Your teacher looks at this answer before its points are entered."
_NO_RESULT = "its check gave a result that no check gives"
_ALL_OR_NONE = "These tests earn their points together: one that fails costs them all."
_LINK = re.compile(r'<a href="[^"]*\.ipynb[^"]*">(.*?)</a>')  # beside what is graded lies no lesson
_MOST_TEXT = 120  # characters of a test that a card shows
_CELL_FILE = re.compile("<ipython-input-[^>]*>, ")  # what IPython calls a cell, in the text of a SyntaxError
_WHY = ("raised", "stopped", "said")  # details of a claim that say why it does not hold


@dataclass
class Verdict:
    """What is known of one graded cell so far.

    Attributes:
        earned: of the released cell's points.
        outcome: see ``results``.
        score: the card; None for what has none.
        text: what is shown where there is no card.
        raised: what the answer or its test raised, as ``"Type: message"``; empty where nothing was raised.
        reviews: why its points wait until the teacher has looked, one sentence each.
    """

    earned: float
    outcome: Outcome
    score: Score | None = None
    text: str = ""
    raised: str = ""
    reviews: tuple[str, ...] = ()

    @property
    def undefined(self) -> str:
        """The name that the answer could not find; empty where that was not the trouble."""
        is_name = self.raised.startswith(("NameError: name '", "UnboundLocalError: name '"))
        return self.raised.split("'")[1] if is_name else ""


def judged(cell: ReleasedCell, result: dict[str, Any]) -> Verdict:
    """The verdict on what a lesson's check sent."""
    try:
        claims = [_claim(**told) for told in result["claims"]]
        earned, possible, status = float(result["earned"]), float(result["possible"]), result["status"]
        notes, output, full = tuple(map(str, result["notes"])), str(result["output"]), status == "passed"
        if not 0 <= earned <= possible or status not in get_args(Status) or (full and earned < possible):
            raise ValueError(status)
    except (KeyError, TypeError, ValueError):
        return unjudged(_NO_RESULT)
    outcome: Outcome = "passed" if full else "not attempted" if status == "not attempted" else "partial"
    if outcome == "partial" and earned == 0:
        outcome = "raised" if status == "error" else "wrong"
    points = rounded(cell.points * earned / possible if possible else 0.0, cell.points)
    errors = [value for claim in claims if not claim.held for label, value in claim.details if label == "raised"]
    errors.sort(key=lambda error: not Verdict(0.0, "raised", raised=error).undefined)
    card = _card(cell, status, *claims, earned=points, notes=notes, output=output)
    return Verdict(points, outcome, card, raised="".join(errors[:1]))


def _claim(misconception: dict[str, Any] | None, **told: Any) -> Claim:
    return Claim(**told, misconception=Misconception(**misconception) if misconception else None)


def own_check(cell: ReleasedCell, result: dict[str, Any]) -> Verdict:
    """The verdict on what a teacher's own check sent. As with nbgrader, its tests earn their points together: passed if
    nothing fails, and a last value that is a number is partial credit.
    """
    match result:
        case {"failed": None, "value": None | float() as value} if value is None or value == value:  # no NaN
            earned = cell.points if value is None else min(max(value, 0.0), cell.points)
            outcome: Outcome = "passed" if earned == cell.points else "partial" if earned else "wrong"
            text = "" if value is None else f"The check gave {earned:g} of {cell.points:g} points."
            status: Status = "passed" if outcome == "passed" else "partial"
            return Verdict(earned, outcome, _card(cell, status, earned=earned, notes=(text,) * bool(text)), text)
        case {"failed": [int(line), str(kind), str(text)], "value": None}:
            test, is_told = _test(cell, line)
            raised, said = kind != "AssertionError", f"{kind}: {text}".removeprefix("AssertionError").strip(": ")
            claim = Claim(test, False, details=(("said", said),) if said and is_told else ())
            card = _card(cell, "error" if raised else "partial", claim, notes=(_ALL_OR_NONE,))
            return Verdict(0.0, "raised" if raised else "wrong", card, raised=said)
    return unjudged(_NO_RESULT)


def _test(cell: ReleasedCell, line: int) -> tuple[str, bool]:
    """What the card calls the test in that line, and whether it may say why it failed: of a hidden one only the message
    that the teacher wrote."""
    statements = [one for one in getattr(parse(cell.full), "body", ()) if one.lineno == line]
    if not statements:
        return "the check comes to its end", True
    own = [text.strip() for text in cell.full.splitlines()[line - 1 : statements[0].end_lineno]]
    shown = {text.strip() for text in cell.source.splitlines()}
    if any(text not in shown for text in own):
        return "a hidden test", isinstance(statements[0], ast.Assert) and statements[0].msg is not None
    return f"`{' '.join(own).replace('`', ' ')[:_MOST_TEXT]}`", True


def not_attempted(cell: ReleasedCell) -> Verdict:
    if cell.role == "by hand":
        return Verdict(0.0, "not attempted", text="No answer was written.")
    return Verdict(0.0, "not attempted", _card(cell, "not attempted"))


def raised(cell: ReleasedCell, error: list[str], what: str = "the answer's cell runs") -> Verdict:
    """The answer's own cell raised, or there is no answer to judge."""
    message = _CELL_FILE.sub("", f"{error[0]}: {error[1]}".rstrip(": "))
    claim = Claim(what, False, details=(("raised", message),))
    return Verdict(0.0, "raised", _card(cell, "error", claim), raised=message)


def stopped(cell: ReleasedCell, ended: Ended) -> Verdict:
    """The answer's process was killed or ran out of time; without an outcome, that was not the answer's doing."""
    if not ended.outcome:
        return unjudged(str(ended))
    claim = Claim("comes to an end by itself", False, details=(("stopped", str(ended)),))
    return Verdict(0.0, "timed out" if ended.outcome == "timed out" else "killed", _card(cell, "partial", claim))


def unjudged(why: str) -> Verdict:
    """The check could not be run, which is nobody's answer's fault."""
    return Verdict(0.0, "review by hand", text=f"It could not be judged: {why}.")


def reviews(verdict: Verdict, label: str, result: dict[str, Any]) -> Iterable[str]:
    """What a teacher has to look at first, one sentence each: what was replaced where that earned something; what was
    asked for and refused where the answer then failed, though nothing is gained by asking."""
    replaced = [str(name)[:100] for name in result.get("replaced", ())]
    if replaced and verdict.earned:
        yield f"In {label}: replaced {', '.join(some(replaced, 3))}."
    for what in result.get("refused", ())[:10] if verdict.outcome != "passed" else ():
        yield f"In {label}: the code {str(what)[:200]}."


def result_of(cell: ReleasedCell, verdict: Verdict) -> ExerciseResult:
    """The result for the report. Points that have to wait for the teacher are withheld."""
    earned, outcome = verdict.earned, verdict.outcome
    score, text = verdict.score, verdict.text
    lost = () if score is None or verdict.reviews else tuple(_lost(score))
    said = f"{earned:g} of {cell.points:g} points" if verdict.reviews else "; ".join(what for what, _ in lost) or text
    if verdict.reviews:
        earned, outcome, text = 0.0, "review by hand", WITHHELD
        if score is not None:
            score.notes = (WITHHELD, *score.notes)
    likely = [] if score is None else [one.misconception for one in score.claims if not one.held and one.misconception]
    html = f"<p><code>{escape(cell.name)}</code>: {escape(text)}</p>" if score is None else score._repr_html_()
    return ExerciseResult(
        grade_id=cell.grade_id,
        exercise=cell.name,
        earned=earned,
        possible=cell.points,
        outcome=outcome,
        said=said[:1000],  # more than that no cell of a table shows
        misconceptions=tuple(dict.fromkeys(known.name for known in likely if known.name)),
        html=_LINK.sub(r"\1", html).replace("judged yet", "judged").replace("attempted yet", "attempted"),
        by_hand=cell.role == "by hand",
        lost=lost,
    )


def _lost(score: Score) -> Iterable[tuple[str, float]]:
    """What does not hold, with the points that it costs: what is missing, shared out by the claims' weights."""
    failed = [claim for claim in score.claims if not claim.held]
    total = sum(claim.weight for claim in failed)
    costs = [(score.possible - score) * (claim.weight / total if total else 1 / len(failed)) for claim in failed]
    for claim, cost in zip(failed, costs, strict=True):
        if claim.judged:
            why = [f": {value}" for label, value in claim.details if label in _WHY and value not in claim.text]
            why += [f" (likely: {known.name})"] if (known := claim.misconception) and known.name else []
            yield claim.text + "".join(why), cost
    rest = {claim.text: cost for claim, cost in zip(failed, costs, strict=True) if not claim.judged}
    if rest:
        number = "one more claim" if len(rest) == 1 else f"{len(rest)} more claims"
        yield f"{number}, not judged, because an earlier one does not hold: {'; '.join(rest)}", sum(rest.values())


def _card(cell: ReleasedCell, status: Status, *claims: Claim, earned: float = 0.0, **more: Any) -> Score:
    """The card of an answer; ``possible`` are the released cell's points, which a teacher may have changed."""
    more |= {"lesson": cell.lesson, "exercise": cell.name, "possible": cell.points}
    return Score(earned, status=status, claims=claims, **more)
