"""Drills: small random autograd programs to read, with answers that come from running them (``drill``).

practice = drill("flags")               # shows a program and what is asked
practice.check({"a": True, "b": ...})   # says for each wrong answer which line decided it, and why
"""

from __future__ import annotations

import importlib
import operator
import random
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from course_utils.base.document import Block, Shown
from course_utils.base.errors import explain
from course_utils.base.text import describe
from course_utils.drills.card import DrillScore, drill_card, judged
from course_utils.drills.engine import Question, apart, written
from course_utils.drills.moves import Answer, Topic
from course_utils.drills.review import pull_request
from course_utils.progress.history import record_drill, stored

LEVELS = (1, 2, 3)
TOPICS = ("flags", "leaves", "modes", "edits", "gates", "hooks", "functions", "scale", "in_dims")
REVIEW = "review"
_FRESH_SEEDS = 1_000_000


def drill(topic: str | None = None, seed: int | str | None = None, level: int = 1) -> Drill:
    """A small autograd program to read, and questions about it; without a topic, on what you have yet to clear up.

    The same topic, level and seed give the same program on every machine with the same version of the course and of
    PyTorch; the answers come from PyTorch.

    Args:
        topic: ``"flags"`` (what requires grad), ``"leaves"`` (what is a leaf, whose ``.grad`` is filled), ``"modes"``
            (where grad mode is on), ``"edits"`` (what in-place edits do to backward), ``"gates"`` (which branches run,
            None or zeros), ``"hooks"`` (which fires, what it sees), ``"functions"`` (what is kept for backward),
            ``"scale"`` (which divisor accumulation needs), ``"in_dims"`` (which ``in_dims`` do a loop's work) or
            ``"review"`` (which line of a colleague's answer is wrong, of an exercise that you have passed). None takes
            what the course remembers of you: a misconception that is still open, else the one that was cleared up
            longest ago, else any.
        seed: a whole number or a text, for example a student's number. None draws a fresh one and shows it.
        level: 1 to 3. Each level has something to think about that the one below it has not.

    Returns:
        The drill: shows itself as a card in a notebook and as text elsewhere. Answer with its ``check``.

    Raises:
        ValueError: there is no such topic or level, or nothing to review yet; the message says what there is.
        TypeError: the seed is neither a whole number nor a text.

    Example:
        >>> drill("flags", seed=7).seed
        7
    """
    topic, because = _due() if topic is None else (topic, "")
    if topic not in (*TOPICS, REVIEW):
        topics = ", ".join((*TOPICS, REVIEW))
        raise ValueError(explain(f"drill({describe(topic)}) was asked for.", f"one of {topics}."))
    if level not in LEVELS:
        raise ValueError(explain(f"drill({topic!r}, level={describe(level)}) was asked for.", "level 1, 2 or 3."))
    seed, level = secrets.randbelow(_FRESH_SEEDS) if seed is None else _seed(seed), int(level)
    draw = random.Random(f"{topic}/{level}/{seed}")
    if topic == REVIEW:
        return Drill(topic, level, seed, *pull_request(draw, level))
    table = topic_of(topic)
    return Drill(topic, level, seed, *apart(lambda: written(table, level, draw)), table.task, because)


def topic_of(name: str) -> Topic:
    """The table of a topic."""
    return importlib.import_module(f"course_utils.drills.{name}").TOPIC


def _due() -> tuple[str, str]:
    """The topic of a misconception that is open, else of the one that was cleared up longest ago, else any; and why."""
    by_lesson = {lesson: name for name in TOPICS for lesson in topic_of(name).lessons}
    rows = [(by_lesson[one], row) for row in stored().told.values() if (one := row.home.partition("/")[0]) in by_lesson]
    if still_open := [(topic, row) for topic, row in rows if row.is_open]:
        topic, row = secrets.choice(still_open)
        return topic, f"“{row.name}” is still open in `{row.exercise}`."
    if rows:
        topic, row = min(rows, key=lambda pair: pair[1].cleared_at or "")
        return topic, f"You cleared up “{row.name}” longest ago."
    return secrets.choice(TOPICS), ""


def _seed(seed: Any) -> int | str:
    if isinstance(seed, str):
        return seed.strip()
    try:
        return int(operator.index(seed))  # NumPy's and torch's whole numbers too
    except TypeError:
        did = f"drill(..., seed={describe(seed)}) was called."
        raise TypeError(explain(did, "a whole number, a text, or None for a fresh seed.")) from None


@dataclass(frozen=True, repr=False)
class Drill(Shown):
    """A program to read and what is asked about it.

    Attributes:
        topic: what it is about.
        level: how hard it is, 1 to 3.
        seed: gives the same drill again.
        lines: the program.
        questions: what is asked of it, with the answers and their reasons.
        task: what is asked of the whole program, in words.
        because: why this one was drawn, as a sentence; empty where it was asked for.
    """

    topic: str
    level: int
    seed: int | str
    lines: tuple[str, ...]
    questions: tuple[Question, ...]
    task: str
    because: str = ""

    @property
    def code(self) -> str:
        """The program, as it is shown."""
        return "\n".join(self.lines)

    @property
    def choices(self) -> dict[str, tuple[Answer, ...]]:
        """What is asked: each key with the values to choose from."""
        return {question.key: question.choices for question in self.questions}

    def check(self, answers: Mapping[str, Any]) -> DrillScore:
        """Compares with what PyTorch did when the program was run, in a thread of its own, for ``drill``.

        Args:
            answers: a value for each key, see ``choices``. Truth values of NumPy and torch count, and 1 and 0; texts
                are compared without regard to case and outer spaces, and a number, True or None may stand in quotes or
                without. A missing value is no error, and not right.

        Returns:
            The score, one point for each key, as a card. ``progress()`` counts the first answer to each key.
        """
        found, notes = judged(self.questions, self.lines, answers)
        held = {one.key: one.is_right for one in found if one.is_right is not None and one.key in self.choices}
        not_stored = record_drill(self.topic, self.level, self.seed, held)
        notes += (not_stored,) if not_stored else ()
        return DrillScore(self.topic, self.level, self.seed, len(self.questions), found, notes)

    def card(self) -> Block:
        return drill_card(self)
