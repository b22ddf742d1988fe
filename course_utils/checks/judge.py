"""Judges an answer claim by claim and adds up the points (``judge``)."""

import contextlib
import dis
import inspect
import math
import threading
import types
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import torch

from course_utils import catalogue
from course_utils.checks.capture import Capture
from course_utils.checks.misconceptions import GENERAL, Misconception
from course_utils.checks.missed import NotAttempted
from course_utils.checks.names import Names, put
from course_utils.checks.run import SLOW_SECONDS, Outcome, run
from course_utils.checks.score import Claim, Score, Status
from course_utils.checks.state import RandomState, threads_left
from course_utils.checks.trial import Trial

# What torch's names stood for before any answer was run.
_PRISTINE = Names()
_BUSY = threading.Lock()

TIDY = "changes nothing that its contract does not name"


@dataclass(frozen=True)
class Rule:
    """One claim of an exercise, before it is judged.

    Attributes:
        text: what must hold.
        judge: raises ``Missed`` where it does not.
        weight: its share of the points.
        gate: whether the claims after it are judged only if this one holds.
    """

    text: str
    judge: Callable[[Trial], None]
    weight: float
    gate: bool


class Judged(Protocol):
    """What ``judge`` needs to know of an exercise.

    The methods get the answer as ``Trial.run`` returns things: a dict of predictions is Python's own in all its parts.
    What they raise is taken for the answer's.
    """

    name: str
    points: float
    misconceptions: Mapping[str, Misconception]
    raises: Sequence[tuple[str, str]]
    effects: Sequence[tuple[str, str]]
    watches_side_effects: bool

    def rules(self, answer: Any) -> Sequence[Rule]: ...
    def is_stub(self, answer: Any) -> bool: ...
    def notes(self, answer: Any) -> Iterable[str]: ...


