"""``make_weight``: a weight to train. The check looks at leaf and flag, at the shape, and at how it was drawn."""

import math
from collections.abc import Iterator

import torch
from torch import Tensor

from course_utils.checks.compare import Seen, Trial, compared

make_weight = compared(__file__)


def _made(trial: Trial, fan_in: tuple[int, int], fan_out: tuple[int, int]) -> tuple[Tensor, int, int]:
    """The answer's weight for sizes between these bounds, and the sizes."""
    sizes = trial.integer(*fan_in), trial.integer(*fan_out)
    return trial.tensor(trial.call(*sizes)), *sizes


@make_weight.looks("has fan_in times fan_out numbers", weight=0, gate=True)
def _(trial: Trial) -> Seen:
    return {"how many numbers": _made(trial, (3, 19), (20, 99))[0].numel()}


@make_weight.looks("is a leaf that requires grad, and backward fills its `.grad`", weight=4)
def _(trial: Trial) -> Iterator[tuple[str, object]]:
    weight, *_ = _made(trial, (3, 19), (20, 99))
    yield "is a leaf", weight.is_leaf
    yield "requires grad", weight.requires_grad
    if weight.is_leaf and weight.requires_grad:
        trial.run(weight.square().sum().backward, called="weight = make_weight(...); weight.square().sum().backward()")
        yield ".grad is filled", weight.grad is not None


@make_weight.looks("has the shape (fan_out, fan_in)", weight=2)
def _(trial: Trial) -> Seen:
    return {"the shape": tuple(_made(trial, (3, 19), (20, 99))[0].shape)}


@make_weight.looks("is drawn from a normal distribution with mean 0 and standard deviation 1/sqrt(fan_in)", weight=3)
def _(trial: Trial) -> Iterator[tuple[str, object]]:
    # Some 40 000 draws, told apart coarsely: seven standard errors and more lie between two values.
    weight, fan_in, _ = _made(trial, (380, 420), (95, 105))
    numbers = weight.detach().double().flatten()
    deviation = numbers.std().item() * math.sqrt(fan_in)
    yield "standard deviation times sqrt(fan_in), about", round(2 ** (round(4 * math.log2(deviation)) / 4), 2)
    yield "mean times sqrt(fan_in), about", round(numbers.mean().item() * math.sqrt(fan_in), 1)
    fourth = ((numbers - numbers.mean()) / numbers.std()).pow(4).mean().item()
    yield "kurtosis (3 for a normal distribution), about", round(fourth)
    yield "rows or columns that are alike", torch.equal(*weight[:2]) or torch.equal(*weight.T[:2])
