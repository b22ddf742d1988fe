"""``predicted_growth``: what it claims."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from course_utils.checks.exercise import predict
from course_utils.checks.trial import Trial
from course_utils.memory import MemoryTracker

# The lesson's own: 20 batches of 50 rows in float32, Linear(32, 100), ReLU, Linear(100, 4).
_COUNT, _BATCH_ROWS = 20, 50
_GRAPH = _BATCH_ROWS * 100 * 4  # the result of ReLU, which is the second Linear's input as well
_OUTPUT = _BATCH_ROWS * 4 * 4
_INPUT = _BATCH_ROWS * 32 * 4


def _growth_model(trial: Trial) -> nn.Module:
    return trial.fill(nn.Sequential(nn.Linear(32, 100), nn.ReLU(), nn.Linear(100, 4)))


def _held(trial: Trial) -> dict[str, int]:
    model = _growth_model(trial)
    batches = [trial.randn(_BATCH_ROWS, 32, dtype=torch.float32) for _ in range(_COUNT)]
    unrecorded = torch.no_grad()(model.forward)
    loops: dict[str, Callable[[Tensor], object]] = {
        "outputs": lambda x: model(x),
        "detached": lambda x: model(x).detach(),
        "floats": lambda x: model(x).sum().item(),
        "outputs_no_grad": unrecorded,
    }
    held = {}
    for key, take in loops.items():
        with MemoryTracker(model, batches) as mem:
            kept = [take(x) for x in batches]
            held[key] = mem.current
        del kept
    return held


def _whole_bytes(value: Any) -> int:
    if isinstance(value, Tensor) and value.numel() == 1:
        value = value.item()
    if hasattr(value, "item"):
        value = value.item()  # NumPy's numbers
    if isinstance(value, (int, float)) and float(value).is_integer():
        return int(value)
    raise TypeError("a whole number of bytes")


predicted_growth = predict(__file__, _held, _whole_bytes)
