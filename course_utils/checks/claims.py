"""What looks share. An exercise's module gets from here and from ``compare`` all that it needs of this room."""

from collections.abc import Iterable, Iterator
from typing import Any

from torch import Tensor, nn

from course_utils.checks.exercise import Exercise as Exercise
from course_utils.checks.missed import Missed as Missed
from course_utils.checks.predictions import normal_value as normal_value
from course_utils.checks.predictions import predict as predict
from course_utils.checks.trial import Trial as Trial
from course_utils.checks.trial import hook_count as hook_count


class Unlucky(Exception):
    """What a batch or a model raises in a check."""


class Raises(nn.Module):
    """A layer whose forward raises ``Unlucky``."""

    def forward(self, x: Tensor) -> Tensor:
        """Raises it, whatever comes."""
        raise Unlucky("this layer cannot go on")


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