def judge(exercise: Judged, answer: Any, lesson: str) -> Score:
    """Runs every claim of an exercise on an answer.

    The answer can raise, warn, print, change settings, leave hooks and threads behind or replace functions of torch,
    and all its methods and attributes can raise: the score says so, the state is put back, and nothing is raised.

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
        with _surroundings() as replaced, capture:
            notes, outcomes = _outcomes(exercise, answer, capture)
            left = threads_left([threads for _, outcome in outcomes if outcome for threads in outcome.threads])
    finally:
        _BUSY.release()
    if _is_untouched(outcomes):
        return _score(exercise, lesson, 0.0, "not attempted", output=capture.text())
    claims = [_claim(exercise, rule, outcome) for rule, outcome in outcomes]
    effects = _unique([*(effect for _, outcome in outcomes if outcome for effect in outcome.effects), *left])
    notes = [f"`{label}` had been replaced; torch's own was used to judge." for label in replaced] + notes
    if exercise.watches_side_effects:
        claims.append(_tidy_claim(exercise, claims, effects))
    else:
        notes += [f"Your answer {effect}." for effect in left]
    seconds = max((outcome.seconds for _, outcome in outcomes if outcome), default=0.0)
    if seconds > SLOW_SECONDS:
        notes.append(f"One call of your answer took {seconds:.1f} s; the exercise needs far less.")
    warned = _unique(line for _, outcome in outcomes if outcome for line in outcome.warned)
    output = "\n".join(part for part in (capture.text(), *warned[:8]) if part)
    return _score(exercise, lesson, *_earned(exercise, claims, outcomes), tuple(claims), tuple(notes), output)


@contextlib.contextmanager
def _surroundings() -> Iterator[list[str]]:
    """What claims run in, and puts back what was there. Gives the names of torch that had been replaced."""
    random, replaced, threads = RandomState(), _PRISTINE.restore(), torch.get_num_threads()
    try:
        # Inputs are small: on a busy machine, waiting for a second thread takes longer than the work itself.
        torch.set_num_threads(1)
        torch.seed()  # so that no seed which an answer sets can be the one that was there
        yield [label for label, *_ in replaced]
    finally:
        torch.set_num_threads(threads)
        for _, space, name, value in replaced:
            put(space, name, value)
        random.restore()


def _outcomes(exercise: Judged, answer: Any, capture: Capture) -> tuple[list[str], list[tuple[Rule, Outcome | None]]]:
    """The notes on an answer, and each rule with what became of it, None where it was not judged."""

    def on_slow(call: str, seconds: float) -> None:
        text = f"{call} has been running for {seconds:.0f} s. To stop it, interrupt the kernel."
        with contextlib.suppress(OSError, ValueError):  # the stream may be closed
            # The capture must not swallow this: it is for the learner who is waiting.
            print(text, file=capture.stdout, flush=True)

    rules: list[Rule] = []
    notes: list[str] = []

    def read(trial: Trial) -> None:
        nonlocal answer
        answer = trial.run(lambda: trial.answer, called="")
        if exercise.is_stub(answer):
            raise NotAttempted
        rules.extend(exercise.rules(answer))
        notes.extend(exercise.notes(answer))

    reading = run(read, answer, exercise.name, on_slow)
    if reading.kind != "held":
        return [], [(Rule("can be read", read, 1.0, gate=True), reading)]
    outcomes: list[tuple[Rule, Outcome | None]] = []
    closed = False
    for rule in rules:
        outcome = None if closed else run(rule.judge, answer, exercise.name, on_slow)
        outcomes.append((rule, outcome))
        closed = outcome is None or (outcome.kind != "held" and (rule.gate or outcome.kind == "not attempted"))
    return notes, outcomes


def _is_untouched(outcomes: Sequence[tuple[Rule, Outcome | None]]) -> bool:
    """The stub raised before anything held."""
    kinds = [outcome.kind for _, outcome in outcomes if outcome]
    return "not attempted" in kinds and "held" not in kinds[: kinds.index("not attempted")]


def _claim(exercise: Judged, rule: Rule, outcome: Outcome | None) -> Claim:
    if outcome is None or outcome.kind == "held":
        return Claim(rule.text, outcome is not None, weight=rule.weight, judged=outcome is not None)
    misconception = outcome.misconception or _match(exercise.raises, outcome.raised)
    known = _known(exercise, misconception) if misconception else None
    details = ((("called", outcome.called),) if outcome.called else ()) + outcome.details
    return _told(Claim(rule.text, False, details=details, weight=rule.weight), known)


def _told(claim: Claim, known: Misconception | None) -> Claim:
    """The claim with all that is known of the misconception that it shows."""
    if known is None:
        return claim
    lesson, heading = known.explained or ("", "")
    return replace(
        claim,
        diagnosis=known.explanation,
        misconception=known.name,
        next_step=known.next_step,
        explained=(catalogue.find(lesson).notebook, heading) if lesson else (),
        home=known.home,
        program=known.program,
        prints=known.prints,
    )


def _match(phrases: Sequence[tuple[str, str]], text: str) -> str:
    return next((key for phrase, key in phrases if phrase.lower() in text.lower()), "")


def _known(exercise: Judged, key: str) -> Misconception:
    return exercise.misconceptions.get(key) or GENERAL[key]


def _tidy_claim(exercise: Judged, claims: Sequence[Claim], effects: Sequence[str]) -> Claim:
    if effects:
        key = next((_match(exercise.effects, effect) for effect in effects if _match(exercise.effects, effect)), "")
        known = _known(exercise, key or "side effect")
        details = (("found", "; ".join(f"the answer {effect}" for effect in effects[:4])),)
        return _told(Claim(TIDY, False, details=details), known)
    # Leaving everything alone earns nothing for an answer that does nothing useful.
    judged = any(claim.held and claim.weight > 0 for claim in claims)
    return Claim(TIDY, judged, judged=judged)


def _earned(
    exercise: Judged, claims: Sequence[Claim], outcomes: Sequence[tuple[Rule, Outcome | None]]
) -> tuple[float, Status]:
    if all(claim.held for claim in claims):
        return float(exercise.points), "passed"
    total = sum(claim.weight for claim in claims)
    share = sum(claim.weight for claim in claims if claim.held) / total
    # Rounded down, and never full: only an answer for which every claim holds gets all points.
    earned = min(math.floor(exercise.points * share * 100) / 100, max(exercise.points - 0.01, 0.0))
    raised = any(outcome and outcome.kind == "raised" for _, outcome in outcomes)
    return earned, "error" if raised and earned == 0 else "partial"


def _score(
    exercise: Judged,
    lesson: str,
    earned: float,
    status: Status,
    claims: tuple[Claim, ...] = (),
    notes: tuple[str, ...] = (),
    output: str = "",
) -> Score:
    return Score(
        earned,
        lesson=lesson,
        exercise=exercise.name,
        possible=float(exercise.points),
        status=status,
        claims=claims,
        notes=notes,
        output=output,
    )


def _unique(items: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(items))


def is_blank(answer: Any) -> bool:
    """Whether an answer is an untouched stub: None, ``...``, a function that does nothing, a class without a body."""
    if answer is None or answer is ...:
        return True
    if issubclass(type(answer), type):
        methods = (staticmethod, classmethod, types.FunctionType)
        return not any(issubclass(type(value), methods) for value in vars(answer).values())
    try:
        code = getattr(inspect.unwrap(answer), "__code__", None) if callable(answer) else None
    except Exception:  # it answers for its attributes itself, so it was written
        return False
    if not isinstance(code, types.CodeType) or code.co_flags & inspect.CO_GENERATOR:
        return False
    body = [step for step in dis.get_instructions(code) if step.opname not in ("RESUME", "NOP", "CACHE")]
    names = [step.opname for step in body]
    return names in (["LOAD_CONST", "RETURN_VALUE"], ["RETURN_CONST"]) and body[0].argval is None
