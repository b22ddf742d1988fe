"""``fit_line``: repair a loop of gradient descent. The check looks at where it ends, and whether it returns leaves."""

from collections.abc import Iterator, Sequence
from functools import partial

import torch
from torch import Tensor

from course_utils.base.text import describe, message_of
from course_utils.checks.claims import AnswerRaised, Lazy, Missed, Trial, exercise, expect, reading
from course_utils.lessons.leaf_tensors._shared import expect_flagged_leaf

fit_line = exercise(__file__)


def _line(trial: Trial, noise: float = 0.3, dtype: torch.dtype = torch.float32) -> tuple[Tensor, Tensor, float]:
    """Points near a line that is far from zero, and a learning rate at which few steps do not get there."""
    x = trial.randn(trial.integer(20, 40))
    slope, intercept = (2 + trial.randn().abs().item() for _ in range(2))
    y = -slope * x + intercept + noise * trial.randn(len(x))
    return x.to(dtype), y.to(dtype), trial.integer(40, 90) / 1000


def _descend(
    x: Tensor, y: Tensor, steps: int, lr: float, *, keep: Sequence[float] = (0.0, 0.0), in_turn: bool = False
) -> tuple[float, float]:
    """Slope and intercept by the formula, in float64. ``keep`` are the shares of the old gradients that each step adds;
    ``in_turn`` moves the slope before the intercept's gradient is taken."""
    x, y = x.detach().double(), y.detach().double()
    slope = intercept = gradient_slope = gradient_intercept = 0.0
    for _ in range(steps):
        gradient_slope = keep[0] * gradient_slope + 2 * ((slope * x + intercept - y) * x).mean().item()
        moved = slope - lr * gradient_slope
        error = (moved if in_turn else slope) * x + intercept - y
        gradient_intercept = keep[1] * gradient_intercept + 2 * error.mean().item()
        slope, intercept = moved, intercept - lr * gradient_intercept
    return slope, intercept


def _mistakes(x: Tensor, y: Tensor, steps: int, lr: float) -> Iterator[tuple[str, tuple[float, float]]]:
    yield from (("accumulates", _descend(x, y, steps, lr, keep=keep)) for keep in ((1, 1), (0, 1), (1, 0)))
    yield "loss once", _descend(x, y, 1, lr * steps)
    yield "sum", _descend(x, y, steps, lr * len(x))
    yield "half", _descend(x, y, steps, lr / 2)
    yield from (("off by one", _descend(x, y, other, lr)) for other in (steps - 1, steps + 1))
    yield "return inside", _descend(x, y, 1, lr)
    yield from (("stops early", _descend(x, y, fewer, lr)) for fewer in range(2, steps - 1))
    yield "one after the other", _descend(x, y, steps, lr, in_turn=True)
    yield "ascent", _descend(x, y, steps, -lr)
    yield "swapped", _descend(x, y, steps, lr)[::-1]
    yield "broadcast", _descend(x, y.mean().expand_as(y), steps, lr)
    x, y = x.double(), y.double()
    slope = (((x - x.mean()) * (y - y.mean())).sum() / (x - x.mean()).square().sum()).item()
    yield "solved", (slope, y.mean().item() - slope * x.mean().item())


def _fitted(trial: Trial, x: Tensor, y: Tensor, steps: int, lr: float) -> tuple[Tensor, Tensor]:
    result = trial.call(x, y, steps, lr, show=f"fit_line({describe(x)}, {describe(y)}, steps={steps}, lr={lr})")
    expect(result is not None, "no return value", expected="(slope, intercept)", got="None")
    is_pair = isinstance(result, (tuple, list)) and len(result) == 2
    expect(is_pair, expected="a tuple (slope, intercept)", got=Lazy(lambda: result))
    slope, intercept = (trial.tensor(item, what="two tensors") for item in result)
    for weight in (slope, intercept):  # one element in a vector is judged by a claim of its own
        expect(weight.numel() == 1, expected="0-dim tensors", got=f"shape {tuple(weight.shape)}")
    return slope, intercept


def _is_at(got: Sequence[Tensor], expected: tuple[float, float], relative: float = 0.0) -> bool:
    return all(abs(a.item() - b) <= 1e-4 + relative * abs(b) for a, b in zip(got, expected, strict=True))


