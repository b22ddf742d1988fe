"""Drills: small random autograd programs to read, with answers that come from running them (``drill``).

practice = drill("flags")               # shows a program and what is asked; nothing has been run
practice.check({"a": True, "b": ...})   # runs it, and says for each wrong answer which line decided it, and why
"""

from __future__ import annotations

import importlib
import operator
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from course_utils.base.errors import explain
from course_utils.base.text import describe
from course_utils.checks.exercise import Exercise
from course_utils.checks.judge import judge
from course_utils.checks.misconceptions import Misconception
from course_utils.checks.predictions import Truth, add_predictions
from course_utils.checks.score import Claim
from course_utils.checks.trial import Trial
from course_utils.drills.due import due

if TYPE_CHECKING:
    from course_utils.drills.card import DrillScore
    from course_utils.drills.programs import Program, Question

LEVELS = (1, 2, 3)
TOPICS = ("flags", "leaves", "modes", "edits", "gates", "hooks", "functions", "scale", "in_dims")
_FRESH_SEEDS = 1_000_000
_WRONG = Misconception("wrong", "", "")


def drill(topic: str | None = None, seed: int | str | None = None, level: int = 1) -> Drill:
    """A small autograd program to read, and questions about it; without a topic, on what you have yet to clear up.

    The program is not run before you answer. The same topic, level and seed give the same program on every machine;
    the answers come from PyTorch.

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
        topic, because = due(TOPICS)
    if topic not in TOPICS:
        raise ValueError(explain(f"drill({describe(topic)}) was asked for.", "one of " + ", ".join(TOPICS) + "."))
    if level not in LEVELS:
        did = f"drill({topic!r}, level={describe(level)}) was asked for."
        raise ValueError(explain(did, "level 1, 2 or 3."))
    seed = secrets.randbelow(_FRESH_SEEDS) if seed is None else _seed(seed)
    level = int(level)
    from course_utils.drills.programs import Draw

    writer = importlib.import_module(f"course_utils.drills.{topic}")
    return Drill(topic, level, seed, writer.write(Draw(f"{topic}/{level}/{seed}"), level), because)


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


def _as_text(value: Any, choices: Sequence[str]) -> Any:
    """What an answer with quotes too few or too many stands for, else the answer as it is."""
    if not choices and isinstance(value, str):
        return {"true": True, "false": False}.get(value.strip().casefold(), value)
    if value is None:
        return "none" if "none" in choices else None
    if type(value) in (int, float):
        text = format(value, "g")
        return text if text in choices else value
    return value


@dataclass(frozen=True, repr=False)
class Drill:
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

    def check(self, answers: Mapping[str, Any]) -> DrillScore:
        """Runs the program and compares.

        The program runs in a thread of its own; the caller's grad mode, random state and default dtype stay as they
        are. Nothing is run while there is no answer.

        Args:
            answers: a value for each key, see ``choices``. Truth values of NumPy and torch count, and 1 and 0; texts
                are compared without regard to case and outer spaces, and quotes may be left out or be too
                many: a number, None, ``"True"``. A missing value is no error, and not right.

        Returns:
            The score, one point for each key: a number, and a card in a notebook. It is stored nowhere.
        """
        from course_utils.drills import run as drill_run
        from course_utils.drills.card import DrillScore

        found: dict[str, bool | str] = {}

        def truth(trial: Trial) -> Mapping[str, bool | str]:
            if not found:
                found.update(drill_run.answers(self.topic, self.program))
            return found

        answers = self._read(answers)
        score = judge(self._exercise(truth), answers, "drill")
        if isinstance(answers, Mapping):
            asked = zip(self.program.questions, score.claims, strict=False)
            claims = [self._told(claim, question, answers, found) for question, claim in asked]
        else:
            claims = list(score.claims)
        return DrillScore.of(score, claims, self.topic, self.level, self.seed)

    def _read(self, answers: Any) -> Any:
        """The answers, a number or None turned into the text that it is to choose from."""
        if type(answers) is not dict:
            return answers
        texts = {question.key: question.choices for question in self.program.questions if question.choices}
        return {key: _as_text(value, texts.get(key, ())) for key, value in answers.items()}

    def _exercise(self, truth: Truth) -> Exercise:
        choices = {question.key: question.choices for question in self.program.questions}
        name, points, keys = f"{self.topic} drill", float(len(choices)), list(choices)
        made = Exercise(name, points, (), {_WRONG.name: _WRONG}, watches_side_effects=False, keys=keys)
        return add_predictions(made, truth, {(key, ...): _WRONG.name for key in keys}, choices)

    def _told(self, claim: Claim, question: Question, answers: Mapping[str, Any], found: Mapping[str, Any]) -> Claim:
        """The claim as a learner of a drill is told: a wrong answer with the line that decides it."""
        given = answers.get(question.key, ...)
        if given is None or given is ...:
            return replace(claim, details=(), judged=False)
        if claim.misconception is not _WRONG:
            return claim
        actual = found[question.key]
        details = [("you said", describe(given, 40)), ("PyTorch", describe(actual))]
        diagnosis = ""
        # The rules are those of the PyTorch that the course was written with; another one may decide otherwise.
        if actual == question.expected:
            details.append((f"line {question.line}", self.program.lines[question.line - 1].strip()))
            diagnosis = f"Line {question.line} decides. {question.explanation}"
        return replace(claim, misconception=Misconception("", diagnosis, ""), details=tuple(details))

    def _repr_html_(self) -> str:
        from course_utils.drills.card import drill_html

        return drill_html(self)

    def __repr__(self) -> str:
        from course_utils.drills.card import drill_text

        return drill_text(self)
