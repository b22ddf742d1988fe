"""Runs a claim in a thread of its own, and says what became of it in plain data (``run``, ``Outcome``).

Modes that an answer leaves switched on end with that thread.
"""

import ctypes
import sys
import threading
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch

from course_utils.base.text import message_of
from course_utils.checks.missed import AnswerRaised, Missed, NotAttempted, Stopped
from course_utils.checks.trial import Trial

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
            if not told and time.perf_counter() - started > SLOW_SECONDS:
                told = True
                seconds = time.perf_counter() - started
                tell(f"{trial.called or name} has been running for {seconds:.0f} s. To stop it, interrupt the kernel.")
        thread.join()
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
