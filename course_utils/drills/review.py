"""A colleague's pull request to review (``pull_request``): the model answer of an exercise that the learner has passed,
with one of its known mistakes in it. What the exercise's own claims see of it is the proof.
"""

import importlib
import random
import re
from collections.abc import Iterator
from typing import NamedTuple
from unittest import mock

from course_utils.base import explain
from course_utils.catalogue import LESSONS
from course_utils.checks import trial
from course_utils.checks.compare import Compared, edited
from course_utils.checks.judge import judge
from course_utils.checks.misconceptions import Misconception
from course_utils.drills.moves import LINE_LENGTH, Question
from course_utils.progress.history import stored

_LINES = {1: 3, 2: 5, 3: 99}  # how many to choose from, by level
_OTHERS = 3  # mistakes of the exercise that are tried for what else might be seen: each takes a check


class _Mistake(NamedTuple):
    """A model answer with one wrong line (from 1): whose, at which place of its ``ways``, and the thought."""

    lesson: str
    exercise: Compared
    at: int
    thought: Misconception
    right: tuple[str, ...]
    lines: tuple[str, ...]
    wrong: int


def pull_request(draw: random.Random, level: int) -> tuple[tuple[str, ...], tuple[Question, ...], str, str]:
    """The program, what is asked of it, the task, and why this one was drawn.

    Raises:
        ValueError: no exercise has been passed of which a mistake can be shown.
    """
    had, found = stored().told, list(_mistakes())
    draw.shuffle(found)
    mine = [one for one in found if (one.lesson, one.exercise.name, one.thought.home) in had]
    for one in mine + found:  # what the learner once had wrong comes first
        about, expected, values = _seen(one, draw.getrandbits(62))
        if not values:
            continue
        others = [n for n, line in enumerate(one.lines, 1) if n != one.wrong and line.strip('" ') == line.strip() != ""]
        lines = sorted([one.wrong, *draw.sample(others, min(_LINES[level] - 1, len(others)))])
        right = f"The line is right as `{one.right[one.wrong - 1].strip()}`, and the check expects {expected}."
        proof = one.wrong, f"{' '.join(one.thought.explanation.split())} {right}"
        seen = f"What does the check see of “{about}”?"
        questions = (
            Question("line", str(one.wrong), *proof, "Which line is wrong?", (*map(str, lines),), one.right, expected),
            Question("seen", values[0], *proof, seen, (*sorted(values),), one.right, expected),
        )
        name = one.exercise.name
        task = f"A colleague's pull request for `{name}`, which you have passed. One line is wrong."
        return one.lines, questions, task, f"You once had “{one.thought.name}” in `{name}`." * (one in mine)
    expected = "an exercise that you have passed: a drill shows its answer, and never that of one that is still open."
    mend = "another topic, or the next exercise; `progress()` says which that is."
    raise ValueError(explain('drill("review") was asked for.', expected, try_this=mend))


def _mistakes() -> Iterator[_Mistake]:
    taught = [info.name for info in LESSONS]  # lessons of earlier editions may be gone
    for row in [row for row in stored().attempts.values() if row.passed and row.lesson in taught]:
        exercises = importlib.import_module(f"course_utils.lessons.{row.lesson}").EXERCISES
        for exercise in [one for one in exercises if one.name == row.exercise and isinstance(one, Compared)]:
            right = _lines(exercise.source)
            for at, (key, edits) in enumerate(exercise.ways):
                lines, thought = _lines(edited(exercise.source, edits, exercise.name)), exercise.misconceptions[key]
                wrong = [n for n, pair in enumerate(zip(right, lines, strict=False), 1) if pair[0] != pair[1]]
                if len(right) == len(lines) and len(wrong) == 1 and max(map(len, lines)) <= LINE_LENGTH:
                    yield _Mistake(row.lesson, exercise, at, thought, right, lines, wrong[0])


def _lines(source: str) -> tuple[str, ...]:
    return tuple(line for line in source.strip("\n").split("\n") if not line.strip().startswith("### "))


def _seen(one: _Mistake, seed: int) -> tuple[str, str, list[str]]:
    """What the first claim that fails looks at, what it expects there, and what it sees: of this mistake, of others, of
    the right answer. Nothing is seen where that could not be told without running it."""
    ways = [at for at, (key, _) in enumerate(one.exercise.ways) if key != one.exercise.ways[one.at][0]][:_OTHERS]
    with mock.patch.object(trial, "random_bits", random.Random(seed).getrandbits):  # the same inputs each time
        tried = [judge(one.exercise, one.exercise.mistakes[at][1], one.lesson).claims for at in (one.at, *ways)]
    failed = [dict(next((it.details for it in claims if it.judged and not it.held), ())) for claims in tried]
    about, _, expected = failed[0].get("expected", "").replace("at most ", "").partition(": ")
    values = [saw.get("got", "") for saw in failed if saw.get("expected") == failed[0].get("expected")]
    seen = list(dict.fromkeys([*values, expected]))
    is_told = all(seen) and len(seen) > 1 and not re.search(r"\d\.\d", " ".join(seen))
    return about, expected, seen if is_told else []
