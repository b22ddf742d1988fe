"""``bounded_evaluation``: what it claims."""

import contextlib
from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise

import torch
from torch import Tensor, nn

from course_utils.base.text import format_bytes
from course_utils.checks.claims import expect_training_flags, same, training_flags
from course_utils.checks.exercise import exercise
from course_utils.checks.trial import AnswerRaised, Missed, Trial
from course_utils.lessons.volatile_history._shared import (
    _batches,
    _call,
    _expect_modes_after_errors,
    _expected,
    _moody_model,
    _plain_model,
)
from course_utils.memory import MemoryTracker

bounded_evaluation = exercise(__file__)


def _mean(outputs: list[Tensor]) -> Tensor:
    return torch.cat(outputs).mean(0)


def _mean_output(trial: Trial, model: nn.Module, batches: Iterable[Tensor], show: str) -> Tensor:
    return trial.tensor(_call(trial, model, batches, show))


# Shapes of one sample's output: a vector, a matrix, a number.
_ENDINGS: tuple[Callable[[], tuple[nn.Module, ...]], ...] = (
    lambda: (),
    lambda: (nn.Unflatten(1, (2, 3)),),
    lambda: (nn.Linear(6, 1), nn.Flatten(0)),
)


@bounded_evaluation.claim("is the mean over all samples, in the shape of one sample's output", weight=0, gate=True)
def _(trial: Trial) -> None:
    for ending in _ENDINGS:
        model = _plain_model(trial, *ending())
        batches = _batches(trial, trial.integer(1, 2), trial.integer(8, 10), trial.integer(3, 5))
        outputs = _expected(model, batches)
        wanted = _mean(outputs)
        for given in (batches, iter(batches)):
            got = _mean_output(trial, model, given, "model, batches of different size").cpu()
            if same(got, wanted):
                continue
            means = torch.stack([output.mean(0) for output in outputs])
            guesses = (
                ("mean of means", means.mean(0)),
                ("sum", _mean(outputs) * sum(map(len, batches))),
                ("sum", _mean(outputs) * sum(map(len, batches)) / len(batches)),
                ("sum", means.sum(0)),
                ("sum", _mean(outputs) * sum(map(len, batches)) / len(batches[-1])),
                ("kept dimension", wanted.unsqueeze(0)),
                ("last", outputs[-1].mean(0)),
                ("last", outputs[-1]),
                ("one number", torch.cat(outputs).mean()),
            )
            key = next((key for key, value in guesses if same(got, value)), "")
            if got.shape != wanted.shape:
                shapes = {"expected": f"shape {tuple(wanted.shape)}", "got": f"shape {tuple(got.shape)}"}
                raise Missed(key or ("one number" if not got.dim() else ""), **shapes)
            first = {"expected": f"{wanted.flatten()[0]:.6f}", "got": f"{got.detach().flatten()[0]:.6f}"}
            raise Missed(key, **first)


@bounded_evaluation.claim("has no history")
def _(trial: Trial) -> None:
    got = _mean_output(trial, _plain_model(trial), _batches(trial, 4, 4), "model, 2 batches")
    if got.requires_grad:
        history = f"grad_fn {got.grad_fn.name()}" if got.grad_fn is not None else "a flagged leaf"
        raise Missed("history", expected="no history", got=history)


# Sizes that tell by the growth what is kept. Four hidden layers: recorded, they are alive together, else two at a time.
_ROWS, _INPUTS, _HIDDEN, _OUTPUTS = 16, 4, 64, 8
_BATCH_BYTES, _OUTPUT_BYTES = _ROWS * _INPUTS * 8, _ROWS * _OUTPUTS * 8
# A Python float a batch in a tensor is no leak: 16 bytes of growth a batch are left alone.
_GROWTH_BYTES = 16
_BUDGET = 1.25


def _deep_model(trial: Trial) -> nn.Sequential:
    widths = (_INPUTS, _HIDDEN, _HIDDEN, _HIDDEN, _HIDDEN)
    hidden = [layer for i, o in pairwise(widths) for layer in (nn.Linear(i, o), nn.Tanh())]
    return trial.fill(nn.Sequential(*hidden, nn.Linear(_HIDDEN, _OUTPUTS)).double())


def _stream(trial: Trial, count: int) -> Iterator[Tensor]:
    for _ in range(count):
        yield trial.randn(_ROWS, _INPUTS)


