"""``Cube`` is x³ as a Function, with a gradient that can be differentiated again."""

import torch
from torch import Tensor

from course_utils.checks.compare import Seen, Trial, compared
from course_utils.lessons.custom_function import _shared as shared

Cube = compared(__file__)


def _x(trial: Trial) -> Tensor:
    """A table with numbers of both signs, a 0 among them, where a formula that divides by x has no value."""
    return torch.cat([trial.randn(trial.integer(2, 4), 3), trial.randn(1, 3) * 0]).requires_grad_()


@Cube.looks("is a `torch.autograd.Function` whose `apply` gives x³", gate=True)
def _(trial: Trial) -> Seen:
    shared.require_function(trial)
    return {"x³": shared.applied(trial, _x(trial)).detach()}


@Cube.looks("has a backward of its own, which gives 3x² times the incoming gradient", gate=True, weight=3)
def _(trial: Trial) -> Seen:
    x = _x(trial)
    result = shared.applied(trial, x)
    return {"gradient of x": shared.gradients(trial, result, [x], trial.randn(*x.shape))[0]}


@Cube.looks("has a second derivative: 6x, for the incoming gradient too", weight=4)
def _(trial: Trial) -> Seen:
    x = _x(trial)
    incoming = trial.randn(*x.shape).requires_grad_()
    result = shared.applied(trial, x)
    (gradient,) = shared.gradients(trial, result, [x], incoming, " with create_graph=True", create_graph=True)
    yield "the gradient has a history", gradient.requires_grad
    second, mixed = shared.gradients(trial, gradient, [x, incoming], trial.randn(*x.shape), ", and of its gradient")
    yield "second derivative", second
    yield "derivative with respect to the incoming gradient", mixed


@Cube.looks("lets no other call write over what a call has kept")
def _(trial: Trial) -> Seen:
    one = _x(trial)
    other = trial.randn(*one.shape).requires_grad_()
    result = shared.applied(trial, one)
    shared.applied(trial, other, what="another x")
    gradient = shared.gradients(trial, result, [one], trial.randn(*one.shape), ", with another call in between")[0]
    return {"gradient of x": gradient}
