"""Runs a learner's answer where it can do no harm, and lets a claim look at what it did (``Trial``, ``run``).

A claim is a function of a ``Trial``. It makes fresh inputs (``trial.randn``), calls the answer (``trial.call``), and
raises ``Missed`` where the answer falls short. ``run`` gives each claim a thread of its own, so that modes which an
answer leaves switched on end with that thread, and says what became of it in plain data (``Outcome``).
"""

import builtins
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
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from inspect import getattr_static
from typing import Any, Literal

import numpy
import torch

from course_utils.base.text import class_name, describe, message_of, plain_text
from course_utils.checks.capture import quiet_thread
from course_utils.checks.state import LeftBehind, Names, Objects, Settings, running_threads

# Bound now, before any answer can replace them. All functions below look built-in names up in this copy.
__builtins__ = dict(vars(builtins))  # type: ignore[assignment]  # a module or its dict, says Python
_as_subclass, _keys_of = torch.Tensor.as_subclass, torch._C._dispatch_keys
_as_torch_does = torch._C.DisableTorchFunctionSubclass

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
            (label.replace("_", " "), plain_text(value) if issubclass(type(value), str) else describe(value))
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
        answer: the learner's object; a dict of predictions as ``run`` returns one.
        effects: what the answer changed that its contract does not name, one phrase each. It has been put back where
            that is possible.
        threads: for each call that left threads running, which ones.
        seconds: how long the answer's slowest call took.
        called: the last call in short form, for the card.
    """

    def __init__(self, answer: Any, name: str) -> None:
        self.answer, self.name = answer, name
        self.effects: list[str] = []
        self.threads: list[frozenset[int]] = []
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
        code = self.answer.__code__ if type(self.answer) is types.FunctionType else None
        names = code.co_varnames[: code.co_argcount] if code else ()
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
            What the function returned, with nothing of the answer's own left that could answer for it: containers,
            which are followed, texts and numbers are Python's own, tensors as in ``plain``.

        Raises:
            AnswerRaised: the function raised anything, ``SystemExit`` and ``KeyboardInterrupt`` included.
            Missed: a tensor that it returned or was given is none that ``plain`` takes.
            NotAttempted: it raised a bare ``NotImplementedError`` of its own.
            LeftBehind: it left a mode on that ends only with the thread.
        """
        self.called = called
        watch = watch or {}
        names, settings, objects = Names(), Settings(), Objects(watch, may_change, watch_training)
        kinds, threads = _Kinds((*watch.values(), *may_change)), running_threads()
        started = _clock()
        try:
            with within or contextlib.nullcontext():
                started = _clock()
                result = function()
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
            self._note(f"replaced {label}" for label, *_ in names.restore())
            if new := running_threads() - threads:
                self.threads.append(new)
            self._note(settings.restore())
            kinds.restore()
            self._note(objects.differences())
        return self._exact(result, {})

    def _note(self, effects: Any) -> None:
        self.effects.extend(effect for effect in effects if effect not in self.effects)

    # Looking at what came back.

    def _exact(self, value: Any, seen: dict[int, tuple[Any, Any]]) -> Any:
        kind = type(value)
        if issubclass(kind, torch.Tensor):
            return plain(value)
        if issubclass(kind, str):
            return str.__str__(value)
        if issubclass(kind, float):
            return float.__float__(value)
        if issubclass(kind, int) and kind is not bool:
            return int.__int__(value)
        if issubclass(kind, numpy.generic):
            return numpy.generic.item(value)
        if issubclass(kind, numpy.ndarray):
            return numpy.ndarray.view(value, numpy.ndarray)
        if id(value) in seen:
            return seen[id(value)][1]
        if issubclass(kind, tuple):
            return tuple(self._exact(item, seen) for item in tuple.__iter__(value))
        if issubclass(kind, list):
            items: list[Any] = []
            seen[id(value)] = value, items  # with the value itself, so that no other one gets its id
            items.extend(self._exact(item, seen) for item in list.__iter__(value))
            return items
        if any(base is Mapping or base is dict or base is types.MappingProxyType for base in _bases(kind)):
            pairs = value.items() if kind is dict else self.run(lambda: _pairs(value), called=self.called)
            entries: dict[Any, Any] = {}
            seen[id(value)] = value, entries
            for key, item in pairs:
                key = self._exact(key, seen)
                # Another object could have a hash and an opinion on equality of its own.
                is_plain = issubclass(type(key), (str, int, float, types.NoneType))
                entries[key if is_plain else f"<{class_name(key)}>"] = self._exact(item, seen)
            return entries
        return value

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


def _pairs(mapping: Mapping) -> list[tuple[Any, Any]]:
    return [(key, mapping.get(key)) for key in mapping]


# What claims ask of tensors and modules. A `forward`, `train` or `eval` of its own is a module's own affair.
_ASKED_TENSORS = frozenset(dir(torch.Tensor))
_ASKED_MODULES = frozenset(
    name for name, value in vars(torch.nn.Module).items() if isinstance(value, types.FunctionType)
) - {"forward", "train", "eval", "extra_repr"}

