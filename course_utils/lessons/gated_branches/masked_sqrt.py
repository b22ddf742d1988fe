"""``masked_sqrt``: what it claims."""

from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from course_utils.checks.exercise import exercise
from course_utils.checks.trial import Missed, Trial
from course_utils.lessons.gated_branches._shared import _gradients

masked_sqrt = exercise(__file__)

_TINY = {torch.float64: 1e-300, torch.float32: 1e-36}


def _roots(trial: Trial) -> Iterator[Tensor]:
    """Finite numbers of every sign and size; every tensor with a positive element holds others, too."""
    for dtype in (torch.float64, torch.float32):
        special = torch.tensor([-1.0, 0.0, -0.0, 4.0, _TINY[dtype], -_TINY[dtype], 1e30, -1e30], dtype=dtype)
        yield torch.cat((special, trial.randn(trial.integer(5, 9), dtype=dtype)))
        yield trial.randn(trial.integer(2, 4), 5, dtype=dtype).t()
    yield trial.randn(3, 2) - 10
    yield trial.randn(4).abs() + 0.1
    yield trial.randn().abs() + 1
    yield -trial.randn().abs() - 1
    yield torch.zeros((), dtype=torch.float64)


def _root(trial: Trial, x: Tensor) -> Tensor:
    return trial.tensor(trial.call(x), shape=x.shape, dtype=x.dtype)


@masked_sqrt.claim("is the root where x is positive, and 0 elsewhere", weight=0, gate=True)
def _(trial: Trial) -> None:
    for values in _roots(trial):
        positive = values > 0
        expected = torch.zeros_like(values)
        expected[positive] = values[positive].sqrt()
        # A formula like exp(log(x) / 2) is right too, and loses some digits.
        digits = 1e-9 if values.dtype == torch.float64 else 1e-4
        for x in (values.clone(), values.clone().requires_grad_()):
            got = _root(trial, x).detach()
            right = torch.isclose(got, expected, rtol=digits, atol=0.0)
            if right.all():
                continue
            wrong = (~right).flatten().nonzero()[0]
            number, wanted, given = (t.flatten()[wrong].item() for t in (values, expected, got))
            if number < 0 and given != given:
                key = "multiply"
            elif number < 0 and abs(given**2 + number) < 1e-5 * abs(number):
                key = "absolute"
            elif abs(given - wanted) < 0.1:
                key = "epsilon"
            else:
                key = ""
            raise Missed(key, expected=f"{wanted:.6g} for x = {number:.6g}", got=f"{given:.6g}")


def _slopes(trial: Trial, values: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The gradient that the answer passes on, the one that it was handed, and x."""
    x = values.clone().requires_grad_()
    got = _root(trial, x)
    upstream = trial.randn(*values.shape, dtype=values.dtype).abs() + 0.5
    try:
        (gradient,) = _gradients(got, upstream, [x])
    except RuntimeError as error:
        key = "result edited" if "modified by an inplace" in str(error) else ""
        raise Missed(key, expected="a gradient", got=f"RuntimeError: {str(error)[:90]}") from None
    if gradient is None:
        if (values > 0).any():
            raise Missed("detached", expected="a gradient where x is positive", got="none")
        gradient = torch.zeros_like(values)  # nothing depends on x here, so nothing has to be recorded
    return gradient, upstream, x


@masked_sqrt.claim("has the gradient of the root where x is positive", weight=0, gate=True)
def _(trial: Trial) -> None:
    for values in _roots(trial):
        gradient, upstream, _x = _slopes(trial, values)
        positive = values > 0
        slope = 0.5 / values[positive].sqrt()
        if torch.allclose(gradient[positive], upstream[positive] * slope, rtol=1e-4):
            continue
        key = "upstream" if torch.allclose(gradient[positive], slope, rtol=1e-4) else ""
        key = "detached" if not gradient[positive].any() else key
        raise Missed(key, expected="upstream · 1 / (2·sqrt(x))", got="another gradient")


def _expect_zero(trial: Trial, chosen: Callable[[Tensor], Tensor], key: str) -> None:
    for values in _roots(trial):
        gradient, _upstream, _x = _slopes(trial, values)
        there = gradient[chosen(values)]
        if there.any():  # NaN and inf count as true
            number = values[chosen(values)][there != 0][0].item()
            raise Missed(key, expected=f"0 at x = {number:.6g}", got=f"{there[there != 0][0].item():.6g}")


@masked_sqrt.claim("has the gradient 0 where x is negative")
def _(trial: Trial) -> None:
    _expect_zero(trial, lambda values: values < 0, "where")


@masked_sqrt.claim("has the gradient 0 where x is 0")
def _(trial: Trial) -> None:
    _expect_zero(trial, lambda values: values == 0, "zero itself")


@masked_sqrt.claim("leaves no hook on x", weight=0)
def _(trial: Trial) -> None:
    for values in _roots(trial):
        *_, x = _slopes(trial, values)
        if x._backward_hooks:
            raise Missed("hook on x", expected="x without a hook", got="a hook on x")
