"""``mean_loss``: what it claims."""

from collections.abc import Callable
from functools import partial
from itertools import count, product

import torch
from torch import Tensor, nn

from course_utils.base.text import message_of
from course_utils.checks import modes
from course_utils.checks.claims import (
    AnswerRaised,
    DroppedDetach,
    Lazy,
    Missed,
    Raises,
    Trial,
    Unlucky,
    exercise,
    expect,
    expect_no_history,
    expect_raises,
    expect_same,
    expect_training_flags,
    gradient,
    same,
    squared_error,
    training_flags,
    unlucky,
)
from course_utils.memory import MemoryTracker

mean_loss = exercise(__file__)

_ROWS = 64


def _regressor(trial: Trial, *middle: nn.Module) -> nn.Sequential:
    return trial.fill(nn.Sequential(nn.Linear(3, 8), *middle, nn.Tanh(), nn.Linear(8, 1)).double())


def _batches(trial: Trial, sizes: list[int]) -> list[tuple[Tensor, Tensor]]:
    return [(trial.randn(size, 3), trial.randn(size, 1)) for size in sizes]


def _losses(model: nn.Module, batches: list[tuple[Tensor, Tensor]]) -> Tensor:
    with torch.no_grad():
        return torch.stack([squared_error(model(x), y) for x, y in batches])


def _mean(trial: Trial, result: object) -> Tensor:
    """The answer's mean, 0-dim. Whether it came as such a tensor, a claim of its own judges."""
    if isinstance(result, (int, float)):
        return torch.tensor(result, dtype=torch.float64)
    got = trial.tensor(result, what="a 0-dim tensor")
    expect(got.numel() == 1, expected="a 0-dim tensor", got=f"a tensor of shape {tuple(got.shape)}")
    return got.reshape(())


@mean_loss.claim("is the unweighted mean of the batch losses", weight=0, gate=True)
def _(trial: Trial) -> None:
    sizes = [trial.integer(1, 3), trial.integer(9, 12), trial.integer(4, 6), trial.integer(1, 2)]
    model, batches = _regressor(trial), _batches(trial, sizes)
    losses = _losses(model, batches)
    by_rows = (losses * torch.tensor(sizes)).sum() / sum(sizes), losses.sum() / sum(sizes)
    otherwise = [("sum", losses.sum()), *(("weighted", mean) for mean in by_rows), ("last", losses[-1])]
    show = f"mean_loss(model, loss_fn, a list of {len(sizes)} batches)"
    result = trial.call(model, squared_error, batches, show=show)
    expect_same(_mean(trial, result), losses.mean(), otherwise)


@mean_loss.claim("is a 0-dim tensor", weight=0.5)
def _(trial: Trial) -> None:
    result = trial.call(_regressor(trial), squared_error, _batches(trial, [4, 6]), show="mean_loss(...) of 2 batches")
    is_number = isinstance(result, (int, float))
    expect(not is_number, "number", expected="a 0-dim tensor", got=Lazy(lambda: f"the number {result:.4f}"))
    got = trial.tensor(result)
    expect(not got.dim(), "one element", expected="a 0-dim tensor", got=f"a tensor of shape {tuple(got.shape)}")


@mean_loss.claim("leaves losses alone that `loss_fn` keeps", weight=0.5)
def _(trial: Trial) -> None:
    kept: list[tuple[Tensor, Tensor, bool]] = []

    def noted(made: Callable[[Tensor], Tensor], prediction: Tensor, target: Tensor) -> Tensor:
        loss = made(squared_error(prediction, target))
        kept.append((loss, loss.detach().clone(), loss.requires_grad))
        return loss

    for made in (Tensor.clone, Tensor.detach):
        show = "mean_loss(model, a loss_fn that keeps its losses, 3 batches)"
        trial.call(_regressor(trial), partial(noted, made), _batches(trial, [4, 6, 5]), show=show)
        for index, (loss, before, recorded) in enumerate(kept):
            is_right = torch.equal(loss.detach(), before)
            shown = f"loss {index} as {before.item():.6g}"
            expect(is_right, "losses edited", expected=shown, got=Lazy(lambda loss=loss: f"{loss.item():.6g}"))
            expect(loss.requires_grad == recorded, "in place", expected=f"loss {index} with its history", got="none")