_bases: Callable[[type], tuple[type, ...]] = type.__dict__["__mro__"].__get__
_set_class: Callable[[Any, type], None] = object.__dict__["__class__"].__set__


def plain(tensor: torch.Tensor) -> torch.Tensor:
    """A tensor whose methods are torch's own: the same object, or a view of it without its subclass.

    Attributes of the object that stand before a method (``y.detach = ...``) are taken away.

    Raises:
        Missed: its class answers for its operations itself (``__torch_dispatch__``).
    """
    if _is_ordinary(type(tensor)):
        _take_away(tensor, _ASKED_TENSORS)
        return tensor
    if _keys_of(tensor).has(torch._C.DispatchKey.Python):
        raise Missed(expected="an ordinary tensor", got=f"an instance of {class_name(tensor)}")
    with _as_torch_does():
        return _as_subclass(tensor, torch.Tensor)


def _is_ordinary(kind: type) -> bool:
    return kind is torch.Tensor or kind is torch.nn.Parameter  # not `in`: a metaclass could say that they are equal


def _take_away(part: torch.Tensor | torch.nn.Module, asked: frozenset[str]) -> None:
    own = vars(part)
    kept = {name: value for name, value in dict.items(own) if type(name) is str and name not in asked}
    if len(kept) < dict.__len__(own):
        dict.clear(own)
        dict.update(own, kept)


class _Kinds:
    """Sees to it that the tensors and modules which an answer is given come back with torch's methods."""

    def __init__(self, given: Iterable[Any]) -> None:
        self._given = tuple(given)
        self._kinds = [(part, type(part)) for part in _parts(self._given)]

    def restore(self) -> None:
        """Puts back classes that were exchanged for some with other methods, and takes away what stands before them.

        Raises:
            Missed: there is a new tensor inside (a gradient, a parameter) that is no ordinary one.
        """
        for part, kind in self._kinds:
            if type(part) is not kind and _differ(type(part), kind, _asked(part)):
                _set_class(part, kind)
        for part in _parts(self._given):
            if issubclass(type(part), torch.Tensor) and not _is_ordinary(type(part)):
                raise Missed(expected="ordinary tensors", got=f"an instance of {class_name(part)}")
            _take_away(part, _asked(part))


def _asked(part: Any) -> frozenset[str]:
    return _ASKED_TENSORS if issubclass(type(part), torch.Tensor) else _ASKED_MODULES


def _differ(kind: type, other: type, names: Iterable[str]) -> bool:
    # No metaclass is asked.
    return any(getattr_static(kind, name, None) is not getattr_static(other, name, None) for name in names)


def _parts(values: Iterable[Any]) -> Iterator[Any]:
    """The tensors, gradients and modules in some values, without asking a module for them."""
    waiting, seen = list(values), set[int]()
    while waiting:
        value = waiting.pop()
        if value is None or id(value) in seen:
            continue
        seen.add(id(value))
        kind = type(value)
        if issubclass(kind, torch.Tensor):
            yield value
            if value.is_leaf or value.retains_grad:
                waiting.append(value.grad)
        elif issubclass(kind, torch.nn.Module):
            yield value
            own = vars(value)
            waiting.extend((*own["_parameters"].values(), *own["_buffers"].values(), *own["_modules"].values()))
        elif issubclass(kind, dict):
            waiting.extend(dict.values(value))
        elif issubclass(kind, list):
            waiting.extend(list.__iter__(value))
        elif issubclass(kind, tuple):
            waiting.extend(tuple.__iter__(value))


def _raised_by_learner(error: NotImplementedError) -> bool:
    """Whether a ``raise`` statement outside torch and this package raised it: C code leaves no frame of its own."""
    step = error.__traceback__
    while step is not None and step.tb_next is not None:
        step = step.tb_next
    if step is None:
        return False
    code = step.tb_frame.f_code.co_code
    return dis.opname[code[step.tb_lasti]] == "RAISE_VARARGS" and _package(step.tb_frame) not in _NOT_THE_LEARNER_S


def _where(error: BaseException) -> str:
    """The learner's line that led to the error: the last one in a notebook cell or file outside installed packages."""
    found = ""
    for frame, line_number in traceback.walk_tb(BaseException.__dict__["__traceback__"].__get__(error)):
        package = _package(frame)
        if package in sys.stdlib_module_names or package in _NOT_THE_LEARNER_S:
            continue
        line = linecache.getline(frame.f_code.co_filename, line_number).strip()
        found = f"line {line_number}: {line}" if line else found
    return plain_text(found)


def _package(frame: types.FrameType) -> str:
    name = dict.get(frame.f_globals, "__name__")
    return name.partition(".")[0] if type(name) is str else ""


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
        RuntimeError, MemoryError: the machine gives no thread; the answer was not run.
    """
    trial, outcome = Trial(answer, name), Outcome("broken")

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
        started, told = _clock(), False
        # A signal that comes just before a wait begins is noticed when it ends: so it is never long.
        while not running.acquire(timeout=_LOOK_SECONDS):
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


__all__ = ["SLOW_SECONDS", "AnswerRaised", "LeftBehind", "Missed", "NotAttempted", "Outcome", "Trial", "plain", "run"]
