"""How a result looks, in a notebook and in a terminal: a checked answer (``score_html``, ``score_text``), a hint, a
prediction and a solution. Data in, text out: the same data gives the same text, to the byte.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from course_utils.base.markup import (
    BLUE,
    GREEN,
    GREY,
    ORANGE,
    PLAIN,
    SMALL,
    Html,
    beside_line,
    clean,
    element,
    explained_link,
    html_lines,
    mark,
    paragraph,
    prose,
    text_lines,
    text_typed,
    typed,
    visible,
    wrap,
)
from course_utils.base.text import points

if TYPE_CHECKING:
    from course_utils.checks.score import Claim, Score

# What stands before a claim: the word says it, the sign and its ground say it again.
_HOLDS, _FAILS, _OPEN = ("✓", "holds", GREEN), ("✗", "does not hold", ORANGE), ("-", "not judged yet", GREY)
_STORIES = 2  # claims that fail and are told in full; more would bury the first
_HEADING = "margin:0;padding:0;font-size:1em;font-weight:bold;line-height:1.5"
_ASK = "Your guess first: write it where the `...` stands, and run the cell again."


@dataclass(frozen=True, repr=False)
class Hint:
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

    def _repr_html_(self) -> str:
        return hint_html(self)

    def __repr__(self) -> str:
        return hint_text(self)


@dataclass(frozen=True, repr=False)
class Prediction:
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

    def _repr_html_(self) -> str:
        return prediction_html(self)

    def __repr__(self) -> str:
        return prediction_text(self)


@dataclass(frozen=True, repr=False)
class Solution:
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

    def _repr_html_(self) -> str:
        return solution_html(self)

    def __repr__(self) -> str:
        return solution_text(self)


def score_html(score: Score) -> str:
    """A checked answer as a card: first what does not hold, with its diagnosis; what holds in one line each."""
    (claims, others), next_step = _story(score), _next_step(score)
    # An exercise has an <h3> of its own in a lesson, so its result comes one level below.
    name = element("code", clean(score.exercise, 80))
    blocks = [element("h4", name, f": {_verdict(score)}", style=_HEADING)]
    if claims:
        items = [_claim_html(claim, next_step if claim is claims[0] else "") for claim in claims]
        if others:
            failed = sum(_kind(claim) is _FAILS for claim in claims)
            style = SMALL + ";margin:0 0 0.7em 1.6em;padding:0;list-style:none"
            items.insert(failed, element("li", prose(others), style=style))
        style = "list-style:none;margin:0.4em 0 0.6em 0;padding:0"
        blocks.append(element("ul", Html("\n" + "\n".join(items) + "\n"), style=style, role="list"))
    if next_step and not _leads_with_failure(claims):
        blocks.append(paragraph(next_step, "Next"))
    if score.output:
        blocks += [paragraph("Your answer printed:", style=SMALL), typed(clean(score.output, 2000, lines=15))]
    blocks += [paragraph(clean(note, 400), "Note", SMALL) for note in score.notes]
    return beside_line("section", {"passed": GREEN, "not attempted": GREY}.get(score.status, ORANGE), blocks)


def score_text(score: Score) -> str:
    """The same card as plain text of at most 88 columns."""
    (claims, others), next_step = _story(score), _next_step(score)
    blocks = [wrap(f"{score.exercise}: {_verdict(score)}")]
    if claims:
        items = [_claim_text(claim, next_step if claim is claims[0] else "") for claim in claims]
        failed = sum(_kind(claim) is _FAILS for claim in claims)
        blocks += [*items[:failed], *([wrap(others, "    ", "    ")] if others else [])]
        blocks += ["\n".join(items[failed:])] if items[failed:] else []
    if next_step and not _leads_with_failure(claims):
        blocks.append(wrap(next_step, "  Next: ", "    "))
    if score.output:
        blocks.append("  Your answer printed:\n" + text_typed(clean(score.output, 2000, lines=15), "    "))
    if score.notes:
        blocks.append("\n".join(wrap(note, "  Note: ", "    ", limit=400) for note in score.notes))
    return "\n\n".join(blocks)


def _kind(claim: Claim) -> tuple[str, str, str]:
    if not claim.judged:
        return _OPEN
    return _HOLDS if claim.held else _FAILS


def _in_order(score: Score) -> list[Claim]:
    """The claims as a reader needs them: those that fail, then the others, each group in the exercise's order."""
    return sorted(score.claims, key=lambda claim: _kind(claim) is not _FAILS)


