"""Calls a learner's answer where it can do no harm, and lets a claim look at what it did (``Trial``).

A claim is a function of a ``Trial``. It makes fresh inputs (``trial.randn``), calls the answer (``trial.call``), and
raises ``Missed`` where the answer falls short.
"""

import contextlib
import inspect
import linecache
import sys
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
        called: the last call in short form, for the card.
    """

    def __init__(self, answer: Any, name: str) -> None:
        self.answer, self.name = answer, name
        self.effects: list[str] = []
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
                parameter.copy_(0.5 * self.randn(*parameter.shape))
        return module

    # Calls of the answer.

    def call(self, *args: Any, show: str = "", **options: Any) -> Any:
        """Calls the answer and watches all arguments. ``show`` is the call in short form; ``options`` go to ``run``."""
        # Under a decorator such as @torch.no_grad() is what the learner wrote, with the arguments' names.
        code = inspect.unwrap(self.answer).__code__ if isinstance(self.answer, types.FunctionType) else None
        names = code.co_varnames[: code.co_argcount] if code else ()
        watch = {names[i] if i < len(names) else f"argument {i + 1}": value for i, value in enumerate(args)}
        called = show or f"{self.name}({', '.join(describe(value, 40) for value in args)})"
        return self.run(lambda: self.answer(*args), called=called, watch=watch, **options)

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
            Missed: it left a mode on that ends only with the thread.
        """
        self.called = called
        settings, objects = Settings(), Objects(watch or {}, may_change, watch_training)
        try:
            with within or contextlib.nullcontext():
                result = function()
        except Stopped:
            raise
        except BaseException as error:
            where = _where(error)
            if "raise NotImplementedError" in where:
                raise NotAttempted from None
            raise AnswerRaised(error, where) from error
        finally:
            changed = [*settings.restore(), *objects.differences()]
            self.effects += [effect for effect in changed if effect not in self.effects]
        return dict(result) if isinstance(result, Mapping) else result

    # Looking at what came back.

    def tensor(self, value: Any) -> torch.Tensor:
        """The answer's result as an ordinary tensor (the same object, or a view of it for a subclass).

        Raises:
            Missed: it is no tensor.
        """
        if value is None:
            raise Missed("no return value", expected="a tensor", got="None")
        if not isinstance(value, torch.Tensor):
            raise Missed("not a tensor", expected="a tensor", got=f"{describe(value, 60)} ({type(value).__name__})")
        return value if type(value) in (torch.Tensor, torch.nn.Parameter) else value.as_subclass(torch.Tensor)


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
