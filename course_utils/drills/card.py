"""How a drill and its result look, in a notebook and in a terminal. Data in, text out."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

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
from course_utils.checks.score import Claim, Score, Status
from course_utils.drills.page import listed

if TYPE_CHECKING:
    from course_utils.drills.drill import Drill
    from course_utils.drills.programs import Question

_WRONG = ("✗", "not what happens", ORANGE)
_UNREADABLE = ("✗", "no answer to the question", ORANGE)
_ASK = "Answer in a cell of its own:"
_IMPORTS = {"torch": "torch", "nn": "nn.", "F": "F.", "Thread": "Thread("}
_LABEL = 36  # a longer label leaves no room for the question beside it


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
    def of(cls, drill: Drill, claims: Sequence[Claim], notes: Sequence[str] = ()) -> DrillScore:
        """The score of a drill; without claims nothing was attempted."""
        right = sum(claim.held for claim in claims)
        possible = len(drill.program.questions)
        status: Status = "not attempted" if not claims else "passed" if right == possible else "partial"
        keywords: dict[str, Any] = {"lesson": "drill", "exercise": f"{drill.topic} drill", "possible": float(possible)}
        keywords |= {"status": status, "claims": tuple(claims), "notes": tuple(notes)}
        return _made(float(right), keywords, (drill.topic, drill.level, drill.seed))

    def __reduce__(self):
        _, (earned, keywords) = super().__reduce__()
        return _made, (earned, keywords, (self.topic, self.level, self.seed))

    def __repr__(self) -> str:
        return result_text(self)

    __str__ = __repr__

    def _repr_html_(self) -> str:
        return result_html(self)


def _made(earned: float, keywords: dict[str, Any], of: tuple[str, int, int | str]) -> DrillScore:
    score = DrillScore(earned, **keywords)
    score.topic, score.level, score.seed = of
    return score


def drill_html(drill: Drill) -> str:
    """A drill as a card: the program, what is asked, and the cell to answer with."""
    blocks = [
        element("h4", _title(drill), style=HEADING),
        *([paragraph(drill.because)] if drill.because else []),
        paragraph(_task(drill)),
        typed(_numbered(drill)),
        html_lines(_questions(drill)),
        paragraph(_ASK),
        typed(_cell(drill)),
    ]
    return beside_line("section", BLUE, blocks)


def drill_text(drill: Drill) -> str:
    """The same as text of at most 88 columns."""
    blocks = [
        _title(drill),
        *([wrap(drill.because, "  ", "  ")] if drill.because else []),
        wrap(_task(drill), "  ", "  "),
        text_typed(_numbered(drill), "  "),
        text_lines(_questions(drill), "  "),
        wrap(_ASK, "  ", "  ") + "\n\n" + textwrap.indent(_cell(drill), "    "),
    ]
    return "\n\n".join(blocks)


def _title(made: Drill | DrillScore) -> str:
    return f"{made.topic} drill, level {made.level}, seed {clean(made.seed, 40)}"


def _numbered(drill: Drill) -> str:
    return "\n".join(f"{number:2}  {line}" for number, line in enumerate(drill.program.lines, 1))


def _task(drill: Drill) -> str:
    """What is to be done with the program."""
    names = [name for name, sign in _IMPORTS.items() if sign in drill.code]
    verb = "is" if len(names) == 1 else "are"
    return f"{drill.task} Read the program, do not run it: the check does that. {listed(names)} {verb} imported."


def _questions(drill: Drill) -> list[tuple[str, str]]:
    """What each kind of key asks, and the values to choose from."""
    kinds: dict[str, list[str]] = {}
    for question in drill.program.questions:
        kinds.setdefault(_asks(question), []).append(question.key)
    labels = [", ".join(keys) for keys in kinds.values()]
    if len(kinds) == 1 and ("," in "".join(*kinds.values()) or len(labels[0]) > _LABEL):
        labels = ["each key"]
    return list(zip(labels, kinds, strict=True))


def _asks(question: Question) -> str:
    values = " or ".join(map(repr, question.choices)).replace(" or ", ", ", max(len(question.choices) - 2, 0))
    before, _, after = question.asks.partition("...")  # the values come where the dots stand, else at the end
    return f"{before} {values or 'True or False'}{after}".strip()


def _cell(drill: Drill) -> str:
    """The cell to answer with: it names the seed, so that it is the same drill tomorrow and on another machine."""
    # Keys may hold spaces, which are no place to break a line.
    keys = " ".join(f'"{question.key}": ...,'.replace(" ", "\0") for question in drill.program.questions)
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
    another = f"`{_call(score)}` draws another program"
    if score.status != "passed":
        return f"answer again, or go on: {another}."
    return f"{another}" + (f", `{_call(score, level=score.level + 1)}` a harder one." if score.level < 3 else ".")


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
