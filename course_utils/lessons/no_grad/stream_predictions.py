"""Asks for a generator of predictions; the check looks at laziness and, step by step, at the caller's grad mode."""

import threading
from collections.abc import Iterable, Iterator
from functools import partial
from itertools import pairwise, product
from typing import Any

import torch
from torch import Tensor, nn

from course_utils.checks import modes
from course_utils.checks.claims import (
    ModeRoll,
    Trial,
    exercise,
    expect,
    expect_no_history,
    expect_raises,
    expect_same,
    expect_training_flags,
    flag_words,
    training_flags,
    unlucky,
)
from course_utils.lessons.no_grad import _shared

stream_predictions = exercise(__file__)


def _stream(trial: Trial, model: nn.Module, batches: Iterable[Tensor], show: str) -> Iterator[Tensor]:
    with _shared.watch_parts(trial, {"the model": model}):
        result = trial.call(model, batches, show=f"stream_predictions({show})")
    expect(result is not None, "no return value", expected="an iterator of tensors", got="None")
    is_stream = not isinstance(result, Tensor) and hasattr(result, "__iter__")
    expect(is_stream, expected="an iterator of tensors", got=result)
    return iter(result)


def _listed(trial: Trial, model: nn.Module, stream: Iterator[Tensor], show: str) -> list[Any]:
    with _shared.watch_parts(trial, {"the model": model}):
        called = f"list(stream_predictions({show}))"
        return trial.run(lambda: list(stream), called=called, watch={"model": model})


def _close(stream: Any) -> None:
    close = getattr(stream, "close", None)
    if close is not None:
        close()


def _grad_mode() -> bool:
    """Whether operations are recorded: ``enable_grad`` inside inference mode says so and does not do it."""
    return torch.is_grad_enabled() and not torch.is_inference_mode_enabled()


def _mode_words(modes: Iterable[bool]) -> str:
    return ", ".join("on" if mode else "off" for mode in modes)


@stream_predictions.claim("yields an output of the model for each batch, in order", weight=0, gate=True)
def _(trial: Trial) -> None:
    model = _shared.plain_model(trial)
    batches = [trial.randn(trial.integer(1, 5), 3) for _ in range(trial.integer(3, 4))]
    expected = [_shared.in_eval_mode(model, x) for x in batches]
    for given, wanted in ((batches, expected), (iter(batches), expected), ([], [])):
        show = f"model, {len(wanted)} batches"
        items = _listed(trial, model, _stream(trial, model, given, show), show)
        _shared.expect_usable(trial, model, batches[0], expected[0])
        expect(len(items) == len(wanted), expected=f"{len(wanted)} items", got=f"{len(items)} items")
        for got, output in zip(items, wanted, strict=True):
            expect_same(trial.tensor(got), output, what=f"the model's output, {tuple(output.shape)}, batch by batch")


@stream_predictions.claim("yields tensors without history", weight=1, gate=True)
def _(trial: Trial) -> None:
    for made_with, used_with in ((True, True), (False, True), (True, False)):
        model, batches = _shared.plain_model(trial), [trial.randn(4, 3) for _ in range(3)]
        threads = set[int]()
        model[0].register_forward_hook(lambda *_, ran=threads: ran.add(threading.get_ident()))
        with torch.set_grad_enabled(made_with):
            stream = _stream(trial, model, batches, "model, 3 batches")
        with torch.set_grad_enabled(used_with):
            items = _listed(trial, model, stream, "model, 3 batches")
        key = "history"
        if made_with and used_with and any(trial.tensor(item).grad_fn is not None for item in items):
            key = modes.why_recorded(trial, lambda frozen: _is_recorded(trial, frozen))
            late = "history" if threads <= {threading.get_ident()} else "thread"
            # What was detached is not what came out.
            key = {"elsewhere": late, "detached": "unassigned"}.get(key, key)
        for item in items:
            expect_no_history(trial.tensor(item), key)


def _is_recorded(trial: Trial, frozen: bool) -> bool:
    """Whether the first item has a history; a frozen model gets batches that require grad."""
    model, batches = _shared.plain_model(trial).requires_grad_(not frozen), [trial.randn(4, 3, requires_grad=frozen)]
    (item,) = _listed(trial, model, _stream(trial, model, batches, "model, 1 batch"), "model, 1 batch")
    return trial.tensor(item).requires_grad


@stream_predictions.claim("is an iterator that reads one batch for each step", weight=3)
def _(trial: Trial) -> None:
    model, outputs, read = _shared.plain_model(trial), [], []
    model[0].register_forward_hook(lambda *_: outputs.append(1))  # an answer may call model.forward, past its own hooks

    def source() -> Iterator[Tensor]:
        for _ in range(6):
            read.append(1)
            yield trial.randn(2, 3)

    iterator: list[bool] = []

    def drive() -> list[tuple[int, int]]:
        stream = trial.answer(model, source())
        iterator.append(hasattr(stream, "__next__"))
        stream = iter(stream)
        counts = [(len(read), len(outputs))]
        for _ in range(3):
            next(stream)
            counts.append((len(read), len(outputs)))
        _close(stream)
        return counts

    counts = trial.run(drive, called="stream_predictions(model, 6 batches), asked for 3 items", watch={"model": model})
    for steps, seen in enumerate(counts):
        wanted = f"after step {steps}: batches read {steps}, outputs made {steps}"
        got = f"batches read {seen[0]}, outputs made {seen[1]}"
        expect(seen == (steps, steps), "eager" if max(seen) >= 5 else "ahead", expected=wanted, got=got)
    expect(
        iterator[0], "iterable", expected="what `next(stream)` takes an item from", got="an object without `__next__`"
    )


