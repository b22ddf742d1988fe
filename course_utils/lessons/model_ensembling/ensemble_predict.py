"""``ensemble_predict``: many models on one batch, in one forward pass of their architecture."""

import copy

import torch
from torch import Tensor, nn
from torch.func import functional_call, stack_module_state, vmap

from course_utils.checks.compare import Seen, Trial, compared
from course_utils.lessons.model_ensembling import _shared as shared

NAMES = {"copy": copy, "functional_call": functional_call, "stack_module_state": stack_module_state, "vmap": vmap}
ensemble_predict = compared(__file__, **NAMES)


def _call(trial: Trial, models: list[nn.Module], x: Tensor) -> Tensor:
    return trial.tensor(trial.call(models, x, show=f"ensemble_predict({len(models)} models, x)"))


@ensemble_predict.looks("gives each model's outputs, in the shape (models, batch, classes)", gate=True)
def _(trial: Trial) -> Seen:
    models, _ = shared.models_of(trial, 3)
    return {"the outputs": _call(trial, models, trial.randn(5, shared.COLUMNS)).detach()}


@ensemble_predict.looks("runs the architecture's forward once", weight=4)
def _(trial: Trial) -> Seen:
    models, passes = shared.models_of(trial, 3)
    _call(trial, models, trial.randn(5, shared.COLUMNS))
    return {"forward passes": passes.count}


@ensemble_predict.looks("is connected to the models' own parameters", weight=3)
def _(trial: Trial) -> Seen:
    models, _ = shared.models_of(trial, 3)
    got = _call(trial, models, trial.randn(5, shared.COLUMNS))
    yield "requires grad", got.requires_grad
    parameters = [parameter for model in models for parameter in model.parameters()]
    found = torch.autograd.grad((got * trial.randn(*got.shape)).sum(), parameters, allow_unused=True)
    yield "gradients of the models' parameters", list(found)


@ensemble_predict.looks("takes each model's own batch norm, in eval mode", weight=2)
def _(trial: Trial) -> Seen:
    models, _ = shared.models_of(trial, 4, normed=True)
    return {"the outputs": _call(trial, models, trial.randn(5, shared.COLUMNS)).detach()}
