"""What a check found, as plain data: a ``Score`` made of ``Claim``s."""

import sys
from dataclasses import dataclass
from typing import Any, Literal

Status = Literal["passed", "partial", "not attempted", "error"]


@dataclass(frozen=True)
class Claim:
    """One property of the answer's behaviour, and whether it holds.

    Attributes:
        text: what must hold, as a phrase about the answer: ``"shares no memory with x"``.
        held: whether it was seen to hold.
        diagnosis: what most likely went wrong, in words for the learner; empty where the claim holds or nothing more
            can be said than the details say.
        misconception: the short name of the misunderstanding that the diagnosis explains; empty where none was
            recognised.
        next_step: one thing to try; empty where the claim holds.
        details: aligned lines such as ``("called", "snapshot(f32[2, 3])")``, ``("expected", ...)``, ``("got", ...)``.
        weight: this claim's share of the points, relative to the other claims of its exercise.
        judged: False where an earlier claim had to hold first, so that this one was not looked at.
        explained: where the course explains it, as notebook and heading: ``("03_detach", "A view, not a copy")``.
        home: the misconception's one place in the course, ``"detach/snapshot/alias"``; empty where it has none.
        program: a short program that shows the misconception; empty where it has none.
        prints: what the program prints.
    """

    text: str
    held: bool
    diagnosis: str = ""
    misconception: str = ""
    next_step: str = ""
    details: tuple[tuple[str, str], ...] = ()
    weight: float = 1.0
    judged: bool = True
    explained: tuple[str, ...] = ()
    home: str = ""
    program: str = ""
    prints: str = ""


class Score(float):
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
        notes: remarks of one line each, for example "took 12.3 s", or what the answer changed and the check put back.
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

    def __reduce__(self):
        keywords = {name: getattr(self, name) for name in Score.__annotations__}
        return _rebuild, (float(self), keywords)

    def __repr__(self) -> str:
        return float.__repr__(self)

    def __str__(self) -> str:
        from course_utils.checks.card import score_text

        return score_text(self)

    def __format__(self, spec: str) -> str:
        return format(float(self), spec) if spec else str(self)

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        # A terminal has no HTML and no nbgrader: there IPython shows the card as text.
        shell = sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None
        printer.text(repr(self) if hasattr(shell, "kernel") else str(self))

    def _repr_html_(self) -> str:
        from course_utils.checks.card import score_html

        return score_html(self)


def _rebuild(earned: float, keywords: dict) -> Score:
    return Score(earned, **keywords)
