"""Calls a learner's answer where it can do no harm, and lets a claim look at what it did (``Trial``); what the objects
that it was given were like (``Objects``); and where inputs come from (``new_seed``).

A claim is a function of a ``Trial``. It makes fresh inputs (``trial.randn``), calls the answer (``trial.call``), and
raises ``Missed`` where the answer falls short.
"""

import contextlib
import inspect
import linecache
import secrets
import sys
import traceback
import types
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from typing import Any

import torch
from torch import nn

from course_utils.base.text import count_of, describe, plain_text
from course_utils.checks import AnswerRaised, Missed, NotAttempted, Stopped
from course_utils.checks.state import Settings

# Tests and drills put a source of their own here, so that what was drawn can be drawn again.
random_bits: Callable[[int], int] = secrets.randbits


def new_seed() -> int:
    """A seed for inputs that have not been drawn before."""
    return random_bits(62)


# Where a module keeps its hooks, whatever their kind.
_HOOKS = tuple(name for name in vars(nn.Module()) if name.endswith("_hooks"))
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
    """The learner's line that led to the error: the last one that is neither Python's nor ``_NOT_THE_LEARNER_S``."""
    found = ""
    for frame, line_number in traceback.walk_tb(error.__traceback__):
        package = str(frame.f_globals.get("__name__")).partition(".")[0]
        if package in sys.stdlib_module_names or package in _NOT_THE_LEARNER_S:
            continue
        line = linecache.getline(frame.f_code.co_filename, line_number).strip()
        found = f"line {line_number}: {line}" if line else found
    return plain_text(found)


def hook_count(module: nn.Module) -> int:
    """How many hooks of any kind are registered on a module and its submodules."""
    return sum(len(vars(part).get(name) or ()) for part in module.modules() for name in _HOOKS)


class Objects:
    """Values, flags, gradients, training flags and hooks of the objects that an answer was given.

    Args:
        named: the objects by the name that a report should use. Containers are followed; what is no tensor, module or
            container of them is left alone.
        may_change: objects (and all that they contain) whose change the contract allows.
        watch_training: False where the modules' training flags are judged by a claim of their own.
    """

    def __init__(self, named: Mapping[str, Any], may_change: tuple[Any, ...] = (), watch_training: bool = True) -> None:
        self._watch_training, self._allowed = watch_training, set(map(id, may_change))
        # Each look sees how its object is, waits, and says in its next steps what has changed.
        self._looks = [look for name, value in named.items() for look in self._at(name, value)]
        for look in self._looks:
            next(look)

    def differences(self) -> list[str]:
        """What has changed since, one phrase each."""
        return [phrase for look in self._looks for phrase in look]

    def _at(self, name: str, value: Any) -> Iterator[Iterator[str]]:
        if id(value) in self._allowed:
            return
        if isinstance(value, torch.Tensor):
            yield _tensor(name, value)
        elif isinstance(value, nn.Module):
            yield _module(name, value, self._watch_training)
            for key, tensor in _tensors(value).items():
                yield _tensor(f"{name}.{key}", tensor)
        elif isinstance(value, (list, tuple, dict)):
            yield _container(name, value)
            for at, item in value.items() if isinstance(value, dict) else enumerate(value):
                yield from self._at(f"{name}[{at!r}]", item)


def _tensor(name: str, tensor: torch.Tensor) -> Iterator[str]:
    values, flagged, grad_fn = tensor.detach().clone(), tensor.requires_grad, tensor.grad_fn
    grad = None if not tensor.is_leaf or tensor.grad is None else tensor.grad.detach().clone()
    yield ""
    if not _same(values, tensor.detach()):
        yield f"edited {name}"
    if tensor.requires_grad != flagged:
        yield f"set {name}.requires_grad to {tensor.requires_grad}"
    elif tensor.grad_fn is not grad_fn:
        yield f"changed the history of {name}"
    now = tensor.grad if tensor.is_leaf else None
    if (now is None) != (grad is None):
        yield f"{'cleared' if now is None else 'filled'} {name}.grad"
    elif grad is not None and now is not None and not _same(grad, now):
        yield f"changed {name}.grad"


def _same(before: torch.Tensor, after: torch.Tensor) -> bool:
    if before.shape != after.shape or before.dtype != after.dtype:
        return False
    # NaN differs from itself; equal NaN patterns are still no change.
    return torch.equal(before, after) or bool(((before == after) | ((before != before) & (after != after))).all())


def _module(name: str, module: nn.Module, watch_training: bool) -> Iterator[str]:
    flags, tensors, hooks = [part.training for part in module.modules()], _tensors(module), hook_count(module)
    yield ""
    changed = [part.training for part, was in zip(module.modules(), flags, strict=False) if part.training != was]
    if changed and watch_training:
        yield f"left {name} in {'training' if changed[0] else 'eval'} mode"
    current = _tensors(module)
    if list(current) != list(tensors):
        yield f"added or removed parameters or buffers of {name}"
    elif any(current[key] is not tensor for key, tensor in tensors.items()):
        yield f"put other tensors into {name}"
    extra = hook_count(module) - hooks
    if extra:
        yield f"left {count_of(extra, 'hook')} on {name}" if extra > 0 else f"removed hooks of {name}"


def _tensors(module: nn.Module) -> dict[str, torch.Tensor]:
    return dict([*module.named_parameters(), *module.named_buffers()])


def _container(name: str, container: list | tuple | dict) -> Iterator[str]:
    def contents() -> list[Any]:
        return [*container, *(container.values() if isinstance(container, dict) else ())]

    before = contents()
    yield ""
    now = contents()
    if len(now) != len(before) or any(a is not b for a, b in zip(now, before, strict=True)):
        yield f"changed the contents of {name}"