@fit_line.claim("ends where gradient descent from zeros ends", weight=3, gate=True)
def _(trial: Trial) -> None:
    several, as_many, many = trial.integer(4, 9), trial.integer(4, 9), trial.integer(150, 200)
    for steps, noise in (
        (several, 0.3),
        (1, 0.3),
        (as_many, 0.3),
        (many, 0.3),
        (many, 0.0),  # the loss, too, is small long before the end
    ):
        x, y, lr = _line(trial, noise)
        got, right = _fitted(trial, x, y, steps, lr), _descend(x, y, steps, lr)
        if not _is_at(got, right):
            key = "stops early"  # with fewer steps it was right
            if steps != many:
                # The sum diverges, and float32 with it.
                key = reading(got, _mistakes(x, y, steps, lr), partial(_is_at, relative=1e-3))
                key = "same tensor" if got[0] is got[1] else key
                called = trial.called
                if not key and not _is_at(_fitted(trial, x, y, 0, lr), (0.0, 0.0)):
                    key = "start"
                trial.called = called
            where = f"slope {right[0]:.6g}, intercept {right[1]:.6g} after {steps} steps"
            raise Missed(
                key or "other rule", expected=where, got=f"slope {got[0].item():.6g}, intercept {got[1].item():.6g}"
            )


@fit_line.claim("ends there where `x` and `y` are of float64, too", weight=1)
def _(trial: Trial) -> None:
    x, y, lr = _line(trial, dtype=torch.float64)
    steps = trial.integer(150, 200)
    got, right = _fitted(trial, x, y, steps, lr), _descend(x, y, steps, lr)
    where = f"slope {right[0]:.6g}, intercept {right[1]:.6g} after {steps} steps"
    numbers = f"slope {got[0].item():.6g}, intercept {got[1].item():.6g}"
    expect(_is_at(got, right), expected=where, got=numbers)


@fit_line.claim("ends there where the learning rate is too large, and the loss rises", weight=0.5)
def _(trial: Trial) -> None:
    x, y, _lr = _line(trial)
    x = (x - x.mean()) / x.std(correction=0)  # each step makes the distance to the best line 2 lr - 1 times as large
    steps, lr = trial.integer(3, 4), trial.integer(120, 150) / 100
    got, right = _fitted(trial, x, y, steps, lr), _descend(x, y, steps, lr)
    where = f"slope {right[0]:.6g}, intercept {right[1]:.6g} after {steps} steps"
    numbers = f"slope {got[0].item():.6g}, intercept {got[1].item():.6g}"
    expect(_is_at(got, right, relative=1e-4), "best", expected=where, got=numbers)


@fit_line.claim("returns leaves that require grad", weight=4)
def _(trial: Trial) -> None:
    x, y, lr = _line(trial)
    _expect_leaves(_fitted(trial, x, y, trial.integer(1, 5), lr))


def _expect_leaves(weights: tuple[Tensor, Tensor]) -> None:
    for name, weight in zip(("slope", "intercept"), weights, strict=True):
        expect_flagged_leaf(weight, "not a leaf", "unflagged", name)


@fit_line.claim("returns tensors without dimensions", weight=0.5)
def _(trial: Trial) -> None:
    x, y, lr = _line(trial)
    for weight in _fitted(trial, x, y, trial.integer(1, 5), lr):
        expect(not weight.dim(), "one element", expected="0-dim tensors", got=f"shape {tuple(weight.shape)}")


@fit_line.claim("takes no step where `steps` is 0", weight=1)
def _(trial: Trial) -> None:
    x, y, lr = _line(trial)
    flagged = all(weight.is_leaf and weight.requires_grad for weight in _fitted(trial, x, y, 1, lr))
    try:
        weights = _fitted(trial, x, y, 0, lr)
    except AnswerRaised as raised:
        raise Missed("no steps", expected="zeros for steps=0", got=message_of(raised.error, 80)) from None
    numbers = ", ".join(f"{weight.item():.4g}" for weight in weights)
    expect(_is_at(weights, (0.0, 0.0)), "start", expected="slope 0, intercept 0", got=numbers)
    for name, weight in zip(("slope", "intercept"), weights, strict=True) if flagged else ():  # else told above
        expect_flagged_leaf(weight, "no steps", "no steps", name)
