"""``ensemble_predict_each``: what it claims."""

from collections.abc import Sequence
from typing import Any

from torch import Tensor, nn

from course_utils.base.text import describe
from course_utils.checks.claims import same
from course_utils.checks.exercise import exercise
from course_utils.checks.trial import AnswerRaised, Missed, Trial
from course_utils.lessons.model_ensembling._shared import (
    _apart,
    _copies,
    _expect_own_buffers,
    _expect_passes,
    _expect_predictions,
    _models,
    _outputs,
    _plain,
    _Tally,
)

ensemble_predict_each = exercise(__file__)


def _predict_each(trial: Trial, models: Sequence[nn.Module], xs: Any, what: str = "models") -> Any:
    shown = "list of tensors" if isinstance(xs, list) else describe(xs)
    return trial.call(_copies(models), xs, show=f"ensemble_predict_each({len(models)} {what}, {shown})")


def _each_key(result: Any, models: Sequence[nn.Module], xs: Tensor, tally: _Tally) -> str:
    if not isinstance(result, Tensor):
        return ""
    count, batch = len(models), xs.shape[1]
    if (
        result.shape[:1] == (count,)
        and result.numel() == count * _outputs(models, list(xs), tally).numel()
        and count > 1
    ):
        return "all on all"
    if count > 1 and same(result, _outputs(models, [xs[0]] * count, tally)):
        return "first batch"
    if count == batch and same(result, _outputs(models, list(xs.transpose(0, 1)), tally)):
        return "rows"
    return ""


@ensemble_predict_each.claim("gives model i's outputs for batch i", weight=0, gate=True)
def _(trial: Trial) -> None:
    for low, high in ((3, 5), (1, 1)):
        count = trial.integer(low, high)
        batch = _apart(trial, 6, 9)
        columns, classes = trial.integer(2, 5), _apart(trial, 2, 6, count, batch)
        models, tally = _models(trial, count, _plain(columns, classes))
        xs = trial.randn(count, batch, columns)
        result = _predict_each(trial, models, xs)
        _expect_predictions(result, models, list(xs), tally, trial, _each_key(result, models, xs, tally))


@ensemble_predict_each.claim("runs the architecture's forward once", weight=2, gate=True)
def _(trial: Trial) -> None:
    columns, count = trial.integer(2, 5), trial.integer(3, 6)
    models, tally = _models(trial, count, _plain(columns, 3))
    _predict_each(trial, models, trial.randn(count, 4, columns))
    _expect_passes(tally, 1, "loop")


@ensemble_predict_each.claim("is right where there are as many models as rows", weight=1)
def _(trial: Trial) -> None:
    columns, count = trial.integer(2, 5), trial.integer(3, 6)
    models, tally = _models(trial, count, _plain(columns, _apart(trial, 2, 6, count)))
    xs = trial.randn(count, count, columns)
    result = _predict_each(trial, models, xs)
    _expect_predictions(result, models, list(xs), tally, trial, _each_key(result, models, xs, tally))
    _expect_passes(tally, 1, "loop")


@ensemble_predict_each.claim("takes a list of batches, too", weight=1.5)
def _(trial: Trial) -> None:
    for batch_is_count in (False, True):
        columns, count = trial.integer(2, 5), trial.integer(3, 5)
        models, tally = _models(trial, count, _plain(columns, _apart(trial, 2, 6, count)))
        xs = trial.randn(count, count if batch_is_count else _apart(trial, 2, 8, count), columns)
        try:
            result = _predict_each(trial, models, [x.clone() for x in xs])
        except AnswerRaised as raised:
            error = f"{type(raised.error).__name__}: {raised.error}".split("\n")[0]
            raise Missed("list", expected="the same as for the stacked batches", raised=error[:160]) from raised
        _expect_predictions(result, models, list(xs), tally, trial, "list")
        _expect_passes(tally, 1, "loop")


@ensemble_predict_each.claim("uses each model's own buffers", weight=1.5)
def _(trial: Trial) -> None:
    _expect_own_buffers(trial, _predict_each, shared_x=False)
