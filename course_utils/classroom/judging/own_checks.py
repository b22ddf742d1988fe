"""A teacher's own check cells: what the result of running them is worth (``own_check``)."""

from __future__ import annotations

import ast
import math
from typing import Any

from course_utils.checks.score import Claim, Score, Status
from course_utils.classroom.course.source import parse
from course_utils.classroom.judging.outcomes import Verdict, name_in
from course_utils.classroom.judging.results import Outcome
from course_utils.classroom.rebuild.reading import ReleasedCell

_ALL_OR_NONE = "These tests earn their points together: all of them, or none."
_MOST_TEXT = 120  # characters of a test that a card shows


def own_check(cell: ReleasedCell, result: dict[str, Any]) -> Verdict | None:
    """The verdict on what a teacher's own check sent; None where it is not what such a check sends.

    As with nbgrader, its tests earn their points together: passed if nothing fails, and a last value that is a number
    is partial credit.
    """
    about: dict[str, Any] = {"lesson": "", "exercise": cell.name, "possible": cell.points}
    match result:
        case {"failed": None, "value": None | float() as value} if value is None or math.isfinite(value):
            earned = cell.points if value is None else min(max(value, 0.0), cell.points)
            notes = () if value is None else (f"The check gave {earned:g} of {cell.points:g} points.",)
            outcome: Outcome = "passed" if earned == cell.points else "partial" if earned else "wrong"
            status: Status = "passed" if outcome == "passed" else "partial"
            return Verdict(earned, outcome, Score(earned, **about, status=status, claims=(), notes=notes))
        case {"failed": [int(line), str(kind), str(text)], "value": None}:
            test, is_told = _test(cell, line)
            raised, said = kind != "AssertionError", f"{kind}: {text}".removeprefix("AssertionError").strip(": ")
            claim = Claim(test, False, details=(("said", said),) if said and is_told else ())
            score = Score(0.0, **about, status="error" if raised else "partial", claims=(claim,), notes=(_ALL_OR_NONE,))
            outcome = "raised" if raised else "wrong"
            return Verdict(0.0, outcome, score, undefined=name_in(said), raised=raised)
    return None


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
