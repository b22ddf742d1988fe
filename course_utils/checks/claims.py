"""The moves that claims of many lessons make: compare with what known mistakes give, look at errors, modes, hooks,
history and gradients. Each raises ``Missed`` where it does not hold, or returns what was seen. An exercise's module
gets from here all that it needs of this room.
"""

import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import numpy
import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from course_utils.checks.exercise import exercise as exercise
from course_utils.checks.missed import AnswerRaised as AnswerRaised
from course_utils.checks.missed import Missed as Missed
from course_utils.checks.objects import hook_count as hook_count
from course_utils.checks.pages import Page as Page
from course_utils.checks.predictions import normal_value as normal_value
from course_utils.checks.predictions import predict as predict
from course_utils.checks.trial import Trial as Trial
from course_utils.checks.why import note

Readings = Mapping[str, Any] | Iterable[tuple[str, Any]]

# ------------------------------------------------------------------------------------------------- what claims expect


def expect(holds: bool, key: str = "", **details: Any) -> None:
    """It holds, or ``Missed(key, **details)`` is raised.

    Args:
        holds: what must be true.
        key: the misconception that its failure shows.
        details: as for ``Missed``; in ``Lazy(...)`` what can only be worked out where it does not hold.
    """
    if not holds:
        raise Missed(key, **{name: value.work() if type(value) is Lazy else value for name, value in details.items()})


class Lazy:
    """A detail for ``expect`` that is worked out on failure. A value of the answer's that can be called never is."""

    def __init__(self, work: Callable[[], Any]) -> None:
        self.work = work


def same(got: Tensor, expected: Tensor, rtol: float = 1e-5, atol: float = 1e-6) -> bool:
    """Whether shapes agree, and values up to a tolerance; NaN equals NaN, and dtypes may differ.

    1e-5 of the value and 1e-6 beside it, because an answer may go through float32 on its way.
    """
    one, other = got.detach().double(), expected.detach().double()
    return one.shape == other.shape and torch.allclose(one, other, rtol=rtol, atol=atol, equal_nan=True)


def equal_or_none(got: Tensor | None, before: Tensor | None) -> bool:
    """Whether a ``.grad`` is what it was: None, or exactly these values."""
    return got is before if got is None or before is None else torch.equal(got, before)


def reading(got: Any, readings: Readings, agree: Callable[[Any, Any], bool] = same) -> str:
    """The misconception whose value the answer's is.

    Args:
        got: the answer's value.
        readings: what each mistake gives, by the misconception's key; pairs where one key has several values.
        agree: whether two values are the same; for values that are no tensors, ``operator.eq``.

    Returns:
        The key of the first that agrees; empty where none does.
    """
    pairs = readings.items() if isinstance(readings, Mapping) else readings
    return _first("reading", ((key, agree(got, value)) for key, value in pairs))


def first_sign(*signs: tuple[str, object]) -> str:
    """The misconception whose sign is the first that is true; empty where none is."""
    return _first("sign of", signs)


def _first(what: str, tried: Iterable[tuple[str, object]]) -> str:
    for key, fits in tried:
        note(f"{what} {key!r}: {'fits' if fits else 'does not fit'}")
        if fits:
            return key
    return ""


def expect_same(
    got: Tensor,
    expected: Tensor,
    otherwise: Readings = (),
    *,
    what: str = "",
    key: str = "",
    agree: Callable[[Any, Any], bool] = same,
) -> None:
    """The answer's value is the right one; else the mistake that gives its value is named.

    Args:
        got: the answer's tensor.
        expected: the right one.
        otherwise: see ``reading``.
        what: what the value is, for the card; the two numbers that differ first where it is empty.
        key: the misconception where no reading agrees.
        agree: whether two tensors are the same.
    """
    if agree(got, expected):
        return
    key = reading(got, otherwise, agree) or key
    if what or got.shape != expected.shape:
        right = what or f"shape {tuple(expected.shape)}"
        raise Missed(key, expected=right, got="other values" if what else f"shape {tuple(got.shape)}")
    right, number = numbers_apart(got, expected)
    raise Missed(key, expected=right, got=number)


