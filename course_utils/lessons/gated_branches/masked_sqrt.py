"""``masked_sqrt`` has the gradient 0, and no NaN, where the root has none."""

import torch
from torch import Tensor

from course_utils.checks.compare import Seen, Trial, compared
from course_utils.lessons.gated_branches._shared import slopes

masked_sqrt = compared(__file__)


def _mixed(trial: Trial) -> Tensor:
    """Numbers of both signs, none of them near 0."""
    x = trial.randn(4, 5).abs() + 0.1
    return torch.where(trial.randn(4, 5) > 0, x, -x)


@masked_sqrt.looks("is the root where x is positive, and 0 elsewhere", gate=True)
def _(trial: Trial) -> Seen:
    x = torch.cat([_mixed(trial), torch.zeros(1, 5)])
    got = trial.tensor(trial.call(x, show="masked_sqrt(x), x of both signs and 0"))
    yield "the root", got
    yield "exactly 0 elsewhere", bool((got[x <= 0] == 0).all())


@masked_sqrt.looks("has the gradient of the root where x is positive", weight=2)
def _(trial: Trial) -> Seen:
    return {"gradient of x": slopes(trial, _mixed(trial) ** 30, "x, all of it positive, some near 0")}


@masked_sqrt.looks("has the gradient 0 where x is negative", weight=3)
def _(trial: Trial) -> Seen:
    yield "gradient of x", slopes(trial, _mixed(trial), "x of both signs")
    yield "gradient of an x that is negative everywhere", slopes(trial, -_mixed(trial).abs(), "x, all of it negative")


@masked_sqrt.looks("has the gradient 0 where x is 0", weight=3)
def _(trial: Trial) -> Seen:
    x = _mixed(trial).abs()
    x[::2] = 0
    return {"gradient of x": slopes(trial, x, "x, zeros among positive numbers")}
