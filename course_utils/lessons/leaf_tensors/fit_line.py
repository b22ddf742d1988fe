"""``fit_line``: repair a loop of gradient descent."""

from typing import Any

import torch
from torch import Tensor

from course_utils.checks.compare import Seen, Trial, compared

fit_line = compared(__file__)


def _fitted(trial: Trial, steps: int, noise: float = 0.3, at_least: int = 40) -> Any:
    """What comes back for points near a line that is far from zero, and a rate at which few steps do not get there."""
    x = trial.randn(20, dtype=torch.float32)
    y = -3 * x + 2 + noise * trial.randn(20, dtype=torch.float32)
    lr = trial.integer(at_least, at_least + 50) / 1000
    return trial.call(x, y, steps, lr, show=f"fit_line(x, y, steps={steps}, lr={lr}), 20 points")


def _numbers(pair: Any) -> dict[str, float]:
    numbers = [float(weight.detach() if isinstance(weight, Tensor) else weight) for weight in pair]
    return dict(zip(("slope", "intercept"), numbers, strict=True))


@fit_line.looks("returns a pair", "pair", weight=0, gate=True)
def _(trial: Trial) -> Seen:
    got = _fitted(trial, 1)
    return {"how many": len(got) if isinstance(got, (tuple, list)) else f"no pair: {type(got).__name__}"}


@fit_line.looks("ends where gradient descent from zeros ends", "other descent", weight=4)
def _(trial: Trial) -> Seen:
    for steps, noise in ((trial.integer(4, 7), 0.3), (trial.integer(150, 200), 0.0)):
        yield f"after {steps} steps", _numbers(_fitted(trial, steps, noise))
    yield "after 4 steps that each go too far", _numbers(_fitted(trial, 4, at_least=1300))


@fit_line.looks("returns leaves that require grad", weight=4)
def _(trial: Trial) -> Seen:
    pair = _fitted(trial, trial.integer(1, 3))
    yield "are leaves", [isinstance(weight, Tensor) and weight.is_leaf for weight in pair]
    yield "require grad", [isinstance(weight, Tensor) and weight.requires_grad for weight in pair]


@fit_line.looks("returns 0-dim tensors")
def _(trial: Trial) -> Seen:
    pair = _fitted(trial, 1)
    return {"shapes": [tuple(weight.shape) if isinstance(weight, Tensor) else "no tensor" for weight in pair]}
