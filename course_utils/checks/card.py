"""How a checked answer looks, in a notebook and in a terminal (``score_html``, ``score_text``). Data in, text out: the
same data gives the same text, to the byte.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from course_utils.base.markup import (
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
    wrap,
)
from course_utils.base.text import points

if TYPE_CHECKING:
    from course_utils.checks.score import Claim, Score

# What stands before a claim: the word says it, the sign and its ground say it again.
_HOLDS, _FAILS, _OPEN = ("✓", "holds", GREEN), ("✗", "does not hold", ORANGE), ("-", "not judged yet", GREY)
PROGRAM = "Shown by a program"
"""What stands above a misconception's program, which is folded."""

_STORIES = 2  # claims that fail and are told in full; more would bury the first
HEADING = "margin:0;padding:0;font-size:1em;font-weight:bold;line-height:1.5"


def score_html(score: Score) -> str:
    """A checked answer as a card: first what does not hold, with its diagnosis; what holds in one line each."""
    (claims, others), next_step = _story(score), _next_step(score)
    # An exercise has an <h3> of its own in a lesson, so its result comes one level below.
    name = element("code", clean(score.exercise, 80))
    blocks = [element("h4", name, f": {_verdict(score)}", style=HEADING)]
    if claims:
        items = [_claim_html(claim, next_step if claim is claims[0] else "") for claim in claims]
        if others:
            failed = sum(_kind(claim) is _FAILS for claim in claims)
            style = SMALL + ";margin:0 0 0.7em 1.6em;padding:0;list-style:none"
            items.insert(failed, element("li", prose(others), style=style))
        blocks.append(list_html(items))
    if next_step and not _leads_with_failure(claims):
        blocks.append(paragraph(next_step, "Next"))
    if score.output:
        blocks += [paragraph("Your answer printed:", style=SMALL), typed(clean(score.output, 2000, lines=15))]
    blocks += [paragraph(clean(note, 400), "Note", SMALL) for note in score.notes]
    return beside_line("section", {"passed": GREEN, "not attempted": GREY}.get(score.status, ORANGE), blocks)


def list_html(items: Iterable[str]) -> Html:
    """The list of a card's claims, made by ``line_html`` and ``told_html``."""
    style = "list-style:none;margin:0.4em 0 0.6em 0;padding:0"
    return element("ul", Html("\n" + "\n".join(items) + "\n"), style=style, role="list")


def line_html(kind: tuple[str, str, str], text: str) -> Html:
    """A claim in one line, behind its sign and word; ``kind`` has the sign, the word and their ground."""
    sign, word, ground = kind
    style = "margin:0.1em 0;padding:0;list-style:none"
    return element("li", mark(sign, ground), f"{word}: ", prose(text), style=style)


def told_html(kind: tuple[str, str, str], text: str, blocks: Sequence[str]) -> Html:
    """A claim with all that is said of it below."""
    sign, word, ground = kind
    inner = [element("p", mark(sign, ground), element("strong", word), ": ", prose(text), style="margin:0")]
    if blocks:
        inner.append(element("div", *blocks, style="margin:0 0 0 1.6em"))
    return element("li", *inner, style="margin:0.3em 0 0.7em 0;padding:0;list-style:none")


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
    if _kind(claim) is not _FAILS:
        return line_html(_kind(claim), claim.text)
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
        if claim.program:
            summary = element("summary", PROGRAM)
            blocks.append(element("details", summary, typed(claim.program), "It prints:", typed(claim.prints)))
    return told_html(_FAILS, claim.text, blocks)


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
        if claim.program:
            program, prints = text_typed(claim.program, "      "), text_typed(claim.prints, "      ")
            lines += [f"    {PROGRAM}:", program, "    It prints:", prints]
    return "\n".join(lines)
