"""``LinearFunction`` is a linear layer that computes and keeps only what is needed."""

from itertools import product

import torch
from torch import Tensor
from torch.autograd import Function

from course_utils.checks.compare import AtMost, Seen, Trial, compared
from course_utils.lessons.custom_function import _shared as shared
from course_utils.measure import FlopCounterMode

LinearFunction = compared(__file__, Function=Function)

_NAMES = ("x", "weight", "bias")
_CHOICES = [needed for needed in product((True, False), repeat=3) if any(needed)]


def _inputs(trial: Trial, sizes: tuple[int, int, int], needed: tuple[bool, ...] = (True,) * 3) -> list[Tensor]:
    batch, inside, outside = sizes
    shapes = (batch, inside), (outside, inside), (outside,)
    return [trial.randn(*shape, requires_grad=flag) for shape, flag in zip(shapes, needed, strict=True)]


def _words(needed: tuple[bool, ...]) -> str:
    return "gradient needed for " + ", ".join(name for name, flag in zip(_NAMES, needed, strict=True) if flag)


@LinearFunction.looks("is a `torch.autograd.Function` whose `apply` gives x @ weight.T + bias", gate=True)
def _(trial: Trial) -> Seen:
    shared.require_function(trial)
    return {"x @ weight.T + bias": shared.applied(trial, *_inputs(trial, (5, 3, 4)), what="x, weight, bias").detach()}


@LinearFunction.looks("has a backward of its own with the gradients of x, weight and bias", gate=True, weight=3)
def _(trial: Trial) -> Seen:
    for sizes in ((5, 3, 4), (3, 3, 3)):
        inputs, upstream = _inputs(trial, sizes), trial.randn(sizes[0], sizes[2])
        found = shared.gradients(trial, shared.applied(trial, *inputs, what="x, weight, bias"), inputs, upstream)
        yield from ((f"gradient of {name}", gradient) for name, gradient in zip(_NAMES, found, strict=True))


@LinearFunction.looks(
    "computes only the gradients that are needed (matrix products, counted)", "computes all", weight=3
)
def _(trial: Trial) -> Seen:
    for needed in _CHOICES:
        inputs = _inputs(trial, (6, 8, 10), needed)
        got = shared.applied(trial, *inputs, what=_words(needed))
        wanted = [one for one in inputs if one.requires_grad]
        with FlopCounterMode(display=False) as counter:
            found = shared.gradients(trial, got, wanted, torch.ones_like(got), f", {_words(needed)}")
        yield f"all are there, {_words(needed)}", all(one is not None for one in found)
        # A sum over the batch may be written as a small product.
        yield f"matrix products, {_words(needed)}", AtMost(counter.get_total_flops() // (2 * 6 * 8 * 10))


@LinearFunction.looks("keeps nothing that these gradients do not take (bytes, counted)", "keeps all", weight=3)
def _(trial: Trial) -> Seen:
    for needed in _CHOICES:
        leaves = _inputs(trial, (6, 8, 11), needed)
        kept = shared.bytes_kept(trial, leaves, _words(needed))
        yield f"bytes kept, {_words(needed)}", AtMost(kept)
