"""``ensemble_predict_each``: model i's outputs for batch i, in one forward pass.

The check compares with a loop over the models, for batches in a tensor and in a list.
"""

import re
from typing import Any

from torch import Tensor

from course_utils.base.text import message_of
from course_utils.checks.claims import AnswerRaised, Missed, Trial, exercise, reading
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

ensemble_predict_each = exercise(__file__)


def _key(result: Any, ensemble: Ensemble, xs: Tensor) -> str:
    """Which misconception a wrong result shows, where it is about the batches."""
    count, right = len(xs), ensemble.outputs(list(xs))
    if not isinstance(result, Tensor):
        return ""
    if result.shape[:1] == (count,) and result.numel() == count * right.numel():
        return "all on all"
    otherwise = {"first batch": ensemble.outputs([xs[0]] * count)}
    if count == xs.shape[1]:
        otherwise["rows"] = ensemble.outputs(list(xs.transpose(0, 1)))
    return reading(result, otherwise)


@ensemble_predict_each.claim("gives model i's outputs for batch i, sizes of one aside", weight=0, gate=True)
def _(trial: Trial) -> None:
    count, batch = trial.integer(3, 5), other_integer(trial, 6, 9)
    columns, classes = trial.integer(2, 5), other_integer(trial, 2, 6, count, batch)
    ensemble = Ensemble(trial, count, plain(columns, classes))
    xs = trial.randn(count, batch, columns)
    result = ensemble.call_with_models(xs)
    ensemble.expect_predictions(result, list(xs), _key(result, ensemble, xs))


@ensemble_predict_each.claim("runs the models together, not in a loop", weight=0, gate=True)
def _(trial: Trial) -> None:
    columns, count = trial.integer(2, 5), trial.integer(3, 6)
    ensemble = Ensemble(trial, count, plain(columns, 3))
    ensemble.call_with_models(trial.randn(count, 4, columns))
    ensemble.expect_no_loop()


@ensemble_predict_each.claim("runs the architecture's forward once", weight=12.5)
def _(trial: Trial) -> None:
    columns, count = trial.integer(2, 5), trial.integer(*MANY)
    ensemble = Ensemble(trial, count, plain(columns, 3))
    ensemble.call_with_models(trial.randn(count, 4, columns))
    ensemble.expect_passes(4 * count)


@ensemble_predict_each.claim("runs no model on another model's batch", weight=12.5)
def _(trial: Trial) -> None:
    columns, count, batch = trial.integer(2, 5), trial.integer(3, 6), trial.integer(2, 5)
    ensemble = Ensemble(trial, count, plain(columns, 3))
    ensemble.call_with_models(trial.randn(count, batch, columns))
    ensemble.expect_rows(count * batch)


@ensemble_predict_each.claim("is right where there are as many models as rows", weight=1)
def _(trial: Trial) -> None:
    columns, count = trial.integer(2, 5), trial.integer(3, 6)
    ensemble = Ensemble(trial, count, plain(columns, other_integer(trial, 2, 6, count)))
    xs = trial.randn(count, count, columns)
    result = ensemble.call_with_models(xs)
    ensemble.expect_predictions(result, list(xs), _key(result, ensemble, xs))
    ensemble.expect_no_loop()


@ensemble_predict_each.claim("keeps a dimension for one model, for one row and for one class")
def _(trial: Trial) -> None:
    expect_sizes_of_one(trial, each=True)


@ensemble_predict_each.claim("takes inputs of more dimensions", weight=0.5)
def _(trial: Trial) -> None:
    expect_images(trial, each=True)


@ensemble_predict_each.claim("takes a list of batches, too", weight=4)
def _(trial: Trial) -> None:
    for batch_is_count in (False, True):
        columns, count = trial.integer(2, 5), trial.integer(3, 5)
        ensemble = Ensemble(trial, count, plain(columns, other_integer(trial, 2, 6, count)))
        xs = trial.randn(count, count if batch_is_count else other_integer(trial, 2, 8, count), columns)
        try:
            result = ensemble.call_with_models([x.clone() for x in xs])
        except AnswerRaised as raised:
            error = message_of(raised.error, 160)
            key = "cast" if re.search("scalar type|same dtype", error) else "list"
            raise Missed(key, expected="the same as for the stacked batches", raised=error) from raised
        ensemble.expect_predictions(result, list(xs), "list")
        ensemble.expect_no_loop()
    expect_images(trial, each=True, listed=True)


@ensemble_predict_each.claim("uses each model's own buffers, in the mode of the models", weight=2)
def _(trial: Trial) -> None:
    expect_own_buffers(trial, each=True)


@ensemble_predict_each.claim(
    "is connected to the parameters that the models came with and to `xs`, as a loop's result is", weight=3
)
def _(trial: Trial) -> None:
    expect_connected(trial, each=True)
