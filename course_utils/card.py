"""How results look, in a notebook and in a terminal: a checked answer (``score_html``, ``score_text``), a lesson's
points (``scorecard_html``, ``scorecard_text``), the whole course (``progress_html``, ``progress_text``), a hint, a
prediction and a solution. Data in, text out: the same data gives the same text to the byte.

Imports ``markup``; the data it draws come from ``score``, ``progress`` and the small classes below.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from course_utils.markup import (
    BLUE,
    GREEN,
    GREY,
    MONOSPACE,
    ORANGE,
    Html,
    bar,
    clean,
    element,
    html_lines,
    mark,
    prose,
    text_bar,
    text_lines,
    wrap,
)

if TYPE_CHECKING:
    from course_utils.progress import Progress
    from course_utils.score import Claim, Score

# What stands beside each claim: the word says it, the sign and its ground repeat it.
HOLDS, FAILS, OPEN = ("✓", "holds", GREEN), ("✗", "does not hold", ORANGE), ("-", "not judged yet", GREY)


class Shown:
    """Shows itself as a card in a notebook and as text elsewhere."""

    def _repr_html_(self) -> str:
        raise NotImplementedError

    def __repr__(self) -> str:
        raise NotImplementedError


@dataclass(frozen=True)
class ScoreRow:
    """One exercise in a lesson's score card.

    Attributes:
        exercise: its name.
        earned: points earned.
        possible: points it can earn.
        status: a ``Score``'s status.
    """

    exercise: str
    earned: float
    possible: float
    status: str


@dataclass(frozen=True, repr=False)
class ScoreCard:
    """One lesson's points, as ``lesson.scorecard()`` shows them.

    Attributes:
        lesson: the lesson's name.
        rows: its exercises, in order.
        predictions_right: predictions that were right.
        predictions_asked: predictions that were made.
        notes: remarks of one line each.
    """

    lesson: str
    rows: tuple[ScoreRow, ...]
    predictions_right: int = 0
    predictions_asked: int = 0
    notes: tuple[str, ...] = ()

    @property
    def earned(self) -> float:
        return sum(row.earned for row in self.rows)

    @property
    def possible(self) -> float:
        return sum(row.possible for row in self.rows)

    def _repr_html_(self) -> str:
        return scorecard_html(self)

    def __repr__(self) -> str:
        return scorecard_text(self)


@dataclass(frozen=True, repr=False)
class Hint:
    """One hint, or the word that there are no more.

    Attributes:
        exercise: the exercise's name.
        text: the hint, with `code` between backticks; empty when every hint has been given.
        number: which hint this is, from 1.
        total: how many there are.
    """

    exercise: str
    text: str
    number: int
    total: int

    def _repr_html_(self) -> str:
        return hint_html(self)

    def __repr__(self) -> str:
        return hint_text(self)


@dataclass(frozen=True, repr=False)
class Prediction:
    """A prediction beside what the engine did.

    Attributes:
        question: what was asked.
        guess: the learner's guess, in short form; unused while ``right`` is None.
        actual: what the engine did, in short form; shown only once there is a guess.
        right: whether they agree; None while no guess has been made.
        rows: where guess and answer are compared item by item, each as (item, guess, actual, right).
    """

    question: str
    guess: str = ""
    actual: str = ""
    right: bool | None = None
    rows: tuple[tuple[str, str, str, bool], ...] = ()

    def _repr_html_(self) -> str:
        return prediction_html(self)

    def __repr__(self) -> str:
        return prediction_text(self)


@dataclass(frozen=True, repr=False)
class Solution:
    """A worked solution.

    Attributes:
        exercise: the exercise's name.
        source: its code; empty where this copy of the course has none.
        note: a sentence about it, or why there is none.
    """

    exercise: str
    source: str = ""
    note: str = ""

    def _repr_html_(self) -> str:
        return solution_html(self)

    def __repr__(self) -> str:
        return solution_text(self)


def score_html(score: Score) -> str:
    """A checked answer as a card: what does not hold first, with its diagnosis; what holds in one line each."""
    colour = {"passed": GREEN, "not attempted": GREY}.get(score.status, ORANGE)
    first, *others = _in_order(score) or (None,)
    blocks = [_heading(score.exercise, _verdict(score))]
    items = []
    told: set[str] = set()
    for claim in [first, *others] if first else []:
        items.append(_claim_html(claim, told, next_step=_next_step(score) if claim is first else ""))
    if items:
        blocks.append(element("ul", *items, style="list-style:none;margin:0.4em 0;padding:0"))
    if _next_step(score) and not (first and not first.held and first.judged):
        blocks.append(_labelled("Next", _next_step(score)))
    if score.output:
        blocks += [_small("Your answer printed:"), _pre(clean(score.output, 2000, lines=15))]
    blocks += [_small(note) for note in score.notes]
    return _section(f"Result of {score.exercise}", colour, blocks)


def score_text(score: Score) -> str:
    """The same card as plain text of at most 88 columns."""
    claims = _in_order(score)
    blocks = [wrap(f"{score.exercise}: {_verdict(score)}")]
    told: set[str] = set()
    lines = []
    for i, claim in enumerate(claims):
        lines.append(_claim_text(claim, told, next_step=_next_step(score) if i == 0 else ""))
    if lines:
        blocks.append("\n".join(lines))
    if _next_step(score) and not (claims and not claims[0].held and claims[0].judged):
        blocks.append(wrap(_next_step(score), "  Next: ", "    "))
    if score.output:
        blocks.append("  Your answer printed:\n" + _quoted(score.output))
    if score.notes:
        blocks.append("\n".join(wrap(note, "  Note: ", "    ", limit=400) for note in score.notes))
    return "\n\n".join(blocks)


def _points(earned: float, possible: float) -> str:
    """``0.67 of 2 points``; rounding never turns an unfinished answer into a full or an empty one."""
    shown = round(earned, 2)
    if earned < possible and shown >= possible:
        shown = round(possible - 0.01, 2)
    if earned > 0 and shown <= 0:
        shown = 0.01
    return f"{shown:g} of {possible:g} point{'' if possible == 1 else 's'}"


def _verdict(score: Score) -> str:
    points = _points(float(score), score.possible)
    if score.status == "not attempted":
        return f"not attempted yet, {points}."
    if score.status == "error":
        return f"{points}. The answer raised an error."
    held = sum(claim.held for claim in score.claims)
    if score.status == "passed":
        return f"{points}. Every claim holds."
    return f"{points}. {held} of {len(score.claims)} claims hold{'s' if held == 1 and len(score.claims) == 1 else ''}."


def _kind(claim: Claim) -> tuple[str, str, str]:
    if not claim.judged:
        return OPEN
    return HOLDS if claim.held else FAILS


def _in_order(score: Score) -> list[Claim]:
    """The claims as a reader needs them: the first that fails, the other failures, and the rest in their own order."""
    return sorted(score.claims, key=lambda claim: _kind(claim) is not FAILS)


def _next_step(score: Score) -> str:
    if score.status == "passed":
        return ""
    if score.status == "not attempted":
        return f"write your answer, run its cell and this one. `lesson.hint({score.exercise!r})` gives a hint."
    steps = [claim.next_step for claim in _in_order(score) if _kind(claim) is FAILS and claim.next_step]
    return steps[0] if steps else f"`lesson.hint({score.exercise!r})` gives a hint."


def _claim_html(claim: Claim, told: set[str], next_step: str) -> Html:
    sign, word, ground = _kind(claim)
    failed = _kind(claim) is FAILS
    line = [mark(sign, ground), element("strong", word) if failed else word, ": ", prose(claim.text)]
    if not failed:
        return element("li", *line, style="margin:0.1em 0;padding:0;list-style:none")
    blocks = [element("p", *line, style="margin:0")]
    if claim.misconception and claim.misconception not in told:
        blocks.append(_labelled("Likely misconception", claim.misconception))
    if claim.diagnosis and claim.diagnosis not in told:
        blocks.append(element("p", prose(claim.diagnosis), style="margin:0.3em 0"))
    told.update((claim.misconception, claim.diagnosis))
    if claim.details:
        blocks.append(html_lines(claim.details))
    if next_step:
        blocks.append(_labelled("Next", next_step))
    inner = element("div", *blocks[1:], style="margin:0 0 0 1.6em") if blocks[1:] else Html("")
    return element("li", blocks[0], inner, style="margin:0.3em 0 0.7em 0;padding:0;list-style:none")


def _claim_text(claim: Claim, told: set[str], next_step: str) -> str:
    sign, word, _ = _kind(claim)
    lines = [wrap(claim.text, f"  {sign} {word}: ", "    ")]
    if _kind(claim) is not FAILS:
        return lines[0]
    if claim.misconception and claim.misconception not in told:
        lines.append(wrap(claim.misconception, "    Likely misconception: ", "      "))
    if claim.diagnosis and claim.diagnosis not in told:
        lines.append(wrap(claim.diagnosis, "    "))
    told.update((claim.misconception, claim.diagnosis))
    if claim.details:
        lines.append(text_lines(claim.details, "      "))
    if next_step:
        lines.append(wrap(next_step, "    Next: ", "      "))
    return "\n".join(lines)


def _section(label: str, colour: str, blocks: list[Html]) -> Html:
    style = f"margin:0.3em 0;padding:0 0 0 0.9em;border-left:3px solid {colour}"
    lines = Html("\n" + "\n".join(blocks) + "\n")
    return element("section", lines, style=style, aria_label=clean(label, 80))


def _heading(name: str, verdict: str) -> Html:
    style = "margin:0;padding:0;font-size:1em;line-height:1.5"
    return element("h4", element("code", clean(name, 80)), " ", verdict, style=style)


def _labelled(label: str, text: str) -> Html:
    return element("p", element("strong", label + ":"), " ", prose(text), style="margin:0.3em 0")


def _small(text: str) -> Html:
    return element("p", prose(text, 400), style="margin:0.3em 0;font-size:0.92em")


def _pre(text: str) -> Html:
    style = f"margin:0.3em 0;padding:0 0 0 0.7em;border-left:1px solid {GREY};font-family:{MONOSPACE};font-size:0.92em"
    return element("pre", text, style=style + ";white-space:pre-wrap;overflow-wrap:break-word")


def _quoted(text: str) -> str:
    return "\n".join(
        piece for line in clean(text, 2000, lines=15).split("\n") for piece in [text_lines([("    |", line or " ")])]
    )


def scorecard_html(card: ScoreCard) -> str:
    """A lesson's points as a table with bars."""
    header = element("tr", *(element("th", name, scope="col", style=_CELL) for name in _SCORE_COLUMNS))
    rows = [
        element(
            "tr",
            element("th", element("code", clean(row.exercise, 80)), scope="row", style=_CELL + ";font-weight:normal"),
            element("td", bar(row.earned / row.possible if row.possible else 0.0), style=_CELL),
            element("td", _points(row.earned, row.possible), style=_CELL),
            element("td", row.status, style=_CELL),
        )
        for row in card.rows
    ]
    return _table(_card_title(card), header, rows, _card_notes(card))


