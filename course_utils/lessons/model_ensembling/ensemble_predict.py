"""``ensemble_predict``: every model's outputs for one batch, in one forward pass.

The check compares with a loop over the models, and counts how often the architecture's forward runs.
"""

import torch
from torch import Tensor

from course_utils.checks.claims import Trial, exercise, expect, same
from course_utils.lessons.model_ensembling._shared import (
    MANY,
    Ensemble,
    expect_connected,
    expect_images,
    expect_own_buffers,
    expect_sizes_of_one,
    other_integer,
    plain,
)

ensemble_predict = exercise(__file__)


@ensemble_predict.claim("gives every model's outputs for the same `x`, sizes of one aside", weight=0, gate=True)
def _(trial: Trial) -> None:
    count, batch = trial.integer(3, 5), other_integer(trial, 6, 9)
    columns, classes = trial.integer(2, 5), other_integer(trial, 2, 6, count, batch)
    ensemble = Ensemble(trial, count, plain(columns, classes))
    x = trial.randn(batch, columns)
    ensemble.expect_predictions(ensemble.call_with_models(x), [x] * count)


@ensemble_predict.claim("runs the models together, not in a loop", weight=0, gate=True)
def _(trial: Trial) -> None:
    columns, count = trial.integer(2, 5), trial.integer(3, 6)
    ensemble = Ensemble(trial, count, plain(columns, 3))
    ensemble.call_with_models(trial.randn(4, columns))
    ensemble.expect_no_loop()


@ensemble_predict.claim("runs the architecture's forward once", weight=6)
def _(trial: Trial) -> None:
    columns, count = trial.integer(2, 5), trial.integer(*MANY)
    ensemble = Ensemble(trial, count, plain(columns, 3))
    ensemble.call_with_models(trial.randn(4, columns))
    ensemble.expect_passes(4 * count)


@ensemble_predict.claim("is right where there are as many models as rows", weight=1.5)
def _(trial: Trial) -> None:
    columns, count = trial.integer(2, 5), trial.integer(3, 6)
    ensemble = Ensemble(trial, count, plain(columns, other_integer(trial, 2, 6, count)))
    x = trial.randn(count, columns)
    result = ensemble.call_with_models(x)
    one_row_each = ensemble.outputs([x] * count).diagonal().T
    key = "guessed" if isinstance(result, Tensor) and same(result, one_row_each) else ""
    ensemble.expect_predictions(result, [x] * count, key)
    ensemble.expect_no_loop()


@ensemble_predict.claim("keeps a dimension for one model, for one row and for one class")
def _(trial: Trial) -> None:
    expect_sizes_of_one(trial, each=False)


@ensemble_predict.claim("uses each model's own buffers, in the mode of the models", weight=1.5)
def _(trial: Trial) -> None:
    expect_own_buffers(trial, each=False)


@ensemble_predict.claim("takes inputs of more dimensions", weight=0.5)
def _(trial: Trial) -> None:
    expect_images(trial, each=False)


@ensemble_predict.claim("gives the dtype that the models give", weight=0.5)
def _(trial: Trial) -> None:
    columns = trial.integer(2, 5)
    for dtype in (torch.float32, torch.float64, torch.bfloat16):
        ensemble = Ensemble(trial, 3, plain(columns, 2))
        for model in ensemble.models:
            model.to(dtype)
        got = trial.tensor(ensemble.call_with_models(trial.randn(4, columns, dtype=dtype))).dtype
        expect(got == dtype, "cast", expected=f"{dtype}", got=f"{got}")


@ensemble_predict.claim(
    "is connected to the parameters that the models came with and to `x`, as the loop's result is", weight=6
)
def _(trial: Trial) -> None:
    expect_connected(trial, each=False)
