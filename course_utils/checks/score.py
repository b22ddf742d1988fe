"""What a check found, as plain data (``Score``, made of ``Claim``s), and how a lesson answers, as cards: a score, of
which what first does not hold is told with its diagnosis and what held is folded; a hint, a prediction, a solution.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from course_utils.base import document
from course_utils.base.document import (
    Block,
    Shown,
    Sign,
    card,
    code,
    folded,
    item,
    items,
    line,
    notes,
    paragraph,
    rows,
    typed,
)
from course_utils.base.markup import BLUE, GREEN, GREY, ORANGE, clean
from course_utils.base.text import count_of, points
from course_utils.base.user_code import ipython
from course_utils.checks.misconceptions import Misconception
from course_utils.checks.state import LIMIT

Status = Literal["passed", "partial", "not attempted", "error"]


@dataclass(frozen=True)
class Claim:
    """One property of the answer's behaviour, and whether it holds.

    Attributes:
        text: what must hold, as a phrase about the answer: ``"shares no memory with x"``.
        held: whether it was seen to hold.
        details: aligned lines such as ``("called", "snapshot(f32[2, 3])")``, ``("expected", ...)``, ``("got", ...)``.
        weight: this claim's share of the points, relative to the other claims of its exercise.
        judged: False where an earlier claim had to hold first, so that this one was not looked at.
        misconception: what most likely went wrong; None where the claim holds, or where nothing was recognised.
    """

    text: str
    held: bool
    details: tuple[tuple[str, str], ...] = ()
    weight: float = 1.0
    judged: bool = True
    misconception: Misconception | None = None


class Score(Shown, float):
    """The points an answer earned. A number to nbgrader, a card to a learner.

    ``repr`` is the bare number, because nbgrader reads a check cell's last value as partial credit. In a notebook the
    score shows itself as a card; ``print(score)`` gives the same card as text.

    Args:
        earned: the points, from 0 to ``possible``.

    Attributes:
        lesson: the lesson's name.
        exercise: the exercise's name.
        possible: the most that the exercise can earn.
        status: ``"passed"`` (every claim holds), ``"partial"`` (some points were earned or lost), ``"not attempted"``,
            or ``"error"`` (the answer raised, so that nothing could be judged).
        claims: what was judged, in the order of the exercise.
        notes: remarks of one line each, for example which keys were ignored.
        output: what the answer printed or warned, cut to a readable length; empty where it was silent.
    """

    lesson: str
    exercise: str
    possible: float
    status: Status
    claims: tuple[Claim, ...]
    notes: tuple[str, ...]
    output: str

    def __new__(
        cls,
        earned: float,
        *,
        lesson: str,
        exercise: str,
        possible: float,
        status: Status,
        claims: tuple[Claim, ...] = (),
        notes: tuple[str, ...] = (),
        output: str = "",
    ) -> "Score":
        score = super().__new__(cls, earned)
        score.lesson, score.exercise, score.possible, score.status = lesson, exercise, possible, status
        score.claims, score.notes, score.output = tuple(claims), tuple(notes), output
        return score

    def __getnewargs_ex__(self) -> tuple[tuple[float], dict[str, Any]]:  # for pickle
        return (float(self),), {name: getattr(self, name) for name in Score.__annotations__}

    def card(self) -> Block:
        """What first does not hold, with its diagnosis; what held is folded."""
        return score_card(self)

    def __repr__(self) -> str:
        return float.__repr__(self)

    def __str__(self) -> str:
        return self.card().text("")

    def __format__(self, spec: str) -> str:
        return format(float(self), spec) if spec else str(self)

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        # A terminal has no HTML and no nbgrader: there IPython shows the card as text.
        printer.text(repr(self) if hasattr(ipython(), "kernel") else str(self))


_HOLDS, _FAILS, _OPEN = Sign("✓", "held", GREEN), Sign("✗", "does not hold", ORANGE), Sign("-", "not judged yet", GREY)
RIGHT, WRONG = Sign("✓", "right", GREEN), Sign("✗", "not what happens", ORANGE)
_ASK = "Your guess first: write it where the `...` stands, and run the cell again."
PROGRAM = "Shown by a program"  # stands above a misconception's program, which is folded


def score_card(score: Score) -> Block:
    """A checked answer as a card.

    One thing is told in full: the first claim that fails, which the exercise puts first because others follow from it.
    """
    failed = [claim for claim in score.claims if _sign(claim) is _FAILS]
    rest = [claim for claim in score.claims if _sign(claim) is not _FAILS]
    blocks, next_step = list[Block](), _next_step(score, failed)
    if failed:
        blocks.append(items([_told(failed[0], next_step)], _in_one_line(failed), []))
    elif next_step:
        blocks.append(paragraph(next_step, "Next"))
    if rest:
        blocks.append(_folded(score, rest))
    if score.output:
        blocks.append(typed(clean(score.output, LIMIT, lines=15), "Your answer printed"))
    if score.notes:
        blocks.append(notes(score.notes))
    colour = {"passed": GREEN, "not attempted": GREY}.get(score.status, ORANGE)
    return card(_verdict(score), blocks, colour, name=score.exercise, is_section=True)


def _sign(claim: Claim) -> Sign:
    if not claim.judged:
        return _OPEN
    return _HOLDS if claim.held else _FAILS


def _in_one_line(failed: Sequence[Claim]) -> str:
    """A quiet word on what fails beside the first claim. One mistake is not told twice."""
    first, *others = failed
    named = first.misconception if first.misconception and first.misconception.name else None
    same = [claim.text for claim in others if named and claim.misconception == named]
    rest = [claim.text for claim in others if claim.text not in same]
    said = [f"Fails too, likely by the same mistake: {'; '.join(same)}."] * bool(same)
    said += [f"Does not hold either: {'; '.join(rest)}."] * bool(rest)
    return " ".join(said)


def _folded(score: Score, claims: Sequence[Claim]) -> Block:
    """What held and what was not judged yet: how many claims, and folded which."""
    held, open_yet = ([claim.text for claim in claims if _sign(claim) is sign] for sign in (_HOLDS, _OPEN))
    tried = count_of(len(score.claims) - len(open_yet), "claim")
    tally = [f"{len(held)} of {tried} held when tried"] * bool(held)
    tally += [f"{count_of(len(open_yet), 'claim')} not judged yet"] * bool(open_yet)
    summary = "What was tried" if score.status == "passed" else ", ".join(tally)
    listed = items([], "", [line(_sign(claim), claim.text) for claim in claims])
    joined = [line(sign, "; ".join(texts)) for sign, texts in ((_HOLDS, held), (_OPEN, open_yet)) if texts]
    return folded(summary, [listed._replace(text=items([], "", joined).text)])


def _verdict(score: Score) -> str:
    earned = points(float(score), score.possible)
    if score.status == "not attempted":
        return f"not attempted yet, {earned}."
    return earned + {"error": ". The answer raised an error.", "passed": ". Every claim held."}.get(score.status, ".")


def _next_step(score: Score, failed: Sequence[Claim]) -> str:
    if score.status == "passed":
        return ""
    hint = f"`lesson.hint({score.exercise!r})` gives a hint." if score.lesson else ""  # else a teacher's own exercise
    if score.status == "not attempted":
        return f"Write your answer, run its cell, then this one again. {hint}".strip()
    known = failed[0].misconception if failed else None
    return known.next_step if known and known.next_step else hint


def _told(claim: Claim, next_step: str) -> Block:
    known, blocks = claim.misconception, list[Block]()
    if known and known.name:
        blocks.append(paragraph(f"“{known.name}”", "Likely misconception"))
    if known and known.explanation:
        blocks.append(paragraph(known.explanation))
    if known and known.explained:
        blocks.append(paragraph("Explained in ", link=known.place))
    if claim.details:
        blocks.append(rows(claim.details))
    if next_step:
        blocks.append(paragraph(next_step, "Next"))
        if known and known.program:
            blocks.append(program(known))
    return item(_FAILS, claim.text, blocks)


def program(known: Misconception) -> Block:
    """The program that shows a misconception, to be copied, and what it prints."""
    return folded(PROGRAM, [code(known.program), typed(known.prints, "It prints")])


@dataclass(frozen=True, repr=False)
class Hint(document.Shown):
    """One hint, or the word that there are no more.

    Attributes:
        exercise: the exercise's name.
        text: the hint, with `code` between backticks; empty when all have been given.
        number: which hint this is, from 1.
        total: how many there are.
    """

    exercise: str
    text: str
    number: int
    total: int

    def card(self) -> Block:
        """One hint as a card."""
        if self.text:
            return card(f"hint {self.number} of {self.total}", [paragraph(self.text)], BLUE, name=self.exercise)
        seen = f"You have seen all {self.total}" if self.total else "This exercise has none"
        told = f"{seen}. `lesson.solution({self.exercise!r})` shows a worked solution."
        return card("no more hints", [paragraph(told)], BLUE, name=self.exercise)


@dataclass(frozen=True, repr=False)
class Prediction(document.Shown):
    """A prediction beside what the engine does.

    Attributes:
        question: what was asked.
        guess: the learner's guess, in short form.
        actual: what the engine does, in short form; not shown before there is a guess.
        right: whether they agree; None while there is no guess.
        thought: which thought leads to a wrong guess; empty where nothing is known of it.
    """

    question: str
    guess: str = ""
    actual: str = ""
    right: bool | None = None
    thought: str = ""

    def card(self) -> Block:
        """The guess beside what the engine does; without a guess, the question alone."""
        if self.right is None:
            return card(self.question, [paragraph(_ASK)], GREY)
        sign = RIGHT if self.right else WRONG
        blocks = [document.verdict(sign), rows([("you said", self.guess), ("it is", self.actual)])]
        return card(self.question, blocks + [paragraph(self.thought)] * bool(self.thought), sign.ground)


@dataclass(frozen=True, repr=False)
class Solution(document.Shown):
    """A worked solution, or a sentence in its place.

    Attributes:
        exercise: the exercise's name.
        source: its code; empty where there is none to show.
        note: a remark on it, or why there is none.
        written: the model answer of a written question: paragraphs, and lists of lines that begin with "- ".
    """

    exercise: str
    source: str = ""
    note: str = ""
    written: str = ""

    def card(self) -> Block:
        """The code, or a model answer as prose."""
        blocks = [document.written(self.written)] * bool(self.written) + [code(self.source)] * bool(self.source)
        blocks += [paragraph(self.note)] * bool(self.note)
        return card("solution", blocks, BLUE, name=self.exercise)
