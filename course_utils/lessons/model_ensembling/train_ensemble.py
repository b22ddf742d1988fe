"""``train_ensemble``: many models trained at once, each as if it were alone."""

from collections.abc import Mapping
from typing import Any

import torch

from course_utils.checks.compare import Missed, Seen, Trial, compared
from course_utils.lessons.model_ensembling import _shared as shared

train_ensemble = compared(__file__, **shared.NAMES)


def _call(trial: Trial, steps: int, count: int = 3, normed: bool = False) -> tuple[Mapping[str, Any], shared.Passes]:
    models, passes = shared.models_of(trial, count, normed=normed)
    x, y = trial.randn(7, shared.COLUMNS), torch.tensor([trial.integer(0, shared.CLASSES - 1) for _ in range(7)])
    lr = trial.integer(21, 79) / 100
    got = trial.call(models, x, y, lr, steps, show=f"train_ensemble({count} models, x, y, {lr}, steps={steps})")
    if not isinstance(got, Mapping):
        raise Missed(expected="a dict of stacked tensors by parameter name", got=got)
    return got, passes


@train_ensemble.looks("gives each model's parameters after one step of its own", gate=True, weight=2)
def _(trial: Trial) -> Seen:
    got, _ = _call(trial, 1)
    return {"parameters": {name: trial.tensor(value).detach() for name, value in got.items()}}


@train_ensemble.looks("goes on from where it is, step by step", weight=2)
def _(trial: Trial) -> Seen:
    for count in (7, 1):
        got, _ = _call(trial, 4, count=count, normed=True)
        yield f"parameters, models: {count}", {name: value.detach() for name, value in got.items()}


@train_ensemble.looks("runs the architecture's forward once per step", weight=4)
def _(trial: Trial) -> Seen:
    _, passes = _call(trial, 3)
    return {"forward passes": passes.count}


@train_ensemble.looks("returns them detached", "history")
def _(trial: Trial) -> Seen:
    got, _ = _call(trial, 2)
    return {"requires grad": {name: value.requires_grad for name, value in got.items()}}
