"""Judges an answer claim by claim and adds up the points (``judge``)."""

import itertools
import math
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from course_utils.checks.capture import Capture
from course_utils.checks.exercise import Exercise, Rule
from course_utils.checks.misconceptions import GENERAL, Misconception
from course_utils.checks.missed import Missed
from course_utils.checks.run import Outcome, run
from course_utils.checks.score import Claim, Score, Status
from course_utils.checks.state import apart, running_threads, threads_left
from course_utils.checks.trial import Trial

_BUSY = threading.Lock()

TIDY = "changes nothing that its contract does not name"


def judge(exercise: Exercise, answer: Any, lesson: str) -> Score:
    """Runs every claim of an exercise on an answer.

    The answer can raise, warn, print, change settings, leave hooks and threads behind, and raise when it is shown: the
    score says so, the state is put back, and nothing is raised.

    Args:
        exercise: what to judge by.
        answer: the learner's object.
        lesson: the lesson's name, for the score.

    Returns:
        The score.

    Raises:
        RuntimeError: called from inside an answer that is being checked; or the machine gives no thread to judge in.
        MemoryError: there is too little memory for one.
        KeyboardInterrupt: the learner interrupted the check.
    """
    if not _BUSY.acquire(blocking=False):
        raise RuntimeError("A check is already running; an answer cannot start another one.")
    try:
        with apart(), Capture() as capture:
            answer = dict(answer) if isinstance(answer, Mapping) else answer
            claims, outcomes = ([], []) if exercise.is_stub(answer) else _judged(exercise, answer, capture)
    finally:
        _BUSY.release()
    about: Any = {"lesson": lesson, "exercise": exercise.name, "possible": float(exercise.points)}
    if not outcomes or (outcomes[-1].kind == "not attempted" and not any(claim.held for claim in claims)):
        return Score(0.0, status="not attempted", output=capture.text(), **about)
    warned = dict.fromkeys(line for outcome in outcomes for line in outcome.warned)
    output = "\n".join(part for part in (capture.text(), *list(warned)[:8]) if part)
    earned, status = _earned(exercise, claims, outcomes)
    notes = tuple(exercise.notes(answer))
    return Score(earned, status=status, claims=tuple(claims), notes=notes, output=output, **about)


def _judged(exercise: Exercise, answer: Any, capture: Capture) -> tuple[list[Claim], list[Outcome]]:
    """The claims as a card has them, and what became of those that were judged."""

    def judged(rule: Rule) -> Outcome:
        return run(rule.judge, answer, exercise.name, capture.tell)

    claims, outcomes, threads, closed = list[Claim](), list[Outcome](), running_threads(), False
    for rule in exercise.rules(answer):
        if closed:
            claims.append(Claim(rule.text, False, weight=rule.weight, judged=False))
            continue
        outcomes.append(judged(rule))
        claims.append(_claim(exercise, rule, outcomes[-1]))
        closed = outcomes[-1].kind != "held" and (rule.gate or outcomes[-1].kind == "not attempted")
    if exercise.watches_side_effects:
        claims.append(_tidy(exercise, claims, outcomes, threads_left(threads), judged))
    return claims, outcomes


def _claim(exercise: Exercise, rule: Rule, outcome: Outcome) -> Claim:
    if outcome.kind == "held":
        return Claim(rule.text, True, weight=rule.weight)
    key, called = outcome.misconception, outcome.trial.called
    if outcome.kind == "raised":
        raised = outcome.details[0][1].lower()
        key = next((key for phrase, key in exercise.raises if phrase.lower() in raised), "")
    details = (("called", called),) * bool(called) + outcome.details
    return Claim(rule.text, False, details, rule.weight, misconception=_known(exercise, key))


def _known(exercise: Exercise, key: str) -> Misconception | None:
    """The misconception of a key. One that the text file lacks costs its name, and never the card."""
    return exercise.misconceptions.get(key) or GENERAL.get(key)


def _tidy(
    exercise: Exercise,
    claims: Sequence[Claim],
    outcomes: Sequence[Outcome],
    left: Sequence[str],
    judged: Callable[[Rule], Outcome],
) -> Claim:
    """The last claim: nothing was changed."""
    seen = [(number, outcome.trial.effects) for number, outcome in enumerate(outcomes) if outcome.trial.effects]
    effects = list(dict.fromkeys([*itertools.chain.from_iterable(effects for _, effects in seen), *left]))
    if not effects:
        # Leaving everything alone earns nothing for an answer that does nothing useful.
        is_useful = any(claim.held and claim.weight > 0 for claim in claims)
        return Claim(TIDY, is_useful, judged=is_useful)

    def untidy(_: Trial) -> None:
        # What an answer changes may be the effect of a mistake that is named above: then another name would be false.
        is_named = any(claim.misconception for claim in claims)
        key = "" if is_named else (seen and exercise.key_of(*seen[0])) or "side effect"
        raise Missed(key, found="; ".join(f"the answer {effect}" for effect in effects[:4]))

    rule = Rule(TIDY, untidy)
    return _claim(exercise, rule, judged(rule))


def _earned(exercise: Exercise, claims: Sequence[Claim], outcomes: Sequence[Outcome]) -> tuple[float, Status]:
    if all(claim.held for claim in claims):
        return float(exercise.points), "passed"
    total = sum(claim.weight for claim in claims)
    share = sum(claim.weight for claim in claims if claim.held) / total
    # Rounded down, and never full: only an answer for which every claim holds gets all points. (3 * 0.6 is 1.7999999.)
    earned = min(math.floor(exercise.points * share * 100 + 1e-6) / 100, max(exercise.points - 0.01, 0.0))
    raised = any(outcome.kind == "raised" for outcome in outcomes)
    return earned, "error" if raised and earned == 0 else "partial"
