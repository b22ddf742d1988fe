"""``accumulate``: what it claims."""

from typing import Any

from torch import Tensor, nn

from course_utils.checks.exercise import exercise
from course_utils.checks.trial import Missed, Trial
from course_utils.lessons.gradient_accumulation._shared import (
    _BATCHES,
    _ROWS,
    _awkward_model,
    _close,
    _compared,
    _expect_gradient,
    _expect_loss,
    _expect_micro_batches,
    _expect_no_growth,
    _expect_one_alive,
    _Forwards,
    _graph_bytes,
    _held,
    _in_one_mode,
    _squared_error,
    _Surroundings,
    _Task,
    _task,
    _times,
    _wide_model,
)
from course_utils.memory import MemoryTracker

accumulate = exercise(__file__)


def _accumulated(trial: Trial, task: _Task, show: str = "") -> tuple[Any, Tensor, _Forwards]:
    """Calls the answer. Returns what it returned, what ``.grad`` holds afterwards, and what its forward passes saw."""
    model = task.model
    around, forwards = _Surroundings(model, weights=True), _Forwards(model)
    try:
        result = trial.call(
            model,
            task.loss_fn,
            task.x,
            task.y,
            task.micro_batch,
            may_change=(model,),
            show=f"accumulate({show or 'model'}, loss_fn, x, y), {task.words}",
        )
    finally:
        forwards.remove()
        around.note(trial)
    return result, _held(model), forwards


@accumulate.claim("runs the model on at most `micro_batch` samples at a time", weight=0, gate=True)
def _(trial: Trial) -> None:
    size = trial.integer(3, 4)
    task = _task(trial, trial.integer(17, 20), size)
    _expect_micro_batches(_accumulated(trial, task)[2], task)


@accumulate.claim("leaves the gradient of the full batch in `.grad`", weight=2, gate=True)
def _(trial: Trial) -> None:
    size = trial.integer(3, 5)
    task = _task(trial, size * trial.integer(3, 5), size)
    _, got, _ = _accumulated(trial, task)
    if not any(p.grad is not None for p in task.model.parameters()):
        raise Missed(expected="the gradient of the full batch in .grad", got=".grad is None")
    _expect_gradient(got, task)
    if any(p.grad.requires_grad for p in task.model.parameters() if p.grad is not None):
        raise Missed("recorded", expected="a .grad without history", got="a .grad that requires grad")


@accumulate.claim("also where the last micro-batch is smaller, or the only one", weight=2)
def _(trial: Trial) -> None:
    size = trial.integer(4, 6)
    last = trial.integer(1, size - 1)
    cross_entropy = nn.functional.cross_entropy
    for rows, micro_batch, loss_fn in (
        (3 * size + last, size, _squared_error),
        (2 * size + 1, size, cross_entropy),
        (trial.integer(4, 6), 9, _squared_error),
        (trial.integer(3, 5), 1, cross_entropy),
    ):
        task = _task(trial, rows, micro_batch, loss_fn=loss_fn)
        _expect_gradient(_accumulated(trial, task)[1], task)


@accumulate.claim("adds to what `.grad` held before", weight=1)
def _(trial: Trial) -> None:
    size = trial.integer(3, 5)
    task = _task(trial, 3 * size, size)
    for parameter in task.model.parameters():
        parameter.grad = trial.randn(*parameter.shape) * 3
    before = _held(task.model)
    _, got, _ = _accumulated(trial, task, "model with gradients")
    if _close(got, before + task.gradient):
        return
    rest = got - task.gradient
    key = "cleared" if _close(got, task.gradient) else "scaled all" if _times(rest, before) is not None else ""
    change = _compared(got - before, task.gradient)["got"]
    shown = "the old values are gone" if key == "cleared" else f"what was added is {change}"
    raise Missed(key, expected="the old values plus the gradient of the full batch", got=shown)


@accumulate.claim("works for frozen and shared weights, in the modes that the model is in", weight=1)
def _(trial: Trial) -> None:
    for held in (False, True):
        task = _task(trial, trial.integer(10, 11), 4, model=_awkward_model(trial))
        frozen = task.model[3]
        if held:
            frozen.weight.grad = trial.randn(3, 3)
        kept = None if frozen.weight.grad is None else frozen.weight.grad.clone()
        before = _held(task.model)
        modes = [module.training for module in task.model.modules()]
        _, got, _ = _accumulated(trial, task, "model with a frozen layer")
        if [module.training for module in task.model.modules()] != modes:
            raise Missed("mode", expected="training flags as before", got="other training flags")
        if (frozen.weight.grad is None) != (kept is None):
            raise Missed("frozen", expected="the frozen layer's .grad None, as before", got=frozen.weight.grad)
        if not _close(got, before + task.gradient):
            key = "mode" if any(_close(got, before + wrong) for wrong in _in_one_mode(task)) else ""
            raise Missed(key, **_compared(got - before, task.gradient))


@accumulate.claim("returns the full-batch loss as a float", weight=1)
def _(trial: Trial) -> None:
    for extra in (0, 1):
        task = _task(trial, 12 + extra, 4)
        _expect_loss(_accumulated(trial, task)[0], task)


@accumulate.claim("keeps only one micro-batch's activations alive at a time", weight=3)
def _(trial: Trial) -> None:
    peaks = {}
    for count in _BATCHES:
        model = _wide_model(trial)
        x, y = trial.randn(count * _ROWS, 3), trial.randn(count * _ROWS, 1)
        one = _graph_bytes(model, x[:_ROWS], lambda output, y=y: _squared_error(output, y[:_ROWS]))
        forwards = _Forwards(model)
        tracker = forwards.tracker = MemoryTracker(model, x, y)
        show = f"accumulate(model, loss_fn, x, y), {count} micro-batches of {_ROWS}"
        trial.call(model, _squared_error, x, y, _ROWS, may_change=(model,), within=tracker, show=show)
        forwards.remove()
        if forwards.rows and max(forwards.rows) > _ROWS:
            key = "full forward" if max(forwards.recorded_rows, default=0) <= _ROWS else "whole batch"
            raise Missed(key, expected=f"at most {_ROWS} samples at a time", got=f"{max(forwards.rows)} at once")
        _expect_one_alive(forwards, one)
        peaks[count] = tracker.peak
    _expect_no_growth(peaks, "all graphs")