@mean_loss.claim("runs the model in the modes it was given", weight=1)
def _(trial: Trial) -> None:
    # Batch norm tells the modes apart by its value, without a random number as in dropout.
    model = _regressor(trial, nn.BatchNorm1d(8).double())
    model[0].eval()
    batches, before = _batches(trial, [4, 6, 5]), training_flags(model)
    mean = _losses(model, batches).mean()
    show = "mean_loss(model in training mode, ...)"
    got = _mean(trial, trial.call(model, squared_error, batches, may_change=(model,), show=show))
    expect_training_flags(model, before, "eval")
    expect(same(got, mean), "eval", expected="batch norm in training mode, as given", got="another mode's value")


def _why_graphs(trial: Trial) -> str:
    """The misconception behind a mean that holds the graph of every batch."""
    unassigned, called = DroppedDetach(), trial.called
    trial.call(_regressor(trial), squared_error, _batches(trial, [4, 4]), within=unassigned)
    trial.called = called
    return "unassigned" if unassigned.found else "graphs"


def _loss(model: nn.Module, is_penalised: bool) -> tuple[Callable[[Tensor, Tensor], Tensor], str]:
    """A loss and how it is called on the card; a penalty on the weights is recorded, whatever the prediction is."""
    if not is_penalised:
        return squared_error, "loss_fn"
    return lambda prediction, y: squared_error(prediction, y) + model[0].weight.exp().mean(), "a loss with a penalty"


@mean_loss.claim("has no history", weight=1)
def _judge_history(trial: Trial, is_penalised: bool = False) -> None:
    def mean(batches: list[tuple[Tensor, Tensor]]) -> Tensor:
        model = _regressor(trial)
        loss_fn, what = _loss(model, is_penalised)
        return _mean(trial, trial.call(model, loss_fn, batches, show=f"mean_loss(model, {what}, 2 batches)"))

    got, batches = mean(_batches(trial, [4, 4])), _batches(trial, [4, 4])
    if got.grad_fn is not None:
        inputs = [x.requires_grad_() for x, _ in batches]
        first, last = (gradient(mean(batches), x) is not None for x in inputs)
        expect_no_history(got, _why_graphs(trial) if first else "last graph" if last else "flagged")
    expect_no_history(got, "flagged")


@mean_loss.claim("keeps no more bytes alive for 12 batches than for 4", weight=3.5)
def _judge_bytes(trial: Trial, is_penalised: bool = False) -> None:
    model, peaks = _regressor(trial), {}
    loss_fn, what = _loss(model, is_penalised)
    for number in (4, 12):
        made = (_batches(trial, [_ROWS])[0] for _ in range(number))
        known = [] if trial.once(_takes_iterators) else list(made)
        tracker = MemoryTracker(model, known)
        show = f"mean_loss(model, {what}, {number} batches)"
        result = _mean(trial, trial.call(model, loss_fn, known or made, within=tracker, show=show))
        peaks[number] = tracker.peak
    growth = (peaks[12] - peaks[4]) // 8
    kept = {"losses kept": 2 * 8, "batches kept": _ROWS * (3 + 1) * 8 + 2 * 8}  # the most that each keeps of a batch
    if growth > 0:
        graphs = _why_graphs(trial) if result.requires_grad else "cut too late"
        key = next((key for key, most in kept.items() if growth <= most), graphs)
        got = f"{peaks[4]:,} bytes, then {peaks[12]:,}: {growth:,} more for each batch"
        raise Missed(key, expected="the same peak for 4 and for 12 batches", got=got)


@mean_loss.claim("has and keeps none where the loss has a penalty on the model's weights in it, too", weight=1)
def _(trial: Trial) -> None:
    _judge_history(trial)  # an answer that falls short there is told the same here
    _judge_bytes(trial)
    try:
        _judge_history(trial, is_penalised=True)
        _judge_bytes(trial, is_penalised=True)
    except Missed as missed:
        raise Missed("output detached", **dict(missed.details)) from None


@mean_loss.claim("takes any iterable of batches, one that can be gone through once, too")
def _judge_iterators(trial: Trial) -> None:
    model, batches = _regressor(trial), _batches(trial, [4, 6, 5])
    show = "mean_loss(model, loss_fn, 3 batches from an iterator)"
    try:
        got = _mean(trial, trial.call(model, squared_error, iter(batches), show=show))
        expect_same(got, _losses(model, batches).mean())
    except Missed as missed:  # a list was right
        raise Missed("len", **dict(missed.details)) from None
    except AnswerRaised as raised:
        if isinstance(raised.error, ValueError):  # its own, for batches that are used up
            raise Missed("len", expected="their mean", got="ValueError, as for no batches") from None
        raise