def scorecard_text(card: ScoreCard) -> str:
    """A lesson's points as text with bars."""
    width = max((len(clean(row.exercise, 40)) for row in card.rows), default=0)
    lines = [
        f"  {clean(row.exercise, 40):<{width}}  {text_bar(row.earned / row.possible if row.possible else 0.0)}"
        f"  {_points(row.earned, row.possible)}, {row.status}"
        for row in card.rows
    ]
    return "\n".join([wrap(_card_title(card)), *lines, *(wrap(note, "  ", "  ", 400) for note in _card_notes(card))])


def progress_html(progress: Progress) -> str:
    """The whole course as a table with bars."""
    header = element("tr", *(element("th", name, scope="col", style=_CELL) for name in _COURSE_COLUMNS))
    rows = [
        element(
            "tr",
            element("th", f"{row.number:02d} {row.title}", scope="row", style=_CELL + ";font-weight:normal"),
            element("td", bar(row.share) if row.possible else Html(""), style=_CELL),
            element("td", _points(row.earned, row.possible) if row.possible else "no points", style=_CELL),
            element("td", _predictions(row.predictions_right, row.predictions_asked) or "none yet", style=_CELL),
            element("td", row.state, style=_CELL),
        )
        for row in progress.rows
    ]
    return _table(_course_title(progress), header, rows, progress.notes)


