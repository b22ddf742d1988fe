"""What a check found, as plain data: a ``Score`` made of ``Claim``s."""

import sys
from dataclasses import dataclass
from typing import Any, Literal

from course_utils.base.document import Block, Shown
from course_utils.checks.misconceptions import Misconception

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
        from course_utils.checks.card import score_card

        return score_card(self)

    def __repr__(self) -> str:
        return float.__repr__(self)

    def __str__(self) -> str:
        return self.card().text("")

    def __format__(self, spec: str) -> str:
        return format(float(self), spec) if spec else str(self)

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        # A terminal has no HTML and no nbgrader: there IPython shows the card as text.
        shell = sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None
        printer.text(repr(self) if hasattr(shell, "kernel") else str(self))