def first_difference(got: Tensor, expected: Tensor) -> tuple[str, float, float]:
    """Where two tensors of one shape first differ by more than ``same`` allows, or else the most: ``" at [0, 2]"``
    (empty for 0-dim ones), the right number, the answer's."""
    mine, right = got.detach().double(), expected.detach().double()
    if not right.dim():
        return "", right.item(), mine.item()
    wrong = ~torch.isclose(mine, right, rtol=1e-5, atol=1e-6, equal_nan=True)
    place = (wrong if wrong.any() else (mine - right).abs()).flatten().float().argmax()
    index = [int(i) for i in numpy.unravel_index(int(place), right.shape)]  # torch's loads sympy, which takes seconds
    return f" at {index}", right[tuple(index)].item(), mine[tuple(index)].item()


def numbers_apart(got: Tensor, expected: Tensor) -> tuple[str, str]:
    """Where two tensors of one shape first differ, for a card: the right number and the answer's, each with its place,
    and as many digits as tell them apart."""
    place, *numbers = first_difference(got, expected)
    digits = 6 if f"{numbers[0]:.6g}" != f"{numbers[1]:.6g}" else 15
    right, number = (f"{number + 0.0:.{digits}g}{place}" for number in numbers)  # -0.0 + 0.0 is 0.0
    return right, number


def expect_raises(
    kind: type[Exception], call: Callable[[], Any], key: str, *, what: str = "", other: str | None = None
) -> None:
    """The call raises an error of that kind: its own, or one that it lets through.

    Args:
        kind: the error's class.
        call: calls the answer.
        key: the misconception where nothing is raised.
        what: the error in words, for the card; its class's name where it is empty.
        other: the misconception where another error is raised; that of ``key`` where it is None.
    """
    expected = what or kind.__name__
    try:
        got = call()
    except AnswerRaised as raised:
        if not isinstance(raised.error, kind):
            shown = f"{type(raised.error).__name__}: {raised.error}".split("\n")[0][:120]
            raise Missed(key if other is None else other, expected=expected, got=shown) from None
        return
    raise Missed(key, expected=expected, got="no error" if got is None else got)


def expect_training_flags(model: nn.Module, before: list[bool], key: str = "", one: str = "") -> None:
    """The model's training flags are those of before.

    Args:
        model: what the answer was given.
        before: its ``training_flags`` before the call.
        key: the misconception to name.
        one: the one to name where not all flags are off; that of ``key`` where it is empty.
    """
    key = one if one and any(training_flags(model)) else key
    expected, got = changed_flags(model, before)
    expect(not got, key, expected=f"training flags as before, {expected}", got=got)


def expect_hooks(model: nn.Module, before: int, key: str, cleared: str = "") -> None:
    """The model has as many hooks as before.

    Args:
        model: what the answer was given.
        before: its ``hook_count`` before the call.
        key: the misconception where there are more.
        cleared: the one where there are fewer.
    """
    now = hook_count(model)
    expect(now == before, key if now > before else cleared, expected=f"{before} hooks on the model", got=str(now))


def expect_no_history(got: Tensor, key: str, flagged: str | None = None, what: str = "no history") -> None:
    """The tensor has no ``grad_fn``, and is not flagged.

    Args:
        got: the answer's tensor.
        key: the misconception where it has a ``grad_fn``.
        flagged: the one where it is a flagged leaf; that of ``key`` where it is None.
        what: what was expected, for the card.
    """
    if got.grad_fn is not None:
        raise Missed(key, expected=what, got=f"grad_fn {got.grad_fn.name()}")
    key = key if flagged is None else flagged
    expect(not got.requires_grad, key, expected=what, got="a leaf with requires_grad True")


