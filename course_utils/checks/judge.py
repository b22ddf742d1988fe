"""Judges an answer claim by claim and adds up the points (``judge``)."""

import contextlib
import math
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import torch

from course_utils.checks.capture import Capture
from course_utils.checks.exercise import Exercise, Rule
from course_utils.checks.misconceptions import GENERAL, Misconception
from course_utils.checks.run import SLOW_SECONDS, Outcome, run
from course_utils.checks.score import Claim, Score, Status
from course_utils.checks.state import own_random_numbers, running_threads, threads_left

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
        capture = Capture()
        with _one_thread(), own_random_numbers(), capture:
            threads, answer = running_threads(), dict(answer) if isinstance(answer, Mapping) else answer
            outcomes = [] if exercise.is_stub(answer) else _outcomes(exercise, answer, capture)
            left = threads_left(threads)
    finally:
        _BUSY.release()
    about: Any = {"lesson": lesson, "exercise": exercise.name, "possible": float(exercise.points)}
    if _is_untouched(outcomes):
        return Score(0.0, status="not attempted", output=capture.text(), **about)
    claims = [_claim(exercise, rule, outcome) for rule, outcome in outcomes]
    notes = list(exercise.notes(answer))
    effects = _unique([*(effect for _, outcome in outcomes if outcome for effect in outcome.effects), *left])
    if exercise.watches_side_effects:
        claims.append(_tidy_claim(exercise, claims, effects))
    else:
        notes += [f"Your answer {effect}." for effect in left]
    seconds = max((outcome.seconds for _, outcome in outcomes if outcome), default=0.0)
    if seconds > SLOW_SECONDS:
        notes.append(f"One call of your answer took {seconds:.1f} s; the exercise needs far less.")
    warned = _unique(line for _, outcome in outcomes if outcome for line in outcome.warned)
    output = "\n".join(part for part in (capture.text(), *warned[:8]) if part)
    earned, status = _earned(exercise, claims, outcomes)
    return Score(earned, status=status, claims=tuple(claims), notes=tuple(notes), output=output, **about)


@contextlib.contextmanager
def _one_thread() -> Iterator[None]:
    """Torch works in one thread: on a busy machine, waiting for a second takes longer than the work on small inputs."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def _outcomes(exercise: Exercise, answer: Any, capture: Capture) -> list[tuple[Rule, Outcome | None]]:
    """Each rule with what became of it, None where it was not judged."""

    def on_slow(call: str, seconds: float) -> None:
        capture.tell(f"{call} has been running for {seconds:.0f} s. To stop it, interrupt the kernel.")

    outcomes: list[tuple[Rule, Outcome | None]] = []
    shared: dict[Any, Any] = {}  # between the claims of this check
    closed = False
    for rule in exercise.rules(answer):
        outcome = None if closed else run(rule.judge, answer, exercise.name, on_slow, shared)
        outcomes.append((rule, outcome))
        closed = outcome is None or (outcome.kind != "held" and (rule.gate or outcome.kind == "not attempted"))
    return outcomes


def _is_untouched(outcomes: Sequence[tuple[Rule, Outcome | None]]) -> bool:
    """It is a stub, or one that raised before anything held."""
    kinds = [outcome.kind for _, outcome in outcomes if outcome]
    return not kinds or ("not attempted" in kinds and "held" not in kinds[: kinds.index("not attempted")])


def _claim(exercise: Exercise, rule: Rule, outcome: Outcome | None) -> Claim:
    if outcome is None or outcome.kind == "held":
        return Claim(rule.text, outcome is not None, weight=rule.weight, judged=outcome is not None)
    key = outcome.misconception or _match(exercise.raises, outcome.raised)
    details = ((("called", outcome.called),) if outcome.called else ()) + outcome.details
    return Claim(rule.text, False, details, rule.weight, misconception=_known(exercise, key))


def _match(phrases: Sequence[tuple[str, str]], text: str) -> str:
    return next((key for phrase, key in phrases if phrase.lower() in text.lower()), "")


def _known(exercise: Exercise, key: str) -> Misconception | None:
    """The misconception of a key. One that the text file lacks costs its name, and never the card."""
    return exercise.misconceptions.get(key) or GENERAL.get(key)


def _tidy_claim(exercise: Exercise, claims: Sequence[Claim], effects: Sequence[str]) -> Claim:
    if effects:
        details = (("found", "; ".join(f"the answer {effect}" for effect in effects[:4])),)
        # What an answer changes may be the effect of a mistake that is named above: then another name would be false.
        is_named = any(claim.misconception for claim in claims)
        known = None if is_named else _known(exercise, exercise.key_of(effects) or "side effect")
        return Claim(TIDY, False, details, misconception=known)
    # Leaving everything alone earns nothing for an answer that does nothing useful.
    judged = any(claim.held and claim.weight > 0 for claim in claims)
    return Claim(TIDY, judged, judged=judged)


def _earned(
    exercise: Exercise, claims: Sequence[Claim], outcomes: Sequence[tuple[Rule, Outcome | None]]
) -> tuple[float, Status]:
    if all(claim.held for claim in claims):
        return float(exercise.points), "passed"
    total = sum(claim.weight for claim in claims)
    share = sum(claim.weight for claim in claims if claim.held) / total
    # Rounded down, and never full: only an answer for which every claim holds gets all points. (3 * 0.6 is 1.7999999.)
    earned = min(math.floor(exercise.points * share * 100 + 1e-6) / 100, max(exercise.points - 0.01, 0.0))
    raised = any(outcome and outcome.kind == "raised" for _, outcome in outcomes)
    return earned, "error" if raised and earned == 0 else "partial"


def _unique(items: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(items))
