"""``histogram_gradient``: what it claims."""

import copy
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from course_utils.checks.claims import Turn, Unlucky
from course_utils.checks.exercise import exercise
from course_utils.checks.trial import AnswerRaised, Missed, Trial
from course_utils.data import soft_histogram
from course_utils.lessons.gradient_accumulation._shared import (
    _BATCHES,
    _ROWS,
    _close,
    _compared,
    _expect_no_growth,
    _expect_one_alive,
    _flat,
    _Forwards,
    _gradient,
    _graph_bytes,
    _model,
    _wide_model,
)
from course_utils.memory import MemoryTracker

histogram_gradient = exercise(__file__)


def _histogram(model: nn.Module, x: Tensor, bins: Tensor) -> Tensor:
    return soft_histogram(model(x), bins)


def _chi2(h: Tensor, target: Tensor) -> Tensor:
    return ((h - target).square() / target).sum()


def _measured(trial: Trial, model: nn.Module, sizes: Sequence[int]) -> tuple[list[Tensor], Tensor, Tensor]:
    """Batches, a target that they miss by some way, and bins."""
    batches = [trial.randn(size, 3) for size in sizes]
    bins = torch.linspace(-2.0, 2.0, trial.integer(4, 6), dtype=torch.float64) + 0.1 * trial.randn()
    with torch.no_grad():
        h = sum(_histogram(model, x, bins) for x in batches)
    return batches, h * (0.4 + trial.randn(len(bins)).abs()) + 0.5, bins


def _asked(trial: Trial, model: nn.Module, batches: list[Tensor], target: Tensor, bins: Tensor, **options: Any) -> Any:
    show = f"histogram_gradient({options.pop('show', 'model')}, {len(batches)} batches, target, {len(bins)} bins)"
    return trial.call(model, batches, target, bins, show=show, **options)


def _one_a_parameter(trial: Trial, result: Any, model: nn.Module) -> Tensor:
    """The result as one vector."""
    parameters = list(model.parameters())
    wanted = f"a list of {len(parameters)} tensors"
    if result is None:
        raise Missed("no return value", expected=wanted, got="None")
    if not isinstance(result, (list, tuple)):
        raise Missed("one vector", expected=wanted, got=result)
    if len(result) != len(parameters):
        raise Missed("one vector", expected=wanted, got=f"{len(result)} items")
    tensors = [trial.tensor(item, what=wanted) for item in result]
    shapes = [tuple(t.shape) for t in tensors]
    right = [tuple(p.shape) for p in parameters]
    if shapes != right:
        key = "order" if sorted(shapes) == sorted(right) else "one vector"
        raise Missed(key, expected=f"shapes {right}", got=f"{shapes}")
    return _flat(tensors, parameters)


@histogram_gradient.claim("is a list with one tensor for each parameter, of its shape", weight=0, gate=True)
def _(trial: Trial) -> None:
    model = _model(trial, outputs=trial.integer(1, 2))
    _one_a_parameter(trial, _asked(trial, model, *_measured(trial, model, (3, 5, 4))), model)


def _histogram_guesses(
    model: nn.Module, batches: list[Tensor], target: Tensor, bins: Tensor
) -> Iterator[tuple[str, Tensor]]:
    parts = [_histogram(model, x, bins) for x in batches]
    parameters = list(model.parameters())
    count, rows = len(parts), sum(map(len, batches))

    def gradient(loss: Tensor) -> Tensor:
        return _flat(torch.autograd.grad(loss, parameters, retain_graph=True), parameters)

    def pushed(push: Tensor) -> Tensor:
        return gradient(sum(part @ push for part in parts))

    h = sum(parts).detach()
    right = gradient(_chi2(sum(parts), target))
    yield "averaged", right / count
    yield "averaged", right / rows
    for scaled in ([target] * count, [target / count] * count, [target * len(x) / rows for x in batches]):
        each = [gradient(_chi2(part, goal)) for part, goal in zip(parts, scaled, strict=True)]
        yield "naive", sum(each)
        yield "naive", sum(each) / count
        yield "naive", sum(len(x) / rows * g for x, g in zip(batches, each, strict=True))
    yield "naive", gradient(_chi2(sum(parts) / count, target))
    for mean in (h / count, h / rows):
        yield "averaged", pushed(2 * (mean - target) / target)
        yield "averaged", pushed(2 * (mean - target) / target / count)
    over_h = 2 * (h - target) / h - ((h - target) / h).square()
    for push in ((h - target) / target, 2 * (h - target), h - target, -2 * (h - target) / target, over_h):
        yield "derivative", pushed(push)
    yield "derivative", pushed((h - target).square() / target)
    yield "no push", pushed(torch.ones_like(h))
    so_far = torch.zeros_like(h)
    running = []
    for part in parts:
        so_far = so_far + part.detach()
        running.append(gradient(part @ (2 * (so_far - target) / target)))
    yield "running", sum(running)
    yield "running", sum(running) / count
    whole = sum(parts)
    for goal in (target, target / target.sum()):
        yield "normalised", gradient(_chi2(whole / whole.sum(), goal))
        push = 2 * (h / h.sum() - goal) / goal
        yield "normalised", pushed(push)
    yield "last", gradient(parts[-1] @ (2 * (h - target) / target))
    yield "last", gradient(_chi2(parts[-1], target))


