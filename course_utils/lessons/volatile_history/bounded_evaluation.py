"""Asks for the mean output over any number of batches; the check looks at values, the peak of live bytes and flags."""

from collections.abc import Iterable, Iterator
from functools import partial, reduce
from typing import Any

import torch
from torch import Tensor, nn

from course_utils.base.text import format_bytes
from course_utils.checks import modes
from course_utils.checks.claims import (
    AnswerRaised,
    Missed,
    Trial,
    exercise,
    expect,
    expect_no_history,
    expect_raises,
    expect_same,
)
from course_utils.lessons.volatile_history import _shared
from course_utils.memory import MemoryTracker

bounded_evaluation = exercise(__file__)

# Sizes that tell by the growth what is kept. Four hidden layers: recorded, they are alive together, else two at a time.
_ROWS, _INPUTS, _HIDDEN, _OUTPUTS = 16, 4, 64, 8
_BATCH_BYTES, _OUTPUT_BYTES = _ROWS * _INPUTS * 8, _ROWS * _OUTPUTS * 8
# A Python float per batch in a tensor is no leak: 16 bytes of growth per batch are left alone.
_GROWTH_BYTES = 16


def _mean_output(trial: Trial, *inputs: Any) -> Tensor:
    return trial.tensor(_shared.call(trial, *inputs))


@bounded_evaluation.claim("counts each sample once, also in batches of different size", weight=6)
@bounded_evaluation.claim(
    "is a mean over all batches, in the shape of one sample's output", weight=0, gate=True, elsewhere=["mean of means"]
)
def _judge_mean(trial: Trial, *endings: tuple[nn.Module, ...]) -> None:
    for ending in endings or ((),):
        model = _shared.plain_model(trial, *ending)
        batches = _shared.draw_batches(trial, trial.integer(1, 2), trial.integer(8, 10), trial.integer(3, 5))
        outputs = _shared.outputs_in_eval_mode(model, batches)
        samples, means = torch.cat(outputs), torch.stack([output.mean(0) for output in outputs])
        mean, total = samples.mean(0), samples.sum(0)
        counts, halved = (len(batches), len(batches[-1])), reduce(lambda mean, new: (mean + new) / 2, means)
        otherwise = [("mean of means", means.mean(0)), ("sum", total), ("sum", means.sum(0)), ("halved", halved)]
        otherwise += [("wrong count", total / count) for count in counts]
        otherwise += [("kept dimension", mean.unsqueeze(0)), ("last", means[-1]), ("last", outputs[-1])]
        otherwise += [("one number", samples.mean())]
        got = _mean_output(trial, model, batches, "model, batches of different size").cpu()
        expect_same(got, mean, otherwise, key="one number" if mean.dim() and not got.dim() else "")


@bounded_evaluation.claim("is that mean where one sample's output is a matrix or a number, too", weight=1)
def _(trial: Trial) -> None:
    _judge_mean(trial, (nn.Unflatten(1, (2, 3)),), (nn.Linear(6, 1), nn.Flatten(0)))


@bounded_evaluation.claim("has no history")
def _(trial: Trial) -> None:
    got = _mean_output(trial, _shared.plain_model(trial), _shared.draw_batches(trial, 4, 4))
    key = modes.why_recorded(trial, lambda frozen: _is_recorded(trial, frozen)) if got.grad_fn is not None else ""
    expect_no_history(got, key if key in ("bare no_grad", "data cleaned", "elsewhere") else "history")


def _is_recorded(trial: Trial, frozen: bool) -> bool:
    """Whether the mean has a history; a frozen model gets batches that require grad."""
    model = _shared.plain_model(trial).requires_grad_(not frozen)
    batches = [x.requires_grad_(frozen) for x in _shared.draw_batches(trial, 4, 4)]
    return _mean_output(trial, model, batches).grad_fn is not None


def _deep_model(trial: Trial) -> nn.Sequential:
    widths = (_INPUTS, _HIDDEN, _HIDDEN, _HIDDEN)
    hidden = [nn.Sequential(nn.Linear(width, _HIDDEN), nn.Tanh()) for width in widths]
    return trial.fill(nn.Sequential(*hidden, nn.Linear(_HIDDEN, _OUTPUTS)).double())


def _stream(
    trial: Trial, count: int, rows: int = _ROWS, inputs: int = _INPUTS, dtype: torch.dtype = torch.float64
) -> Iterator[Tensor]:
    for _ in range(count):
        yield trial.randn(rows, inputs, dtype=dtype)


def _given(trial: Trial, count: int) -> Iterable[Tensor]:
    """Batches that are made one by one; a list of them for an answer that takes no iterator, which a claim judges."""
    return _stream(trial, count) if trial.once(_takes_iterators) else list(_stream(trial, count))


def _takes_iterators(trial: Trial) -> bool:
    try:
        _judge_iterators(trial)
    except (AnswerRaised, Missed):
        return False
    return True


def _peak(trial: Trial, model: nn.Module, count: int, *sizes: Any, what: str = "batches") -> int:
    batches = _stream(trial, count, *sizes) if sizes else _given(trial, count)
    tracker = MemoryTracker(model, batches if isinstance(batches, list) else [])
    show = f"bounded_evaluation(model, {count} {what})"
    trial.tensor(trial.call(model, batches, may_change=(model,), within=tracker, show=show))
    return tracker.peak


def _reference_peak(trial: Trial, model: nn.Module, *sizes: Any) -> int:
    """The peak of one batch under ``no_grad``, the batch itself included."""
    with MemoryTracker(model) as tracker, torch.no_grad():
        for x in _stream(trial, 1, *sizes):
            model(x)
    return tracker.peak


