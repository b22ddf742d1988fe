"""``accumulated_step``: what it claims."""

import copy
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from course_utils.checks.exercise import exercise
from course_utils.checks.trial import Missed, Trial
from course_utils.lessons.gradient_accumulation._shared import (
    _awkward_model,
    _close,
    _expect_loss,
    _expect_micro_batches,
    _flat,
    _Forwards,
    _held,
    _in_one_mode,
    _model,
    _optimizer,
    _Surroundings,
    _Task,
    _task,
    _values,
    _wrong_sums,
)

accumulated_step = exercise(__file__)


def _clipped(gradient: Tensor, max_norm: float) -> Tensor:
    return gradient * min(1.0, max_norm / float(gradient.norm()))


@dataclass(frozen=True)
class _Stepped:
    """What a call of ``accumulated_step`` did."""

    result: Any
    moved: Tensor
    forwards: _Forwards
    steps: int
    after: float  # the loss after the right step
    move: Callable[[Tensor], Tensor]  # how the weights would move if .grad were this vector

    def expect(self, gradient: Tensor, guesses: Iterable[tuple[str, Tensor]], no_step: str = "") -> None:
        """Where the weights have not moved as by this gradient: says by which of the guesses they have."""
        expected = self.move(gradient)
        if _close(self.moved, expected, 1e-5):
            return
        if not self.steps:
            raise Missed(no_step, expected="one step of the optimizer", got="none")
        if self.steps > 1:
            raise Missed("step each", expected="one step of the optimizer", got=f"{self.steps} steps")
        key = next((key for key, wrong in guesses if _close(self.moved, self.move(wrong), 1e-5)), "")
        share = float((self.moved - expected).norm() / expected.norm())
        raise Missed(
            key, expected="the full-batch step", got=f"a step that is off by {100 * share:.3g} % of its length"
        )


def _stepped(
    trial: Trial, task: _Task, optimizer: torch.optim.Optimizer, max_norm: float, show: str = "model"
) -> _Stepped:
    model = task.model
    start = _values(model)
    fresh_model, fresh_optimizer = copy.deepcopy((model, optimizer))
    fresh_model.zero_grad()
    fresh_optimizer.zero_grad()

    def step(gradient: Tensor) -> nn.Module:
        twin, twin_optimizer = copy.deepcopy((fresh_model, fresh_optimizer))
        pieces = gradient.split([p.numel() for p in twin.parameters()])
        for parameter, piece in zip(twin.parameters(), pieces, strict=True):
            parameter.grad = piece.reshape(parameter.shape).clone() if parameter.requires_grad else None
        twin_optimizer.step()
        return twin

    after = task.loss_fn(step(_clipped(task.gradient, max_norm))(task.x), task.y).item()
    steps: list[int] = []
    counting = optimizer.register_step_post_hook(lambda *_: steps.append(1))
    around, forwards = _Surroundings(model, weights=False), _Forwards(model)
    try:
        result = trial.call(
            *(model, optimizer, task.loss_fn, task.x, task.y, task.micro_batch, max_norm),
            may_change=(model,),
            show=f"accumulated_step({show}, SGD, loss_fn, x, y, max_norm={max_norm:.3g}), {task.words}",
        )
    finally:
        counting.remove()
        forwards.remove()
        around.note(trial)
    moved = _values(model) - start
    return _Stepped(result, moved, forwards, len(steps), after, lambda gradient: _values(step(gradient)) - start)


def _stepping(
    trial: Trial, rows: int, micro_batch: int, part: slice = slice(None), **options: Any
) -> tuple[_Task, torch.optim.Optimizer]:
    """A batch, and an optimizer for all of the model's parameters or a part of them."""
    model = options.pop("model", None) or _model(trial)
    optimizer = _optimizer(trial, list(model.parameters())[part])
    return _task(trial, rows, micro_batch, model=model, **options), optimizer


_FAR = 1e3  # a limit that no gradient here reaches


@accumulated_step.claim("runs the model on at most `micro_batch` samples at a time", weight=0, gate=True)
def _(trial: Trial) -> None:
    task, optimizer = _stepping(trial, trial.integer(17, 20), trial.integer(3, 4))
    _expect_micro_batches(_stepped(trial, task, optimizer, _FAR).forwards, task)


@accumulated_step.claim("moves the weights as one full-batch step does", weight=2, gate=True)
def _(trial: Trial) -> None:
    size = trial.integer(3, 5)
    for rows in (3 * size, 3 * size + trial.integer(1, size - 1)):
        task, optimizer = _stepping(trial, rows, size)
        done = _stepped(trial, task, optimizer, _FAR)
        guesses = [*_wrong_sums(task), ("divided twice", task.gradient / len(task.parts))]
        guesses += [("always scaled", task.gradient / task.gradient.norm() * _FAR)]
        done.expect(task.gradient, guesses, "no step")