def _story(score: Score) -> tuple[list[Claim], str]:
    """The claims that a card shows, and one quiet sentence on those that fail with them.

    Of what fails, the first claim is shown, which the exercise puts first because others follow from it, and one more
    that has another story. One mistake is not told three times.
    """
    stories: list[str] = []
    shown: list[Claim] = []
    others: list[str] = []
    for claim in _in_order(score):
        story = claim.misconception or claim.diagnosis or claim.text
        if _kind(claim) is not _FAILS:
            shown.append(claim)
        elif len(stories) < _STORIES and story not in stories:
            stories.append(story)
            shown.append(claim)
        else:
            others.append(claim.text)
    more = "; ".join(others)
    return shown, f"Not yet either: {more}. Mend what stands above, and check again." if others else ""


def _leads_with_failure(claims: list[Claim]) -> bool:
    return bool(claims) and _kind(claims[0]) is _FAILS


def _verdict(score: Score) -> str:
    earned = points(float(score), score.possible)
    if score.status == "not attempted":
        return f"not attempted yet, {earned}."
    if score.status == "error":
        return f"{earned}. The answer raised an error."
    if score.status == "passed":
        return f"{earned}. Every claim holds."
    held = sum(_kind(claim) is _HOLDS for claim in score.claims)
    return f"{earned}. {held} of {len(score.claims)} claims hold." if score.claims else f"{earned}."


def _next_step(score: Score) -> str:
    if score.status == "passed":
        return ""
    hint = f"`lesson.hint({score.exercise!r})` gives a hint." if score.lesson else ""  # else a teacher's own exercise
    if score.status == "not attempted":
        return f"Write your answer, run its cell, then this one again. {hint}".strip()
    first = next((claim for claim in score.claims if _kind(claim) is _FAILS), None)
    return first.next_step if first and first.next_step else hint


def _claim_html(claim: Claim, next_step: str) -> Html:
    sign, word, ground = _kind(claim)
    if _kind(claim) is not _FAILS:
        style = "margin:0.1em 0;padding:0;list-style:none"
        return element("li", mark(sign, ground), f"{word}: ", prose(claim.text), style=style)
    blocks = []
    if claim.misconception:
        blocks.append(paragraph(f"“{claim.misconception}”", "Likely misconception"))
    if claim.diagnosis:
        blocks.append(paragraph(claim.diagnosis))
    if claim.explained:
        blocks.append(element("p", "Explained in ", explained_link(*claim.explained), style=PLAIN))
    if claim.details:
        blocks.append(html_lines(claim.details))
    if next_step:
        blocks.append(paragraph(next_step, "Next"))
    line = (mark(sign, ground), element("strong", word), ": ", prose(claim.text))
    inner = [element("p", *line, style="margin:0")]
    if blocks:
        inner.append(element("div", *blocks, style="margin:0 0 0 1.6em"))
    return element("li", *inner, style="margin:0.3em 0 0.7em 0;padding:0;list-style:none")


def _claim_text(claim: Claim, next_step: str) -> str:
    sign, word, _ = _kind(claim)
    lines = [wrap(claim.text, f"  {sign} {word}: ", "    ")]
    if _kind(claim) is not _FAILS:
        return lines[0]
    if claim.misconception:
        lines.append(wrap(f"“{claim.misconception}”", "    Likely misconception: ", "      "))
    if claim.diagnosis:
        lines.append(wrap(claim.diagnosis, "    ", "    "))
    if claim.explained:
        lines.append(wrap("Explained in {}, “{}”".format(*claim.explained), "    ", "    "))
    if claim.details:
        lines.append(text_lines(claim.details, "      "))
    if next_step:
        lines.append(wrap(next_step, "    Next: ", "      "))
    return "\n".join(lines)


