"""Drills: small random autograd programs to read, with answers that come from running them (``drill``).

practice = drill("flags")               # shows a program and what is asked
practice.check({"a": True, "b": ...})   # says for each wrong answer which line decided it, and why
"""

from __future__ import annotations

import contextlib
import operator
import random
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from course_utils.base import explain
from course_utils.base.document import Block, Shown, Sign, card, code, item, items, line, notes, paragraph, rows, typed
from course_utils.base.markup import GREEN, GREY, ORANGE, clean
from course_utils.base.text import describe
from course_utils.checks.score import RIGHT, WRONG
from course_utils.drills.loops import IN_DIMS, SCALE
from course_utils.drills.modules import GATES, HOOKS
from course_utils.drills.moves import Answer, Question, apart, as_typed, written
from course_utils.drills.recording import FLAGS, LEAVES, MODES
from course_utils.drills.review import pull_request
from course_utils.drills.saved import EDITS, FUNCTIONS
from course_utils.progress.history import record_drill, stored

LEVELS = (1, 2, 3)
TOPICS = {
    "flags": FLAGS, "leaves": LEAVES, "modes": MODES, "edits": EDITS, "gates": GATES, "hooks": HOOKS,
    "functions": FUNCTIONS, "scale": SCALE, "in_dims": IN_DIMS,
}  # fmt: skip
REVIEW = "review"
_UNREADABLE, _OPEN = Sign("✗", "no answer to the question", ORANGE), Sign("-", "no answer yet", GREY)


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
    if seed is None:
        seed = secrets.randbelow(1_000_000)
    elif not isinstance(seed, str) and not hasattr(seed, "__index__"):
        did = f"drill(..., seed={describe(seed)}) was called."
        raise TypeError(explain(did, "a whole number, a text, or None for a fresh seed."))
    seed, level = seed.strip() if isinstance(seed, str) else operator.index(seed), int(level)
    draw = random.Random(f"{topic}/{level}/{seed}")
    if topic == REVIEW:
        return Drill(topic, level, seed, *pull_request(draw, level))
    table = TOPICS[topic]
    return Drill(topic, level, seed, *apart(lambda: written(table, level, draw)), table.task, because)


def _due() -> tuple[str, str]:
    """The topic of a misconception that is open, else of the one that was cleared up longest ago, else any; and why."""
    known = [(row, row.home.partition("/")[0]) for row in stored().told.values()]
    rows = [(row, names) for row, one in known if (names := [name for name in TOPICS if one in TOPICS[name].lessons])]
    if not rows:
        return secrets.choice([*TOPICS]), ""
    row, names = min(rows, key=lambda pair: pair[0].cleared_at or "")
    is_open, cleared = f"“{row.name}” is still open in `{row.exercise}`.", f"You cleared up “{row.name}” longest ago."
    return secrets.choice(names), is_open if row.is_open else cleared


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
    def choices(self) -> dict[str, tuple[Answer, ...]]:
        """What is asked: each key with the values to choose from."""
        return {question.key: question.choices for question in self.questions}

    def check(self, answers: Mapping[str, Any]) -> DrillScore:
        """Compares with what PyTorch did when the program was run, in a thread of its own, for ``drill``.

        Args:
            answers: a value for each key, see ``choices``. Truth values of NumPy and torch count, and 1 and 0; texts
                in any case, with outer spaces or quotes. What is missing is not right.

        Returns:
            The score, one point for each key, as a card. ``progress()`` counts the first answer to each key.
        """
        if repr(answers) in ("None", "Ellipsis", "{Ellipsis}"):
            answers = {}
        if not isinstance(answers, Mapping):
            details = ("you said", describe(answers, 40)), ("expected", f"a dict with {', '.join(self.choices)}")
            return DrillScore(self, (Judged("your answer", False, "", details),))
        found = tuple(self._judged(question, answers.get(question.key, ...)) for question in self.questions)
        if all(one.is_right is None for one in found):
            return DrillScore(self)
        extra = [describe(key, 30) for key in answers if key not in self.choices][:6]
        ignored = f"Ignored, since the drill does not ask for it: {', '.join(extra)}." if extra else ""
        held = {one.key: one.is_right for one in found if one.is_right is not None}
        not_stored = record_drill(self.topic, self.level, self.seed, held)
        return DrillScore(self, found, tuple(note for note in (ignored, not_stored) if note))

    def _judged(self, question: Question, given: Any) -> Judged:
        value, said = _choice(given, question.choices), ("you said", describe(given, 40))
        if value in (..., question.answer):
            return Judged(question.key, value is not ... or None)
        if value is None:
            return Judged(question.key, False, "", (said, ("expected", _one_of(question))))
        decides = f"line {question.line}", self.lines[question.line - 1].strip()
        explanation = f"Line {question.line} decides. {question.explanation}"
        return Judged(question.key, False, explanation, (said, ("PyTorch", as_typed(question.answer)), decides))

    def card(self) -> Block:
        """The program, what is asked, and the cell to answer with."""
        numbered = "\n".join(f"{number:2}  {line}" for number, line in enumerate(self.lines, 1))
        kinds: dict[str, list[str]] = {}
        for question in self.questions:
            kinds.setdefault(f"{question.asks} Answer {_one_of(question)}.", []).append(f"`{question.key}`")
        call = _call(self.topic, self.level, f", seed={self.seed!r}")  # the same drill tomorrow
        cell = [f"{call}.check({{", *(f'    "{key}": ...,' for key in self.choices), "})"]
        blocks = [
            *[paragraph(self.because)] * bool(self.because),
            paragraph(f"{self.task} Read the program, do not run it: the check does that."),
            typed(numbered),
            *(paragraph(f"{', '.join(keys)}: {asks}") for asks, keys in kinds.items()),
            paragraph("Answer in a cell of its own:"),
            code("\n".join(cell)),
        ]
        return card(_title(self), blocks, is_section=True)


