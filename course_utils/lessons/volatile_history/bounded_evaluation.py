"""``bounded_evaluation``: a mean over any number of batches, in the memory of one."""

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn

from course_utils import MemoryTracker
from course_utils.checks.compare import AtMost, Seen, Trial, compared
from course_utils.lessons.volatile_history.modes import left_by, left_in_both_modes, with_batches

bounded_evaluation = compared(__file__)


def _mean(trial: Trial, model: nn.Module, batches: Iterable[Tensor], show: str, **options: Any) -> Tensor:
    """Calls the answer; training flags are looked at by a claim of their own."""
    return trial.tensor(trial.call(model, batches, watch_training=False, show=f"bounded_evaluation({show})", **options))


@bounded_evaluation.looks("is the mean of the outputs", gate=True)
def _(trial: Trial) -> Seen:
    model, batches = with_batches(trial, 5, 5)
    return {"the mean": _mean(trial, model.eval(), batches, "model in eval mode, 2 batches of equal size").detach()}


@bounded_evaluation.looks("counts each sample once, in batches of different size, too", weight=2)
def _(trial: Trial) -> Seen:
    model, batches = with_batches(trial, 1, 9, 4)
    return {"the mean": _mean(trial, model.eval(), iter(batches), "model, an iterator of 1, 9 and 4 samples").detach()}


def _peak(trial: Trial, model: nn.Module, count: int, columns: int, what: str) -> int:
    tracker = MemoryTracker(model)
    batches = (trial.randn(16, columns) for _ in range(count))
    _mean(trial, model, batches, f"{what} model, a generator of {count} batches", within=tracker)
    return tracker.peak


@bounded_evaluation.looks("needs no more bytes at its peak for 7 batches than for 3", weight=9)
def _(trial: Trial) -> Seen:
    model = trial.fill(nn.Sequential(nn.Linear(8, 32), nn.Tanh(), nn.Linear(32, 24)).double())
    few, many = (_peak(trial, model, count, 8, "small") for count in (3, 7))
    return {"more bytes for each batch": AtMost((many - few) // 4)}


@bounded_evaluation.looks("has no history, and stays under twice the peak of one batch under no_grad", weight=6)
def _(trial: Trial) -> Seen:
    layers = [nn.Sequential(nn.Linear(64, 64), nn.Tanh()) for _ in range(8)]
    model = trial.fill(nn.Sequential(*layers).double())
    yield "requires grad", _mean(trial, model, trial.randn(2, 4, 64).unbind(), "deep model, 2 batches").requires_grad
    with MemoryTracker(model) as alone, torch.no_grad():
        model(trial.randn(16, 64))
    yield "bytes at the peak", AtMost(max(_peak(trial, model, 3, 64, "deep"), 2 * alone.peak))


@bounded_evaluation.looks("runs in eval mode, and puts back every training flag, also after an error", weight=4)
def _(trial: Trial) -> Seen:
    model, batches = with_batches(trial, 4, 4)
    yield "the mean", _mean(trial, model, batches, "model in training mode, 2 batches").detach()
    what = "model with parts in both modes, 2 batches"
    yield from left_in_both_modes(trial, lambda training: with_batches(trial, 4, 4, training=training), what)
    model, batches = with_batches(trial, 4)
    batches.append(trial.randn(4, 2))
    yield from left_by(trial, model, batches, "model, batches, the last with a column too few")


@bounded_evaluation.looks("raises ValueError for no batches")
def _(trial: Trial) -> Seen:
    yield from left_by(trial, with_batches(trial)[0], iter(()), "model, an empty iterator")
