"""Calls a learner's answer where it can do no harm, and lets a claim look at what it did (``Trial``).

A claim is a function of a ``Trial``. It makes fresh inputs (``trial.randn``), calls the answer (``trial.call``), and
raises ``Missed`` where the answer falls short.
"""

import contextlib
import dis
import linecache
import sys
import time
import traceback
import types
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from typing import Any

import numpy
import torch

from course_utils.base.text import class_name, describe, plain_text
from course_utils.checks.draws import new_seed
from course_utils.checks.hardened import __builtins__  # type: ignore[attr-defined, no-redef]  # noqa: F401  a copy
from course_utils.checks.missed import AnswerRaised, Missed, NotAttempted, Stopped
from course_utils.checks.names import PRISTINE, Names
from course_utils.checks.objects import Objects
from course_utils.checks.plain import Classes, plain
from course_utils.checks.state import Settings, running_threads

_clock = time.perf_counter
_NOT_THE_LEARNER_S = ("torch", "functorch", "numpy", "course_utils")


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

    def __init__(self, answer: Any, name: str, shared: dict[Any, Any] | None = None) -> None:
        self.answer, self.name = answer, name
        self._shared = {} if shared is None else shared
        self.effects: list[str] = []
        self.threads: list[frozenset[int]] = []
        self.seconds = 0.0
        self.called = ""
        self._names = PRISTINE
        self._generator = torch.Generator().manual_seed(new_seed())

    # Fresh inputs. They come from a generator of the trial's own: no check draws the same ones twice, and the learner's
    # random state is not touched.

    def draw_from(self, seed: int) -> None:
        """From here on inputs are those that the seed gives."""
        self._generator.manual_seed(seed)

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

    def once(self, work: Callable[["Trial"], Any]) -> Any:
        """What ``work`` gives for this trial; the check's other claims get the same object."""
        if work not in self._shared:
            self._shared[work] = work(self)
        return self._shared[work]

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
        code = _own_function(self.answer).__code__ if type(self.answer) is types.FunctionType else None
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
        settings, objects = Settings(), Objects(watch, may_change, watch_training)
        classes, threads = Classes((*watch.values(), *may_change)), running_threads()
        started, loaded = _clock(), len(sys.modules)
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
            if len(sys.modules) == loaded:  # the first optimizer of a process loads the compiler: seconds of its own
                self.seconds = max(self.seconds, _clock() - started)
            self._note(f"replaced {label}" for label, *_ in self._names.restore())
            if new := running_threads() - threads:
                self.threads.append(new)
            self._note(settings.restore())
            classes.restore()
            self._note(objects.differences())
        return self._exact(result, {})

    @contextlib.contextmanager
    def replaced(self, owner: type, name: str, value: object) -> Iterator[None]:
        """Within it, a name of torch's stands for something else, and not by the answer's doing."""
        before, names = vars(owner)[name], self._names
        setattr(owner, name, value)
        self._names = Names()
        try:
            yield
        finally:
            setattr(owner, name, before)
            self._names = names

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
            pairs: Any = dict.items(value) if kind is dict else None
            if pairs is None:  # a mapping that answers for itself
                pairs = self.run(lambda: [(key, value.get(key)) for key in value], called=self.called)
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


def _own_function(function: types.FunctionType) -> types.FunctionType:
    """What the learner wrote under a decorator such as ``@torch.no_grad()``: it has the arguments' names."""
    seen = set[int]()
    while id(function) not in seen:
        seen.add(id(function))
        inner = vars(function).get("__wrapped__")
        function = inner if type(inner) is types.FunctionType else function
    return function


_bases: Callable[[type], tuple[type, ...]] = type.__dict__["__mro__"].__get__


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
