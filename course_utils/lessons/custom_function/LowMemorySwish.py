"""``LowMemorySwish`` keeps its input alone, and works the rest out again."""

import torch

from course_utils.checks.compare import AtMost, Seen, Trial, compared
from course_utils.lessons.custom_function import _shared as shared

LowMemorySwish = compared(__file__)


@LowMemorySwish.looks("is a `torch.autograd.Function` whose `apply` gives x · sigmoid(x)", gate=True)
def _(trial: Trial) -> Seen:
    shared.require_function(trial)
    return {"x · sigmoid(x)": shared.applied(trial, trial.randn(5, requires_grad=True)).detach()}


@LowMemorySwish.looks("has a backward of its own with the right gradient", gate=True, weight=3)
def _(trial: Trial) -> Seen:
    x = torch.cat([2 * trial.randn(6), trial.randn(1) * 0]).requires_grad_()
    incoming = trial.randn(len(x))
    return {"gradient of x": shared.gradients(trial, shared.applied(trial, x), [x], incoming)[0]}


@LowMemorySwish.looks("is right for large numbers, too", weight=2)
def _(trial: Trial) -> Seen:
    x = (trial.randn(2) + torch.tensor([800, -800])).requires_grad_()
    result = shared.applied(trial, x, what="x, 800 and -800 or so")
    yield "x · sigmoid(x)", result.detach()
    yield "gradient of x", shared.gradients(trial, result, [x], torch.ones_like(x))[0]


@LowMemorySwish.looks("keeps nothing but x from forward to backward (bytes, counted)", weight=5)
def _(trial: Trial) -> Seen:
    x = trial.randn(16, 8, requires_grad=True)
    yield "bytes kept, those of x among them", AtMost(shared.bytes_kept(trial, [x], "x"))
    beside = shared.bytes_kept(trial, [x], "x", inputs_stay=True, output_stays=True)
    yield "bytes kept beside x and output", AtMost(beside)


@LowMemorySwish.looks("keeps x itself, and nothing in its place", weight=2)
def _(trial: Trial) -> Seen:
    x = trial.randn(16, 8, requires_grad=True)
    return {"bytes kept beside x": AtMost(shared.bytes_kept(trial, [x], "x", inputs_stay=True))}
