"""``per_sample_gradients``: the gradient of every sample's loss, in one forward pass."""

from collections.abc import Mapping
from typing import Any

from torch import Tensor, nn

from course_utils.checks.compare import Missed, Seen, Trial, compared
from course_utils.lessons.model_ensembling import _shared as shared

per_sample_gradients = compared(__file__, **shared.NAMES)


def _loss(outputs: Tensor, targets: Tensor) -> Tensor:
    """The squared error of a row, averaged over the rows of a batch."""
    return (outputs - targets).square().sum() / len(outputs)


def _call(trial: Trial, normed: bool = False, samples: int = 5) -> tuple[Mapping[str, Any], shared.Passes]:
    (model,), passes = shared.models_of(trial, 1, normed=normed)
    x, y = trial.randn(samples, shared.COLUMNS), trial.randn(samples, shared.CLASSES)
    loss, y = (nn.CrossEntropyLoss(reduction="sum"), y.argmax(1)) if normed else (_loss, y)
    got = trial.call(model, loss, x, y, show=f"per_sample_gradients(model, loss_fn, x, y), {samples} samples")
    if not isinstance(got, Mapping):
        raise Missed("not named", expected="a dict of tensors by parameter name", got=got)
    return got, passes


@per_sample_gradients.looks("gives, for the name of each parameter, the gradients of every sample", gate=True, weight=2)
def _(trial: Trial) -> Seen:
    got, _ = _call(trial)
    return {"gradients": {name: trial.tensor(value).detach() for name, value in got.items()}}


@per_sample_gradients.looks("runs the architecture's forward once for all samples", weight=4)
def _(trial: Trial) -> Seen:
    _, passes = _call(trial)
    return {"forward passes": passes.count}


@per_sample_gradients.looks("gives them without history", "history")
def _(trial: Trial) -> Seen:
    got, _ = _call(trial)
    return {"requires grad": {name: value.requires_grad for name, value in got.items()}}


@per_sample_gradients.looks("computes with the model's own buffers, has no gradients of them, and takes one sample")
def _(trial: Trial) -> Seen:
    for samples in (5, 1):
        got, _ = _call(trial, normed=True, samples=samples)
        yield f"gradients, {samples} in the batch", {name: value.detach() for name, value in got.items()}