def progress_text(progress: Progress) -> str:
    """The whole course as text with bars."""
    titles = [f"{row.number:02d} {row.title}" for row in progress.rows]
    width = max(map(len, titles), default=0)
    lines = []
    for title, row in zip(titles, progress.rows, strict=True):
        points = _points(row.earned, row.possible) if row.possible else "no points"
        lines.append(
            f"  {title:<{width}}  {text_bar(row.share) if row.possible else ' ' * 20}  {points:<16}  {row.state}"
        )
    return "\n".join([wrap(_course_title(progress)), *lines, *(wrap(n, "  ", "  ", 400) for n in progress.notes)])


_CELL = "padding:0.2em 1em 0.2em 0;text-align:left;vertical-align:middle"
_SCORE_COLUMNS = ("Exercise", "Share", "Points", "State")
_COURSE_COLUMNS = ("Lesson", "Share", "Points", "Predictions", "State")


def _table(title: str, header: Html, rows: list[Html], notes: tuple[str, ...]) -> Html:
    caption = element("caption", title, style="caption-side:top;text-align:left;padding:0 0 0.4em 0;font-weight:bold")
    table = element(
        "table",
        caption,
        element("thead", header),
        element("tbody", *rows),
        style="margin:0.3em 0;border-collapse:collapse",
    )
    return element("div", Html("\n"), table, *(_small(note) for note in notes), Html("\n"))