# ----------------------------------------------------------------------------------------------- what claims look at


def training_flags(model: nn.Module) -> list[bool]:
    """The flags of the model and all its submodules, in the order of ``modules()``."""
    return [module.training for module in model.modules()]


def flag_words(flags: list[bool]) -> str:
    """Training flags in words: ``"train eval"``."""
    return " ".join("train" if flag else "eval" for flag in flags)


def changed_flags(model: nn.Module, before: list[bool]) -> tuple[str, str]:
    """Whose training flags are others than ``before``, the first three of them: ``("1: eval", "1: train")``."""
    pairs = zip(model.named_modules(), before, strict=False)  # the model may have got or lost a module
    changed = [(name or "the model", was) for (name, module), was in pairs if module.training != was]
    more = ", ..." * (len(changed) > 3)
    then, now = ([f"{name}: {flag_words([was is kept])}" for name, was in changed[:3]] for kept in (True, False))
    return ", ".join(then) + more, ", ".join(now) + more


def gradient(result: Tensor, wanted: Tensor, upstream: Tensor | None = None) -> Tensor | None:
    """d (result · upstream) / d wanted; None where no path leads there. The graph is kept.

    Args:
        result: what to differentiate.
        wanted: with respect to what.
        upstream: the gradient of what comes after ``result``, in its shape; ones where it is None.
    """
    if not result.requires_grad:
        return None
    # Of a sum, for grad(result, wanted, upstream) loads sympy at a process's first call, which takes seconds.
    total = (result if upstream is None else result * upstream).sum()
    return torch.autograd.grad(total, wanted, retain_graph=True, allow_unused=True)[0]


class Calls(TorchFunctionMode):
    """A mode to call an answer within: ``names`` are those of torch's functions and methods that were called in it,
    ``tensors`` what they returned of that kind."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []
        self.tensors: list[Tensor] = []

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.names.append(getattr(func, "__name__", ""))
        result = func(*args, **(kwargs or {}))
        self.tensors += [result] if isinstance(result, Tensor) else []
        return result


class DroppedDetach(TorchFunctionMode):
    """A mode to call an answer within: ``found`` says whether it detached a tensor that requires grad, and let go of
    the result at once. What is printed, kept or handed on is alive, or an argument, when torch is called next."""

    def __init__(self) -> None:
        super().__init__()
        self._before: weakref.ref[Tensor] | None = None
        self._found = False

    @property
    def found(self) -> bool:
        return self._found or (self._before is not None and self._before() is None)

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self._found, self._before = self.found, None
        recorded = getattr(func, "__name__", "") == "detach" and bool(args) and args[0].requires_grad
        result = func(*args, **(kwargs or {}))
        self._before = weakref.ref(result) if recorded else None
        return result


# -------------------------------------------------------------------------------------------- what answers are given


class Unlucky(ZeroDivisionError, IndexError):
    """What a batch, a block or a model raises in a check. Whoever catches its bases around everything catches it."""


class Raises(nn.Module):
    """A layer whose forward raises: ``Unlucky``, or the class of error that it is given."""

    def __init__(self, kind: type[Exception] = Unlucky) -> None:
        super().__init__()
        self.kind = kind

    def forward(self, x: Tensor) -> Tensor:
        raise self.kind("this layer cannot go on")


class ModeRoll(nn.Module):
    """Tells the modes apart without a random number: in training mode the columns are turned by one place."""

    def forward(self, x: Tensor) -> Tensor:
        """Returns ``x`` itself in eval mode, and a copy with its last dimension turned in training mode."""
        return x.roll(1, dims=-1) if self.training else x


def unlucky(items: Iterable[Any]) -> Iterator[Any]:
    """The items, and then ``Unlucky``."""
    yield from items
    raise Unlucky("this batch cannot be read")


def squared_error(prediction: Tensor, target: Tensor) -> Tensor:
    """The mean squared error, 0-dim."""
    return (prediction - target).square().mean()
