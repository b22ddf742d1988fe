"""What looks share: comparing tensors, looking at modules, and what answers are given. An exercise's module gets from
here and from ``compare`` all that it needs of this room.
"""

from collections.abc import Iterable, Iterator
from typing import Any

import numpy
import torch
from torch import Tensor, nn

from course_utils.checks.exercise import exercise as exercise
from course_utils.checks.missed import Missed as Missed
from course_utils.checks.objects import hook_count as hook_count
from course_utils.checks.predictions import normal_value as normal_value
from course_utils.checks.predictions import predict as predict
from course_utils.checks.trial import Trial as Trial


def expect(holds: bool, key: str = "", **details: Any) -> None:
    """It holds, or ``Missed(key, **details)`` is raised.

    Args:
        holds: what must be true.
        key: the misconception that its failure shows.
        details: as for ``Missed``.
    """
    if not holds:
        raise Missed(key, **details)


def same(got: Tensor, expected: Tensor, rtol: float = 1e-5, atol: float = 1e-6) -> bool:
    """Whether shapes agree, and values up to a tolerance; NaN equals NaN, and dtypes may differ.

    1e-5 of the value and 1e-6 beside it, because an answer may go through float32 on its way.
    """
    one, other = got.detach().double(), expected.detach().double()
    return one.shape == other.shape and torch.allclose(one, other, rtol=rtol, atol=atol, equal_nan=True)


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


def training_flags(model: nn.Module) -> list[bool]:
    """The flags of the model and all its submodules, in the order of ``modules()``."""
    return [module.training for module in model.modules()]


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
