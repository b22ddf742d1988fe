"""``stream_predictions``: one prediction at a time, and a grad mode that stays the caller's."""

import contextlib
from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch import Tensor, nn

from course_utils.checks.compare import Seen, Trial, compared

stream_predictions = compared(__file__)


def _model(trial: Trial) -> nn.Module:
    return trial.fill(nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 2)).double())


def _listed(trial: Trial, model: nn.Module, batches: list[Tensor]) -> list[Tensor]:
    called = f"list(stream_predictions(model, {len(batches)} batches))"
    items = trial.run(lambda: list(trial.answer(model, batches)), called=called, watch={"model": model})
    return [trial.tensor(item) for item in items]


@stream_predictions.looks("yields model(x) for each batch", gate=True)
def _(trial: Trial) -> Seen:
    items = _listed(trial, _model(trial), [trial.randn(size, 3) for size in (4, 2, 5)])
    return {"the items": [item.detach() for item in items]}


@stream_predictions.looks("yields items without history", weight=6)
def _(trial: Trial) -> Seen:
    items = _listed(trial, _model(trial), [trial.randn(4, 3) for _ in range(2)])
    return {"requires grad, each item": [item.requires_grad for item in items]}


@stream_predictions.looks("reads one batch at each step", weight=3)
def _(trial: Trial) -> Seen:
    model, batches, read = _model(trial), [trial.randn(4, 3) for _ in range(4)], list[int]()

    def source() -> Iterator[Tensor]:
        for number, x in enumerate(batches, 1):
            read.append(number)
            yield x

    def drive() -> list[int]:
        stream = iter(trial.answer(model, source()))
        return [len(read) for _ in zip(range(3), stream, strict=False)]

    return {"batches read at each item": trial.run(drive, called="stream_predictions(model, a generator of 4 batches)")}


def _notes(answer: Any, model: nn.Module, batches: Iterable[Tensor], modes: list[bool]) -> list[str]:
    """The caller's mode at each item, of which each is asked for in one of ``modes``, and after a break."""
    notes, stream = [], iter(())
    try:
        with contextlib.suppress(RuntimeError):  # one that reads ahead meets an error before the first item
            stream = iter(answer(model, batches))
        for mode in modes:
            torch.set_grad_enabled(mode)
            with contextlib.suppress(RuntimeError, StopIteration):
                next(stream)
            notes.append(torch.is_grad_enabled())
        getattr(stream, "close", lambda: None)()
        del stream
        notes.append(torch.is_grad_enabled())
    finally:
        torch.set_grad_enabled(True)
    return ["on" if note else "off" for note in notes]


@stream_predictions.looks("leaves the caller's grad mode alone: at every step, and after an early break", weight=6)
def _(trial: Trial) -> Seen:
    model, batches = _model(trial), [trial.randn(4, 3) for _ in range(3)]
    for modes, what in (
        ([True, True], "two items, then break"),
        ([False, False], "two items under no_grad, then break"),
        ([False, True], "one item under no_grad, one outside"),
        ([True, False], "one item, and one under no_grad"),
        ([True, True, True], "two items, and an error of the model"),
    ):
        batches[-1] = trial.randn(4, 3 if len(modes) < 3 else 2)
        called = f"stream_predictions(model, 3 batches): {what}"
        notes = trial.run(lambda: _notes(trial.answer, model, batches, modes), called=called)
        yield "the caller's grad mode at each item, and at the end", notes
