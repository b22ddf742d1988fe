"""A teacher's own check cells: what their tests claim, and what the result of running them is worth (``own_check``)."""

from __future__ import annotations

import ast
import math
from dataclasses import dataclass
from typing import Any

from course_utils.checks.score import Claim, Score, Status
from course_utils.classroom.course.source import parse
from course_utils.classroom.judging.outcomes import Verdict, name_in
from course_utils.classroom.judging.results import Outcome
from course_utils.classroom.rebuild.released import ReleasedCell

_ALL_OR_NONE = "These tests earn their points together: all of them, or none."
_MOST_TEXT = 120  # characters of a test that a card shows


@dataclass(frozen=True)
class _Test:
    """One statement of the check: its first line, what the card says of it, whether its message is for the student."""

    line: int
    text: str
    told: bool


def own_check(cell: ReleasedCell, result: dict[str, Any]) -> Verdict | None:
    """The verdict on what a teacher's own check sent; None where it is not what such a check sends.

    As with nbgrader, its tests earn their points together: passed if nothing fails, and a last value that is a number
    is partial credit.
    """
    failed: tuple[int, str] | None
    match result:
        case {"failed": None, "value": None | float() as value} if value is None or math.isfinite(value):
            failed = None
        case {"failed": [int(line), str(kind), str(text)], "value": None}:
            failed, value = (line, f"{kind}: {text}".rstrip(": ")), None
        case _:
            return None
    end = failed[0] if failed else math.inf
    claims = []
    for test in _tests(cell):
        said = failed[1].removeprefix("AssertionError").removeprefix(": ") if failed and test.line == end else ""
        details = (("said", said),) if said and test.told else ()
        claims.append(Claim(test.text, test.line < end, details=details, judged=test.line <= end))
    if failed and not any(test.line == end for test in _tests(cell)):
        claims.append(Claim("the check comes to its end", False, details=(("raised", failed[1]),), weight=0.0))
    earned, notes = cell.points, list[str]()
    if failed:
        earned, notes = 0.0, [_ALL_OR_NONE]
    elif value is not None:
        earned = min(max(value, 0.0), cell.points)
        notes = [f"The check gave {earned:g} of {cell.points:g} points."]
    raised = failed is not None and not failed[1].startswith("AssertionError")
    outcome: Outcome = "passed" if not failed and earned == cell.points else "partial" if earned else "wrong"
    status: Status = "passed" if outcome == "passed" else "partial"
    if outcome == "wrong" and raised:
        outcome, status = "raised", "error"
    about = {"lesson": "", "exercise": cell.name}
    score = Score(earned, **about, possible=cell.points, status=status, claims=tuple(claims), notes=tuple(notes))
    return Verdict(
        earned,
        outcome,
        score,
        undefined=name_in(failed[1].removeprefix("AssertionError: ")) if failed else "",
        raised=raised,
    )


def _tests(cell: ReleasedCell) -> list[_Test]:
    shown = {line.strip() for line in cell.source.splitlines()}
    lines = cell.full.splitlines()
    tree, tests = parse(cell.full), []
    for statement in tree.body if tree else ():
        called = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call)
        if not isinstance(statement, ast.Assert) and not (called and "assert" in lines[statement.lineno - 1].lower()):
            continue
        own = [line.strip() for line in lines[statement.lineno - 1 : statement.end_lineno or statement.lineno]]
        hidden = any(line not in shown for line in own)
        text = "a hidden test" if hidden else f"`{' '.join(own).replace('`', ' ')[:_MOST_TEXT]}`"
        told = not hidden or (isinstance(statement, ast.Assert) and statement.msg is not None)
        tests.append(_Test(statement.lineno, text, told))
    return tests
