"""``accumulated_step``: one step as with the full batch, clipped once.

The check compares how the weights have moved with how they would move by the right gradient and by wrong ones.
"""

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from course_utils.checks.claims import (
    Missed,
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
from course_utils.lessons.gradient_accumulation._steps import Gradients, Stepping

accumulated_step = exercise(__file__)

_FAR = 1e3  # a limit that no gradient here reaches
_SHORT = 0.1  # of the gradient's length: some number in it is longer, else clipping by value would change none


def _clipped(gradient: Tensor, max_norm: float) -> Tensor:
    return gradient * min(1.0, max_norm / max(float(gradient.norm()), 1e-300))


def _scaled(gradient: Tensor, max_norm: float) -> Tensor:
    return gradient / gradient.norm() * max_norm


class _Step(Stepping):
    """A batch, and an optimizer for the model's parameters but for the first few; the answer is called on them."""

    def __init__(
        self,
        trial: Trial,
        rows: int,
        size: int,
        without: int = 0,
        model: nn.Sequential | None = None,
        loss_fn: Callable[[Tensor, Tensor], Tensor] = squared_error,
    ) -> None:
        self.model = model or shared.small_model(trial)
        parameters = list(self.model.parameters())
        super().__init__(trial, parameters, parameters[without:])
        self.task = shared.Task(trial, rows, size, self.model, loss_fn)
        # Which numbers belong to the optimizer's parameters.
        self.own = torch.cat([torch.full((p.numel(),), i >= without) for i, p in enumerate(parameters)])

    def call(
        self,
        max_norm: float = _FAR,
        what: str = "model",
        loss_fn: Callable[[Tensor, Tensor], Tensor] | None = None,
    ) -> tuple[Any, list[shared.Forward]]:
        """Calls the answer. Returns what it returned, and what its forward passes saw."""
        task, model = self.task, self.model
        sgd = "SGD with momentum" if self.own.all() else "SGD for a part of its parameters"
        show = f"accumulated_step({what}, {sgd}, loss_fn, x, y, max_norm={max_norm:.3g}), {task.words}"
        given = (model, self.optimizer, loss_fn or task.loss_fn, task.x, task.y, task.micro_batch, max_norm)
        with shared.watch_forwards(self.trial, model, weights=False) as forwards:
            return self.count(*given, may_change=(model,), show=show), forwards

    def pieces(self, vector: Tensor) -> tuple[Tensor, ...]:
        return vector.split([p.numel() for p in self.parameters])

    def gradients(self, vector: Tensor) -> Gradients:
        """What a vector puts into each ``.grad``."""
        pieces = zip(self.pieces(vector), self.parameters, strict=True)
        return [piece.reshape(p.shape) if p.requires_grad else None for piece, p in pieces]

    def expect_step(
        self,
        right: Tensor,
        otherwise: Iterable[tuple[str, Tensor]] = (),
        no_step: str = "no step",
        elsewhere: Iterable[Tensor] = (),
        frozen_left: Iterable[Tensor] = (),
    ) -> None:
        """As ``expect``, with vectors; ``frozen_left`` is what was in each ``.grad`` before, if anything was."""
        wrong = [(key, self.gradients(vector)) for key, vector in otherwise]
        if old := list(frozen_left):
            pairs = zip(old, self._pairs(right), strict=True)
            wrong.append(("frozen left", [left.reshape(p.shape) if g is None else g for left, (g, p) in pairs]))
        # Zeros for what has no gradient, which momentum and weight decay move.
        wrong.append(("zeros", [p.new_zeros(p.shape) if g is None else g for g, p in self._pairs(right)]))
        self.expect(self.gradients(right), wrong, no_step, [self.gradients(vector) for vector in elsewhere])

    def _pairs(self, vector: Tensor) -> Iterator[tuple[Tensor | None, Tensor]]:
        return zip(self.gradients(vector), self.parameters, strict=True)


@accumulated_step.claim(
    "does not record the whole batch in one call of the model",
    weight=0,
    gate=True,
    elsewhere=["pieces", "full forward"],
)
def _expect_pieces(trial: Trial) -> None:
    case = _Step(trial, trial.integer(17, 20), trial.integer(3, 4))
    case.task.expect_pieces(case.call()[1])


@accumulated_step.claim("moves the weights as one full-batch step does, clipping aside", weight=2, gate=True)
def _(trial: Trial) -> None:
    size = trial.integer(3, 5)
    _expect_full_step(trial, 3 * size, size)


def _expect_full_step(trial: Trial, rows: int, size: int) -> None:
    case = _Step(trial, rows, size)
    case.call()
    task, gradient = case.task, case.task.gradient
    otherwise = [*task.wrong_sums(), ("divided twice", gradient / len(task.parts))]
    case.expect_step(gradient, otherwise, elsewhere=[_scaled(gradient, _FAR)])


@accumulated_step.claim(
    "also where the last micro-batch is smaller, or the only one, with `micro_batch` samples at most, clipping aside",
    weight=2,
)
def _(trial: Trial) -> None:
    _expect_pieces(trial)
    size = trial.integer(3, 5)
    for rows in (3 * size + trial.integer(1, size - 1), size - 1):
        _expect_full_step(trial, rows, size)


def _clipped_otherwise(case: _Step, max_norm: float) -> Iterator[tuple[str, Tensor]]:
    """Other ways to clip."""
    gradient, own, rows = case.task.gradient, case.own, sum(case.task.sizes)
    if max_norm > gradient.norm():
        yield "always scaled", _scaled(gradient, max_norm)
    if not own.all():
        yield "optimizer's own", torch.where(own, _clipped(gradient * own, max_norm), gradient)
    yield "no clip", gradient
    weighted = [(n / rows, part) for n, part in zip(case.task.sizes, case.task.parts, strict=True)]
    running = torch.zeros_like(gradient)
    for share, part in weighted:
        running = _clipped(running + share * part, max_norm)
    yield "clip each", running
    yield "clip each", sum(_clipped(share * part, max_norm) for share, part in weighted)
    yield "clip each", sum(share * _clipped(part, max_norm) for share, part in weighted)
    for factor in (len(weighted), rows):
        yield "undivided limit", _clipped(factor * gradient, max_norm) / factor
    yield "clip tensors", torch.cat([_clipped(piece, max_norm) for piece in case.pieces(gradient)])
    yield "clip value", gradient.clamp(-max_norm, max_norm)


@accumulated_step.claim("clips the total norm of the model's gradients once, to at most `max_norm`", weight=5)
def _(trial: Trial) -> None:
    # Of the length of the gradient, and how many parameters the optimizer does not have.
    for share, without in ((_SHORT, 0), (0.6, 2), (3.0, 0)):
        case = _Step(trial, 12, 4, without)
        max_norm = share * float(case.task.gradient.norm())
        case.call(max_norm)
        right = _clipped(case.task.gradient, max_norm)
        case.expect_step(right, _clipped_otherwise(case, max_norm), "skipped" if share < 1 else "no step")


@accumulated_step.claim("ignores gradients left from before, also those of frozen parameters", weight=1)
def _(trial: Trial) -> None:
    for without, frozen in ((0, False), (2, False), (0, True)):
        model = shared.small_model(trial)
        model[0].weight.requires_grad_(not frozen)
        case = _Step(trial, 8, 4, without, model)
        gradient = case.task.gradient
        for parameter in case.parameters:
            left = trial.randn(*parameter.shape)
            # Two make 4 to 6 of the right one: as a factor, neither the number of parts nor that of rows.
            parameter.grad = left / left.norm() * gradient.norm() * 3.5
        old = shared.gradient_vector(case.model)
        # Outside the optimizer an old gradient moves nothing; it shows in the norm alone.
        max_norm = _SHORT * float(gradient.norm()) if without else _FAR
        case.call(max_norm, f"model with old gradients{', the first weight frozen' if frozen else ''}")
        key = "optimizer clears" if without else "stale"
        stale = [(key, _clipped(gradient + added, max_norm)) for added in (old, old * ~case.own)]
        wrong_clips = [wrong for _, wrong in _clipped_otherwise(case, max_norm)]
        if not case.steps and without:  # a step that is left out where the gradient is too long: the claim above
            continue
        case.expect_step(_clipped(gradient, max_norm), stale, elsewhere=wrong_clips, frozen_left=case.pieces(old))


@accumulated_step.claim("works for frozen and shared weights, in the modes that the model is in, clipping aside")
def _(trial: Trial) -> None:
    case = _Step(trial, 12, 4, model=shared.awkward_model(trial))
    flags, otherwise = training_flags(case.model), list(shared.in_one_mode(case.model, case.task.whole))
    case.call(what="model with a frozen layer")
    expect_training_flags(case.model, flags, "mode")
    gradient = case.task.gradient
    case.expect_step(gradient, otherwise, elsewhere=[_scaled(gradient, _FAR)])


@accumulated_step.claim("leaves every `.grad` None", weight=1)
def _(trial: Trial) -> None:
    for without, frozen in ((0, False), (2, False), (0, True)):
        case = _Step(trial, 9, 4, without)
        if frozen:
            case.model[0].weight.requires_grad_(False)
            for parameter in case.parameters:
                parameter.grad = trial.randn(*parameter.shape)
        case.call(what="model with old gradients, the first weight frozen" if frozen else "model")
        for name, parameter in case.model.named_parameters():
            if parameter.grad is not None:
                # With all in the optimizer, it is cleared; and what is left in the third turn alone was there before.
                left = "optimizer clears" if without else "frozen left" if frozen else "left"
                key, what = (left, "a gradient") if parameter.grad.any() else ("zeros", "zeros")
                raise Missed(key, expected=".grad None everywhere", got=f"{what} at {name}")


@accumulated_step.claim("returns the full-batch loss before the step, as a float", weight=1)
def _(trial: Trial) -> None:
    for rows in (12, 13):
        loss_fn, edited = shared.keeping_losses()
        case = _Step(trial, rows, 4, loss_fn=loss_fn)
        task, names = case.task, dict(case.model.named_parameters())
        stepped = dict(zip(names, case.after(case.gradients(task.gradient)), strict=True))
        after = task.loss_fn(torch.func.functional_call(case.model, stepped, task.x), task.y).item()
        result = case.call()[0]
        trial.effects += edited()
        task.expect_loss(result, after)


@accumulated_step.claim("moves nothing where something raises, and leaves every `.grad` as before", weight=1)
def _(trial: Trial) -> None:
    for raising, place in (("loss", 1), ("model", 2)):
        case = _Step(trial, 10, 3)
        before = errors.some_gradients(trial, case.model)
        with errors.raises_half_way(case.task, raising, place) as loss_fn:
            what = f"model, a {raising} that raises"
            expect_raises(Unlucky, partial(case.call, what=what, loss_fn=loss_fn), "swallowed", what="the error")
        expect(not case.moved().any(), "half-way", expected="no weight moved", got="some have moved")
        errors.expect_grad_as_before(case.model, before)
