"""``predicted_cost``: what it claims."""

from collections.abc import Iterator
from itertools import product
from typing import Any

from torch import Tensor, nn

from course_utils.checks.exercise import predict
from course_utils.checks.trial import Trial
from course_utils.two_branches import CLOSE, TwoBranchNet


def _costs_seen(trial: Trial) -> dict[str, tuple[int, int, str]]:
    """Branches computed forward and backward, and the closed branch's gradient, for each way to close it."""
    seen = {}
    for close in CLOSE:
        net = trial.fill(TwoBranchNet((2, 2)).double())
        forward: list[int] = []
        backward: list[int] = []

        def count(_module: nn.Module, _inputs: Any, output: Tensor, forward=forward, backward=backward) -> None:
            forward.append(1)
            if output.requires_grad:
                output.register_hook(lambda _gradient: backward.append(1))

        for branch in (net.branch_a, net.branch_b):
            branch.register_forward_hook(count)
        net(trial.randn(2, 3, 32, 32), True, close).sum().backward()
        gradients = [parameter.grad for parameter in net.branch_b.parameters()]
        state = "none" if all(gradient is None for gradient in gradients) else "zeros"
        seen[close] = (len(forward), len(backward), state)
    return seen


def _normal_cost(value: Any) -> tuple[int, int, str]:
    message = '(branches forward, branches backward, "zeros" or "None"), for example (2, 0, "zeros")'
    if not isinstance(value, (tuple, list)) or len(value) != 3:
        raise TypeError(message)
    *counts, gradient = value
    gradient = "none" if gradient is None else gradient
    if not isinstance(gradient, str) or any(isinstance(count, str) or count not in (0, 1, 2) for count in counts):
        raise TypeError(message)
    gradient = gradient.strip().casefold()
    if gradient not in ("zeros", "none"):
        raise TypeError(message)
    return int(counts[0]), int(counts[1]), gradient


_COST_READINGS = {
    "multiply": ((2, "gate stops forward"), (2, "gate stops backward"), ("zeros", "zeros are none")),
    "no_grad": ((2, "no_grad stops forward"), (1, "no_grad goes backward"), ("none", "unrecorded gives zeros")),
    "skip": ((1, "skip runs"), (1, "skip goes backward"), ("none", "skip gives zeros")),
}


def _cost_readings() -> Iterator[tuple[tuple[str, Any], str]]:
    """For each wrong prediction the misconception of its first part that is wrong."""
    for key, parts in _COST_READINGS.items():
        for value in product((0, 1, 2), (0, 1, 2), ("zeros", "none")):
            wrong = [reading for given, (right, reading) in zip(value, parts, strict=True) if given != right]
            if wrong:
                yield (key, value), wrong[0]


predicted_cost = predict(__file__, _costs_seen, _normal_cost)