def _clip_guesses(task: _Task, max_norm: float, own: Tensor) -> Iterator[tuple[str, Tensor]]:
    """Other ways to clip. ``own`` marks the numbers that belong to the optimizer's parameters."""
    gradient, rows = task.gradient, sum(task.sizes)
    shares = [n / rows * part for n, part in zip(task.sizes, task.parts, strict=True)]
    if not own.all():
        yield "optimizer's own", torch.where(own, _clipped(gradient * own, max_norm), gradient)
    yield "no clip", gradient
    running = torch.zeros_like(gradient)
    for share in shares:
        running = _clipped(running + share, max_norm)
    yield "clip each", running
    yield "clip each", sum(_clipped(share, max_norm) for share in shares)
    means = zip(task.sizes, task.parts, strict=True)
    yield "clip each", sum(n / rows * _clipped(part, max_norm) for n, part in means)
    for factor in (len(shares), rows):
        yield "undivided limit", _clipped(factor * gradient, max_norm) / factor
    sizes = [p.numel() for p in task.model.parameters()]
    yield "clip tensors", torch.cat([_clipped(piece, max_norm) for piece in gradient.split(sizes)])
    yield "clip value", gradient.clamp(-max_norm, max_norm)


@accumulated_step.claim("clips the total norm of the model's gradients once, to at most `max_norm`", weight=3)
def _(trial: Trial) -> None:
    # Of the length of the gradient; and which parameters the optimizer has.
    for share, part in ((0.3, slice(None)), (0.6, slice(2, None)), (3.0, slice(None))):
        task, optimizer = _stepping(trial, trial.integer(10, 11), 4, part)
        parameters = list(task.model.parameters())
        has = [p in set(parameters[part]) for p in parameters]
        own = torch.cat([torch.full((p.numel(),), yes) for p, yes in zip(parameters, has, strict=True)])
        max_norm = share * float(task.gradient.norm())
        done = _stepped(trial, task, optimizer, max_norm, "model" if all(has) else "model, of which SGD has a part")
        guesses = list(_clip_guesses(task, max_norm, own))
        if share > 1:
            guesses.insert(0, ("always scaled", task.gradient / task.gradient.norm() * max_norm))
        done.expect(_clipped(task.gradient, max_norm), guesses, "skipped" if share < 1 else "")


@accumulated_step.claim("ignores gradients left from before", weight=1)
def _(trial: Trial) -> None:
    for part in (slice(None), slice(2, None)):
        task, optimizer = _stepping(trial, 9, 4, part)
        parameters = list(task.model.parameters())
        outside = parameters[: part.start or 0]
        for parameter in parameters:
            parameter.grad = trial.randn(*parameter.shape) * 3
        everywhere = _held(task.model)
        elsewhere = _flat([p.grad if any(p is o for o in outside) else None for p in parameters], parameters)
        # Outside the optimizer an old gradient moves nothing; it shows in the norm alone.
        max_norm = 0.5 * float(task.gradient.norm()) if outside else _FAR
        done = _stepped(trial, task, optimizer, max_norm, "model with old gradients")
        guesses = [("stale", _clipped(task.gradient + old, max_norm)) for old in (everywhere, elsewhere)]
        done.expect(_clipped(task.gradient, max_norm), guesses)


@accumulated_step.claim("works for frozen and shared weights, in the modes that the model is in", weight=1)
def _(trial: Trial) -> None:
    model = _awkward_model(trial)
    flagged = [p for p in model.parameters() if p.requires_grad]
    optimizer = _optimizer(trial, flagged)
    task = _task(trial, trial.integer(10, 11), 4, model=model)
    modes = [module.training for module in model.modules()]
    guesses = [("mode", gradient) for gradient in _in_one_mode(task)]
    done = _stepped(trial, task, optimizer, _FAR, "model with a frozen layer")
    if [module.training for module in model.modules()] != modes:
        raise Missed("mode", expected="training flags as before", got="other training flags")
    done.expect(task.gradient, guesses)


@accumulated_step.claim("leaves every `.grad` None", weight=1)
def _(trial: Trial) -> None:
    for part in (slice(None), slice(2, None)):
        task, optimizer = _stepping(trial, 9, 4, part)
        _stepped(trial, task, optimizer, _FAR)
        for name, parameter in task.model.named_parameters():
            if parameter.grad is not None:
                zeros = not parameter.grad.any()
                got = f"{'zeros' if zeros else 'a gradient'} at {name}"
                raise Missed("zeros" if zeros else "left", expected=".grad None everywhere", got=got)


@accumulated_step.claim("returns the full-batch loss before the step, as a float", weight=1)
def _(trial: Trial) -> None:
    for rows in (12, 13):
        task, optimizer = _stepping(trial, rows, 4)
        done = _stepped(trial, task, optimizer, _FAR)
        _expect_loss(done.result, task, done.after)
