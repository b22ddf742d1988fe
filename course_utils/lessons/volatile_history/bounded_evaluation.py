"""``bounded_evaluation``: a mean over any number of batches, in the memory of one."""

from collections.abc import Iterator

import torch
from torch import Tensor, nn

from course_utils import MemoryTracker
from course_utils.checks.compare import AtMost, Seen, Trial, compared, outcome
from course_utils.lessons.volatile_history._shared import left_by, mixed_model

bounded_evaluation = compared(__file__)


def _given(trial: Trial, *sizes: int) -> tuple[nn.Sequential, list[Tensor]]:
    return mixed_model(trial), [trial.randn(size, 3) for size in sizes]


@bounded_evaluation.looks("is the mean of the outputs", gate=True)
def _(trial: Trial) -> Seen:
    model, batches = _given(trial, 5, 5)
    got = trial.call(model.eval(), batches, show="bounded_evaluation(model in eval mode, 2 batches of equal size)")
    return {"the mean": trial.tensor(got).detach()}


@bounded_evaluation.looks("counts each sample once, in batches of different size, too", weight=2)
def _(trial: Trial) -> Seen:
    model, batches = _given(trial, 1, 9, 4)
    got = trial.call(model.eval(), batches, show="bounded_evaluation(model, batches of 1, 9 and 4 samples)")
    return {"the mean": got.detach()}


def _stream(trial: Trial, count: int, columns: int) -> Iterator[Tensor]:
    return (trial.randn(16, columns) for _ in range(count))


def _peak(trial: Trial, model: nn.Module, count: int, columns: int, what: str) -> int:
    batches, tracker = _stream(trial, count, columns), MemoryTracker(model)
    trial.call(model, batches, within=tracker, show=f"bounded_evaluation({what} model, a generator of {count} batches)")
    return tracker.peak


@bounded_evaluation.looks("needs no more bytes at its peak for 9 batches than for 3", weight=9)
def _(trial: Trial) -> Seen:
    model = trial.fill(nn.Sequential(nn.Linear(8, 32), nn.Tanh(), nn.Linear(32, 24)).double())
    few, many = (_peak(trial, model, count, 8, "small") for count in (3, 9))
    return {"more bytes for each batch": AtMost((many - few) // 6)}


@bounded_evaluation.looks("has no history, and stays under twice the peak of one batch under no_grad", weight=6)
def _(trial: Trial) -> Seen:
    layers = [nn.Sequential(nn.Linear(64, 64), nn.Tanh()) for _ in range(10)]
    model = trial.fill(nn.Sequential(*layers).double())
    got = trial.call(model, [trial.randn(4, 64) for _ in range(2)], show="bounded_evaluation(deep model, 2 batches)")
    yield "requires grad", got.requires_grad
    with MemoryTracker(model) as alone, torch.no_grad():
        for x in _stream(trial, 1, 64):
            model(x)
    peak = _peak(trial, model, 3, 64, "deep")
    yield "bytes at the peak", AtMost(max(peak, 2 * alone.peak))


@bounded_evaluation.looks("runs in eval mode, and puts back every training flag, also after an error", weight=3)
def _(trial: Trial) -> Seen:
    model, batches = _given(trial, 4, 4)
    call = "bounded_evaluation(model in training mode, 2 batches)"
    yield "the mean", trial.call(model, batches, watch_training=False, show=call).detach()
    for recording in (True, False):
        model, batches = _given(trial, 4, 4)
        shown = f"bounded_evaluation(model with parts in both modes, 2 batches){', under no_grad' * (not recording)}"
        yield from left_by(trial, model, batches, shown, recording)
    model, batches = _given(trial, 4)
    batches.append(trial.randn(4, 2))
    yield from left_by(trial, model, batches, "bounded_evaluation(model, batches, the last with a column too few)")


@bounded_evaluation.looks("raises ValueError for no batches", "empty")
def _(trial: Trial) -> Seen:
    model, _ = _given(trial)
    for batches, what in (([], "[]"), (iter(()), "an empty generator")):
        call = f"bounded_evaluation(model, {what})"
        yield what, outcome(lambda: trial.call(model, batches, watch_training=False, show=call))
