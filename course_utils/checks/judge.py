"""Judges an answer claim by claim and adds up the points (``judge``). Each claim runs in a thread of its own (``run``),
and what became of it is plain data (``Outcome``). Modes that an answer leaves switched on end with that thread.
"""

import ctypes
import itertools
import math
import os
import sys
import threading
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch

from course_utils.base.text import message_of
from course_utils.checks import AnswerRaised, Missed, NotAttempted, Stopped
from course_utils.checks.exercise import Exercise, Rule
from course_utils.checks.misconceptions import GENERAL
from course_utils.checks.score import Claim, Score, Status
from course_utils.checks.state import Capture, apart, running_threads, threads_left
from course_utils.checks.trial import Trial

_BUSY = threading.Lock()
TIDY = "changes nothing that its contract does not name"
SLOW_SECONDS = 10.0
_LOOK_SECONDS = 0.1
_STOP_SECONDS, _STOP_AGAIN_SECONDS = 1.0, 0.05  # how long an answer is asked to stop, and how often
# macOS gives a thread 512 KiB of stack, too little for a deep recursion that the main thread would survive.
_STACK_BYTES = 16 * 2**20


@dataclass(frozen=True)
class Outcome:
    """What became of one claim's run.

    Attributes:
        kind: whether the claim held; if not, what came in the way: "missed" is the claim's verdict, "broken" that it
            could not make sense of the result.
        trial: what it was run on, with its last call and what the answer changed.
        misconception: what ``Missed`` named.
        details: lines for the card.
        warned: one line for each warning.
    """

    kind: Literal["held", "missed", "raised", "not attempted", "broken"]
    trial: Trial
    misconception: str = ""
    details: tuple[tuple[str, str], ...] = ()
    warned: tuple[str, ...] = ()


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
    known = exercise.misconceptions.get(key) or GENERAL.get(key)  # one that the text file lacks costs its name alone
    return Claim(rule.text, False, details, rule.weight, misconception=known)


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


def run(claim: Callable[[Trial], None], answer: Any, name: str, tell: Callable[[str], None]) -> Outcome:
    """Runs a claim on an answer in a thread of its own, and waits for it.

    Args:
        claim: the claim's function.
        answer: the learner's object.
        name: the exercise's name, for the card.
        tell: called once with what there is to say while the claim is running for long.

    Returns:
        The outcome. What the claim raised is in it, never raised from here.

    Raises:
        KeyboardInterrupt: the learner interrupted. The answer has been asked to stop.
        RuntimeError, MemoryError: the machine gives no thread; the answer was not run.
    """
    trial = Trial(answer, name)
    outcome = Outcome("broken", trial)

    def work() -> None:
        nonlocal outcome
        caught: list[warnings.WarningMessage] = []
        torch.get_num_threads()  # which tells MKL in this new thread how many it may use; else it waits for others
        try:
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                claim(trial)
            outcome = _outcome(trial, None, caught)
        except BaseException as error:
            outcome = _outcome(trial, error, caught)
        finally:
            running.release()

    # A bare lock, which the thread gives back at its end. Not Thread.join: a join that is interrupted takes the running
    # thread for a stopped one (bpo-45274). Not an Event: ``Stopped`` can be raised in the middle of ``Event.set``, and
    # then nobody ever gives back the lock inside the Event.
    running = threading.Lock()
    running.acquire()
    thread = threading.Thread(target=work, name=f"check {name}", daemon=True)
    try:
        before = threading.stack_size(_STACK_BYTES)
        try:
            thread.start()
        finally:
            threading.stack_size(before)
        started, told, loaded = time.perf_counter(), False, len(sys.modules)
        # A signal that comes just before a wait begins is noticed when it ends: so it is never long.
        while not running.acquire(timeout=_LOOK_SECONDS):
            if len(sys.modules) != loaded:  # a process's first optimizer loads the compiler: no time of the answer's
                started, loaded = time.perf_counter(), len(sys.modules)
            if not told and (seconds := time.perf_counter() - started) > SLOW_SECONDS:
                told = True
                tell(f"{trial.called or name} has been running for {seconds:.0f} s. To stop it, interrupt the kernel.")
        thread.join()
        # Before Python 3.13 it may yet let go of what a failed backward left, and abort a process that ends meanwhile.
        while os.path.exists(f"/proc/self/task/{thread.native_id}"):
            time.sleep(0.001)
    except BaseException as error:
        if thread.ident is None and isinstance(error, (RuntimeError, MemoryError)):  # it never began
            raise type(error)(f"Nothing was judged: the machine gave no thread to do it in ({error}).") from error
        _stop(thread, running)
        raise
    return outcome


def _outcome(trial: Trial, error: BaseException | None, caught: Sequence[warnings.WarningMessage]) -> Outcome:
    warned = tuple(message_of(warning.message, 1000).split(". ")[0][:200] for warning in caught)
    match error:
        case None:
            return Outcome("held", trial, warned=warned)
        case Missed():
            return Outcome("missed", trial, error.misconception, error.details, warned)
        case AnswerRaised():
            return Outcome("raised", trial, "", error.details, warned)
        case NotAttempted():
            details = (("raised", "NotImplementedError: this case is not written yet"),)
            return Outcome("not attempted", trial, "", details, warned)
    # The claim's own code could not make sense of the result: say so, never hide it.
    return Outcome("broken", trial, "", (("could not be judged", message_of(error)),), warned)


def _stop(thread: threading.Thread, running: threading.Lock) -> None:
    """Raises ``Stopped`` in the thread until it ends. A call into C cannot be stopped; it is left to end by itself."""
    deadline = time.perf_counter() + _STOP_SECONDS
    while time.perf_counter() < deadline and (thread.ident is None or thread.is_alive()):
        ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread.ident or 0), ctypes.py_object(Stopped))
        if running.acquire(timeout=_STOP_AGAIN_SECONDS):
            thread.join(timeout=1.0)
            return
