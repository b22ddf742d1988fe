"""How a drill and its result look, in a notebook and in a terminal. Data in, text out."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from course_utils.base.markup import (
    BLUE,
    GREEN,
    GREY,
    ORANGE,
    Html,
    beside_line,
    clean,
    element,
    html_lines,
    paragraph,
    text_lines,
    text_typed,
    typed,
    wrap,
)
from course_utils.checks.card import HEADING, line_html, list_html, told_html
from course_utils.checks.score import Claim, Score
from course_utils.drills.asks import call, cell, questions, task

if TYPE_CHECKING:
    from course_utils.drills.drill import Drill

_WRONG = ("✗", "not what happens", ORANGE)
_UNREADABLE = ("✗", "no answer to the question", ORANGE)
_ASK = "Answer in a cell of its own:"


class DrillScore(Score):
    """What a drill's check found: a ``Score`` with one point for each key, stored nowhere.

    Nobody grades a drill by its ``repr``, so that is the card as text, wherever no HTML is shown.

    Attributes:
        topic: the drill's topic.
        level: its level.
        seed: what it was made from.
    """

    topic: str
    level: int
    seed: int | str

    @classmethod
    def of(cls, score: Score, claims: Sequence[Claim], topic: str, level: int, seed: int | str) -> DrillScore:
        """The score of a drill, with claims as its learner is told them."""
        made = cls(
            float(score),
            lesson=score.lesson,
            exercise=score.exercise,
            possible=score.possible,
            status=score.status,
            claims=tuple(claims),
            notes=score.notes,
            output=score.output,
        )
        made.topic, made.level, made.seed = topic, level, seed
        return made

    def __reduce__(self):
        rebuild, parts = super().__reduce__()
        return DrillScore.of, (rebuild(*parts), self.claims, self.topic, self.level, self.seed)

    def __repr__(self) -> str:
        return result_text(self)

    __str__ = __repr__

    def _repr_html_(self) -> str:
        return result_html(self)


def drill_html(drill: Drill) -> str:
    """A drill as a card: the program, what is asked, and the cell to answer with."""
    blocks = [
        element("h4", _title(drill), style=HEADING),
        *([paragraph(drill.because)] if drill.because else []),
        paragraph(task(drill)),
        typed(_numbered(drill)),
        html_lines(questions(drill)),
        paragraph(_ASK),
        typed(cell(drill)),
    ]
    return beside_line("section", BLUE, blocks)


def drill_text(drill: Drill) -> str:
    """The same as text of at most 88 columns."""
    blocks = [
        _title(drill),
        *([wrap(drill.because, "  ", "  ")] if drill.because else []),
        wrap(task(drill), "  ", "  "),
        text_typed(_numbered(drill), "  "),
        text_lines(questions(drill), "  "),
        wrap(_ASK, "  ", "  ") + "\n\n" + textwrap.indent(cell(drill), "    "),
    ]
    return "\n\n".join(blocks)


def _title(made: Drill | DrillScore) -> str:
    return f"{made.topic} drill, level {made.level}, seed {clean(made.seed, 40)}"


def _numbered(drill: Drill) -> str:
    return "\n".join(f"{number:2}  {line}" for number, line in enumerate(drill.program.lines, 1))


# The result.


def result_html(score: DrillScore) -> str:
    """A checked drill as a card: first what is wrong, each with the line that decides it."""
    blocks = [element("h4", f"{_title(score)}: {_verdict(score)}", style=HEADING)]
    items = [_wrong_html(claim) for claim in _wrong(score)]
    items += [line_html(kind, names) for kind, names in _others(score)]
    if items:
        blocks.append(list_html(items))
    blocks += [paragraph(note, "Note") for note in score.notes]
    blocks.append(paragraph(_next_step(score), "Next"))
    return beside_line("section", {"passed": GREEN, "not attempted": GREY}.get(score.status, ORANGE), blocks)


def result_text(score: DrillScore) -> str:
    """The same as text of at most 88 columns."""
    blocks = [wrap(f"{_title(score)}: {_verdict(score)}"), *map(_wrong_text, _wrong(score))]
    others = [wrap(names, f"  {sign} {word}: ", "    ") for (sign, word, _), names in _others(score)]
    if others:
        blocks.append("\n".join(others))
    blocks += [wrap(note, "  Note: ", "    ") for note in score.notes]
    blocks.append(wrap(_next_step(score), "  Next: ", "    "))
    return "\n\n".join(blocks)


def _verdict(score: DrillScore) -> str:
    if score.status == "not attempted":
        return "not attempted yet."
    return f"{int(score)} of {int(score.possible)} right."


def _next_step(score: DrillScore) -> str:
    if score.status == "not attempted":
        return "Put your answers in place of the `...`, and run the cell again."
    another = f"`{call(score)}` draws another program"
    if score.status != "passed":
        return f"answer again, or go on: {another}."
    return f"{another}" + (f", `{call(score, level=score.level + 1)}` a harder one." if score.level < 3 else ".")


def _wrong(score: DrillScore) -> list[Claim]:
    return [claim for claim in score.claims if claim.judged and not claim.held]


def _others(score: DrillScore) -> Iterator[tuple[tuple[str, str, str], str]]:
    """The keys that are right and those without an answer, each kind in one line."""
    right = [claim.text for claim in score.claims if claim.held]
    open_ = [claim.text for claim in score.claims if not claim.judged]
    if right:
        yield ("✓", "right", GREEN), ", ".join(right)
    if open_:
        yield ("-", "no answer yet", GREY), ", ".join(open_)


def _kind(claim: Claim) -> tuple[str, str, str]:
    return _WRONG if any(label == "PyTorch" for label, _ in claim.details) else _UNREADABLE


def _wrong_html(claim: Claim) -> Html:
    blocks = [paragraph(claim.diagnosis)] if claim.diagnosis else []
    return told_html(_kind(claim), claim.text, [*blocks, html_lines(claim.details)])


def _wrong_text(claim: Claim) -> str:
    sign, word, _ = _kind(claim)
    lines = [wrap(claim.text, f"  {sign} {word}: ", "    ")]
    if claim.diagnosis:
        lines.append(wrap(claim.diagnosis, "    ", "    "))
    lines.append(text_lines(claim.details, "      "))
    return "\n".join(lines)
