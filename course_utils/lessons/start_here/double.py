"""``double``: twice a tensor, connected to it."""

import torch

from course_utils.checks.compare import Seen, Trial, compared

double = compared(__file__)


@double.looks("is twice x, in its shape and dtype", gate=True, weight=2)
def _(trial: Trial) -> Seen:
    for shape in ((trial.integer(2, 5),), (2, 3), ()):
        for dtype in (torch.float32, torch.float64):
            got = trial.tensor(trial.call(trial.randn(*shape, dtype=dtype)))
            yield "twice x", got.detach()
            yield "dtype", str(got.dtype)


@double.looks("stays connected to an x that requires grad", weight=2)
def _(trial: Trial) -> Seen:
    x = trial.randn(3, requires_grad=True)
    got = trial.tensor(trial.call(x))
    yield "x afterwards", x.detach()
    yield "the result requires grad", got.requires_grad
    yield "the gradient of x", got.requires_grad and torch.autograd.grad(got.sum(), x, allow_unused=True)[0]
