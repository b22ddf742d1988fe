"""``activation_gradients``: the gradient by each layer's output."""

from typing import Any

from torch import Tensor, nn

from course_utils.checks.compare import Seen, Trial, compared

activation_gradients = compared(__file__)


def _layers(trial: Trial, frozen: bool = False, old: bool = False) -> tuple[list[nn.Module], Tensor]:
    """A network and its input; ``frozen`` is the first layer, and ``old`` gradients are in two of the slots."""
    tanh = nn.Tanh()
    layers = nn.Linear(3, 6), tanh, nn.Linear(6, 4), tanh
    made = [trial.fill(layer.double()) for layer in layers]
    made[0].requires_grad_(not frozen)
    for parameter in made[2].parameters() if old else ():
        parameter.grad = trial.randn(*parameter.shape)
    return made, trial.randn(5, 3)


def _gradients(trial: Trial, what: str = "", **how: bool) -> Any:
    show = f"activation_gradients([Linear(3, 6), tanh, Linear(6, 4), tanh], x){what}"
    return trial.call(*_layers(trial, **how), show=show)


@activation_gradients.looks("returns tensors", weight=0, gate=True)
def _(trial: Trial) -> Seen:
    got = _gradients(trial)
    kinds = {type(item).__name__ for item in got} if isinstance(got, (list, tuple)) else {type(got).__name__}
    return {"what is in the list": ", ".join(sorted(kinds))}


@activation_gradients.looks("is d (last output).sum() / d output for each layer, in order", weight=4)
def _(trial: Trial) -> Seen:
    return {"gradients": _gradients(trial)}


@activation_gradients.looks("leaves every `.grad` as it was", weight=2)
def _(trial: Trial) -> Seen:
    layers, x = _layers(trial, old=True)
    show = "activation_gradients(layers, x), with gradients in the `.grad` of two weights"
    trial.call(layers, x, may_change=tuple(layers), show=show)
    return {".grad": {f"layers[{i}].{name}": p.grad for i in (0, 2) for name, p in layers[i].named_parameters()}}


@activation_gradients.looks("also where the first layer is frozen", weight=2)
def _(trial: Trial) -> Seen:
    return {"gradients": _gradients(trial, ", the first layer frozen", frozen=True)}


@activation_gradients.looks("is a list without history")
def _(trial: Trial) -> Seen:
    got = _gradients(trial)
    yield "the type", type(got).__name__
    yield "requires grad", [item.requires_grad for item in got]
