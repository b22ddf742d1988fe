"""What a lesson shows beside a checked answer: a hint, a prediction, a solution. Each shows itself as a card."""

from dataclasses import dataclass

from course_utils.base.document import Block, Shown, Sign, card, code, paragraph, rows, verdict, written
from course_utils.base.markup import BLUE, GREEN, GREY, ORANGE

_RIGHT, _WRONG = Sign("✓", "right", GREEN), Sign("✗", "not what happens", ORANGE)
_ASK = "Your guess first: write it where the `...` stands, and run the cell again."


@dataclass(frozen=True, repr=False)
class Hint(Shown):
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
class Prediction(Shown):
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
        sign = _RIGHT if self.right else _WRONG
        blocks = [verdict(sign), rows([("you said", self.guess), ("it is", self.actual)])]
        return card(self.question, blocks + [paragraph(self.thought)] * bool(self.thought), sign.ground)


@dataclass(frozen=True, repr=False)
class Solution(Shown):
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
        blocks = [written(self.written)] * bool(self.written) + [code(self.source)] * bool(self.source)
        blocks += [paragraph(self.note)] * bool(self.note)
        return card("solution", blocks, BLUE, name=self.exercise)
