"""``histogram_gradient``: the exact gradient of a chi-square over all batches, with one batch's graph at a time.

The check compares the result with the gradient of one graph, looks at ``.grad``, and counts bytes at each pass.
"""

from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any

import torch
from torch import Tensor, nn

from course_utils.checks.claims import (
    AnswerRaised,
    Missed,
    ModeRoll,
    Trial,
    Unlucky,
    equal_or_none,
    exercise,
    expect,
    expect_no_history,
    expect_training_flags,
    training_flags,
)
from course_utils.data import soft_histogram
from course_utils.lessons.gradient_accumulation import _shared as shared
from course_utils.lessons.gradient_accumulation._memory import ROWS, expect_one_batch_alive

histogram_gradient = exercise(__file__)

_BINS = 5  # where bytes are counted


def _chi2(h: Tensor, target: Tensor) -> Tensor:
    return ((h - target).square() / target).sum()


def _histograms(model: nn.Module, batches: Sequence[Tensor], bins: Tensor) -> list[Tensor]:
    return [soft_histogram(model(x), bins) for x in batches]


def _measured(
    trial: Trial, model: nn.Module, sizes: Sequence[int], bin_count: int = 0
) -> tuple[list[Tensor], Tensor, Tensor]:
    """Batches, a target that they miss by some way, and bins; where their number is left out, it is drawn."""
    columns = next(layer for layer in model.modules() if isinstance(layer, nn.Linear)).in_features
    batches = [trial.randn(size, columns) for size in sizes]
    bins = torch.linspace(-2.0, 2.0, bin_count or trial.integer(4, 6), dtype=torch.float64) + 0.1 * trial.randn()
    with torch.no_grad():
        h = sum(_histograms(model, batches, bins))
    return batches, h * (0.4 + trial.randn(len(bins)).abs()) + 0.5, bins


def _call(
    trial: Trial, model: nn.Module, batches: list[Tensor], target: Tensor, bins: Tensor, what: str = "model", **how: Any
) -> Any:
    show = f"histogram_gradient({what}, {len(batches)} batches, target, {len(bins)} bins)"
    return trial.call(model, batches, target, bins, show=show, **how)


def _one_a_parameter(trial: Trial, result: Any, model: nn.Module) -> list[Tensor]:
    """The result as a list of tensors; it may be a tuple, and they may have a history."""
    right = [tuple(p.shape) for p in model.parameters()]
    wanted = f"a list of {len(right)} tensors"
    expect(result is not None, "no return value", expected=wanted, got="None")
    expect(isinstance(result, (list, tuple)), "one vector", expected=wanted, got=result)
    expect(len(result) == len(right), "one vector", expected=wanted, got=f"{len(result)} items")
    tensors = [trial.tensor(item, what=wanted) for item in result]
    shapes = [tuple(t.shape) for t in tensors]
    key = "order" if sorted(shapes) == sorted(right) else "one vector"
    expect(shapes == right, key, expected=f"shapes {right}", got=f"{shapes}")
    return tensors


@histogram_gradient.claim("has one tensor for each parameter, of its shape", weight=0, gate=True)
def _(trial: Trial) -> None:
    model = shared.small_model(trial, trial.integer(1, 2))
    _one_a_parameter(trial, _call(trial, model, *_measured(trial, model, (3, 5, 4))), model)


def _wrong_losses(parts: list[Tensor], rows: list[int], target: Tensor) -> Iterator[tuple[str, Tensor]]:
    """Losses whose gradient is what a mistake gives.

    Args:
        parts: the batches' histograms.
        rows: how many samples each has.
    """
    whole, count, total = sum(parts), len(parts), sum(rows)
    h, shares = whole.detach(), [number / total for number in rows]
    push = 2 * (h - target) / target
    yield from (("averaged", _chi2(whole, target) / number) for number in (count, total))
    for goals in ([target] * count, [target / count] * count, [target * share for share in shares]):
        each = [_chi2(part, goal) for part, goal in zip(parts, goals, strict=True)]
        yield "summed", sum(each)
        yield "naive", sum(each) / count
        yield "naive", sum(share * loss for share, loss in zip(shares, each, strict=True))
    yield "averaged", _chi2(whole / count, target)
    for mean in (h / count, h / total):
        yield from (("averaged", whole @ (2 * (mean - target) / target) / number) for number in (1, count, total))
    over_h = 2 * (h - target) / h - ((h - target) / h).square()
    derivatives = (push / 2, push * target, h - target, -push, over_h, (h - target).square() / target)
    for wrong, number in product(derivatives, (1, count, total)):  # and averaged on top of it
        yield "derivative", whole @ wrong / number
    yield "no push", whole.sum()
    so_far = torch.stack(parts).detach().cumsum(0)
    running = sum(part @ (2 * (h_so_far - target) / target) for part, h_so_far in zip(parts, so_far, strict=True))
    yield from (("running", running / number) for number in (1, count))
    for goal in (target, target / target.sum()):
        yield "normalised", _chi2(whole / whole.sum(), goal)
        yield "normalised", whole @ (2 * (h / h.sum() - goal) / goal)
    yield from (("last", loss) for loss in (parts[-1] @ push, _chi2(parts[-1], target)))


@histogram_gradient.claim("is the gradient of chi2 over all batches, a constant factor aside", weight=0, gate=True)
def _(trial: Trial) -> None:
    _expect_gradients(trial)


@histogram_gradient.claim("is that gradient at its full length", weight=4)
def _(trial: Trial) -> None:
    _expect_gradients(trial, scaled=False)


