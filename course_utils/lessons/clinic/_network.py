"""What a script's work is held against: its network as a function of its weights, the way that plain gradient descent
goes, and what a promise expects (``expect``).
"""

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from course_utils.checks.compare import Missed
from course_utils.clinic import ClinicResult
from course_utils.lessons.clinic._watched import WatchedDataset

Weights = dict[str, Tensor]


def weights_of(result: ClinicResult, dataset: WatchedDataset) -> Weights:
    """All weights that the logits depend on, by name, after the newest run."""
    named = {"weight": result.model.weight}
    for part in ("encoder", "open"):
        named |= {f"{part}.weight": dataset.made[part][0].weight, f"{part}.bias": dataset.made[part][0].bias}
    return {name: tensor.detach().clone() for name, tensor in named.items()}


def logits(use_a: bool, weights: Weights, images: Tensor) -> Tensor:
    """What the network gives, without probes."""
    rows = images.flatten(1)
    features = F.linear(rows, weights["encoder.weight"], weights["encoder.bias"])
    features = torch.cat([rows[:, :1], features[:, 1:]], dim=1)
    half = F.silu(F.linear(features, weights["open.weight"], weights["open.bias"]))
    zeros = torch.zeros_like(half)
    return torch.cat([half, zeros] if use_a else [zeros, half], dim=1) @ weights["weight"].T


def off_the_way(dataset: WatchedDataset, before: Weights, after: Weights) -> float:
    """How far the open branch's weight is from where plain gradient descent goes in an epoch, as a share of the way.

    What else has moved, moves here as well: whether it should is another promise.
    """
    names = [name for name in before if name == "open.weight" or not torch.equal(before[name], after[name])]
    weights = dict(before)
    for images, labels in dataset.train:
        held = {name: value.clone().requires_grad_(name in names) for name, value in weights.items()}
        loss = F.cross_entropy(logits(dataset.use_a, held, images), labels)
        for name, gradient in zip(names, torch.autograd.grad(loss, [held[name] for name in names]), strict=True):
            weights[name] = weights[name] - dataset.learning_rate * gradient
    expected = weights["open.weight"]
    return ((after["open.weight"] - expected).norm() / (expected - before["open.weight"]).norm()).item()


def expect(holds: bool, key: str = "", **details: Any) -> None:
    """It holds, or ``Missed`` is raised, with the misconception that its failure shows, and lines for the card."""
    if not holds:
        raise Missed(key, **details)
