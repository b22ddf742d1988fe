"""``apply_gradients``: what it claims."""

import copy
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from course_utils.checks.exercise import exercise
from course_utils.checks.trial import AnswerRaised, Missed, Trial
from course_utils.lessons.gradient_accumulation._shared import _close, _flat, _optimizer

apply_gradients = exercise(__file__)

_Pairs = list[tuple[Tensor | None, Tensor]]
_SHAPES = ((3, 4), (3, 4), (4,), (2, 1, 3), ())


class _Applied:
    """Parameters, their optimizer, and a list of gradients; the answer is called on it."""

    def __init__(self, trial: Trial, count: int = 3, *, missing: Iterable[tuple[int, int]] = ()) -> None:
        self.trial = trial
        self.parameters = [trial.randn(*shape, requires_grad=True) for shape in _SHAPES]
        self.optimizer = _optimizer(trial, self.parameters)
        self.gradients = [
            [None if (batch, place) in missing else trial.randn(*p.shape) for place, p in enumerate(self.parameters)]
            for batch in range(count)
        ]
        # The answer gets copies: it might edit them.
        self.lists: list[_Pairs] = [
            [(None if g is None else g.clone(), p) for g, p in zip(row, self.parameters, strict=True)]
            for row in self.gradients
        ]
        self._twins = copy.deepcopy((self.parameters, self.optimizer))
        self.start = self.values()

    def values(self) -> Tensor:
        return _flat(self.parameters, self.parameters)

    def shuffle(self) -> None:
        for pairs in self.lists:
            places = torch.randperm(len(pairs), generator=self.trial._generator).tolist()
            pairs[:] = [pairs[place] for place in places]
        self.lists[0].reverse()

    def average(self, weights: Sequence[float], divisor: float) -> list[Tensor | None]:
        """Per parameter: sum(w * g) / divisor, None where no micro-batch has a gradient."""
        found: list[Tensor | None] = []
        for column in zip(*self.gradients, strict=True):
            given = [w * g for w, g in zip(weights, column, strict=True) if g is not None]
            found.append(sum(given) / divisor if given else None)
        return found

    def average_of_what_is_there(self, weights: Sequence[float]) -> list[Tensor | None]:
        """The wrong average, in which None takes its weight out of the divisor."""
        found: list[Tensor | None] = []
        for column in zip(*self.gradients, strict=True):
            given = [(w, w * g) for w, g in zip(weights, column, strict=True) if g is not None]
            found.append(sum(wg for _, wg in given) / sum(w for w, _ in given) if given else None)
        return found

    def after(self, gradients: Sequence[Tensor | None]) -> Tensor:
        """Where the parameters are after a step with these gradients."""
        parameters, optimizer = copy.deepcopy(self._twins)
        for parameter, gradient in zip(parameters, gradients, strict=True):
            parameter.grad = None if gradient is None else gradient.clone()
        optimizer.step()
        return _flat(parameters, parameters)

    def call(self, *weights: Sequence[float], show: str = "") -> int:
        """Calls the answer; returns how often the optimizer stepped."""
        steps: list[int] = []
        counting = self.optimizer.register_step_post_hook(lambda *_: steps.append(1))
        text = show or f"{len(self.lists)} micro-batches" + "".join(f", weights={given}" for given in weights)
        try:
            self.trial.call(
                *(self.optimizer, self.lists, *weights),
                may_change=tuple(self.parameters),
                show=f"apply_gradients(SGD with momentum, {text})",
            )
        finally:
            counting.remove()
        return len(steps)

    def expect(self, steps: int, gradients: Sequence[Tensor | None], guesses: Iterable[tuple[str, Any]] = ()) -> None:
        """The parameters are where one step with these gradients leads."""
        got, expected = self.values(), self.after(gradients)
        if _close(got, expected, 1e-6):
            return
        if steps > 1:
            raise Missed("step each", expected="one step of the optimizer", got=f"{steps} steps")
        key = next((key for key, wrong in guesses if _close(got, self.after(wrong), 1e-6)), "")
        if steps == 0:
            key = key or "no step"
        wrong = next(
            place
            for place, (one, other) in enumerate(zip(self._split(got), self._split(expected), strict=True))
            if not _close(one, other)
        )
        shape = tuple(self.parameters[wrong].shape)
        stayed = torch.equal(self._split(got)[wrong], self._split(self.start)[wrong])
        shown = "it has not moved" if stayed else "it is elsewhere"
        raise Missed(key, expected=f"the parameter of shape {shape} where one step leads", got=shown)

    def _split(self, values: Tensor) -> tuple[Tensor, ...]:
        return values.split([p.numel() for p in self.parameters])


def _plain_guesses(case: _Applied) -> Iterator[tuple[str, list[Tensor | None]]]:
    count = len(case.lists)
    ones = [1.0] * count
    yield "sum", case.average(ones, 1)
    for factor in (1, count):
        yield "last", case.average([0.0] * (count - 1) + [1.0], factor)
        yield "last", case.average([1.0] + [0.0] * (count - 1), factor)


@apply_gradients.claim("applies the average of the gradients in one step", weight=2, gate=True)
def _(trial: Trial) -> None:
    for count in (trial.integer(3, 4), 1):
        case = _Applied(trial, count)
        steps = case.call()
        case.expect(steps, case.average([1.0] * count, count), _plain_guesses(case))
        if steps != 1:
            raise Missed("step each" if steps else "no step", expected="one step", got=f"{steps} steps")


