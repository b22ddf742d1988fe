"""A colleague's pull request to review (``pull_request``): the model answer of an exercise that the learner has passed,
with one of its known mistakes in it. What the exercise's own claims see of it is the proof.
"""

from __future__ import annotations

import contextlib
import importlib
import random
import re
from collections.abc import Iterator
from typing import NamedTuple

from course_utils.base.errors import explain
from course_utils.catalogue import LESSONS, find
from course_utils.checks import draws
from course_utils.checks.compare import Compared, edited
from course_utils.checks.judge import judge
from course_utils.checks.misconceptions import Misconception
from course_utils.checks.score import Claim
from course_utils.drills.engine import LINE_LENGTH
from course_utils.drills.moves import Draw, Question
from course_utils.progress.history import attempts, told

_LINES = {1: 3, 2: 5, 3: 99}  # how many to choose from, by level
_OTHERS = 3  # mistakes of the exercise that are tried for what else might be seen: each takes a check


class _Mistake(NamedTuple):
    """A model answer with one wrong line: in which exercise, at which place of its ``ways``, and what it shows."""

    lesson: str
    exercise: Compared
    at: int
    known: Misconception
    right: tuple[str, ...]
    lines: tuple[str, ...]
    wrong: int


def pull_request(draw: Draw, level: int) -> tuple[tuple[str, ...], tuple[Question, ...], str, str]:
    """The program, what is asked of it, the task, and why this one was drawn.

    Raises:
        ValueError: no exercise has been passed of which a mistake can be shown.
    """
    found, had = list(_mistakes()), {(row.lesson, row.exercise, row.home) for row in told()}
    mine = [(one.lesson, one.exercise.name, one.known.home) in had for one in found]
    left = sorted(((is_mine, draw.below(10**9), at) for at, is_mine in enumerate(mine)), reverse=True)
    for is_mine, seed, at in left:  # what the learner once had wrong comes first
        one = found[at]
        with _same_draws(seed):
            seen = _seen(one)
        if seen is None:
            continue
        about, expected, values = seen
        others = [at for at, text in enumerate(one.lines, 1) if at != one.wrong and _is_code(text)]
        lines = sorted([one.wrong, *(others.pop(draw.below(len(others))) for _ in others[: _LINES[level] - 1])])
        asked = (
            _question(one, "line", str(one.wrong), "which line is wrong?", list(map(str, lines)), expected),
            _question(one, "seen", values[0], f"what does the check see of “{about}”?", sorted(values), expected),
        )
        name, number = one.exercise.name, find(one.lesson).number
        task = (
            f"A colleague's pull request for `{name}` of lesson {number:02d}, which you have passed. One line is wrong."
        )
        return one.lines, asked, task, f"You once had “{one.known.name}” in `{name}`." * is_mine
    raise ValueError(
        explain(
            'drill("review") was asked for.',
            "an exercise that you have passed: a drill shows its answer, and never that of one that is still open.",
            try_this="another topic, or the next exercise; `progress()` says which that is.",
        )
    )


def _mistakes() -> Iterator[_Mistake]:
    for row in attempts():
        is_there = row.passed and row.lesson in {
            info.name for info in LESSONS
        }  # lessons of earlier editions may be gone
        exercises = importlib.import_module(f"course_utils.lessons.{row.lesson}").EXERCISES if is_there else ()
        for exercise in exercises:
            if exercise.name == row.exercise and isinstance(exercise, Compared):
                right = _lines(exercise.source)
                for at, (key, edits) in enumerate(exercise.ways):
                    lines = _lines(edited(exercise.source, edits, exercise.name))
                    wrong = [n for n, pair in enumerate(zip(right, lines, strict=False), 1) if pair[0] != pair[1]]
                    if len(right) == len(lines) and len(wrong) == 1 and max(map(len, lines)) <= LINE_LENGTH:
                        yield _Mistake(row.lesson, exercise, at, exercise.misconceptions[key], right, lines, wrong[0])


def _lines(source: str) -> tuple[str, ...]:
    return tuple(line for line in source.strip("\n").split("\n") if not line.strip().startswith("### "))


def _seen(one: _Mistake) -> tuple[str, str, list[str]] | None:
    """What the first claim that fails looks at, what it expects there, and what it sees: of this mistake, of others, of
    the right answer. None where that is nothing that could be told without running it."""
    claim, name = _failed(one, one.at), one.exercise.ways[one.at][0]
    details = dict(claim.details) if claim else {}
    about, _, expected = details.get("expected", "").replace("at most ", "").partition(": ")
    others = [_failed(one, at) for at in [at for at, (key, _) in enumerate(one.exercise.ways) if key != name][:_OTHERS]]
    told = [dict(other.details) for other in others if claim and other and other.text == claim.text]
    values = [details.get("got", "")] + [
        other["got"] for other in told if other.get("expected") == details.get("expected")
    ]
    values = list(dict.fromkeys([*values, expected]))
    is_told = all(values) and len(values) > 1 and not re.search(r"\d\.\d", " ".join(values))
    return (about, expected, values) if is_told else None


def _failed(one: _Mistake, at: int) -> Claim | None:
    """What the check says first of one of the exercise's mistakes."""
    score = judge(one.exercise, one.exercise.mistakes[at][1], one.lesson)
    return next((claim for claim in score.claims if claim.judged and not claim.held), None)


@contextlib.contextmanager
def _same_draws(seed: int) -> Iterator[None]:
    """Checks draw the same inputs each time."""
    before, draws.source = draws.source, random.Random(seed).getrandbits
    try:
        yield
    finally:
        draws.source = before


def _is_code(line: str) -> bool:
    return bool(line.strip()) and not line.strip().startswith('"""')


def _question(one: _Mistake, key: str, answer: str, asks: str, choices: list[str], expected: str) -> Question:
    """Its explanation is that of the misconception."""
    right = f"The line is right as `{one.right[one.wrong - 1].strip()}`, and the check expects {expected}."
    said = f"{' '.join(one.known.explanation.split())} {right}"
    return Question(key, answer, one.wrong, said, asks, tuple(choices), one.right, expected)
