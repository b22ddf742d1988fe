"""``ensemble_predict_each``: many models, each on a batch of its own, in one forward pass."""

import torch
from torch import Tensor, nn

from course_utils.checks.compare import AtMost, Seen, Trial, compared
from course_utils.lessons.model_ensembling import _shared as shared
from course_utils.lessons.model_ensembling.ensemble_predict import NAMES
from course_utils.measure.flops import FlopCounterMode

ensemble_predict_each = compared(__file__, **NAMES)


def _call(trial: Trial, models: list[nn.Module], rows: int) -> Tensor:
    xs = trial.randn(len(models), rows, shared.COLUMNS)
    return trial.tensor(trial.call(models, xs, show=f"ensemble_predict_each({len(models)} models, xs)"))


@ensemble_predict_each.looks("gives each model's outputs for its own batch, and no others", gate=True)
def _(trial: Trial) -> Seen:
    models, _ = shared.models_of(trial, 3)
    return {"the outputs": _call(trial, models, 5).detach()}


@ensemble_predict_each.looks("runs the architecture's forward once", weight=3)
def _(trial: Trial) -> Seen:
    models, passes = shared.models_of(trial, 3)
    with FlopCounterMode(display=False) as counter:
        _call(trial, models, 5)
    yield "forward passes", passes.count
    yield "FLOPs", AtMost(counter.get_total_flops())


@ensemble_predict_each.looks("is connected to the models' own parameters", weight=2)
def _(trial: Trial) -> Seen:
    models, _ = shared.models_of(trial, 3)
    got = _call(trial, models, 5)
    yield "requires grad", got.requires_grad
    parameters = [parameter for model in models for parameter in model.parameters()]
    found = torch.autograd.grad((got * trial.randn(*got.shape)).sum(), parameters, allow_unused=True)
    yield "gradients of the models' parameters", list(found)


@ensemble_predict_each.looks("takes each model's own batch norm, in eval mode")
def _(trial: Trial) -> Seen:
    models, _ = shared.models_of(trial, 4, normed=True)
    return {"the outputs": _call(trial, models, 5).detach()}
