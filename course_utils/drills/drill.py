"""Drills: small random autograd programs to read, with answers that come from running them (``drill``).

practice = drill("flags")               # shows a program and what is asked
practice.check({"a": True, "b": ...})   # says for each wrong answer which line decided it, and why
"""

from __future__ import annotations

import importlib
import operator
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from course_utils.base.document import Block, Shown
from course_utils.base.errors import explain
from course_utils.base.text import describe

if TYPE_CHECKING:
    from course_utils.drills.card import DrillScore
    from course_utils.drills.programs import Program

LEVELS = (1, 2, 3)
TOPICS = ("flags", "leaves", "modes", "edits", "gates", "hooks", "functions", "scale", "in_dims")
_FRESH_SEEDS = 1_000_000
_MOST_DRAWS = 5000  # of programs that come to nothing; a topic needs some tens


def drill(topic: str | None = None, seed: int | str | None = None, level: int = 1) -> Drill:
    """A small autograd program to read, and questions about it; without a topic, on what you have yet to clear up.

    The same topic, level and seed give the same program on every machine with the same version of the course and of
    PyTorch; the answers come from PyTorch.

    Args:
        topic: ``"flags"`` (what requires grad), ``"leaves"`` (what is a leaf, whose ``.grad`` is filled), ``"modes"``
            (where grad mode is on), ``"edits"`` (what in-place edits do to backward), ``"gates"`` (which branches run,
            None or zeros), ``"hooks"`` (which fires, what it sees), ``"functions"`` (what is kept for backward),
            ``"scale"`` (which divisor accumulation needs) or ``"in_dims"`` (which ``in_dims`` do a loop's work). None
            takes what the course remembers of you: a misconception that is still open, else the one that was cleared up
            longest ago, else any.
        seed: a whole number or a text, for example a student's number. None draws a fresh one and shows it.
        level: 1 to 3. Each level has something to think about that the one below it has not.

    Returns:
        The drill: shows itself as a card in a notebook and as text elsewhere. Answer with its ``check``.

    Raises:
        ValueError: there is no such topic or level; the message names those there are.
        TypeError: the seed is neither a whole number nor a text.

    Example:
        >>> drill("flags", seed=7).seed
        7
    """
    because = ""
    if topic is None:
        from course_utils.drills.due import due

        topic, because = due({name: _topic(name).LESSONS for name in TOPICS})
    if topic not in TOPICS:
        raise ValueError(explain(f"drill({describe(topic)}) was asked for.", "one of " + ", ".join(TOPICS) + "."))
    if level not in LEVELS:
        did = f"drill({topic!r}, level={describe(level)}) was asked for."
        raise ValueError(explain(did, "level 1, 2 or 3."))
    seed = secrets.randbelow(_FRESH_SEEDS) if seed is None else _seed(seed)
    level = int(level)
    return Drill(topic, level, seed, _written(topic, level, seed), because)


def _topic(name: str) -> Any:
    """The module of a topic: its ``TASK``, ``LESSONS``, ``MARKS``, ``write``, and ``EXPLAINED`` where it has that."""
    return importlib.import_module(f"course_utils.drills.{name}")


def _written(name: str, level: int, seed: int | str) -> Program:
    """The program of a seed: the first one drawn that comes to something and has what its level is about."""
    import torch

    from course_utils.drills.page import Refused, has_marks
    from course_utils.drills.programs import Draw
    from course_utils.drills.run import apart

    topic, draw = _topic(name), Draw(f"{name}/{level}/{seed}")

    def write() -> Program:
        why = ""
        for _ in range(_MOST_DRAWS):
            try:
                with torch.enable_grad():
                    program = topic.write(draw, level)
            except Refused as refused:
                why = str(refused)
                continue
            if has_marks(program.code, topic.MARKS, level):
                return program
            why = "a mark of the level is missing, or one of the next level there"
        raise RuntimeError(
            explain(f"{_MOST_DRAWS} programs were drawn for {name}, level {level}.", "one to ask about.", why)
        )

    return apart(write)


def _seed(seed: Any) -> int | str:
    if isinstance(seed, str):
        return seed.strip()
    try:
        return int(operator.index(seed))  # NumPy's and torch's whole numbers too
    except TypeError:
        raise TypeError(
            explain(
                f"drill(..., seed={describe(seed)}) was called.", "a whole number, a text, or None for a fresh seed."
            )
        ) from None


@dataclass(frozen=True, repr=False)
class Drill(Shown):
    """A program to read and what is asked about it.

    Attributes:
        topic: its topic.
        level: 1 to 3.
        seed: what it was made from; the same seed gives it again.
        program: the program itself, as plain data.
        because: why this topic was drawn, as a sentence; empty where it was asked for.
    """

    topic: str
    level: int
    seed: int | str
    program: Program
    because: str = ""

    @property
    def code(self) -> str:
        """The program, as it is shown."""
        return self.program.code

    @property
    def choices(self) -> dict[str, tuple[bool | str, ...]]:
        """What is asked: each key with the values to choose from."""
        return {question.key: question.choices or (True, False) for question in self.program.questions}

    @property
    def task(self) -> str:
        """What is asked of the whole program, in words, and what no lesson says of the program's names."""
        topic = _topic(self.topic)
        explained = getattr(topic, "EXPLAINED", {}).items()
        return " ".join([topic.TASK, *(said for name, said in explained if name in self.code)])

    def check(self, answers: Mapping[str, Any]) -> DrillScore:
        """Compares with what PyTorch did when the program was run, in a thread of its own, for ``drill``.

        Args:
            answers: a value for each key, see ``choices``. Truth values of NumPy and torch count, and 1 and 0; texts
                are compared without regard to case and outer spaces, and quotes may be left out or be too
                many: a number, None, ``"True"``. A missing value is no error, and not right.

        Returns:
            The score, one point for each key: a number, and a card in a notebook. ``progress()`` counts the first
            answer to each key.
        """
        from course_utils.drills.answers import score
        from course_utils.progress.history import record_drill

        found = score(self, answers)
        held = {claim.text.strip("`"): claim.held for claim in found.claims if claim.judged}
        if not_stored := record_drill(self.topic, self.level, self.seed, held):
            found.notes += (not_stored,)
        return found

    def card(self) -> Block:
        from course_utils.drills.card import drill_card

        return drill_card(self)
