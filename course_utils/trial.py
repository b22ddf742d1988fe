"""Runs a learner's answer where it can do no harm, and lets a claim look at what it did (``Trial``, ``run``).

A claim is a function of a ``Trial``. It makes fresh inputs (``trial.randn``), calls the answer (``trial.call``), and
raises ``Missed`` where the answer falls short. ``run`` gives each claim a thread of its own, so that modes which an
answer leaves switched on end with that thread. Imports state and the leaf modules.
"""

import contextlib
import ctypes
import dis
import linecache
import secrets
import sys
import threading
import time
import traceback
import types
import warnings
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Any

import torch

from course_utils.state import LeftBehind, Names, Objects, Settings
from course_utils.text import describe

SLOW_SECONDS = 10.0
_LOOK_SECONDS = 0.1
_STOP_SECONDS, _STOP_AGAIN_SECONDS = 1.0, 0.05  # how long an answer is asked to stop, and how often

_clock = time.perf_counter
# macOS gives a thread 512 KiB of stack, too little for a deep recursion that the main thread would survive.
_STACK_BYTES = 16 * 2**20
_NOT_THE_LEARNER_S = ("torch", "functorch", "course_utils")


class Missed(Exception):
    """A claim does not hold.

    Args:
        misconception: the key of the misconception that the answer shows; empty where none is recognised.
        details: what to show: ``expected=``, ``got=`` and the like, each a short text or a value to ``describe``.
    """

    def __init__(self, misconception: str = "", **details: Any) -> None:
        super().__init__(misconception, details)
        self.misconception = misconception
        self.details = tuple(
            (label.replace("_", " "), value if isinstance(value, str) else describe(value))
            for label, value in details.items()
        )


class NotAttempted(Exception):
    """The answer is still the stub."""


class AnswerRaised(Exception):
    """The answer raised. ``error`` is what it raised; ``where`` the learner's line, or empty."""

    def __init__(self, error: BaseException, where: str) -> None:
        super().__init__(describe(error))
        self.error, self.where = error, where


class Stopped(BaseException):
    """Raised inside an answer's thread when the learner interrupts the check."""


class Trial:
    """What one claim can do with the answer.

    Attributes:
        answer: the learner's object, as it was handed over.
        effects: what the answer changed that its contract does not name, one phrase each. It has been put back where
            that is possible.
        seconds: how long the answer's slowest call took.
        called: the last call in short form, for the card.
    """

    def __init__(self, answer: Any, name: str) -> None:
        self.answer, self.name = answer, name
        self.effects: list[str] = []
        self.seconds = 0.0
        self.called = ""
        self._generator = torch.Generator().manual_seed(secrets.randbits(62))

    # Fresh inputs. They come from a generator of the trial's own: no check draws the same ones twice, and the learner's
    # random state is not touched.

    def randn(self, *shape: int, dtype: torch.dtype = torch.float64, requires_grad: bool = False) -> torch.Tensor:
        """Standard normal values on the CPU."""
        return torch.randn(shape, dtype=dtype, generator=self._generator).requires_grad_(requires_grad)

    def integer(self, low: int, high: int) -> int:
        """An integer from ``low`` to ``high``, both included."""
        return int(torch.randint(low, high + 1, (), generator=self._generator))

    def fill(self, module: torch.nn.Module) -> torch.nn.Module:
        """Draws a module's parameters anew in place, normal with standard deviation 0.5; returns the module."""
        with torch.no_grad():
            for parameter in module.parameters():
                values = torch.randn(parameter.shape, dtype=torch.float64, generator=self._generator)
                parameter.copy_(0.5 * values)
        return module

    # Calls of the answer.

    def call(
        self,
        *args: Any,
        may_change: tuple[Any, ...] = (),
        within: AbstractContextManager | None = None,
        watch_training: bool = True,
        show: str = "",
        **kwargs: Any,
    ) -> Any:
        """Calls the answer. See ``run``; every argument is watched but those in ``may_change``."""
        shown = [describe(value, 40) for value in args] + [f"{k}={describe(v, 40)}" for k, v in kwargs.items()]
        code = getattr(self.answer, "__code__", None)
        names = code.co_varnames[: code.co_argcount] if isinstance(code, types.CodeType) else ()
        labels = [names[i] if i < len(names) else f"argument {i + 1}" for i in range(len(args))]
        return self.run(
            lambda: self.answer(*args, **kwargs),
            called=show or f"{self.name}({', '.join(shown)})",
            watch=dict(zip(labels, args, strict=True)) | kwargs,
            may_change=may_change,
            within=within,
            watch_training=watch_training,
        )

    def run(
        self,
        function: Callable[[], Any],
        *,
        called: str,
        watch: Mapping[str, Any] | None = None,
        may_change: tuple[Any, ...] = (),
        within: AbstractContextManager | None = None,
        watch_training: bool = True,
    ) -> Any:
        """Runs code of the answer, notes what it changed, and puts that back.

        Args:
            function: calls the answer; everything that it raises is taken for the answer's.
            called: the call in short form, for the card.
            watch: objects that the answer must leave alone, by the name that a report should use.
            may_change: objects whose change the contract allows.
            within: a context manager entered around the call alone, for example a memory tracker.
            watch_training: False where the modules' training flags are judged by a claim of their own.

        Returns:
            What the function returned.

        Raises:
            AnswerRaised: the function raised anything, ``SystemExit`` and ``KeyboardInterrupt`` included.
            NotAttempted: it raised a bare ``NotImplementedError`` of its own.
            LeftBehind: it left a mode on that ends only with the thread.
        """
        self.called = called
        names, settings, objects = Names(), Settings(), Objects(watch or {}, may_change, watch_training)
        started = _clock()
        try:
            with within or contextlib.nullcontext():
                started = _clock()
                return function()
        except Stopped:
            raise
        except NotImplementedError as error:
            if type(error) is NotImplementedError and _raised_by_learner(error):
                raise NotAttempted from None
            raise AnswerRaised(error, _where(error)) from error
        except BaseException as error:
            raise AnswerRaised(error, _where(error)) from error
        finally:
            self.seconds = max(self.seconds, _clock() - started)
            replaced = names.restore()
            self._note(f"replaced {label}" for label, *_ in replaced)
            self._note(settings.restore())
            self._note(objects.differences())

    def _note(self, effects: Any) -> None:
        self.effects.extend(effect for effect in effects if effect not in self.effects)

    # Looking at what came back.

    def tensor(
        self,
        value: Any,
        *,
        shape: tuple[int, ...] | torch.Size | None = None,
        dtype: torch.dtype | None = None,
        what: str = "",
    ) -> torch.Tensor:
        """The answer's result as an ordinary tensor (the same object, or a view of it for a subclass).

        Raises:
            Missed: it is no tensor, or has another shape or dtype than asked for.
        """
        expected = what or "a tensor"
        if value is None:
            raise Missed("no return value", expected=expected, got="None")
        if not isinstance(value, torch.Tensor):
            raise Missed("not a tensor", expected=expected, got=f"{describe(value, 60)} ({type(value).__name__})")
        value = plain(value)
        if shape is not None and value.shape != tuple(shape):
            raise Missed(expected=f"shape {tuple(shape)}", got=f"shape {tuple(value.shape)}")
        if dtype is not None and value.dtype != dtype:
            raise Missed(expected=str(dtype), got=str(value.dtype))
        return value


