"""``LinearFunction`` is a linear layer that computes and keeps only what is needed."""

from itertools import product

import torch
from torch import Tensor
from torch.autograd import Function

from course_utils.checks.compare import AtMost, Missed, Seen, Trial, compared
from course_utils.measure.flops import FlopCounterMode
from course_utils.memory import MemoryTracker

LinearFunction = compared(__file__, Function=Function)

_NAMES = ("x", "weight", "bias")
_CHOICES = [needed for needed in product((True, False), repeat=3) if any(needed)]


def _inputs(
    trial: Trial, batch: int, inside: int, outside: int, needed: tuple[bool, ...] = (True,) * 3
) -> list[Tensor]:
    shapes = (batch, inside), (outside, inside), (outside,)
    return [trial.randn(*shape, requires_grad=flag) for shape, flag in zip(shapes, needed, strict=True)]


def _apply(trial: Trial, inputs: list[Tensor], what: str = "x, weight, bias") -> Tensor:
    return trial.tensor(trial.run(lambda: trial.answer.apply(*inputs), called=f"LinearFunction.apply({what})"))


def _words(needed: tuple[bool, ...]) -> str:
    return "gradient needed for " + ", ".join(name for name, flag in zip(_NAMES, needed, strict=True) if flag)


def _gradients(trial: Trial, got: Tensor, wanted: list[Tensor], upstream: Tensor, what: str) -> list[Tensor | None]:
    total = (got * upstream).sum()
    return trial.run(lambda: list(torch.autograd.grad(total, wanted, allow_unused=True)), called=f"backward, {what}")


@LinearFunction.looks("is a `torch.autograd.Function` whose `apply` gives x @ weight.T + bias", gate=True)
def _(trial: Trial) -> Seen:
    if not (isinstance(trial.answer, type) and issubclass(trial.answer, Function)):
        raise Missed("own backward", expected="a subclass of torch.autograd.Function", got=type(trial.answer).__name__)
    return {"x @ weight.T + bias": _apply(trial, _inputs(trial, 5, 3, 4)).detach()}


@LinearFunction.looks("has a backward of its own with the gradients of x, weight and bias", gate=True, weight=3)
def _(trial: Trial) -> Seen:
    for sizes in ((5, 3, 4), (3, 3, 3)):
        inputs, upstream = _inputs(trial, *sizes), trial.randn(sizes[0], sizes[2])
        found = _gradients(trial, _apply(trial, inputs), inputs, upstream, "x, weight, bias with requires_grad=True")
        yield from ((f"gradient of {name}", gradient) for name, gradient in zip(_NAMES, found, strict=True))


@LinearFunction.looks(
    "computes only the gradients that are needed (matrix products, counted)", "computes all", weight=3
)
def _(trial: Trial) -> Seen:
    for needed in _CHOICES:
        inputs = _inputs(trial, 6, 8, 10, needed)
        got, wanted = _apply(trial, inputs, _words(needed)), [one for one in inputs if one.requires_grad]
        with FlopCounterMode(display=False) as counter:
            found = _gradients(trial, got, wanted, torch.ones_like(got), _words(needed))
        yield f"all are there, {_words(needed)}", all(one is not None for one in found)
        # A sum over the batch may be written as a small product.
        yield f"matrix products, {_words(needed)}", AtMost(counter.get_total_flops() // (2 * 6 * 8 * 10))


@LinearFunction.looks("keeps nothing that these gradients do not take (bytes, counted)", "keeps all", weight=3)
def _(trial: Trial) -> Seen:
    for needed in _CHOICES:
        leaves = _inputs(trial, 6, 8, 11, needed)
        memory = MemoryTracker(leaves)

        def measure() -> tuple[int, object]:
            inputs = [leaf.clone() for leaf in leaves]  # their history keeps the leaves, and not them
            holder = trial.answer.apply(*inputs).sum().grad_fn
            del inputs
            return memory.current, holder

        kept, _ = trial.run(measure, called=f"LinearFunction.apply(x, weight, bias), {_words(needed)}", within=memory)
        yield f"bytes kept, {_words(needed)}", AtMost(kept)
