"""Judges an answer claim by claim and adds up the points (``judge``).

Imports trial, capture and state, and the leaf modules.
"""

import dis
import inspect
import math
import threading
import types
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch

from course_utils.capture import Capture
from course_utils.score import Claim, Score, Status
from course_utils.state import LeftBehind, Names, RandomState, put
from course_utils.trial import SLOW_SECONDS, AnswerRaised, Missed, NotAttempted, Outcome, Trial, run

# What torch's names stood for before any answer was run.
_PRISTINE = Names()
_BUSY = threading.Lock()

TIDY = "changes nothing that its contract does not name"


@dataclass(frozen=True)
class Misconception:
    """A misunderstanding that a check recognises.

    Attributes:
        name: what it is called, as the learner would say it: "detach() makes a copy".
        explanation: what is really so, in one to three sentences. Never the solution.
        next_step: one thing to try.
    """

    name: str
    explanation: str
    next_step: str


# What can go wrong in any exercise.
GENERAL = {
    "no return value": Misconception(
        "A function without `return` gives None",
        "The function ran, but what it worked out never left it: without `return`, Python returns None.",
        "End the function with `return` and the result.",
    ),
    "not a tensor": Misconception(
        "A number or an array is as good as a tensor",
        "The contract asks for a tensor. Lists, numbers and NumPy arrays have no flag, no history and no gradient.",
        "Look at the type of what you return.",
    ),
    "side effect": Misconception(
        "What I change inside a function stays inside",
        "Tensors, modules and torch's settings are shared with the caller: a change made here is seen everywhere.",
        "Work on results of your own, and put back what you had to change, also when something raises.",
    ),
}


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
    """What ``judge`` needs to know of an exercise."""

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

    The answer can raise, warn, print, change settings, leave hooks and threads behind or replace functions of torch:
    the score says so, the state is put back, and nothing is raised.

    Args:
        exercise: what to judge by.
        answer: the learner's object.
        lesson: the lesson's name, for the score.

    Returns:
        The score.

    Raises:
        RuntimeError: called from inside an answer that is being checked.
        KeyboardInterrupt: the learner interrupted the check.
    """
    if not _BUSY.acquire(blocking=False):
        raise RuntimeError("A check is already running; an answer cannot start another one.")
    try:
        if exercise.is_stub(answer):
            return _score(exercise, lesson, 0.0, "not attempted")
        random, replaced, threads = RandomState(), _PRISTINE.restore(), torch.get_num_threads()
        # Inputs are small: on a busy machine, waiting for a second thread takes longer than the work itself.
        torch.set_num_threads(1)
        torch.seed()  # so that no seed which an answer sets can be the one that was there
        capture = Capture()
        try:
            with capture:
                outcomes = _outcomes(exercise, answer, capture)
        finally:
            torch.set_num_threads(threads)
            for _, space, name, value in replaced:
                put(space, name, value)
            random.restore()
    finally:
        _BUSY.release()
    if _untouched(outcomes):
        return _score(exercise, lesson, 0.0, "not attempted", output=capture.text())
    claims = [_claim(exercise, rule, outcome) for rule, outcome in outcomes]
    effects = _unique(effect for _, outcome in outcomes if outcome for effect in outcome.trial.effects)
    if exercise.watches_side_effects:
        claims.append(_tidy_claim(exercise, claims, effects))
    notes = [f"`{label}` had been replaced; torch's own was used to judge." for label, *_ in replaced]
    seconds = max((outcome.trial.seconds for _, outcome in outcomes if outcome), default=0.0)
    if seconds > SLOW_SECONDS:
        notes.append(f"One call of your answer took {seconds:.1f} s; the exercise needs far less.")
    warned = _unique(line for _, outcome in outcomes if outcome for line in outcome.warned)
    output = "\n".join(part for part in (capture.text(), *warned[:8]) if part)
    notes.extend(exercise.notes(answer))
    return _score(exercise, lesson, *_earned(exercise, claims, outcomes), tuple(claims), tuple(notes), output)


def _outcomes(exercise: Judged, answer: Any, capture: Capture) -> list[tuple[Rule, Outcome | None]]:
    def on_slow(call: str, seconds: float) -> None:
        # The capture must not swallow this: it is for the learner who is waiting.
        print(f"{call} has been running for {seconds:.0f} s. To stop it, interrupt the kernel.", file=capture.stdout)
        capture.stdout.flush()

    outcomes: list[tuple[Rule, Outcome | None]] = []
    closed = False
    for rule in exercise.rules(answer):
        outcome = None if closed else run(rule.judge, answer, exercise.name, on_slow)
        outcomes.append((rule, outcome))
        if outcome and outcome.error is not None and (rule.gate or isinstance(outcome.error, NotAttempted)):
            closed = True
    return outcomes


def _untouched(outcomes: Sequence[tuple[Rule, Outcome | None]]) -> bool:
    """The stub raised before anything held."""
    for _, outcome in outcomes:
        if outcome is not None and outcome.error is None:
            return False
        if outcome is not None and isinstance(outcome.error, NotAttempted):
            return True
    return False


def _claim(exercise: Judged, rule: Rule, outcome: Outcome | None) -> Claim:
    if outcome is None:
        return Claim(rule.text, False, weight=rule.weight, judged=False)
    error, trial = outcome.error, outcome.trial
    if error is None:
        return Claim(rule.text, True, weight=rule.weight)
    called = (("called", trial.called),) if trial.called else ()
    misconception = ""
    if isinstance(error, Missed):
        misconception, details = error.misconception, error.details
    elif isinstance(error, AnswerRaised):
        raised = f"{type(error.error).__name__}: {_message(error.error)}".rstrip(": ")
        details = (("raised", raised),) + ((("in", error.where),) if error.where else ())
        misconception = _match(exercise.raises, raised)
    elif isinstance(error, LeftBehind):
        misconception, details = "side effect", (("found", f"the answer {error}"),)
    elif isinstance(error, NotAttempted):
        details = (("raised", "NotImplementedError: this case is not written yet"),)
    else:
        # The claim's own code could not make sense of the result: say so, never hide it.
        details = (("could not be judged", f"{type(error).__name__}: {_message(error)}"),)
    known = _known(exercise, misconception) if misconception else None
    return Claim(
        rule.text,
        False,
        diagnosis=known.explanation if known else "",
        misconception=known.name if known else "",
        next_step=known.next_step if known else "",
        details=called + details,
        weight=rule.weight,
    )


def _message(error: BaseException, limit: int = 200) -> str:
    try:
        text = str(error).strip().split("\n")[0]
    except Exception as second:  # an exception class of the learner's own whose __str__ fails
        return f"<its message raises {type(second).__name__}>"
    return text if len(text) <= limit else text[: limit - 3] + "..."


def _match(phrases: Sequence[tuple[str, str]], text: str) -> str:
    return next((key for phrase, key in phrases if phrase.lower() in text.lower()), "")


def _known(exercise: Judged, key: str) -> Misconception:
    return exercise.misconceptions.get(key) or GENERAL[key]


def _tidy_claim(exercise: Judged, claims: Sequence[Claim], effects: Sequence[str]) -> Claim:
    if effects:
        key = next((_match(exercise.effects, effect) for effect in effects if _match(exercise.effects, effect)), "")
        known = _known(exercise, key or "side effect")
        details = (("found", "; ".join(f"the answer {effect}" for effect in effects[:4])),)
        return Claim(TIDY, False, known.explanation, known.name, known.next_step, details)
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
    raised = any(outcome and isinstance(outcome.error, AnswerRaised) for _, outcome in outcomes)
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
    if inspect.isclass(answer):
        methods = (staticmethod, classmethod, types.FunctionType)
        return not any(isinstance(value, methods) for value in vars(answer).values())
    function = inspect.unwrap(answer) if callable(answer) else None
    code = getattr(function, "__code__", None)
    if not isinstance(code, types.CodeType) or code.co_flags & inspect.CO_GENERATOR:
        return False
    body = [step for step in dis.get_instructions(code) if step.opname not in ("RESUME", "NOP", "CACHE")]
    names = [step.opname for step in body]
    return names in (["LOAD_CONST", "RETURN_VALUE"], ["RETURN_CONST"]) and body[0].argval is None
