"""``double``: what it claims."""

import torch

from course_utils.checks.exercise import exercise
from course_utils.checks.trial import Missed, Trial

double = exercise(__file__)


@double.claim("is twice `x`", gate=True)
def _(trial: Trial) -> None:
    for x in (trial.randn(trial.integer(2, 5)), trial.randn(trial.integer(2, 5), 2, requires_grad=True)):
        result = trial.call(x)
        if result is None:
            raise Missed("printed", expected="a tensor", got="None")
        got = trial.tensor(result, shape=x.shape, dtype=x.dtype).detach()
        if torch.equal(got, x.detach() ** 2):
            raise Missed("square", expected=2 * x[0].flatten()[0].detach(), got=got[0].flatten()[0])
        if trial.effects:
            continue  # the values of x are put to the test by the last claim
        if not torch.allclose(got, 2 * x.detach()):
            raise Missed(expected=2 * x[0].flatten()[0].detach(), got=got[0].flatten()[0])


@double.claim("stays connected to an `x` that requires grad")
def _(trial: Trial) -> None:
    x = trial.randn(3, requires_grad=True)
    got = trial.tensor(trial.call(x))
    if not got.requires_grad:
        raise Missed("cut", expected="a grad_fn", got="none")
    (gradient,) = torch.autograd.grad(got.sum(), x, allow_unused=True)
    if gradient is None or not torch.equal(gradient, torch.full_like(x, 2)):
        raise Missed("cut", expected="the gradient 2 for x", got=gradient)