def _drive(trial: Trial, modes: list[bool], keep: bool) -> list[bool]:
    """The caller's mode after it made a stream, after each item, and after it broke off; ``modes`` it sets before each.

    With ``keep``, the stream is still referred to when the last mode is noted.
    """
    model, batches = _shared.plain_model(trial), [trial.randn(2, 3) for _ in range(len(modes) + 1)]

    def drive() -> list[bool]:
        torch.set_grad_enabled(modes[0])
        stream = iter(trial.answer(model, iter(batches)))
        seen = [_grad_mode()]
        try:
            for before, mode in pairwise(modes):
                if mode != before:
                    torch.set_grad_enabled(mode)
                next(stream)
                seen.append(_grad_mode())
        finally:
            _close(stream)
        if not keep:
            del stream
        seen.append(_grad_mode())
        torch.set_grad_enabled(True)  # as the claim's thread had it
        return seen

    called = f"stream_predictions(model, batches), the caller's mode set to {_mode_words(modes[1:])}"
    return trial.run(drive, called=called, watch={"model": model})


@stream_predictions.claim("leaves the caller's grad mode its own at every step", weight=4)
def _(trial: Trial) -> None:
    cases = ([True] * 4, [False] * 4, [True, False, True, False], [False, True, False, True], [True, True])
    for number, case in enumerate(cases):
        seen, expected = _drive(trial, case, keep=number % 2 == 0), [*case, case[-1]]
        on_is_kept = all(after for after, before in zip(seen, expected, strict=True) if before)
        constant = "always on" if on_is_kept else "leak" if seen[-1] == case[-1] else "plain call"
        key = constant if len(set(case)) == 1 else "remembered"
        wanted = f"the mode at first, after each item and after the loop: {_mode_words(expected)}"
        expect(seen == expected, key, expected=wanted, got=_mode_words(seen))


@stream_predictions.claim(
    "leaves the training flags alone: the outputs are those of the modes that the model is in", weight=2
)
def _(trial: Trial) -> None:
    for training, other in ((True, 2), (False, 3)):
        parts = (nn.Linear(3, 8), ModeRoll(), nn.Tanh(), nn.Sequential(nn.Linear(8, 4), ModeRoll()))
        model = trial.fill(nn.Sequential(*parts).double()).train(training)
        model[other].training = not training
        before, batches = training_flags(model), [trial.randn(3, 3) for _ in range(3)]
        with torch.no_grad():
            expected = [model(x) for x in batches]

        def drive(model: nn.Module = model, batches: list[Tensor] = batches) -> list[tuple[Tensor, list[bool]]]:
            return [(y, training_flags(model)) for y in trial.answer(model, iter(batches))]

        called = f"stream_predictions(model in {flag_words([training])} mode, 3 batches)"
        for (got, flags), wanted in zip(trial.run(drive, called=called), expected, strict=True):
            in_loop = f"training flags {flag_words(before)} in the caller's loop"
            expect(flags == before, "eval", expected=in_loop, got=flag_words(flags))
            expect_same(trial.tensor(got), wanted, what="outputs in the modes that the model is in", key="eval")
        expect_training_flags(model, before, "eval")


@stream_predictions.claim("lets errors through, with the caller's mode put back", weight=0.5)
def _(trial: Trial) -> None:
    model, batches, seen = _shared.plain_model(trial), [trial.randn(2, 3)], list[bool]()

    def read(given: Iterable[Tensor], called: str, first: bool = True, later: bool = True) -> None:
        """Notes the caller's mode at each item and after a stream, begun in one mode, and gone on with in another."""

        def to_the_end() -> None:
            torch.set_grad_enabled(first)
            try:
                for _ in trial.answer(model, given):
                    seen.append(_grad_mode())
                    if later is not first:
                        torch.set_grad_enabled(later)
            finally:
                seen.append(_grad_mode())
                torch.set_grad_enabled(True)  # as the claim's thread had it

        trial.run(to_the_end, called=f"stream_predictions(model, {called}")

    read(batches, "batches)")
    # What does not need an error has a claim of its own: a mode that is off after every stream, or at an item.
    keys = {True: "only without error" if seen[-1] else "plain call", False: "remembered" if seen[0] else "leak"}
    read(batches, "batches), called inside no_grad)", False, False)
    keys |= {False: "always on"} if seen[-1] else {}
    for later, who in product((True, False), ("source", "model")):
        given = unlucky(batches) if who == "source" else iter([*batches, trial.randn(2, 2), *batches])
        called = f"batches), the {who} raises{' at a step inside no_grad' * (not later)}"
        call = partial(read, given, called, True, later)
        before = len(seen)
        expect_raises(Exception, call, "swallowed", what="an error")
        mode = later or len(seen) == before + 1  # without an item the caller has not come to change it
        expected, got = (f"the caller's mode: {_mode_words([shown])}" for shown in (mode, not mode))
        expect(seen[-1] == mode, keys[mode], expected=expected, got=got)
