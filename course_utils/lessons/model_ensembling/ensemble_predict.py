"""``ensemble_predict``: what it claims."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from course_utils.checks.claims import same
from course_utils.checks.exercise import exercise
from course_utils.checks.trial import Trial
from course_utils.lessons.model_ensembling._shared import (
    _apart,
    _copies,
    _expect_own_buffers,
    _expect_passes,
    _expect_predictions,
    _for_images,
    _models,
    _outputs,
    _plain,
    _show,
)

ensemble_predict = exercise(__file__)


def _predict(trial: Trial, models: Sequence[nn.Module], x: Tensor, what: str = "models") -> Any:
    return trial.call(_copies(models), x, show=_show("ensemble_predict", models, x, what=what))


@ensemble_predict.claim("gives every model's outputs for the same `x`", weight=0, gate=True)
def _(trial: Trial) -> None:
    for low, high, training in ((3, 5, True), (1, 1, False)):
        count = trial.integer(low, high)
        batch = _apart(trial, 6, 9)
        columns, classes = trial.integer(2, 5), _apart(trial, 2, 6, count, batch)
        models, tally = _models(trial, count, _plain(columns, classes))
        for model in models:
            model.train(training)
        x = trial.randn(batch, columns)
        _expect_predictions(_predict(trial, models, x), models, [x] * count, tally, trial)


@ensemble_predict.claim("runs the architecture's forward once", weight=2, gate=True)
def _(trial: Trial) -> None:
    columns, count = trial.integer(2, 5), trial.integer(3, 6)
    models, tally = _models(trial, count, _plain(columns, 3))
    _predict(trial, models, trial.randn(4, columns))
    _expect_passes(tally, 1, "loop")


@ensemble_predict.claim("is right where there are as many models as rows", weight=2)
def _(trial: Trial) -> None:
    columns, count = trial.integer(2, 5), trial.integer(3, 6)
    models, tally = _models(trial, count, _plain(columns, _apart(trial, 2, 6, count)))
    x = trial.randn(count, columns)
    result = _predict(trial, models, x)
    expected = _outputs(models, [x] * count, tally)
    rows = torch.stack([expected[i, i] for i in range(count)])
    one_row_each = isinstance(result, Tensor) and same(result, rows)
    _expect_predictions(result, models, [x] * count, tally, trial, "in_dims" if one_row_each else "")
    _expect_passes(tally, 1, "loop")


@ensemble_predict.claim("uses each model's own buffers", weight=2)
def _(trial: Trial) -> None:
    _expect_own_buffers(trial, _predict, shared_x=True)


@ensemble_predict.claim("takes inputs of more dimensions", weight=0.5)
def _(trial: Trial) -> None:
    count = trial.integer(2, 4)
    models, tally = _models(trial, count, _for_images(_apart(trial, 2, 6, count)))
    x = trial.randn(trial.integer(5, 7), 2, 4, 4)
    _expect_predictions(_predict(trial, models, x, "conv nets"), models, [x] * count, tally, trial)