def hint_html(hint: Hint) -> str:
    """One hint as a card."""
    title, text = _hint(hint)
    return beside_line("div", BLUE, [_title(hint.exercise, title), paragraph(text)])


def hint_text(hint: Hint) -> str:
    """One hint as text."""
    title, text = _hint(hint)
    return wrap(f"{hint.exercise}: {title}") + "\n" + wrap(text, "  ", "  ")


def _hint(hint: Hint) -> tuple[str, str]:
    if hint.text:
        return f"hint {hint.number} of {hint.total}", hint.text
    seen = f"You have seen all {hint.total}" if hint.total else "This exercise has none"
    return "no more hints", f"{seen}. `lesson.solution({hint.exercise!r})` shows a worked solution."


def prediction_html(prediction: Prediction) -> str:
    """A prediction beside what the engine does; without a guess, the question alone."""
    question = element("p", prose(prediction.question), style="margin:0")
    if prediction.right is None:
        return beside_line("div", GREY, [question, paragraph(_ASK)])
    sign, word, ground = _outcome(prediction)
    verdict = element("p", mark(sign, ground), element("strong", word), style="margin:0.3em 0")
    blocks = [question, verdict, html_lines(_compared(prediction))]
    return beside_line("div", ground, blocks + [paragraph(prediction.thought)] * bool(prediction.thought))


def prediction_text(prediction: Prediction) -> str:
    """The same as text."""
    question = wrap(prediction.question)
    if prediction.right is None:
        return question + "\n" + wrap(_ASK, "  ", "  ")
    sign, word, _ = _outcome(prediction)
    thought = "\n" + wrap(prediction.thought, "  ", "  ") if prediction.thought else ""
    return f"{question}\n  {sign} {word}\n" + text_lines(_compared(prediction), "    ") + thought


def _outcome(prediction: Prediction) -> tuple[str, str, str]:
    return ("✓", "right", GREEN) if prediction.right else ("✗", "not what happens", ORANGE)


def _compared(prediction: Prediction) -> list[tuple[str, str]]:
    return [("you said", prediction.guess), ("PyTorch", prediction.actual)]


def solution_html(solution: Solution) -> str:
    """A worked solution as code, or a model answer as prose."""
    blocks = [_title(solution.exercise, "solution")]
    for text, items in _paragraphs(solution.written):
        blocks += [paragraph(text)] * bool(text)
        blocks += [element("ul", *(element("li", prose(item)) for item in items), style="margin:0.2em 0")] * bool(items)
    if solution.source:
        # Code is shown whole: it comes from the course and not from an answer.
        blocks.append(typed(solution.source.rstrip()))
    if solution.note:
        blocks.append(paragraph(solution.note))
    return beside_line("div", BLUE, blocks)


def solution_text(solution: Solution) -> str:
    """A worked solution as text; its code is not wrapped."""
    written = [
        "\n".join([wrap(text, "  ", "  ")] * bool(text) + [wrap(item, "  - ", "    ") for item in items])
        for text, items in _paragraphs(solution.written)
    ]
    source = "\n".join(f"  {line}".rstrip() for line in visible(solution.source).rstrip().split("\n"))
    note = wrap(solution.note, "  ", "  ") if solution.note else ""
    answer = "\n\n".join(written)
    return "\n".join(part for part in (wrap(f"{solution.exercise}: solution"), source, answer, note) if part)


def _paragraphs(text: str) -> list[tuple[str, list[str]]]:
    """Each paragraph of a model answer, and the items of the list below its first lines."""
    blocks = [re.split(r"^- ", block, flags=re.MULTILINE) for block in re.split(r"\n\s*\n", text) if block.strip()]
    return [(first.replace("**", "").strip(), items) for first, *items in blocks]


def _title(exercise: str, what: str) -> Html:
    name = element("code", clean(exercise, 80))
    return element("p", element("strong", name, f": {what}"), style="margin:0")
