"""Runs a claim in a thread of its own, and says what became of it in plain data (``run``, ``Outcome``).

Modes that an answer leaves switched on end with that thread.
"""

import contextlib
import ctypes
import sys
import threading
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from course_utils.base.text import message_of, plain_text
from course_utils.checks.capture import quiet_thread
from course_utils.checks.hardened import __builtins__  # type: ignore[attr-defined, no-redef]  # noqa: F401  a copy
from course_utils.checks.missed import AnswerRaised, Missed, NotAttempted, Stopped
from course_utils.checks.state import LeftBehind
from course_utils.checks.trial import Trial
from course_utils.checks.why import note_end

SLOW_SECONDS = 10.0
_LOOK_SECONDS = 0.1
_STOP_SECONDS, _STOP_AGAIN_SECONDS = 1.0, 0.05  # how long an answer is asked to stop, and how often
_clock = time.perf_counter
# macOS gives a thread 512 KiB of stack, too little for a deep recursion that the main thread would survive.
_STACK_BYTES = 16 * 2**20


@dataclass(frozen=True)
class Outcome:
    """What became of one claim's run. It is made when the answer has ended, of Python's own types alone.

    Attributes:
        kind: whether the claim held; if not, what came in the way: "missed" is the claim's verdict, "broken" that it
            could not make sense of the result.
        misconception: what ``Missed`` named.
        details: lines for the card.
        raised: what the answer raised, as "Type: message".
        called: the last call in short form.
        effects: what the answer changed.
        threads: for each call that left threads running, which ones.
        seconds: how long the answer's slowest call took.
        warned: one line for each warning.
    """

    kind: Literal["held", "missed", "raised", "left behind", "not attempted", "broken"]
    misconception: str = ""
    details: tuple[tuple[str, str], ...] = ()
    raised: str = ""
    called: str = ""
    effects: tuple[str, ...] = ()
    threads: tuple[frozenset[int], ...] = ()
    seconds: float = 0.0
    warned: tuple[str, ...] = ()


def run(
    claim: Callable[[Trial], None],
    answer: Any,
    name: str,
    on_slow: Callable[[str, float], None],
    shared: dict[Any, Any] | None = None,
) -> Outcome:
    """Runs a claim on an answer in a thread of its own, and waits for it.

    Args:
        claim: the claim's function.
        answer: the learner's object.
        name: the exercise's name, for the card.
        on_slow: called once, while the claim is running, with the call and the seconds it has taken.
        shared: see ``Trial.once``.

    Returns:
        The outcome. What the claim raised is in it, never raised from here.

    Raises:
        KeyboardInterrupt: the learner interrupted. The answer has been asked to stop.
        RuntimeError, MemoryError: the machine gives no thread; the answer was not run.
    """
    trial, outcome = Trial(answer, name, shared), Outcome("broken")

    def work() -> None:
        nonlocal outcome
        caught: list[warnings.WarningMessage] = []
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
    thread = quiet_thread(work, f"check {name}")
    try:
        with _stack_size(_STACK_BYTES):
            thread.start()
        started, told, loaded = _clock(), False, len(sys.modules)
        # A signal that comes just before a wait begins is noticed when it ends: so it is never long.
        while not running.acquire(timeout=_LOOK_SECONDS):
            if len(sys.modules) != loaded:  # a process's first optimizer loads the compiler: no time of the answer's
                started, loaded = _clock(), len(sys.modules)
            if not told and _clock() - started > SLOW_SECONDS:
                on_slow(trial.called or name, _clock() - started)
                told = True
        thread.join()
    except BaseException as error:
        if thread.ident is None and isinstance(error, (RuntimeError, MemoryError)):  # it never began
            raise type(error)(f"Nothing was judged: the machine gave no thread to do it in ({error}).") from error
        _stop(thread, running)
        raise
    return outcome


def _outcome(trial: Trial, error: BaseException | None, caught: Sequence[warnings.WarningMessage]) -> Outcome:
    try:
        verdict = _verdict(error)
        effects, warned = tuple(map(plain_text, trial.effects)), tuple(map(_first_sentence, caught))
        threads = tuple(map(frozenset, trial.threads))
        return Outcome(*verdict, trial.called, effects, threads, trial.seconds, warned)
    except BaseException as second:  # an answer that found its way to the trial has left something else there
        return Outcome("broken", details=(("could not be judged", message_of(second)),))


def _verdict(error: BaseException | None) -> tuple[Any, str, tuple[tuple[str, str], ...], str]:
    if error is None:
        return "held", "", (), ""
    if type(error) is Missed:
        note_end(error, error.misconception)
        return "missed", error.misconception, error.details, ""
    if type(error) is AnswerRaised:
        raised = message_of(error.error)
        return "raised", "", (("raised", raised), *((("in", error.where),) if error.where else ())), raised
    if type(error) is LeftBehind:
        return "left behind", "side effect", (("found", f"the answer {error}"),), ""
    if type(error) is NotAttempted:
        return "not attempted", "", (("raised", "NotImplementedError: this case is not written yet"),), ""
    # The claim's own code could not make sense of the result: say so, never hide it.
    return "broken", "", (("could not be judged", message_of(error)),), ""


def _first_sentence(warning: warnings.WarningMessage) -> str:
    return message_of(warning.message, 1000).split(". ")[0][:200]


@contextlib.contextmanager
def _stack_size(nbytes: int) -> Any:
    try:
        before = threading.stack_size(nbytes)
    except (ValueError, RuntimeError):  # the platform does not let us choose
        yield
        return
    try:
        yield
    finally:
        threading.stack_size(before)


def _stop(thread: threading.Thread, running: threading.Lock) -> None:
    """Raises ``Stopped`` in the thread until it ends. A call into C cannot be stopped; it is left to end by itself."""
    deadline = _clock() + _STOP_SECONDS
    while _clock() < deadline and (thread.ident is None or thread.is_alive()):
        ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread.ident or 0), ctypes.py_object(Stopped))
        if running.acquire(timeout=_STOP_AGAIN_SECONDS):
            thread.join(timeout=1.0)
            return