def _expect_gradients(trial: Trial, scaled: bool = True) -> None:
    sizes = trial.integer(2, 4), trial.integer(7, 9), trial.integer(4, 6)
    _expect_gradient(trial, shared.small_model(trial, trial.integer(1, 2)), sizes, "model", scaled)
    _expect_gradient(trial, shared.small_model(trial), (trial.integer(3, 6),), "model", scaled)


@histogram_gradient.claim(
    "also for shared weights, in the modes that the model is in, a constant factor aside", weight=1
)
def _(trial: Trial) -> None:
    layers = [nn.Linear(3, 3), ModeRoll(), nn.Tanh(), nn.Linear(3, 3), ModeRoll().eval(), nn.Tanh(), nn.Linear(3, 2)]
    deep = nn.Sequential(*layers).double()
    deep[3].weight = deep[0].weight
    flags = training_flags(trial.fill(deep))
    _expect_gradient(trial, deep, (trial.integer(3, 5), trial.integer(6, 8)), "model with a shared weight")
    expect_training_flags(deep, flags, "mode")


@histogram_gradient.claim("is a list of tensors without history, in the parameters' dtype and all its digits", weight=1)
def _(trial: Trial) -> None:
    model = shared.small_model(trial)
    batches, target, bins = data = _measured(trial, model, (4, 3))
    result = _call(trial, model, *data)
    expect(isinstance(result, list), "tuple", expected="a list", got="a tuple")
    right = torch.autograd.grad(_chi2(sum(_histograms(model, batches, bins)), target), list(model.parameters()))
    tensors = _one_a_parameter(trial, result, model)
    got, whole = shared.flat(tensors, right), shared.flat(right, right)
    factor = got @ whole / (whole @ whole)  # a constant one is judged above
    for tensor, exact in zip(tensors, right, strict=True):
        expect_no_history(tensor, "recorded")
        expect(tensor.dtype == torch.float64, "cast", expected="torch.float64", got=str(tensor.dtype))
        off = ((tensor - factor * exact).norm() / (factor * exact).norm()).item()
        expect(off < 1e-10, "rounded", expected="all digits of float64", got=f"off by {off:.1g} of the gradient")


def _expect_gradient(trial: Trial, model: nn.Module, sizes: Sequence[int], what: str, scaled: bool = True) -> None:
    """The answer gives the gradient; where ``scaled`` may pass, it may be so many times that, for a number above 0."""
    batches, target, bins = data = _measured(trial, model, sizes)

    def chi2(model: nn.Module) -> Tensor:
        return _chi2(sum(_histograms(model, batches, bins)), target)

    parameters = list(model.parameters())
    expected = torch.autograd.grad(chi2(model), parameters)
    modes = list(shared.in_one_mode(model, chi2)) if what != "model" else []
    losses = list(_wrong_losses(_histograms(model, batches, bins), list(map(len, batches)), target))
    tensors = _one_a_parameter(trial, _call(trial, model, *data, what=what), model)
    got, right = shared.flat(tensors, parameters), shared.flat(expected, parameters)
    if shared.close(got, right) or (scaled and (shared.times(got, right) or 0) > 0):
        return
    if all(any(shared.close(tensor.double(), one) for tensor in tensors) for one in expected):
        raise Missed("order", expected="the order of model.parameters()", got="another order")
    otherwise = ((key, shared.gradient_of(loss, model)) for key, loss in losses)
    shared.expect_gradient(got, right, (*modes, *otherwise), "the gradient of chi2 over all batches")


@histogram_gradient.claim("leaves `.grad` alone, also where a batch raises", weight=1)
def _(trial: Trial) -> None:
    raises = "model that raises in the pass that records"
    for key, what in (("grad filled", "model with some gradients"), ("only without error", raises)):
        model = shared.small_model(trial)
        data, parameters = _measured(trial, model, (4, 3, 5)), list(model.parameters())
        for parameter in parameters[::2]:
            parameter.grad = trial.randn(*parameter.shape)
        before = [None if p.grad is None else p.grad.clone() for p in parameters]
        passes: list[int] = []

        def note(module: nn.Module, inputs: tuple) -> None:
            passes.append(1)
            # The second batch of whatever pass records.
            if key == "only without error" and torch.is_grad_enabled() and len(passes) > 4:
                raise Unlucky("this batch cannot be used")

        handle = model[0].register_forward_pre_hook(note)
        try:
            _call(trial, model, *data, what=what)
        except AnswerRaised as raised:
            if not isinstance(raised.error, Unlucky):
                raise
        finally:
            handle.remove()
        trial.effects = [effect for effect in trial.effects if ".grad" not in effect]  # judged here
        for parameter, old in zip(parameters, before, strict=True):
            expect(equal_or_none(parameter.grad, old), key, expected=".grad as before", got="another .grad")


@histogram_gradient.claim("keeps only one batch's activations alive at a time", weight=4)
def _(trial: Trial) -> None:
    def draw(model: nn.Sequential, count: int) -> tuple[list[Tensor], Tensor, Tensor]:
        return _measured(trial, model, [ROWS] * count, bin_count=_BINS)  # bytes are compared for two of these

    expect_one_batch_alive(
        trial,
        draw,
        lambda tracker, model, *data: _call(trial, model, *data, within=tracker),
        lambda model, batches, target, bins: soft_histogram(model(batches[0]), bins),
        joined="joined",
        recorded="all graphs",
        gradients=1 + _BINS,  # or one for each bin, and their sum
    )
