"""``fit_line``: what it claims."""

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from course_utils.base.text import describe
from course_utils.checks.exercise import exercise
from course_utils.checks.trial import AnswerRaised, Missed, Trial

fit_line = exercise(__file__)


def _line(trial: Trial, dtype: torch.dtype = torch.float64) -> tuple[Tensor, Tensor, float]:
    """Points near a line that is far from zero, and a learning rate at which few steps do not get there."""
    x = trial.randn(trial.integer(20, 40))
    slope, intercept = (2 + trial.randn().abs().item() for _ in range(2))
    y = -slope * x + intercept + 0.3 * trial.randn(len(x))
    return x.to(dtype), y.to(dtype), trial.integer(40, 90) / 1000


def _descend(
    x: Tensor, y: Tensor, steps: int, lr: float, *, keep: float = 0.0, in_turn: bool = False
) -> tuple[float, float]:
    """Slope and intercept by the formula, in float64. ``keep`` is the share of the old gradient that each step adds;
    ``in_turn`` moves the slope before the intercept's gradient is taken."""
    x, y = x.detach().double(), y.detach().double()
    slope = intercept = gradient_slope = gradient_intercept = 0.0
    for _ in range(steps):
        error = slope * x + intercept - y
        gradient_slope = keep * gradient_slope + 2 * (error * x).mean().item()
        if in_turn:
            slope -= lr * gradient_slope
            error = slope * x + intercept - y
        gradient_intercept = keep * gradient_intercept + 2 * error.mean().item()
        slope -= 0.0 if in_turn else lr * gradient_slope
        intercept -= lr * gradient_intercept
    return slope, intercept


def _best_line(x: Tensor, y: Tensor) -> tuple[float, float]:
    x, y = x.double(), y.double()
    slope = (((x - x.mean()) * (y - y.mean())).sum() / (x - x.mean()).square().sum()).item()
    return slope, y.mean().item() - slope * x.mean().item()


def _fitted(trial: Trial, x: Tensor, y: Tensor, steps: int, lr: float) -> tuple[Tensor, Tensor]:
    result = trial.call(x, y, steps, lr, show=f"fit_line({describe(x)}, {describe(y)}, steps={steps}, lr={lr})")
    if result is None:
        raise Missed("no return value", expected="(slope, intercept)", got="None")
    if not isinstance(result, (tuple, list)) or len(result) != 2:
        raise Missed(expected="a tuple (slope, intercept)", got=result)
    slope, intercept = (trial.tensor(item, what="two tensors") for item in result)
    for weight in (slope, intercept):
        if weight.dim():
            key = "one element" if weight.numel() == 1 else ""
            raise Missed(key, expected="0-dim tensors", got=f"shape {tuple(weight.shape)}")
    return slope, intercept


def _is_at(got: Sequence[Tensor], expected: tuple[float, float], relative: float = 0.0) -> bool:
    return all(abs(a.item() - b) <= 1e-4 + relative * abs(b) for a, b in zip(got, expected, strict=True))


@fit_line.claim("ends where gradient descent from zeros ends", weight=3, gate=True)
def _(trial: Trial) -> None:
    for steps, dtype in (
        (trial.integer(4, 9), torch.float64),
        (1, torch.float64),
        (trial.integer(4, 9), torch.float32),
    ):
        x, y, lr = _line(trial, dtype)
        got = _fitted(trial, x, y, steps, lr)
        expected = _descend(x, y, steps, lr)
        if _is_at(got, expected):
            continue
        guesses = (
            ("accumulates", _descend(x, y, steps, lr, keep=1.0)),
            ("sum", _descend(x, y, steps, lr * len(x))),
            ("half", _descend(x, y, steps, lr / 2)),
            ("off by one", _descend(x, y, steps - 1, lr)),
            ("off by one", _descend(x, y, steps + 1, lr)),
            ("one after the other", _descend(x, y, steps, lr, in_turn=True)),
            ("ascent", _descend(x, y, steps, -lr)),
            ("swapped", expected[::-1]),
            ("broadcast", _descend(x, y.mean().expand_as(y), steps, lr)),
            ("solved", _best_line(x, y)),
        )
        # The sum diverges, and float32 with it.
        key = next((key for key, value in guesses if _is_at(got, value, relative=1e-3)), "")
        if got[0] is got[1]:
            key = "same tensor"
        called = trial.called
        if not key and not _is_at(_fitted(trial, x, y, 0, lr), (0.0, 0.0)):
            key = "start"
        trial.called = called
        raise Missed(
            key,
            expected=f"slope {expected[0]:.4f}, intercept {expected[1]:.4f} after {steps} steps",
            got=f"slope {got[0].item():.4f}, intercept {got[1].item():.4f}",
        )


def _judge_leaves(weights: Iterator[tuple[str, Tensor]]) -> None:
    for name, weight in weights:
        if not weight.is_leaf:
            raise Missed("not a leaf", expected=f"{name}.is_leaf True", got=f"made by {weight.grad_fn.name()}")
        if not weight.requires_grad:
            raise Missed("unflagged", expected=f"{name}.requires_grad True", got="False")


@fit_line.claim("returns leaves that require grad", weight=2)
def _(trial: Trial) -> None:
    x, y, lr = _line(trial)
    weights = _fitted(trial, x, y, trial.integer(1, 5), lr)
    _judge_leaves(zip(("slope", "intercept"), weights, strict=True))


@fit_line.claim("takes no step where `steps` is 0", weight=1)
def _(trial: Trial) -> None:
    x, y, lr = _line(trial)
    try:
        weights = _fitted(trial, x, y, 0, lr)
    except AnswerRaised as raised:
        error = f"{type(raised.error).__name__}: {describe(str(raised.error), 60)}"
        raise Missed("no steps", expected="zeros for steps=0", got=error) from None
    if not _is_at(weights, (0.0, 0.0)):
        raise Missed("start", expected="slope 0, intercept 0", got=", ".join(f"{w.item():.4f}" for w in weights))
    _judge_leaves(zip(("slope", "intercept"), weights, strict=True))
