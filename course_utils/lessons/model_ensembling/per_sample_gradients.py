"""``per_sample_gradients``: what it claims."""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from course_utils.base.text import describe
from course_utils.checks.claims import same
from course_utils.checks.exercise import exercise
from course_utils.checks.trial import AnswerRaised, Missed, Trial
from course_utils.lessons.model_ensembling._shared import (
    _expect_named,
    _expect_passes,
    _for_images,
    _labels,
    _models,
    _normed,
    _plain,
    _Tally,
)

per_sample_gradients = exercise(__file__)


def _gradients_alone(
    model: nn.Module, loss_fn: Callable, x: Tensor, y: Tensor, tally: _Tally | None = None
) -> dict[str, Tensor]:
    """One backward pass a sample. The tally is as before."""
    before = tally.passes if tally else 0
    names, parameters = zip(*model.named_parameters(), strict=True)
    rows = []
    for i in range(len(x)):
        rows.append(torch.autograd.grad(loss_fn(model(x[i : i + 1]), y[i : i + 1]), parameters))
    if tally:
        tally.passes = before
    return {name: torch.stack(columns) for name, columns in zip(names, zip(*rows, strict=True), strict=True)}


def _gradient_key(expected: Mapping[str, Tensor]) -> Callable[[dict[str, Tensor]], str]:
    def key(got: dict[str, Tensor]) -> str:
        batch = len(next(iter(expected.values())))
        if all(got[name].shape == value.shape[1:] for name, value in expected.items()):
            return "summed"
        if all(not got[name].any() for name in expected):
            return "own weights"
        if all(same(got[name] * batch, value) for name, value in expected.items()):
            return "scaled"
        if batch > 1 and all(same(got[name], value.sum(0).expand_as(value)) for name, value in expected.items()):
            return "summed"
        if batch > 1 and all(same(got[name], value.mean(0).expand_as(value)) for name, value in expected.items()):
            return "summed"
        return ""

    return key


def _gradients(
    trial: Trial, model: nn.Module, loss_fn: Callable, x: Tensor, y: Tensor, loss: str = "cross_entropy"
) -> Any:
    show = f"per_sample_gradients(model, {loss}, x {describe(x)}, y {describe(y)})"
    return trial.call(model, loss_fn, x, y, show=show)


@per_sample_gradients.claim("gives, by parameter name, the gradient of each sample's own loss", weight=0, gate=True)
def _(trial: Trial) -> None:
    for batch in (trial.integer(4, 7), 1):
        columns, classes = trial.integer(2, 4), trial.integer(2, 3)
        (_, model), tally = _models(trial, 2, _plain(columns, classes))
        x, y = trial.randn(batch, columns), _labels(trial, batch, classes)
        expected = _gradients_alone(model, F.cross_entropy, x, y, tally)
        result = _gradients(trial, model, F.cross_entropy, x, y)
        _expect_named(result, expected, _gradient_key(expected), "not named")


@per_sample_gradients.claim("runs the architecture's forward once", weight=2, gate=True)
def _(trial: Trial) -> None:
    columns, batch = trial.integer(2, 4), trial.integer(4, 7)
    (model, _), tally = _models(trial, 2, _plain(columns, 3))
    _gradients(trial, model, F.cross_entropy, trial.randn(batch, columns), _labels(trial, batch, 3))
    _expect_passes(tally, 1, "loop")


@per_sample_gradients.claim("asks `loss_fn` with a batch of one", weight=2)
def _(trial: Trial) -> None:
    batch, classes = trial.integer(3, 6), trial.integer(2, 3)
    (model, _), tally = _models(trial, 2, _for_images(classes))
    shapes: list[tuple[tuple[int, ...], tuple[int, ...]]] = []

    def squared_error(outputs: Tensor, targets: Tensor) -> Tensor:
        shapes.append((tuple(outputs.shape), tuple(targets.shape)))
        return (outputs - targets).square().sum(dim=-1).sum() / len(targets)

    x, y = trial.randn(batch, 2, 4, 4), trial.randn(batch, classes)
    expected = _gradients_alone(model, squared_error, x, y, tally)
    shapes.clear()
    try:
        result = _gradients(trial, model, squared_error, x, y, "squared_error")
    except AnswerRaised as raised:
        error = f"{type(raised.error).__name__}: {raised.error}".split("\n")[0]
        key = "unbatched" if "mapped dimension" not in error else "mapped parameters"
        raise Missed(key, expected=f"outputs (1, {classes}), targets (1, {classes})", raised=error[:160]) from raised
    wanted = ((1, classes), (1, classes))
    for outputs, targets in shapes:
        if (outputs, targets) != wanted:
            few = len(outputs) < 2 or len(targets) < 2
            got = f"outputs {outputs}, targets {targets}"
            key = "unbatched" if few else "whole batch"
            raise Missed(key, expected=f"outputs {wanted[0]}, targets {wanted[1]}", got=got)
    _expect_named(result, expected, _gradient_key(expected), "not named")


@per_sample_gradients.claim("is right for a model with batch norm in eval mode", weight=1)
def _(trial: Trial) -> None:
    columns, classes, batch = trial.integer(2, 4), trial.integer(2, 3), trial.integer(3, 5)
    (model, _), tally = _models(trial, 2, _normed(columns, classes))
    x, y = trial.randn(batch, columns), _labels(trial, batch, classes)
    expected = _gradients_alone(model, F.cross_entropy, x, y, tally)
    result = _gradients(trial, model, F.cross_entropy, x, y)
    _expect_named(result, expected, _gradient_key(expected), "not named")
    _expect_passes(tally, 1, "loop")