def plain(tensor: torch.Tensor) -> torch.Tensor:
    """A tensor whose comparisons are torch's own: the same object, or a view of it without its subclass.

    Raises:
        Missed: its class answers for its operations itself (``__torch_dispatch__``).
    """
    if type(tensor) in (torch.Tensor, torch.nn.Parameter):
        return tensor
    if type(tensor).__torch_dispatch__ is not torch.Tensor.__torch_dispatch__:
        raise Missed(expected="an ordinary tensor", got=f"an instance of {type(tensor).__name__}")
    with torch._C.DisableTorchFunctionSubclass():
        return torch.Tensor.as_subclass(tensor, torch.Tensor)


def _raised_by_learner(error: BaseException) -> bool:
    """Whether a ``raise`` statement outside torch and this package raised it: C code leaves no frame of its own."""
    step = error.__traceback__
    while step is not None and step.tb_next is not None:
        step = step.tb_next
    if step is None:
        return False
    code = step.tb_frame.f_code.co_code
    package = str(step.tb_frame.f_globals.get("__name__", "")).partition(".")[0]
    return dis.opname[code[step.tb_lasti]] == "RAISE_VARARGS" and package not in _NOT_THE_LEARNER_S


def _where(error: BaseException) -> str:
    """The learner's line that led to the error: the last one in a notebook cell or file outside installed packages."""
    found = ""
    for frame, line_number in traceback.walk_tb(error.__traceback__):
        package = str(frame.f_globals.get("__name__", "")).partition(".")[0]
        if package in sys.stdlib_module_names or package in _NOT_THE_LEARNER_S:
            continue
        line = linecache.getline(frame.f_code.co_filename, line_number).strip()
        found = f"line {line_number}: {line}" if line else found
    return found


class Outcome:
    """What became of one claim's run: the exception that ended it, or None, and what the trial noted."""

    def __init__(self, trial: Trial) -> None:
        self.trial = trial
        self.error: BaseException | None = None
        self.warned: list[str] = []


def run(claim: Callable[[Trial], None], answer: Any, name: str, on_slow: Callable[[str, float], None]) -> Outcome:
    """Runs a claim on an answer in a thread of its own, and waits for it.

    Args:
        claim: the claim's function.
        answer: the learner's object.
        name: the exercise's name, for the card.
        on_slow: called once, while the claim is running, with the call and the seconds it has taken.

    Returns:
        The outcome. What the claim raised is in it, never raised from here.

    Raises:
        KeyboardInterrupt: the learner interrupted. The answer has been asked to stop.
    """
    outcome = Outcome(Trial(answer, name))

    def work() -> None:
        try:
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                try:
                    claim(outcome.trial)
                finally:
                    outcome.warned = [_first_sentence(warning) for warning in caught]
        except BaseException as error:
            outcome.error = error
        finally:
            running.release()

    # A bare lock, which the thread gives back at its end. Not Thread.join: a join that is interrupted takes the running
    # thread for a stopped one (bpo-45274). Not an Event: ``Stopped`` can be raised in the middle of ``Event.set``, and
    # then nobody ever gives back the lock inside the Event.
    running = threading.Lock()
    running.acquire()
    thread = threading.Thread(target=work, name=f"check {name}", daemon=True)
    try:
        with _stack_size(_STACK_BYTES):
            thread.start()
        started, told = _clock(), False
        # A signal that comes just before a wait begins is noticed when it ends: so it is never long.
        while not running.acquire(timeout=_LOOK_SECONDS):
            if not told and _clock() - started > SLOW_SECONDS:
                on_slow(outcome.trial.called or name, _clock() - started)
                told = True
        thread.join()
    except BaseException:
        _stop(thread, running)
        raise
    return outcome


def _first_sentence(warning: warnings.WarningMessage) -> str:
    text = " ".join(str(warning.message).split())
    sentence = text.split(". ")[0][:200]
    return f"{warning.category.__name__}: {sentence}"


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


__all__ = ["SLOW_SECONDS", "AnswerRaised", "LeftBehind", "Missed", "NotAttempted", "Outcome", "Trial", "plain", "run"]
