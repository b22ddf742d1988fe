"""``accumulate``: the full batch's gradient, added to ``.grad`` piece by piece.

The check compares ``.grad`` with the gradient of one pass, and counts rows and bytes at each forward pass.
"""

import itertools
from functools import partial
from typing import Any

from torch import Tensor, nn

from course_utils.checks.claims import (
    Trial,
    Unlucky,
    exercise,
    expect,
    expect_raises,
    expect_training_flags,
    squared_error,
    training_flags,
)
from course_utils.lessons.gradient_accumulation import _errors as errors
from course_utils.lessons.gradient_accumulation import _shared as shared
from course_utils.lessons.gradient_accumulation._memory import ROWS, expect_one_batch_alive
from course_utils.lessons.gradient_accumulation._shared import Forward, Task, close, gradient_vector

accumulate = exercise(__file__)


def _accumulated(trial: Trial, task: Task, what: str = "model") -> tuple[Any, Tensor, list[Forward]]:
    """Calls the answer. Returns what it returned, what ``.grad`` holds afterwards, and what its forward passes saw."""
    with shared.watch_forwards(trial, task.model, weights=True) as forwards:
        result = trial.call(
            *(task.model, task.loss_fn, task.x, task.y, task.micro_batch),
            may_change=(task.model,),
            show=f"accumulate({what}, loss_fn, x, y), {task.words}",
        )
    return result, gradient_vector(task.model), forwards


@accumulate.claim(
    "does not record the whole batch in one call of the model",
    weight=0,
    gate=True,
    elsewhere=["pieces", "full forward"],
)
def _expect_pieces(trial: Trial) -> None:
    size = trial.integer(3, 4)
    task = Task(trial, trial.integer(17, 20), size)
    task.expect_pieces(_accumulated(trial, task)[2])


@accumulate.claim("leaves the gradient of the full batch in `.grad`", weight=2, gate=True)
def _(trial: Trial) -> None:
    size = trial.integer(3, 5)
    task = Task(trial, size * trial.integer(3, 5), size)
    _, got, _ = _accumulated(trial, task)
    gradients = [p.grad for p in task.model.parameters() if p.grad is not None]
    expect(bool(gradients), expected="the gradient of the full batch in .grad", got=".grad is None")
    task.expect(got)


@accumulate.claim("leaves a `.grad` without history", weight=1)
def _(trial: Trial) -> None:
    task = Task(trial, 6, 3)
    _accumulated(trial, task)
    recorded = any(p.grad is not None and p.grad.requires_grad for p in task.model.parameters())
    expect(not recorded, "recorded", expected="a .grad without history", got="a .grad that requires grad")


@accumulate.claim("also where the last micro-batch is smaller, or the only one", weight=9)
def _(trial: Trial) -> None:
    size = trial.integer(4, 6)
    last = trial.integer(1, size - 1)
    cross_entropy = nn.functional.cross_entropy
    for rows, micro_batch, loss_fn in (
        (3 * size + last, size, squared_error),
        (2 * size + 1, size, cross_entropy),
        (trial.integer(4, 6), 9, squared_error),
        (trial.integer(3, 5), 1, cross_entropy),
    ):
        task = Task(trial, rows, micro_batch, loss_fn=loss_fn)
        task.expect(_accumulated(trial, task)[1])


@accumulate.claim("adds to what `.grad` held before", weight=4)
def _(trial: Trial) -> None:
    size = trial.integer(3, 5)
    task = Task(trial, 3 * size, size)
    for parameter in task.model.parameters():
        parameter.grad = trial.randn(*parameter.shape) * 3
    before = gradient_vector(task.model)
    _, got, _ = _accumulated(trial, task, "model with gradients")
    rest, added = got - task.gradient, shared.difference(got - before, task.gradient)
    key = "cleared" if close(got, task.gradient) else "scaled all" if shared.times(rest, before) is not None else ""
    shown = "the old values are gone" if key == "cleared" else f"what was added is {added}"
    right = close(got, before + task.gradient)
    expect(right, key, expected="the old values plus the gradient of the full batch", got=shown)


@accumulate.claim("works for frozen and shared weights, in the modes that the model is in", weight=1)
def _(trial: Trial) -> None:
    for held_before in (False, True):
        task = Task(trial, 12, 4, shared.awkward_model(trial))
        frozen = task.model[3].weight
        if held_before:
            frozen.grad = trial.randn(3, 3)
        before, flags = gradient_vector(task.model), training_flags(task.model)
        _, got, _ = _accumulated(trial, task, "model with a frozen layer")
        expect_training_flags(task.model, flags, "mode")
        is_held = frozen.grad is not None
        key, wanted = ("cleared", "the .grad that it had") if held_before else ("frozen", "None as before")
        shown = "None" if frozen.grad is None else "a tensor"
        expect(is_held == held_before, key, expected=f"for the frozen layer {wanted}", got=shown)
        wrong_sums = itertools.chain(shared.in_one_mode(task.model, task.whole), task.wrong_sums())
        otherwise = ((key, before + wrong) for key, wrong in wrong_sums)
        shared.expect_gradient(got, before + task.gradient, otherwise)


@accumulate.claim("returns the full-batch loss as a float", weight=1)
def _(trial: Trial) -> None:
    for rows in (12, 13):
        loss_fn, edited = shared.keeping_losses()
        task = Task(trial, rows, 4, loss_fn=loss_fn)
        result = _accumulated(trial, task)[0]
        trial.effects += edited()
        task.expect_loss(result)


@accumulate.claim("keeps only one micro-batch's activations alive at a time", weight=10)
def _(trial: Trial) -> None:
    def draw(model: nn.Sequential, count: int) -> tuple[Tensor, Tensor]:
        return trial.randn(count * ROWS, model[0].in_features), trial.randn(count * ROWS, model[-1].out_features)

    _expect_pieces(trial)
    expect_one_batch_alive(
        trial,
        draw,
        lambda tracker, model, *data: trial.call(
            model, squared_error, *data, ROWS, may_change=(model,), within=tracker
        ),
        lambda model, x, y: squared_error(model(x[:ROWS]), y[:ROWS]),
        joined="full forward",
        recorded="whole batch",
    )


@accumulate.claim("leaves every `.grad` as before where the model or the loss raises half-way", weight=1)
def _(trial: Trial) -> None:
    for raising, place in (("loss", 1), ("model", 2)):
        task = Task(trial, 10, 3)
        before = errors.some_gradients(trial, task.model)
        show = f"accumulate(..., a {raising} that raises), {task.words}"
        with errors.raises_half_way(task, raising, place) as loss_fn:
            given = (task.model, loss_fn, task.x, task.y, 3)
            call = partial(trial.call, *given, may_change=(task.model,), show=show)
            expect_raises(Unlucky, call, "swallowed", what=f"the error of the {raising}")
        errors.expect_grad_as_before(task.model, before)
