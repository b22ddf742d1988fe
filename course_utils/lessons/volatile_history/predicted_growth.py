"""Asks how many bytes each of four test loops holds at its end; the check runs the loops and counts."""

import contextlib
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from course_utils.checks.compare import Trial, normal_value, predict
from course_utils.memory import MemoryTracker


def _held(trial: Trial) -> dict[str, int]:
    """The lesson's own: 20 batches of 50 rows in float32."""
    model = trial.fill(nn.Sequential(nn.Linear(32, 100), nn.ReLU(), nn.Linear(100, 4)))
    batches = [trial.randn(50, 32, dtype=torch.float32) for _ in range(20)]

    def bytes_held(take: Callable[[Tensor], object]) -> int:
        kept: list[object] = []
        with MemoryTracker(model, batches) as tracker:
            kept.extend(map(take, batches))
            return tracker.current

    return {
        "outputs": bytes_held(model),
        "detached": bytes_held(lambda x: model(x).detach()),
        "floats": bytes_held(lambda x: model(x).sum().item()),
        "outputs_no_grad": bytes_held(torch.no_grad()(model.forward)),
    }


def _whole_bytes(value: Any) -> int:
    with contextlib.suppress(TypeError):
        value = normal_value(value)
    if not isinstance(value, int):
        raise TypeError("a whole number of bytes")
    return int(value)  # 0 and 1 have become truth values


predicted_growth = predict(__file__, _held, _whole_bytes)
