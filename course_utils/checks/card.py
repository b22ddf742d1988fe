"""How a checked answer looks (``score_card``): first what does not hold, with its diagnosis, then what holds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from course_utils.base.document import Block, Sign, card, item, items, line, notes, paragraph, program, rows, typed
from course_utils.base.markup import GREEN, GREY, ORANGE, clean
from course_utils.base.text import points
from course_utils.checks.capture import LIMIT

if TYPE_CHECKING:
    from course_utils.checks.score import Claim, Score

_HOLDS, _FAILS, _OPEN = Sign("✓", "held", GREEN), Sign("✗", "does not hold", ORANGE), Sign("-", "not judged yet", GREY)
PROGRAM = "Shown by a program"
"""What stands above a misconception's program, which is folded."""

_STORIES = 2  # claims that fail and are told in full; more would bury the first


def score_card(score: Score) -> Block:
    """A checked answer as a card."""
    (failed, others, rest), next_step = _story(score), _next_step(score)
    blocks: list[Block] = []
    if score.claims:
        told_in_full = [_told(claim, next_step if claim is failed[0] else "") for claim in failed]
        blocks.append(items(told_in_full, others, [line(_sign(claim), claim.text) for claim in rest]))
    if next_step and not failed:
        blocks.append(paragraph(next_step, "Next"))
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


def _story(score: Score) -> tuple[list[Claim], str, list[Claim]]:
    """The claims to tell in full, a quiet word on those that fail with them, and the others.

    Of what fails, the first claim is told, which the exercise puts first because others follow from it, and one more
    that has another story. One mistake is not told three times. Of a claim that fails without a name after one that
    has a name, nobody knows whether it fails by itself: it is not told that it is broken.
    """
    stories: dict[str, Claim] = {}
    same, too, open_yet, is_named = dict[str, list[str]](), list[str](), list[str](), False
    for claim in (claim for claim in score.claims if _sign(claim) is _FAILS):
        name = claim.misconception.name if claim.misconception else ""
        story = name or claim.diagnosis or claim.text
        if story in stories:
            same.setdefault(story, []).append(claim.text)
        elif len(stories) < _STORIES and (claim.misconception or not is_named or _is_seen(claim)):
            stories[story] = claim
            is_named |= bool(name)
        else:
            (too if _is_seen(claim) else open_yet).append(claim.text)
    which = ("same",) if len(stories) < 2 else ("first", "second")
    told = [(word, same[story]) for word, story in zip(which, stories, strict=False) if story in same]
    more = [f"Fails too, likely by the {word} mistake: {'; '.join(claims)}." for word, claims in told]
    more += [f"Does not hold either: {'; '.join(too)}."] * bool(too)
    more += [f"To be seen again when that is mended: {'; '.join(open_yet)}."] * bool(open_yet)
    return list(stories.values()), " ".join(more), [claim for claim in score.claims if _sign(claim) is not _FAILS]


def _is_seen(claim: Claim) -> bool:
    """Whether it says what was found, so that it tells something also below another mistake: a wrong prediction, or
    what the answer changed."""
    return any(label == "found" for label, _ in claim.details)


def _verdict(score: Score) -> str:
    earned = points(float(score), score.possible)
    if score.status == "not attempted":
        return f"not attempted yet, {earned}."
    if score.status == "error":
        return f"{earned}. The answer raised an error."
    if score.status == "passed":
        return f"{earned}. Every claim held."
    if not score.claims:
        return f"{earned}."
    signs = [_sign(claim) for claim in score.claims]
    waiting = f", {signs.count(_OPEN)} not judged yet" * (_OPEN in signs)
    return f"{earned}. {signs.count(_HOLDS)} of {len(signs) - signs.count(_OPEN)} claims held when tried{waiting}."


def _next_step(score: Score) -> str:
    if score.status == "passed":
        return ""
    hint = f"`lesson.hint({score.exercise!r})` gives a hint." if score.lesson else ""  # else a teacher's own exercise
    if score.status == "not attempted":
        return f"Write your answer, run its cell, then this one again. {hint}".strip()
    first = next((claim for claim in score.claims if _sign(claim) is _FAILS), None)
    return first.misconception.next_step if first and first.misconception and first.misconception.next_step else hint


def _told(claim: Claim, next_step: str) -> Block:
    known, blocks = claim.misconception, list[Block]()
    if known and known.name:
        blocks.append(paragraph(f"“{known.name}”", "Likely misconception"))
    if claim.diagnosis:
        blocks.append(paragraph(claim.diagnosis))
    if known and known.explained:
        blocks.append(paragraph("Explained in ", link=known.place))
    if claim.details:
        blocks.append(rows(claim.details))
    if next_step:
        blocks.append(paragraph(next_step, "Next"))
        if known and known.program:
            blocks.append(program(PROGRAM, known.program, known.prints))
    return item(_FAILS, claim.text, blocks)
