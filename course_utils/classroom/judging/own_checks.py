"""A teacher's own check cells: what their tests claim, and what the result of running them is worth (``own_check``)."""

from __future__ import annotations

import ast
import math
from dataclasses import dataclass
from typing import Any

from course_utils.checks.score import Claim, Score, Status
from course_utils.classroom.course.rules import WEIGHT
from course_utils.classroom.course.source import parse
from course_utils.classroom.judging.outcomes import Verdict, name_in
from course_utils.classroom.judging.results import Outcome
from course_utils.classroom.rebuild.released import ReleasedCell

_ALL_OR_NONE = "These tests earn their points together: all of them, or none."
_MOST_TEXT = 120  # characters of a test that a card shows


@dataclass(frozen=True)
class _Test:
    """One statement of the check: its first and last line, what the card says of it, and its weight, if it has one."""

    first: int
    last: int
    text: str
    told: bool  # whether its message is for the student
    weight: float | None


def separate(cell: ReleasedCell) -> list[int]:
    """The first lines of the check's tests where one has a weight, ``# weight: 2``: then each earns its own share."""
    tests = _tests(cell)
    return [test.first for test in tests] if any(test.weight is not None for test in tests) else []


def own_check(cell: ReleasedCell, result: dict[str, Any]) -> Verdict | None:
    """The verdict on what a teacher's own check sent; None where it is not what such a check sends.

    Passed if nothing fails; a last value that is a number is partial credit. Where tests have weights, each that holds
    earns its share, those without a weight as one of weight 1.
    """
    tests, failed, value, said = _tests(cell), dict[int, str](), result.get("value"), list[str]()
    match result:
        case {"failed": list(items), "value": None | float()} if value is None or math.isfinite(value):
            for item in items:
                match item:
                    case [int(line), str(kind), str(text)]:
                        failed[line], said = f"{kind}: {text}".rstrip(": "), [kind, text]
                    case _:
                        return None
        case _:
            return None
    weighted, end = separate(cell), math.inf
    if failed and max(failed) not in weighted:
        end = max(failed)  # nothing after it was run
    claims = []
    for test in tests:
        shown = failed.get(test.first, "").removeprefix("AssertionError").removeprefix(": ") if test.told else ""
        weight, details = 1.0 if test.weight is None else test.weight, (("said", shown),) if shown else ()
        ran, fails = test.last < end, test.first in failed
        claims.append(Claim(test.text, ran and not fails, details=details, weight=weight, judged=ran or fails))
    if end is not math.inf and not any(test.first == end for test in tests):
        claims.append(Claim("the check comes to its end", False, details=(("raised", failed[int(end)]),), weight=0.0))
    total = sum(claim.weight for claim in claims)
    earned, notes = cell.points, list[str]()
    if failed:
        share = sum(claim.weight for claim in claims if claim.held) / total if weighted and total else 0.0
        earned = math.floor(cell.points * share * 100) / 100
        notes = [] if weighted else [_ALL_OR_NONE]
    elif value is not None:
        earned = min(max(value, 0.0), cell.points)
        notes = [f"The check gave {earned:g} of {cell.points:g} points."]
    error = bool(failed) and any(not text.startswith("AssertionError") for text in failed.values())
    outcome: Outcome = "passed" if not failed and earned == cell.points else "partial" if earned else "wrong"
    status: Status = "passed" if outcome == "passed" else "partial"
    if outcome == "wrong" and error:
        outcome, status = "raised", "error"
    about = {"lesson": "", "exercise": cell.name}
    score = Score(earned, **about, possible=cell.points, status=status, claims=tuple(claims), notes=tuple(notes))
    return Verdict(earned, outcome, score, undefined=name_in(": ".join(said)), raised=error)


def _tests(cell: ReleasedCell) -> list[_Test]:
    shown = {line.strip() for line in cell.source.splitlines()}
    lines = cell.full.splitlines()
    tree, tests = parse(cell.full), []
    for statement in tree.body if tree else ():
        last = statement.end_lineno or statement.lineno
        called = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call)
        if not isinstance(statement, ast.Assert) and not (called and "assert" in lines[statement.lineno - 1].lower()):
            continue
        own = lines[statement.lineno - 1 : last]
        hidden = any(line.strip() not in shown for line in own)
        weight = WEIGHT.search(" ".join(own))
        text = "a hidden test" if hidden else WEIGHT.sub("", " ".join(line.strip() for line in own)).strip()
        text = text if hidden else f"`{text.replace('`', ' ')[:_MOST_TEXT]}`"
        told = not hidden or (isinstance(statement, ast.Assert) and statement.msg is not None)
        tests.append(_Test(statement.lineno, last, text, told, float(weight[1]) if weight else None))
    return tests
