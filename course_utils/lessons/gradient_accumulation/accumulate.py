"""``accumulate``: the full batch's gradient, added to ``.grad`` piece by piece."""

import torch
from torch import nn

from course_utils.checks.compare import AtMost, Seen, Trial, compared
from course_utils.lessons.gradient_accumulation import _shared as shared
from course_utils.memory import MemoryTracker

accumulate = compared(__file__)


def _call(trial: Trial, batch: shared.Batch, what: str = "") -> object:
    given = (batch.model, batch.loss_fn, batch.x, batch.y, batch.micro_batch)
    weights = {f"model.{name}": parameter.detach() for name, parameter in batch.model.named_parameters()}
    show = f"accumulate(model, loss_fn, x, y, micro_batch), {batch.words}{what}"
    return trial.run(lambda: trial.answer(*given), called=show, watch=batch.watched() | weights)


@accumulate.looks("leaves the gradient of the full batch in `.grad` where all micro-batches are full", gate=True)
def _(trial: Trial) -> Seen:
    size = trial.integer(2, 4)
    batch = shared.Batch(trial, 3 * size, size)
    _call(trial, batch)
    return {"gradient": batch.gradients()}


@accumulate.looks("also where the last micro-batch has fewer rows, or is the only one", weight=4)
def _(trial: Trial) -> Seen:
    for rows, size in ((11, 4), (trial.integer(3, 5), 7)):
        batch = shared.Batch(trial, rows, size)
        _call(trial, batch)
        yield f"gradient, {batch.words}", batch.gradients()


@accumulate.looks("adds to what `.grad` held before")
def _(trial: Trial) -> Seen:
    batch = shared.Batch(trial, 9, 3)
    batch.old_gradients(trial)
    _call(trial, batch, ", with old gradients in `.grad`")
    return {"old and new gradient": batch.gradients()}


@accumulate.looks("returns the loss of the full batch, a float")
def _(trial: Trial) -> Seen:
    batch = shared.Batch(trial, 11, 4, *shared.mixed_modes())
    return shared.loss_seen(trial, _call(trial, batch, ", a layer in eval mode"))


@accumulate.looks("has only one micro-batch's activations alive at a time (rows and bytes, counted)", weight=4)
def _(trial: Trial) -> Seen:
    batch = shared.Batch(trial, 14, 3)
    passes = shared.count_rows(batch.model)
    _call(trial, batch)
    yield f"rows at a time, {batch.words}", AtMost(max((rows for rows, _ in passes), default=0))

    def call(tracker: MemoryTracker, model: nn.Module, data: tuple) -> None:
        show = f"accumulate(model, cross_entropy, x, y, micro_batch), {len(data[0])} rows, micro_batch={shared.ROWS}"
        given = (model, nn.functional.cross_entropy, *data, shared.ROWS)
        trial.call(*given, may_change=(model,), within=tracker, show=show)

    def draw(count: int) -> tuple[torch.Tensor, torch.Tensor]:
        return trial.randn(count * shared.ROWS, 3), torch.arange(count * shared.ROWS) % 2

    yield from shared.one_batch_alive(trial, draw, call)
