"""``stop_gradient_round``: the value of one path, the gradient of another."""

import torch

from course_utils.checks.compare import Seen, Trial, compared

stop_gradient_round = compared(__file__)


@stop_gradient_round.looks("has the value of x.round()", weight=2)
def _(trial: Trial) -> Seen:
    x = trial.randn(40, requires_grad=True) * 4
    got = trial.tensor(trial.call(x)).detach()
    yield "the value", got
    yield "the value, as whole numbers", got.int()  # 2.9999998 is no 3
    x = torch.tensor([-1.5, -0.5, 0.0, 0.5, 1.5, 2.5], requires_grad=True)
    yield "the value at halves", trial.tensor(trial.call(x, show="stop_gradient_round(halves and 0)")).detach()


@stop_gradient_round.looks("has the gradient of the identity", weight=3)
def _(trial: Trial) -> Seen:
    x, upstream = (3 * trial.randn(2, 5)).requires_grad_(), trial.randn(2, 5)
    got = trial.tensor(trial.call(x * 1, show="stop_gradient_round(x)"))
    yield "requires grad", got.requires_grad
    yield "gradient of x", torch.autograd.grad((got * upstream).sum(), x, allow_unused=True)[0]
