"""``port_evaluation``: what it claims."""

import warnings
from collections.abc import Iterable

import torch
from torch import Tensor, nn

from course_utils.checks.claims import expect_training_flags, same, training_flags
from course_utils.checks.exercise import exercise
from course_utils.checks.trial import Missed, Trial
from course_utils.lessons.volatile_history._shared import (
    _batches,
    _call,
    _device,
    _expect_modes_after_errors,
    _expected,
    _moody_model,
    _plain_model,
)

port_evaluation = exercise(__file__)


def _outputs(trial: Trial, model: nn.Module, batches: Iterable[Tensor], count: int, show: str = "") -> list[Tensor]:
    result = _call(trial, model, batches, show or f"model, {count} batches")
    if result is None:
        raise Missed("no return value", expected=f"a list of {count} tensors", got="None")
    if isinstance(result, Tensor):
        key = "last" if count > 1 and len(result) == 4 else "stacked"
        raise Missed(key, expected=f"a list of {count} tensors", got="one tensor")
    if not isinstance(result, list):
        raise Missed(expected=f"a list of {count} tensors", got=result)
    if len(result) != count:
        raise Missed("last" if count else "", expected=f"{count} outputs", got=f"{len(result)} outputs")
    return [trial.tensor(value) for value in result]


@port_evaluation.claim("returns a list with one output a batch, in their order", weight=0, gate=True)
def _(trial: Trial) -> None:
    model = _plain_model(trial)
    batches = _batches(trial, trial.integer(2, 3), 7, trial.integer(5, 6), 4)
    expected = _expected(model, batches)
    for given in (batches, iter(batches)):
        for got, wanted in zip(_outputs(trial, model, given, len(batches)), expected, strict=True):
            if got.shape != wanted.shape:
                raise Missed(expected=f"an output of shape {tuple(wanted.shape)}", got=f"shape {tuple(got.shape)}")
            if not same(got.cpu(), wanted):
                raise Missed(expected="the model's outputs, batch by batch", got="other values")


@port_evaluation.claim("returns an empty list for no batches", weight=0.5)
def _(trial: Trial) -> None:
    _outputs(trial, _plain_model(trial), [], 0, show="model, []")


def _expect_no_history(outputs: list[Tensor], warned: bool) -> None:
    for got in outputs:
        if got.requires_grad:
            history = f"grad_fn {got.grad_fn.name()}" if got.grad_fn is not None else "a flagged leaf"
            raise Missed("volatile" if warned else "recorded", expected="no history", got=history)


@port_evaluation.claim("returns outputs without history, on the CPU")
def _(trial: Trial) -> None:
    model = _plain_model(trial).to(_device())
    batches = [x.to(_device()) for x in _batches(trial, 3, 5)]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        outputs = _outputs(trial, model, batches, 2)
    _expect_no_history(outputs, any("volatile was removed" in str(warning.message) for warning in caught))
    for got in outputs:
        if got.device.type != "cpu":
            raise Missed(expected="an output on the CPU", got=f"one on {got.device}")


@port_evaluation.claim("leaves the grad mode as it found it, on or off")
def _(trial: Trial) -> None:
    for enabled in (True, False):
        with torch.set_grad_enabled(enabled):
            show = "model, 2 batches" if enabled else "model, 2 batches, called inside no_grad"
            outputs = _outputs(trial, _plain_model(trial), _batches(trial, 3, 5), 2, show=show)
        if any("grad mode" in effect for effect in trial.effects):
            raise Missed("grad mode", expected=f"the grad mode {enabled}, as before", got=f"{not enabled}")
        # Leaving the mode alone earns nothing where the outputs were to have no history.
        _expect_no_history(outputs, warned=False)


@port_evaluation.claim("computes them in eval mode", gate=True)
def _(trial: Trial) -> None:
    for training, other in ((True, 1), (False, 2)):
        model = _moody_model(trial, training, other)
        batches = _batches(trial, 5, 3)
        expected = _expected(model, batches)
        for got, wanted in zip(_outputs(trial, model, iter(batches), 2), expected, strict=True):
            if not same(got.cpu(), wanted):
                raise Missed("no eval", expected="the values of eval mode", got="other values")


@port_evaluation.claim("puts back every submodule's own training flag")
def _(trial: Trial) -> None:
    for training, other in ((True, 1), (False, 2), (True, 3)):
        model = _moody_model(trial, training, other)
        before = training_flags(model)
        _outputs(trial, model, _batches(trial, 4, 3), 2)
        expect_training_flags(model, before, "left in eval", "one flag")


@port_evaluation.claim("puts back flags and grad mode where a batch raises, and lets the error through")
def _(trial: Trial) -> None:
    _expect_modes_after_errors(trial)
    if any("grad mode" in effect for effect in trial.effects):
        raise Missed("only without error", expected="the grad mode as before", got="another grad mode")
