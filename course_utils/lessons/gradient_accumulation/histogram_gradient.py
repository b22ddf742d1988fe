"""``histogram_gradient``: the exact gradient of a chi-square over all batches, with one batch's graph at a time."""

from typing import Any

import torch
from torch import Tensor, nn

from course_utils.checks.compare import Seen, Trial, compared
from course_utils.data import soft_histogram
from course_utils.lessons.gradient_accumulation._shared import ROWS, mixed_modes, network, one_batch_alive
from course_utils.memory import MemoryTracker

histogram_gradient = compared(__file__, soft_histogram=soft_histogram)


def _data(trial: Trial, *sizes: int) -> tuple[list[Tensor], Tensor, Tensor]:
    """Batches, a target, and bins."""
    target = 4 * trial.randn(5).abs() + 1
    return [trial.randn(size, 3) for size in sizes], target, torch.linspace(-2.0, 2.0, 5, dtype=torch.float64)


def _call(trial: Trial, model: nn.Module, *sizes: int, what: str = "") -> Any:
    show = f"histogram_gradient(model, batches of {sizes} rows, target, 5 bins){what}"
    return trial.call(model, *_data(trial, *sizes), show=show)


def _by_name(got: Any, model: nn.Module) -> Any:
    names = [name for name, _ in model.named_parameters()]
    fits = isinstance(got, (list, tuple)) and len(got) == len(names)
    return dict(zip(names, got, strict=True)) if fits else got


@histogram_gradient.looks("holds the gradient of chi2 for each parameter, for a single batch", gate=True)
def _(trial: Trial) -> Seen:
    model = network(trial)
    return {"gradient": _by_name(_call(trial, model, trial.integer(5, 9)), model)}


@histogram_gradient.looks("is the gradient of chi2 over all batches", weight=4)
def _(trial: Trial) -> Seen:
    model = network(trial)
    return {"gradient": _by_name(_call(trial, model, 3, 8, 5), model)}


@histogram_gradient.looks("is a list, also where `.grad` holds gradients, and a layer is in eval mode")
def _(trial: Trial) -> Seen:
    model = network(trial, *mixed_modes())
    for parameter in model.parameters():
        parameter.grad = trial.randn(*parameter.shape)
    got = _call(trial, model, 4, 3, what=", with old gradients in `.grad`")
    return {"the type": type(got).__name__, "gradient": _by_name(got, model)}


@histogram_gradient.looks("has only one batch's activations alive at a time (rows and bytes, counted)", weight=4)
def _(trial: Trial) -> Seen:
    def call(tracker: MemoryTracker, model: nn.Module, data: tuple) -> None:
        show = f"histogram_gradient(model, {len(data[0])} batches of {ROWS} rows, target, 5 bins)"
        trial.call(model, *data, within=tracker, show=show)

    return one_batch_alive(trial, lambda count: _data(trial, *[ROWS] * count), call)