def _takes_iterators(trial: Trial) -> bool:
    try:
        _judge_iterators(trial)
    except (AnswerRaised, Missed):
        return False
    return True


@mean_loss.claim(
    "raises ValueError for no batches, lets every other error through, and puts back what it changed", weight=1
)
def _(trial: Trial) -> None:
    model = _regressor(trial)

    def call(batches: object, show: str) -> object:
        return trial.call(model, squared_error, batches, show=f"mean_loss(model, loss_fn, {show})")

    expect_raises(ValueError, lambda: call([], "[]"), "empty")
    show = "mean_loss(model, a loss_fn that gives 0, 2 batches)"
    try:
        trial.call(model, lambda prediction, y: 0 * squared_error(prediction, y), _batches(trial, [4, 6]), show=show)
    except AnswerRaised as raised:
        raise Missed("zero total", expected="a mean of 0", got=message_of(raised.error, 80)) from None
    if trial.once(_takes_iterators):
        expect_raises(ValueError, lambda: call(iter([]), "iter([])"), "len")  # for a list it was right
        what, show = "the ZeroDivisionError of the batch", "mean_loss(model, loss_fn, batches that raise)"
        failing = unlucky(_batches(trial, [4]))
        raising = partial(trial.call, model, squared_error, failing, watch_training=False, show=show)
        expect_raises(Unlucky, raising, "swallowed", what=what, other="other error")
    # torch's own errors are RuntimeErrors; the others are what people catch to find out something else.
    for kind, who in product((Unlucky, RuntimeError, TypeError, AttributeError), ("model", "loss_fn")):
        _expect_error_let_through(trial, kind, who)
    _expect_grad_mode_after_errors(trial, lambda: call(_batches(trial, [4]), "one batch"))


def _expect_error_let_through(trial: Trial, kind: type[Exception], who: str) -> None:
    """What the model or the loss raises for the second batch goes to the caller."""
    model, raising, calls = _regressor(trial), Raises(kind), count()

    def second_raises(function: Callable[..., Tensor], *args: Tensor) -> Tensor:
        return raising(args[0]) if next(calls) else function(*args)

    if who == "model":
        model.register_forward_pre_hook(lambda _, args: second_raises(lambda x: x, *args))
    loss_fn = partial(second_raises, squared_error) if who == "loss_fn" else squared_error
    show = f"mean_loss(model, loss_fn, 3 batches), where {who} raises for the second"
    call = partial(trial.call, model, loss_fn, _batches(trial, [4, 6, 5]), watch_training=False, show=show)
    before = training_flags(model)
    expect_raises(kind, call, "swallowed", what=f"the error of {who}", other="other error")
    expect_training_flags(model, before, "eval")


def _expect_grad_mode_after_errors(trial: Trial, succeed: Callable[[], object]) -> None:
    """A grad mode that is left changed by errors alone is told here; by every call, with the side effects."""
    effects, called, trial.effects = trial.effects, trial.called, []
    succeed()
    always, trial.effects, trial.called = trial.effects, effects, called
    changes = [effect for effect in effects if "grad mode" in effect and effect not in always]
    if changes:
        trial.effects = [effect for effect in effects if effect not in changes]
        got = f"after an error, the answer {', '.join(changes)}"
        raise Missed("only without error", expected="the grad mode as before", got=got)


@mean_loss.claim("leaves the grad mode as it found it, on or off", weight=0.5)
def _(trial: Trial) -> None:
    for enabled, show in ((True, ""), (False, ", called inside no_grad")):
        with torch.set_grad_enabled(enabled):
            trial.call(_regressor(trial), squared_error, _batches(trial, [4, 4]), show=f"mean_loss(...){show}")
        modes.expect_grad_mode_kept(trial)


@mean_loss.claim("has the dtype of the losses", weight=0.5)
def _(trial: Trial) -> None:
    for dtype in (torch.float64, torch.float32, torch.bfloat16):
        batches = [(x.to(dtype), y.to(dtype)) for x, y in _batches(trial, [4, 6])]
        show = f"mean_loss(model, loss_fn, 2 batches in {str(dtype).removeprefix('torch.')})"
        result = trial.call(_regressor(trial).to(dtype), squared_error, batches, show=show)
        if isinstance(result, Tensor):  # what it is if it is none, is told above
            expect(result.dtype == dtype, "dtype", expected=str(dtype), got=str(result.dtype))