def _title(made: Drill) -> str:
    return f"{made.topic} drill, level {made.level}, seed {clean(made.seed, 40)}"


def _call(topic: str, level: int, seed: str = "") -> str:
    """The call that makes a drill; ``seed`` as it is written there."""
    return f'drill("{topic}"{seed}' + f", level={level}" * (level > 1) + ")"


class Judged(NamedTuple):
    """What became of one key: whether it is right (None where there is no answer yet), the explanation of a wrong one
    (empty where it is no answer to the question), and what else a card shows, as pairs of a label and a text."""

    key: str
    is_right: bool | None
    explanation: str = ""
    details: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, repr=False)
class DrillScore(Shown):
    """What a drill's check found, as a card; ``float(score)`` is how many answers are right.

    Attributes:
        drill: what was answered.
        answers: what became of each key; empty where nothing was answered.
        notes: remarks of one line each.
    """

    drill: Drill
    answers: tuple[Judged, ...] = ()
    notes: tuple[str, ...] = ()

    def __float__(self) -> float:
        return float(sum(one.is_right is True for one in self.answers))

    @property
    def possible(self) -> int:
        """How many keys there are."""
        return len(self.drill.questions)

    @property
    def status(self) -> str:
        """``"passed"`` where all is right, ``"partial"``, or ``"not attempted"``."""
        if not self.answers:
            return "not attempted"
        return "passed" if float(self) == self.possible else "partial"

    def card(self) -> Block:
        wrong = [
            item(WRONG if why else _UNREADABLE, f"`{key}`", [*[paragraph(why)] * bool(why), rows(details)])
            for key, is_right, why, details in self.answers
            if is_right is False
        ]
        right, no_answer = ([f"`{one.key}`" for one in self.answers if one.is_right is it] for it in (True, None))
        others = [line(sign, ", ".join(keys)) for sign, keys in ((RIGHT, right), (_OPEN, no_answer)) if keys]
        blocks = [items(wrong, "", others)] * bool(self.answers) + [notes(self.notes)] * bool(self.notes)
        verdict = f"{float(self):.0f} of {self.possible} right." if self.answers else "not attempted yet."
        colour = {"passed": GREEN, "not attempted": GREY}.get(self.status, ORANGE)
        blocks.append(paragraph(self._next_step(), "Next"))
        return card(f"{_title(self.drill)}: {verdict}", blocks, colour, is_section=True)

    def _next_step(self) -> str:
        if self.status == "not attempted":
            return "Put your answers in place of the `...`, and run the cell again."
        topic, level = self.drill.topic, self.drill.level
        another = f"`{_call(topic, level)}` draws another program"
        if self.status != "passed":
            return f"answer again, or go on: {another}."
        return f"{another}, `{_call(topic, level + 1)}` a harder one." if level < 3 else f"{another}."


def _one_of(question: Question) -> str:
    *others, last = map(as_typed, question.choices)
    return f"{', '.join(others)} or {last}"


def _choice(given: Any, choices: tuple[Answer, ...]) -> Any:
    """The choice that an answer stands for; ``...`` for none yet, None for what is no answer to the question."""
    names: dict[str, Answer] = {str(choice).casefold(): choice for choice in choices}
    if True in choices:
        names |= {"1": True, "0": False}
    with contextlib.suppress(AttributeError, TypeError, RuntimeError, ValueError):
        given = given.item()  # of NumPy and torch
    text = format(given, "g") if isinstance(given, float) else str(given).strip().casefold()
    return names.get(text, ... if given is None or given is ... else None)
