"""How a drill and its result look, in a notebook and in a terminal. Data in, text out."""

from __future__ import annotations

import re
import textwrap
from dataclasses import dataclass
from typing import TYPE_CHECKING

from course_utils.base.document import Block, Shown, Sign, card, code, item, items, line, notes, paragraph, rows, typed
from course_utils.base.markup import GREEN, GREY, ORANGE, clean
from course_utils.drills.answers import Judged

if TYPE_CHECKING:
    from course_utils.drills.drill import Drill
    from course_utils.drills.moves import Question

_WRONG, _UNREADABLE = Sign("✗", "not what happens", ORANGE), Sign("✗", "no answer to the question", ORANGE)
_RIGHT, _OPEN = Sign("✓", "right", GREEN), Sign("-", "no answer yet", GREY)
_IMPORTS = {"torch": "torch", "nn": "nn.", "F": "F.", "Thread": "Thread("}
_LABEL = 36  # a longer label leaves no room for the question beside it


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
        return result_card(self)


def drill_card(drill: Drill) -> Block:
    """A drill as a card: the program, what is asked, and the cell to answer with."""
    numbered = "\n".join(f"{number:2}  {line}" for number, line in enumerate(drill.lines, 1))
    blocks = [paragraph(drill.because)] * bool(drill.because)
    program, questions, cell = typed(numbered), rows(_questions(drill)), code(_cell(drill))
    # In a terminal the longest line of a program has just room.
    shown = program._replace(text=lambda indent: program.text(indent[2:]))
    asked = questions._replace(text=lambda indent: questions.text(indent[2:]))
    answer = cell._replace(text=lambda indent: cell.text(f"{indent}  "))
    blocks += [paragraph(_task(drill)), shown, asked, paragraph("Answer in a cell of its own:"), answer]
    return card(_title(drill), blocks, is_section=True)


def _title(made: Drill | DrillScore) -> str:
    return f"{made.topic} drill, level {made.level}, seed {clean(made.seed, 40)}"


def _task(drill: Drill) -> str:
    """What is to be done with the program."""
    names = [name for name, sign in _IMPORTS.items() if sign in drill.code]
    verb = "is" if len(names) == 1 else "are"
    listed = re.sub(r", (?=[^,]*$)", " and ", ", ".join(f"`{name}`" for name in names))
    imported = f" {listed} {verb} imported." if names else ""
    return f"{drill.task} Read the program, do not run it: the check does that.{imported}"


def _questions(drill: Drill) -> list[tuple[str, str]]:
    """What each kind of key asks, and the values to choose from."""
    kinds: dict[str, list[str]] = {}
    for question in drill.questions:
        kinds.setdefault(_asks(question), []).append(question.key)
    labels = [", ".join(keys) for keys in kinds.values()]
    if len(kinds) == 1 and ("," in "".join(*kinds.values()) or len(labels[0]) > _LABEL):
        labels = ["each key"]
    return list(zip(labels, kinds, strict=True))


def _asks(question: Question) -> str:
    values = " or ".join(map(repr, question.choices)).replace(" or ", ", ", max(len(question.choices) - 2, 0))
    before, _, after = question.asks.partition("...")  # the values come where the dots stand, else at the end
    return f"{before} {values}{after}".strip()


def _cell(drill: Drill) -> str:
    """The cell to answer with: it names the seed, so that it is the same drill tomorrow and on another machine."""
    # Keys may hold spaces, which are no place to break a line.
    keys = " ".join(f'"{question.key}": ...,'.replace(" ", "\0") for question in drill.questions)
    lines = textwrap.wrap(keys, 56, break_long_words=False, break_on_hyphens=False)
    inner = "\n".join(f"    {line}" for line in lines).replace("\0", " ")
    return f"{_call(drill, drill.seed)}.check({{\n{inner}\n}})"


def _call(made: Drill | DrillScore, seed: int | str | None = None, level: int = 0) -> str:
    """The call that makes a drill of this topic, at this level or another one."""
    parts = [f'"{made.topic}"']
    if seed is not None:
        parts.append(f"seed={seed!r}")
    if (level or made.level) > 1:
        parts.append(f"level={level or made.level}")
    return f"drill({', '.join(parts)})"


def result_card(score: DrillScore) -> Block:
    """A checked drill as a card: first what is wrong, each with the line that decides it."""
    wrong = [_wrong(one) for one in score.answers if one.is_right is False]
    right = [f"`{one.key}`" for one in score.answers if one.is_right]
    open_ = [f"`{one.key}`" for one in score.answers if one.is_right is None]
    others = [line(sign, ", ".join(keys)) for sign, keys in ((_RIGHT, right), (_OPEN, open_)) if keys]
    blocks = [items(wrong, "", others)] * bool(score.answers) + [notes(score.notes)] * bool(score.notes)
    verdict = f"{float(score):.0f} of {score.possible} right." if score.answers else "not attempted yet."
    colour = {"passed": GREEN, "not attempted": GREY}.get(score.status, ORANGE)
    next_step = paragraph(_next_step(score), "Next")
    return card(f"{_title(score)}: {verdict}", [*blocks, next_step], colour, is_section=True)


def _wrong(one: Judged) -> Block:
    blocks = [paragraph(one.explanation)] * bool(one.explanation)
    return item(_WRONG if one.explanation else _UNREADABLE, f"`{one.key}`", [*blocks, rows(one.details)])


def _next_step(score: DrillScore) -> str:
    if score.status == "not attempted":
        return "Put your answers in place of the `...`, and run the cell again."
    another = f"`{_call(score)}` draws another program"
    if score.status != "passed":
        return f"answer again, or go on: {another}."
    return f"{another}" + (f", `{_call(score, level=score.level + 1)}` a harder one." if score.level < 3 else ".")
