"""``sgd_step``: one step of gradient descent, in place."""

import torch
from torch import Tensor, nn

from course_utils.checks.compare import Seen, Trial, compared, outcome

sgd_step = compared(__file__)


def _parameters(trial: Trial) -> list[Tensor]:
    """Flagged leaves of several shapes, each with a gradient."""
    parameters = [nn.Parameter(trial.randn(3, 4)), *(trial.randn(*shape, requires_grad=True) for shape in ((4,), ()))]
    for parameter in parameters:
        parameter.grad = trial.randn(*parameter.shape)
    return parameters


def _step(trial: Trial, parameters: list[Tensor], what: str = "3 parameters") -> None:
    lr = trial.integer(20, 900) / 1000
    # An iterator, as `model.parameters()` is one.
    trial.call(iter(parameters), lr, may_change=tuple(parameters), show=f"sgd_step(an iterator over {what}, lr={lr})")


@sgd_step.looks("moves each parameter by -lr times its gradient", "other step", weight=2, gate=True)
def _(trial: Trial) -> Seen:
    parameters = _parameters(trial)
    _step(trial, parameters)
    return {"parameters": [parameter.detach().clone() for parameter in parameters]}


@sgd_step.looks("keeps the same memory, and leaves flagged leaves", weight=2)
def _(trial: Trial) -> Seen:
    parameters = _parameters(trial)
    places = [parameter.data_ptr() for parameter in parameters]
    _step(trial, parameters)
    yield "in the same memory", [p.data_ptr() == place for p, place in zip(parameters, places, strict=True)]
    yield "leaves", [parameter.is_leaf for parameter in parameters]
    yield "requires grad", [parameter.requires_grad for parameter in parameters]


@sgd_step.looks("edits so that autograd notices: an earlier loss that needs the old numbers raises", weight=4)
def _(trial: Trial) -> Seen:
    parameters = _parameters(trial)
    losses = [parameter.square().sum() for parameter in parameters]
    places = [parameter.data_ptr() for parameter in parameters]
    _step(trial, parameters, "3 parameters; then backward of a loss from before")
    called = trial.called
    for loss, parameter, place in zip(losses, parameters, places, strict=True):
        raised = outcome(lambda: trial.run(loss.backward, called=called))
        moved = "" if parameter.data_ptr() == place else ", with other memory"
        yield f"backward, {tuple(parameter.shape)}", raised or f"no error{moved}"


@sgd_step.looks("skips a parameter whose `.grad` is None")
def _(trial: Trial) -> Seen:
    parameters = _parameters(trial)
    parameters[0].grad = None
    _step(trial, parameters, "3 parameters, the first without gradient")
    yield "parameters", [parameter.detach().clone() for parameter in parameters]
    yield "its .grad", parameters[0].grad


@sgd_step.looks("leaves every `.grad` None")
def _(trial: Trial) -> Seen:
    parameters = _parameters(trial)
    parameters[1].grad = torch.zeros_like(parameters[1])
    _step(trial, parameters, "3 parameters, the second with a gradient of zeros")
    return {".grad": [parameter.grad for parameter in parameters]}
