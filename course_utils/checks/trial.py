"""Calls a learner's answer where it can do no harm, and lets a claim look at what it did (``Trial``).

A claim is a function of a ``Trial``. It makes fresh inputs (``trial.randn``), calls the answer (``trial.call``), and
raises ``Missed`` where the answer falls short.
"""

import contextlib
import inspect
import linecache
import sys
import time
import traceback
import types
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Any

import torch

from course_utils.base.text import describe, plain_text
from course_utils.checks.draws import new_seed
from course_utils.checks.missed import AnswerRaised, Missed, NotAttempted, Stopped
from course_utils.checks.objects import Objects
from course_utils.checks.state import Settings

_NOT_THE_LEARNER_S = ("torch", "functorch", "numpy", "course_utils")


class Trial:
    """What one claim can do with the answer.

    Attributes:
        answer: the learner's object; a mapping as a dict.
        effects: what the answer changed that its contract does not name, one phrase each. It has been put back where
            that is possible.
        seconds: how long the answer's slowest call took.
        called: the last call in short form, for the card.
    """

    def __init__(self, answer: Any, name: str, shared: dict[Any, Any] | None = None) -> None:
        self.answer, self.name = answer, name
        self._shared = {} if shared is None else shared
        self.effects: list[str] = []
        self.seconds = 0.0
        self.called = ""
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
        # Under a decorator such as @torch.no_grad() is what the learner wrote, with the arguments' names.
        code = inspect.unwrap(self.answer).__code__ if isinstance(self.answer, types.FunctionType) else None
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
            What the function returned; a mapping as a dict.

        Raises:
            AnswerRaised: the function raised anything, ``SystemExit`` and ``KeyboardInterrupt`` included.
            NotAttempted: it raised ``NotImplementedError`` itself, as what is not written yet does.
            LeftBehind: it left a mode on that ends only with the thread.
        """
        self.called = called
        settings, objects = Settings(), Objects(watch or {}, may_change, watch_training)
        started, loaded = time.perf_counter(), len(sys.modules)
        try:
            with within or contextlib.nullcontext():
                started = time.perf_counter()
                result = function()
        except Stopped:
            raise
        except BaseException as error:
            where = _where(error)
            if "raise NotImplementedError" in where:
                raise NotAttempted from None
            raise AnswerRaised(error, where) from error
        finally:
            if len(sys.modules) == loaded:  # the first optimizer of a process loads the compiler: seconds of its own
                self.seconds = max(self.seconds, time.perf_counter() - started)
            self._note(settings.restore())
            self._note(objects.differences())
        return dict(result) if isinstance(result, Mapping) else result

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
        if type(value) not in (torch.Tensor, torch.nn.Parameter):
            value = value.as_subclass(torch.Tensor)
        if shape is not None and value.shape != tuple(shape):
            raise Missed(expected=f"shape {tuple(shape)}", got=f"shape {tuple(value.shape)}")
        if dtype is not None and value.dtype != dtype:
            raise Missed(expected=str(dtype), got=str(value.dtype))
        return value


def _where(error: BaseException) -> str:
    """The learner's line that led to the error: the last one in a notebook cell or file outside installed packages."""
    found = ""
    for frame, line_number in traceback.walk_tb(error.__traceback__):
        package = str(frame.f_globals.get("__name__")).partition(".")[0]
        if package in sys.stdlib_module_names or package in _NOT_THE_LEARNER_S:
            continue
        line = linecache.getline(frame.f_code.co_filename, line_number).strip()
        found = f"line {line_number}: {line}" if line else found
    return plain_text(found)