def _peak(trial: Trial, model: nn.Module, count: int) -> int:
    tracker = MemoryTracker(model)
    result = trial.call(
        model,
        _stream(trial, count),
        may_change=(model,),
        within=tracker,
        show=f"bounded_evaluation(model, {count} batches)",
    )
    trial.tensor(result)
    return tracker.peak


def _reference_peak(trial: Trial, model: nn.Module) -> int:
    """The peak of one batch under ``no_grad``, the batch itself included."""
    with MemoryTracker(model) as tracker, torch.no_grad():
        for x in _stream(trial, 1):
            model(x)
    return tracker.peak


def _records(trial: Trial, model: nn.Module) -> bool:
    """Whether the answer has autograd save tensors."""
    saved = []

    def note(tensor: Tensor) -> int:
        saved.append(1)
        return 0

    called = trial.called
    with torch.autograd.graph.saved_tensors_hooks(note, lambda packed: None):
        trial.call(model, _stream(trial, 2), may_change=(model,))
    trial.called = called
    return bool(saved)


@bounded_evaluation.claim("needs no more bytes at its peak for 9 batches than for 3", weight=3)
def _(trial: Trial) -> None:
    model = _deep_model(trial)
    few, many = _peak(trial, model, 3), _peak(trial, model, 9)
    growth = (many - few) / 6
    if growth <= _GROWTH_BYTES:
        return
    one_pass = _reference_peak(trial, model)
    if growth > 2 * _OUTPUT_BYTES and _records(trial, model):
        key = "graphs"
    elif growth > 0.8 * one_pass:
        key = "one big batch"
    elif growth >= _OUTPUT_BYTES:
        key = "outputs kept"
    else:
        key = "batches kept" if growth >= _BATCH_BYTES else "sums kept"
    raise Missed(
        key,
        expected="the same peak for 3 and for 9 batches",
        got=f"{format_bytes(few)}, then {format_bytes(many)}: {format_bytes(round(growth))} more a batch",
    )


@bounded_evaluation.claim("stays under 1.25 times the peak of one batch under `no_grad`", weight=3)
def _(trial: Trial) -> None:
    model = _deep_model(trial)
    budget, peak = _BUDGET * _reference_peak(trial, model), _peak(trial, model, 3)
    if peak < budget:
        return
    parameter_bytes = sum(parameter.nbytes for parameter in model.parameters())
    if _records(trial, model):
        key = "recorded"
    elif peak >= parameter_bytes:
        key = "copied"
    else:
        key = "one big batch" if peak > 2 * budget else "outputs kept"
    raise Missed(key, expected=f"under {format_bytes(round(budget))}", got=format_bytes(peak))


@bounded_evaluation.claim("raises ValueError for no batches")
def _(trial: Trial) -> None:
    for empty in ([], iter([])):
        try:
            got = _call(trial, _plain_model(trial), empty, "model, []")
        except AnswerRaised as raised:
            if isinstance(raised.error, ValueError):
                continue
            raise Missed("empty", expected="ValueError", got=type(raised.error).__name__) from None
        raise Missed("empty", expected="ValueError", got=got)


@bounded_evaluation.claim("is computed in eval mode", gate=True)
def _(trial: Trial) -> None:
    for training, other in ((True, 1), (False, 2)):
        model = _moody_model(trial, training, other)
        batches = _batches(trial, 5, 3)
        wanted = _mean(_expected(model, batches))
        if not same(_mean_output(trial, model, iter(batches), "model in training mode, 2 batches").cpu(), wanted):
            raise Missed("no eval", expected="the mean in eval mode", got="another mean")


@bounded_evaluation.claim("puts back every submodule's own training flag, also where something raises")
def _(trial: Trial) -> None:
    for training, other in ((True, 1), (False, 2), (True, 3)):
        model = _moody_model(trial, training, other)
        before = training_flags(model)
        _mean_output(trial, model, _batches(trial, 4, 3), "model, 2 batches")
        expect_training_flags(model, before, "left in eval", "one flag")
    _expect_modes_after_errors(trial)
    model = _moody_model(trial, True, 1)
    before = training_flags(model)
    with contextlib.suppress(AnswerRaised):  # which error it is has a claim of its own
        _call(trial, model, [], "model, []")
    expect_training_flags(model, before, "only without error")
