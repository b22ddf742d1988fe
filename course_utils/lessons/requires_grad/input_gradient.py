"""``input_gradient``: the gradient of a model's input, with nothing else touched."""

from typing import Any

import torch
from torch import Tensor, nn

from course_utils.checks.compare import Seen, Trial, compared
from course_utils.lessons.requires_grad._shared import flags, gradients

input_gradient = compared(__file__)

_GRADIENT = "d model(x).sum() / dx"


def _network(trial: Trial, width: int) -> nn.Module:
    """In training mode, with a part in eval mode; some parameters are frozen, some have a gradient from before."""
    hidden = trial.integer(3, 5)
    model = trial.fill(nn.Sequential(nn.Linear(width, hidden), nn.Tanh(), nn.Linear(hidden, 3)).double())
    model[0].weight.grad = trial.randn(hidden, width)
    model[1].eval()
    model[2].bias.requires_grad_(False)
    return model


def _case(trial: Trial) -> tuple[nn.Module, tuple[int, int]]:
    width = trial.integer(16, 19)  # so many derivatives have both signs
    return _network(trial, width), (trial.integer(2, 5), width)


def _call(trial: Trial, model: nn.Module, x: Tensor, show: str = "model, x", within: Any = None) -> Any:
    return trial.call(model, x, within=within, show=f"input_gradient({show})")


@input_gradient.looks(f"is {_GRADIENT}", gate=True, weight=2)
def _(trial: Trial) -> Seen:
    model, shape = _case(trial)
    return {_GRADIENT: _call(trial, model, trial.randn(*shape))}


@input_gradient.looks("has the shape and the dtype of x")
def _(trial: Trial) -> Seen:
    for shape, dtype in (((4,), torch.float64), ((2, 3, 4), torch.float64), ((3, 4), torch.float32)):
        x = trial.randn(*shape, dtype=dtype)
        got = _call(trial, _network(trial, 4).to(dtype), x, f"model, x of shape {shape} in {dtype}")
        yield _GRADIENT, got
        yield "its dtype", str(got.dtype)


@input_gradient.looks("leaves x, its flag and its `.grad` alone, whatever they are", weight=2)
def _(trial: Trial) -> Seen:
    model, shape = _case(trial)
    for what, make in (
        ("x", lambda leaf: leaf.detach()),
        ("flagged x", lambda leaf: leaf),
        ("a result x", lambda leaf: leaf * 2),
    ):
        leaf = trial.randn(*shape, requires_grad=True)
        leaf.grad = trial.randn(*shape)
        x = make(leaf)
        yield _GRADIENT, _call(trial, model, x, f"model, {what}")
        yield "x.requires_grad", x.requires_grad
        yield "the .grad of x, or of what x is a result of", (x if x.is_leaf else leaf).grad


@input_gradient.looks("has no history", "history")
def _(trial: Trial) -> Seen:
    model, shape = _case(trial)
    for what, flag in (("x", False), ("flagged x", True)):
        got = _call(trial, model, trial.randn(*shape, requires_grad=flag), f"model, {what}")
        yield "the result requires grad", isinstance(got, Tensor) and got.requires_grad


@input_gradient.looks("leaves the flag and the `.grad` of every parameter alone", weight=4)
def _(trial: Trial) -> Seen:
    model, shape = _case(trial)
    _call(trial, model, trial.randn(*shape))
    return flags(model) | gradients(model)


@input_gradient.looks("works for a frozen model, and inside `no_grad`", weight=2)
def _(trial: Trial) -> Seen:
    model, shape = _case(trial)
    x = trial.randn(*shape)

    def call() -> tuple[Any, bool]:
        return trial.answer(model, x), torch.is_grad_enabled()

    for frozen in (False, True):
        model.requires_grad_(not frozen)
        yield _GRADIENT, _call(trial, model, x, "a frozen model, x" if frozen else "model, x")
        got, recording = trial.run(call, called="input_gradient(model, x) inside no_grad()", within=torch.no_grad())
        yield f"{_GRADIENT}, inside no_grad", got
        yield "afterwards, grad mode is on", recording