def _records(trial: Trial, model: nn.Module) -> bool:
    show = trial.called
    return _shared.records(lambda: trial.call(model, _given(trial, 2), may_change=(model,), show=show))


@bounded_evaluation.claim("needs no more bytes at its peak for 9 batches than for 3", weight=13)
def _(trial: Trial) -> None:
    model = _deep_model(trial)
    few, many = _peak(trial, model, 3), _peak(trial, model, 9)
    growth = (many - few) / 6
    if growth <= _GROWTH_BYTES:
        return
    if growth > 2 * _OUTPUT_BYTES and _records(trial, model):
        key = "graphs"
    elif growth > 0.8 * _reference_peak(trial, model):
        key = "one big batch"
    elif growth >= _OUTPUT_BYTES:
        key = "outputs kept"
    else:
        key = "batches kept" if growth >= _BATCH_BYTES else "sums kept"
    growing = f"{format_bytes(few)}, then {format_bytes(many)}: {format_bytes(round(growth))} more per batch"
    raise Missed(key, expected="the same peak for 3 and for 9 batches", got=growing)


@bounded_evaluation.claim(
    "stays under 1.25 times the peak of the largest batch alone, for 3 batches of a deep model with narrow ends",
    weight=11.5,
)
def _(trial: Trial) -> None:
    model = _deep_model(trial)
    budget, peak = 1.25 * _reference_peak(trial, model), _peak(trial, model, 3)
    if peak < budget:
        return
    if _records(trial, model):
        key = "recorded"
    elif peak >= sum(parameter.nbytes for parameter in model.parameters()):
        key = "copied"
    else:
        key = "one big batch" if peak > 2 * budget else "outputs kept"
    raise Missed(key, expected=f"under {format_bytes(round(budget))}", got=format_bytes(peak))


@bounded_evaluation.claim("takes any iterable of batches, one that can be gone through once, too", weight=0.5)
def _judge_iterators(trial: Trial) -> None:
    model, batches = _shared.plain_model(trial), _shared.draw_batches(trial, 4, 4, 4)
    samples = torch.cat(_shared.outputs_in_eval_mode(model, batches))
    result = _shared.call(trial, model, iter(batches), "model, iter(batches)")
    expect(isinstance(result, Tensor), "read twice", expected="a tensor, as for a list of these batches", got=result)
    expect_same(trial.tensor(result).cpu(), samples.mean(0), {"peeked": samples[4:].mean(0)}, key="read twice")


@bounded_evaluation.claim("raises ValueError for no batches", weight=0.75)
def _(trial: Trial) -> None:
    model, cases = _shared.plain_model(trial), [([], "[]", "empty")]
    cases += [(iter([]), "iter([])", "empty iterator")] if trial.once(_takes_iterators) else []
    for empty, shown, key in cases:
        expect_raises(ValueError, partial(_shared.call, trial, model, empty, f"model, {shown}"), key)


@bounded_evaluation.claim("is computed in eval mode", weight=0.75, gate=True)
def _(trial: Trial) -> None:
    for model, batches, outputs in _shared.mixed_mode_cases(trial):
        got = _mean_output(trial, model, batches, "model in training mode, 2 batches").cpu()
        expect_same(got, torch.cat(outputs).mean(0), what="the mean in eval mode", key="no eval")


@bounded_evaluation.claim("puts back every submodule's own training flag, also where something raises")
def _(trial: Trial) -> None:
    modes.expect_flags_put_back(trial, lambda model: _mean_output(trial, model, _shared.draw_batches(trial, 4, 3)))
    _shared.expect_modes_put_back_after_errors(trial, flags_alone=True)
    _shared.expect_flags_put_back_after_no_batches(trial)


@bounded_evaluation.claim("has the dtype of the outputs", weight=0.5)
def _(trial: Trial) -> None:
    for dtype in (torch.float64, torch.float32, torch.bfloat16, torch.float16):
        model, batches = _shared.plain_model(trial).to(dtype), _shared.draw_batches(trial, 4, 3)
        got = _mean_output(trial, model, [x.to(dtype) for x in batches], f"model, 2 batches in {dtype}")
        expect(got.dtype == dtype, "dtype", expected=str(dtype), got=str(got.dtype))


@bounded_evaluation.claim("lets go of a batch and its output before it asks for the next", weight=1.5)
def _(trial: Trial) -> None:
    rows, wide = 64, trial.integer(500, 600)
    for key, inputs, outputs, dtype, what in (
        ("batch held", wide, 4, torch.float64, "wide batches, made one by one"),
        ("output held", 4, wide, torch.float64, "batches with wide outputs, made one by one"),
        ("output held", 4, wide, torch.float32, "batches with wide outputs in float32, made one by one"),
    ):
        model = trial.fill(nn.Linear(inputs, outputs).to(dtype))
        batch = rows, inputs, dtype
        alone = _reference_peak(trial, model, *batch)
        one, few, peak = (_peak(trial, model, count, *batch, what=what) for count in (1, 3, 5))
        # Where all batches are kept, a loop that holds its last one, too, looks the same: no name here.
        kept = "outputs kept" if key == "output held" else ""
        # One batch by itself: what is alive beside it is no batch and no output that came before.
        key = kept if peak > few + alone else "output copied" if one >= 1.25 * alone else key
        expect(peak < 1.25 * alone, key, expected=f"under {format_bytes(round(1.25 * alone))}", got=format_bytes(peak))
