"""``Cube``: what it claims."""

from typing import Any

import torch
from torch import Tensor

from course_utils.checks.exercise import exercise
from course_utils.checks.trial import Missed, Trial
from course_utils.lessons.custom_function._shared import (
    _apply,
    _backward,
    _expect_function,
    _expect_gradcheck,
    _expect_gradients,
    _expect_same,
    _expect_values,
    _is_memory_of,
    _kept_on_node,
    _node,
)

Cube = exercise(__file__)


@Cube.claim("is a `torch.autograd.Function` whose `apply` gives x³", weight=0, gate=True)
def _(trial: Trial) -> None:
    _expect_function(trial)
    _expect_values(trial, lambda x: x * x * x, {"value": lambda x: 3 * x})


@Cube.claim("has a backward of its own, which gives 3x² times the incoming gradient", weight=1, gate=True)
def _(trial: Trial) -> None:
    def wrong(x: Tensor, g: Tensor) -> dict[str, Any]:
        at_zero = torch.where(x == 0, torch.nan, 3 * x * x * g)
        powers = [x * x * g, 3 * x * g, 2 * x * g]
        return {"power rule": powers, "passed on": g, "added": 3 * x * x + g, "at zero": at_zero}

    _expect_gradients(trial, lambda x: 3 * x * x, wrong)


@Cube.claim("passes gradcheck in float64", weight=0.5)
def _(trial: Trial) -> None:
    for shape in ((trial.integer(3, 5),), (2, 2), ()):
        _expect_gradcheck(trial, torch.autograd.gradcheck, (trial.randn(*shape, requires_grad=True),))


@Cube.claim("has a second derivative: 6x, and passes gradgradcheck", weight=3)
def _(trial: Trial) -> None:
    values = trial.randn(trial.integer(4, 6))
    x, incoming = values.clone().requires_grad_(), trial.randn(*values.shape, requires_grad=True)
    result = _apply(trial, {"x": x}, x)
    kept = _kept_on_node(_node(result))
    cut = "cut" if kept and all(_is_memory_of(tensor, x) for tensor in kept) else "intermediate"
    (gradient,) = _backward(trial, result, [x], incoming, create_graph=True)
    if gradient is None:
        raise Missed("no gradient", expected="a gradient", got="None")
    if gradient.grad_fn is None:
        raise Missed("cut", expected="a gradient with a history (create_graph=True)", got="no grad_fn")
    if gradient.grad_fn.name().endswith("Error"):  # the node that once_differentiable puts there
        raise Missed("once", expected="a gradient that can be differentiated again", got="once_differentiable")
    direction = trial.randn(*values.shape)
    second, mixed = _backward(trial, gradient, [x, incoming], direction, after=" with create_graph=True, again")
    if second is None:
        raise Missed(cut, expected="a path from the gradient to x", got="none: the second derivative is 0")
    _expect_same(second, 6 * values * incoming * direction, "the second derivative")
    _expect_same(mixed, 3 * values * values * direction, "the derivative for the incoming gradient")
    for shape in ((trial.integer(2, 4),), (2, 2)):
        _expect_gradcheck(trial, torch.autograd.gradgradcheck, (trial.randn(*shape, requires_grad=True),))
