"""How a drill looks (``drill_card``), what its check found (``judged``), and how that looks (``DrillScore``)."""

from __future__ import annotations

import contextlib
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from course_utils.base.document import Block, Shown, Sign, card, code, item, items, line, notes, paragraph, rows, typed
from course_utils.base.markup import GREEN, GREY, ORANGE, clean
from course_utils.base.text import describe
from course_utils.drills.engine import Question
from course_utils.drills.moves import Answer

if TYPE_CHECKING:
    from course_utils.drills.drill import Drill

_WRONG, _UNREADABLE = Sign("✗", "not what happens", ORANGE), Sign("✗", "no answer to the question", ORANGE)
_RIGHT, _OPEN = Sign("✓", "right", GREEN), Sign("-", "no answer yet", GREY)


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
        topic, level, seed: the drill's.
        possible: how many keys there are.
        answers: what became of each key; empty where nothing was answered.
        notes: remarks of one line each.
    """

    topic: str
    level: int
    seed: int | str
    possible: int
    answers: tuple[Judged, ...] = ()
    notes: tuple[str, ...] = ()

    def __float__(self) -> float:
        return float(sum(one.is_right is True for one in self.answers))

    @property
    def status(self) -> str:
        """``"passed"`` where all is right, ``"partial"``, or ``"not attempted"``."""
        if not self.answers:
            return "not attempted"
        return "passed" if float(self) == self.possible else "partial"

    def card(self) -> Block:
        """First what is wrong, each with the line that decides it."""
        wrong = [_wrong(one) for one in self.answers if one.is_right is False]
        others = [
            line(sign, ", ".join(f"`{one.key}`" for one in self.answers if one.is_right is is_right))
            for sign, is_right in ((_RIGHT, True), (_OPEN, None))
            if is_right in [one.is_right for one in self.answers]
        ]
        blocks = [items(wrong, "", others)] * bool(self.answers) + [notes(self.notes)] * bool(self.notes)
        verdict = f"{float(self):.0f} of {self.possible} right." if self.answers else "not attempted yet."
        colour = {"passed": GREEN, "not attempted": GREY}.get(self.status, ORANGE)
        blocks.append(paragraph(self._next_step(), "Next"))
        return card(f"{_title(self)}: {verdict}", blocks, colour, is_section=True)

    def _next_step(self) -> str:
        if self.status == "not attempted":
            return "Put your answers in place of the `...`, and run the cell again."
        another = f"`{_call(self.topic, self.level)}` draws another program"
        if self.status != "passed":
            return f"answer again, or go on: {another}."
        return f"{another}" + (f", `{_call(self.topic, self.level + 1)}` a harder one." if self.level < 3 else ".")


def drill_card(drill: Drill) -> Block:
    """A drill as a card: the program, what is asked, and the cell to answer with."""
    numbered = "\n".join(f"{number:2}  {line}" for number, line in enumerate(drill.lines, 1))
    kinds: dict[str, list[str]] = {}
    for question in drill.questions:
        values = " or ".join(map(repr, question.choices)).replace(" or ", ", ", len(question.choices) - 2)
        kinds.setdefault(f"{question.asks} {values}", []).append(question.key)
    blocks = [
        *[paragraph(drill.because)] * bool(drill.because),
        paragraph(f"{drill.task} Read the program, do not run it: the check does that."),
        typed(numbered),
        *(paragraph(f"{', '.join(f'`{key}`' for key in keys)}: {asks}") for asks, keys in kinds.items()),
        paragraph("Answer in a cell of its own:"),
        code(_cell(drill)),
    ]
    return card(_title(drill), blocks, is_section=True)


def _cell(drill: Drill) -> str:
    """The cell to answer with: it names the seed, so that it is the same drill tomorrow and on another machine."""
    # Keys may hold spaces, which are no place to break a line.
    keys = " ".join(f'"{question.key}": ...,'.replace(" ", "\0") for question in drill.questions)
    lines = textwrap.wrap(keys, 56, break_long_words=False, break_on_hyphens=False)
    inner = "\n".join(f"    {line}" for line in lines).replace("\0", " ")
    return f"{_call(drill.topic, drill.level, drill.seed)}.check({{\n{inner}\n}})"


def _title(made: Any) -> str:
    """The first words of a drill's card and of its score's."""
    return f"{made.topic} drill, level {made.level}, seed {clean(made.seed, 40)}"


def _call(topic: str, level: int, seed: int | str | None = None) -> str:
    """The call that makes a drill."""
    return f'drill("{topic}"' + f", seed={seed!r}" * (seed is not None) + f", level={level}" * (level > 1) + ")"


def _wrong(one: Judged) -> Block:
    blocks = [paragraph(one.explanation)] * bool(one.explanation)
    return item(_WRONG if one.explanation else _UNREADABLE, f"`{one.key}`", [*blocks, rows(one.details)])


def judged(
    questions: Sequence[Question], lines: Sequence[str], answers: Any
) -> tuple[tuple[Judged, ...], tuple[str, ...]]:
    """What became of each key, and remarks; nothing of either where nothing has been answered."""
    keys = [question.key for question in questions]
    if repr(answers) in ("None", "Ellipsis", "{Ellipsis}"):
        return (), ()
    if not isinstance(answers, Mapping):
        expected = "a dict with the keys " + ", ".join(keys)
        return (Judged("your answer", False, "", (("you said", describe(answers, 40)), ("expected", expected))),), ()
    if all(answers.get(key) is None or answers[key] is ... for key in keys):
        return (), ()
    extra = [describe(key, 30) for key in answers if key not in keys]
    remarks = (f"Ignored, since the drill does not ask for it: {', '.join(extra[:6])}.",) if extra else ()
    return tuple(_one(question, lines, answers.get(question.key, ...)) for question in questions), remarks


def _one(question: Question, lines: Sequence[str], given: Any) -> Judged:
    value, said = _choice(given, question.choices), ("you said", describe(given, 40))
    if value in (..., question.answer):
        return Judged(question.key, value is not ... or None)
    if value is None:
        values = ", ".join(map(repr, question.choices))
        expected = "True or False" if True in question.choices else f"one of {values}"
        return Judged(question.key, False, "", (said, ("expected", expected)))
    decides = f"line {question.line}", lines[question.line - 1].strip()
    explanation = f"Line {question.line} decides. {question.explanation}"
    return Judged(question.key, False, explanation, (said, ("PyTorch", describe(question.answer)), decides))


def _choice(given: Any, choices: Sequence[Answer]) -> Any:
    """The choice that an answer stands for; ``...`` for none yet, None for what is no answer to the question."""
    names: dict[str, Answer] = {str(choice).casefold(): choice for choice in choices}
    if True in choices:
        names |= {"1": True, "0": False}
    with contextlib.suppress(AttributeError, TypeError, RuntimeError, ValueError):
        given = given.item()  # of NumPy and torch
    is_number = isinstance(given, (int, float)) and not isinstance(given, bool)
    text = format(given, "g") if is_number else str(given).strip().casefold()
    return names.get(text, ... if given is None or given is ... else None)