@histogram_gradient.claim("is the exact gradient of chi2 over all batches", weight=3, gate=True)
def _(trial: Trial) -> None:
    layers = [nn.Linear(3, 3), Turn(), nn.Tanh(), nn.Linear(3, 3), Turn().eval(), nn.Tanh(), nn.Linear(3, 2)]
    deep = nn.Sequential(*layers).double()
    deep[3].weight = deep[0].weight
    cases = (
        (_model(trial, outputs=trial.integer(1, 2)), (trial.integer(2, 4), trial.integer(7, 9), trial.integer(4, 6))),
        (trial.fill(deep), (trial.integer(3, 5), trial.integer(6, 8))),
        (_model(trial), (trial.integer(3, 6),)),
    )
    for model, sizes in cases:
        batches, target, bins = _measured(trial, model, sizes)
        parameters = list(model.parameters())
        h = sum(_histogram(model, x, bins) for x in batches)
        expected = [g.detach() for g in torch.autograd.grad(_chi2(h, target), parameters)]
        show = "model with a shared weight" if model is deep else "model"
        result = _asked(trial, model, batches, target, bins, show=show)
        got, right = _one_a_parameter(trial, result, model), _flat(expected, parameters)
        if _close(got, right):
            continue
        if _same_in_another_order(result, expected):
            raise Missed("order", expected="the order of model.parameters()", got="another order")
        for training in (False, True) if model is deep else ():
            other = copy.deepcopy(model).train(training)
            loss = _chi2(sum(_histogram(other, x, bins) for x in batches), target)
            if _close(got, _gradient(other, loss)):
                raise Missed("mode", expected="the modes that the model is in", got="the gradient in other modes")
        guesses = _histogram_guesses(model, batches, target, bins)
        key = next((key for key, wrong in guesses if _close(got, wrong)), "")
        raise Missed(key, **_compared(got, right) | {"expected": "the gradient of chi2 over all batches"})


def _same_in_another_order(result: Sequence[Tensor], expected: Sequence[Tensor]) -> bool:
    left = list(expected)
    for tensor in result:
        found = next((i for i, t in enumerate(left) if t.shape == tensor.shape and _close(tensor.double(), t)), None)
        if found is None:
            return False
        del left[found]
    return True


@histogram_gradient.claim("leaves `.grad` alone, also where a batch raises", weight=1)
def _(trial: Trial) -> None:
    for unlucky in (False, True):
        model = _model(trial)
        batches, target, bins = _measured(trial, model, (4, 3, 5))
        parameters = list(model.parameters())
        for parameter in parameters[::2]:
            parameter.grad = trial.randn(*parameter.shape)
        before = [None if p.grad is None else p.grad.clone() for p in parameters]
        calls: list[int] = []

        def raises(module: nn.Module, inputs: tuple, calls: list[int] = calls) -> None:
            calls.append(1)
            # The second batch of whatever pass records.
            if torch.is_grad_enabled() and len(calls) > 4:
                raise Unlucky("this batch cannot be used")

        handle = model[0].register_forward_pre_hook(raises) if unlucky else None
        show = "model that raises" if unlucky else "model with some gradients"
        try:
            _asked(trial, model, batches, target, bins, show=show)
        except AnswerRaised as raised:
            if not isinstance(raised.error, Unlucky):
                raise
        finally:
            if handle is not None:
                handle.remove()
        for parameter, old in zip(parameters, before, strict=True):
            same = parameter.grad is old if old is None else parameter.grad is not None
            if not same or (old is not None and not torch.equal(parameter.grad, old)):
                key = "only without error" if unlucky else "grad filled"
                raise Missed(key, expected=".grad as before", got="another .grad")


@histogram_gradient.claim("keeps only one batch's activations alive at a time", weight=3)
def _(trial: Trial) -> None:
    peaks = {}
    for count in _BATCHES:
        model = _wide_model(trial)
        batches, target, bins = _measured(trial, model, [_ROWS] * count)
        one = _graph_bytes(model, batches[0], lambda output, bins=bins: soft_histogram(output, bins))
        forwards = _Forwards(model)
        tracker = forwards.tracker = MemoryTracker(model, batches, target, bins)
        _asked(trial, model, batches, target, bins, within=tracker)
        forwards.remove()
        if max(forwards.rows) > _ROWS:
            key = "joined" if max(forwards.recorded_rows, default=0) <= _ROWS else "all graphs"
            raise Missed(key, expected=f"batches of {_ROWS} samples", got=f"{max(forwards.rows)} samples at once")
        _expect_one_alive(forwards, one)
        peaks[count] = tracker.peak
    _expect_no_growth(peaks, "all graphs")