def _predictions(right: int, asked: int) -> str:
    return f"{right} of {asked} right" if asked else ""


def _card_title(card: ScoreCard) -> str:
    return f"{card.lesson}: {_points(card.earned, card.possible)}."


def _card_notes(card: ScoreCard) -> tuple[str, ...]:
    asked = _predictions(card.predictions_right, card.predictions_asked)
    return ((f"Predictions: {asked}.",) if asked else ()) + card.notes


def _course_title(progress: Progress) -> str:
    return f"Your progress: {_points(progress.earned, progress.possible)} in {len(progress.rows)} lessons."


def hint_html(hint: Hint) -> str:
    """One hint as a card."""
    title = element("p", element("strong", _hint_title(hint)), style="margin:0")
    return _section(_hint_title(hint), BLUE, [title, element("p", prose(_hint_body(hint)), style="margin:0.3em 0 0 0")])


def hint_text(hint: Hint) -> str:
    """One hint as text."""
    return wrap(_hint_title(hint)) + "\n" + wrap(_hint_body(hint), "  ", "  ")


def _hint_title(hint: Hint) -> str:
    return f"{hint.exercise}: hint {hint.number} of {hint.total}" if hint.text else f"{hint.exercise}: no more hints"


def _hint_body(hint: Hint) -> str:
    if hint.text:
        return hint.text
    count = f"There {'is' if hint.total == 1 else 'are'} {hint.total}, and you have seen them all."
    return f"{count} `lesson.solution({hint.exercise!r})` shows a worked solution."


def prediction_html(prediction: Prediction) -> str:
    """A prediction beside the engine's own answer."""
    question = element("p", prose(prediction.question), style="margin:0")
    if prediction.right is None:
        blocks = [question, element("p", prose(_ASK), style="margin:0.3em 0 0 0")]
        return _section("Prediction", GREY, blocks)
    sign, ground = ("✓", GREEN) if prediction.right else ("✗", ORANGE)
    verdict = element("p", mark(sign, ground), element("strong", _verdict_of(prediction)), style="margin:0.3em 0 0 0")
    lines = html_lines([("you said", prediction.guess), ("autograd", prediction.actual)])
    return _section("Prediction", ground, [question, verdict, lines])


def prediction_text(prediction: Prediction) -> str:
    """The same as text."""
    if prediction.right is None:
        return wrap(prediction.question) + "\n" + wrap(_ASK, "  ", "  ")
    sign = "✓" if prediction.right else "✗"
    lines = text_lines([("you said", prediction.guess), ("autograd", prediction.actual)], "    ")
    return f"{wrap(prediction.question)}\n  {sign} {_verdict_of(prediction)}\n{lines}"


_ASK = "Your guess first: put it where the `...` stands and run the cell again."


def _verdict_of(prediction: Prediction) -> str:
    return "right" if prediction.right else "not what happens"


def solution_html(solution: Solution) -> str:
    """A worked solution as code."""
    title = element("p", element("strong", f"{solution.exercise}: a solution"), style="margin:0")
    blocks = [title, *([_pre(solution.source)] if solution.source else [])]
    return _section(
        f"Solution of {solution.exercise}", BLUE, blocks + ([_small(solution.note)] if solution.note else [])
    )


def solution_text(solution: Solution) -> str:
    """A worked solution as text."""
    parts = [f"{solution.exercise}: a solution", solution.source, wrap(solution.note) if solution.note else ""]
    return "\n\n".join(part for part in parts if part)