@apply_gradients.claim("finds each gradient's parameter in any order", weight=1)
def _(trial: Trial) -> None:
    case = _Applied(trial, trial.integer(3, 4))
    case.shuffle()
    count = len(case.lists)
    try:
        case.call(show=f"{count} micro-batches, pairs in different order")
    except AnswerRaised as raised:
        # What it does with pairs in one order has been judged by the claim before this one.
        raise Missed("order", expected="a step", got=f"{type(raised.error).__name__}") from None
    if not _close(case.values(), case.after(case.average([1.0] * count, count))):
        raise Missed("order", expected="each parameter moved by its own gradients", got="other steps")


@apply_gradients.claim("takes weights: sum(w·g) / sum(w)", weight=2)
def _(trial: Trial) -> None:
    for weights in ([trial.integer(2, 9), trial.integer(10, 20), 1], (0.5, trial.integer(2, 6) / 8, 0.0), [3.0, 3.0]):
        count = len(weights)
        case = _Applied(trial, count)
        steps = case.call(weights)
        guesses = (
            ("raw weights", case.average(weights, 1)),
            ("weights over count", case.average(weights, count)),
            ("unweighted", case.average([1.0] * count, count)),
            ("unweighted", case.average([1.0] * count, sum(weights))),
        )
        case.expect(steps, case.average(weights, sum(weights)), guesses)


@apply_gradients.claim("counts None as a gradient of zero", weight=1)
def _(trial: Trial) -> None:
    missing = {(0, 0), (1, 1), (2, 1), (2, 4)}
    for weights in ((), ([5.0, 1.0, 2.0],)):
        case = _Applied(trial, missing=missing)
        steps = case.call(*weights, show="3 micro-batches, with None in some places")
        used = weights[0] if weights else [1.0, 1.0, 1.0]
        left_out = case.average_of_what_is_there(used)
        case.expect(steps, case.average(used, sum(used)), [("None left out", left_out)])


@apply_gradients.claim("does not move a parameter that has only None, even with momentum", weight=1)
def _(trial: Trial) -> None:
    place = trial.integer(0, 3)
    for weights in ((), ([2.0, 1.0, 4.0],)):
        case = _Applied(trial, missing={(batch, place) for batch in range(3)})
        steps = case.call(*weights, show=f"3 micro-batches, only None for the parameter of shape {_SHAPES[place]}")
        used = weights[0] if weights else [1.0, 1.0, 1.0]
        right = case.average(used, sum(used))
        zeros = [torch.zeros(_SHAPES[place], dtype=torch.float64) if g is None else g for g in right]
        case.expect(steps, right, [("zero is None", zeros)])


@apply_gradients.claim("ignores what is in `.grad`, and leaves every `.grad` None", weight=2)
def _(trial: Trial) -> None:
    for kind in ("old gradients", "a parameter in no pair", "gradients taken from .grad"):
        case = _Applied(trial)
        for parameter in case.parameters:
            parameter.grad = trial.randn(*parameter.shape) * 4
        right = case.average([1.0] * 3, 3)
        if kind == "a parameter in no pair":
            case.lists = [pairs[:-1] for pairs in case.lists]
            right[-1] = None
        if kind == "gradients taken from .grad":
            case.lists[1] = [(p.grad, p) for p in case.parameters]
            case.gradients[1] = [p.grad.clone() for p in case.parameters]
            right = case.average([1.0] * 3, 3)
        old = [p.grad.clone() for p in case.parameters]
        steps = case.call(show=f"3 micro-batches; {kind}")
        summed = [o if g is None else g + o for g, o in zip(right, old, strict=True)]
        instead = [o if g is None else g for g, o in zip(right, old, strict=True)]
        averaged = [o / 3 if g is None else g + o / 3 for g, o in zip(right, old, strict=True)]
        zeros = [torch.zeros_like(o) if g is None else g for g, o in zip(right, old, strict=True)]
        guesses = [("old grad", wrong) for wrong in (summed, instead, averaged)]
        case.expect(steps, right, [*guesses, ("zero is None", zeros)])
        left = [parameter for parameter in case.parameters if parameter.grad is not None]
        if left:
            zeros = not any(parameter.grad.any() for parameter in left)
            raise Missed(
                "zero is None" if zeros else "left", expected=".grad None", got="zeros" if zeros else "a gradient"
            )


def _expect_refused(case: _Applied, weights: tuple, key: str, show: str) -> None:
    try:
        case.call(*weights, show=show)
    except AnswerRaised as raised:
        if not isinstance(raised.error, ValueError):
            raise Missed("other error", expected="ValueError", got=type(raised.error).__name__) from None
    else:
        raise Missed(key, expected="ValueError", got="no error")
    if not torch.equal(case.values(), case.start):
        raise Missed("late", expected="no parameter moved", got="some have moved")


@apply_gradients.claim("refuses a gradient of another shape with ValueError, and moves nothing", weight=1)
def _(trial: Trial) -> None:
    # (place, shape): broadcast to the parameter, broadcast beyond it, the same numbers otherwise laid out.
    for place, shape in ((0, (1, 4)), (1, ()), (2, (1,)), (4, (1,)), (2, (3, 4)), (0, (12,)), (1, (4, 3))):
        case = _Applied(trial)
        batch = trial.integer(1, 2)
        case.lists[batch][place] = (trial.randn(*shape), case.parameters[place])
        show = f"in micro-batch {batch} a gradient of shape {shape} for a parameter of shape {_SHAPES[place]}"
        _expect_refused(case, (), "broadcast", show)


@apply_gradients.claim("refuses a wrong number of weights with ValueError, and moves nothing", weight=1)
def _(trial: Trial) -> None:
    for count in (2, 4):
        case = _Applied(trial)
        weights = [trial.integer(1, 9) for _ in range(count)]
        _expect_refused(case, (weights,), "zip", f"3 micro-batches, {count} weights")
