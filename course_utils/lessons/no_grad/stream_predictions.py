"""``stream_predictions``: what it claims."""

from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn

from course_utils.checks.claims import Turn, Unlucky, flag_words, same, training_flags
from course_utils.checks.exercise import exercise
from course_utils.checks.trial import Missed, Trial
from course_utils.lessons.no_grad._shared import _expect_error, _in_eval_mode, _plain_model, _unlucky

stream_predictions = exercise(__file__)


def _stream(trial: Trial, model: nn.Module, batches: Iterable[Tensor], show: str) -> Iterator[Tensor]:
    result = trial.call(model, batches, show=f"stream_predictions({show})")
    if result is None:
        raise Missed("no return value", expected="an iterator of tensors", got="None")
    if isinstance(result, Tensor) or not hasattr(result, "__iter__"):
        raise Missed(expected="an iterator of tensors", got=result)
    return iter(result)


def _close(stream: Any) -> None:
    close = getattr(stream, "close", None)
    if close is not None:
        close()


@stream_predictions.claim("yields `model(x)` for each batch, in order", weight=0, gate=True)
def _(trial: Trial) -> None:
    model = _plain_model(trial)
    batches = [trial.randn(trial.integer(1, 5), 3) for _ in range(trial.integer(3, 4))]
    expected = [_in_eval_mode(model, x) for x in batches]
    for given, wanted in ((batches, expected), (iter(batches), expected), ([], [])):
        show = f"model, {len(wanted)} batches"
        stream = _stream(trial, model, given, show)
        items = trial.run(lambda stream=stream: list(stream), called=f"list(stream_predictions({show}))")
        if len(items) != len(wanted):
            raise Missed(expected=f"{len(wanted)} items", got=f"{len(items)} items")
        for got, output in zip(items, wanted, strict=True):
            if not same(trial.tensor(got, shape=output.shape), output):
                raise Missed(expected="the model's outputs, batch by batch", got="other values")


@stream_predictions.claim("yields tensors without history", weight=1, gate=True)
def _(trial: Trial) -> None:
    for made_with, used_with in ((True, True), (False, True), (True, False)):
        model = _plain_model(trial)
        batches = [trial.randn(4, 3) for _ in range(3)]
        with torch.set_grad_enabled(made_with):
            stream = _stream(trial, model, iter(batches), "model, 3 batches")
        with torch.set_grad_enabled(used_with):
            items = trial.run(lambda stream=stream: list(stream), called="list(stream_predictions(model, 3 batches))")
        for item in items:
            got = trial.tensor(item)
            if got.requires_grad:
                history = f"grad_fn {got.grad_fn.name()}" if got.grad_fn is not None else "a flagged leaf"
                raise Missed("history", expected="no history", got=history)


@stream_predictions.claim("reads one batch a step", weight=1)
def _(trial: Trial) -> None:
    model, calls = _plain_model(trial), []
    model[0].register_forward_hook(lambda *_: calls.append(1))  # an answer may call model.forward, past its own hooks
    read: list[int] = []

    def source() -> Iterator[Tensor]:
        for _ in range(6):
            read.append(1)
            yield trial.randn(2, 3)

    def drive() -> list[tuple[int, int]]:
        stream = iter(trial.answer(model, source()))
        counts = [(len(read), len(calls))]
        for _ in range(3):
            next(stream)
            counts.append((len(read), len(calls)))
        _close(stream)
        return counts

    counts = trial.run(drive, called="stream_predictions(model, 6 batches), asked for 3 items", watch={"model": model})
    for steps, (batches_read, model_calls) in enumerate(counts):
        if (batches_read, model_calls) != (steps, steps):
            raise Missed(
                "eager" if max(batches_read, model_calls) >= 5 else "ahead",
                expected=f"after step {steps}: batches read {steps}, outputs made {steps}",
                got=f"batches read {batches_read}, outputs made {model_calls}",
            )


def _mode() -> bool:
    """Whether operations are recorded: ``enable_grad`` inside inference mode says so and does not do it."""
    return torch.is_grad_enabled() and not torch.is_inference_mode_enabled()


def _drive(trial: Trial, modes: list[bool], *, keep: bool = True) -> list[bool]:
    """The caller's mode after each step of a stream, and at last after it was broken off.

    Args:
        trial: holds the answer.
        modes: the mode in which the caller makes the stream, and then the one in which it asks for each item.
        keep: whether the stream is still referred to when the last mode is noted.
    """
    model = _plain_model(trial)
    batches = [trial.randn(2, 3) for _ in range(len(modes) + 1)]

    def drive() -> list[bool]:
        torch.set_grad_enabled(modes[0])
        stream = iter(trial.answer(model, iter(batches)))
        seen = [_mode()]
        try:
            for before, mode in pairwise(modes):
                if mode != before:
                    torch.set_grad_enabled(mode)
                next(stream)
                seen.append(_mode())
        finally:
            _close(stream)
        if not keep:
            del stream
        seen.append(_mode())
        torch.set_grad_enabled(True)  # as the claim's thread had it
        return seen

    shown = ", ".join("on" if mode else "off" for mode in modes[1:])
    return trial.run(drive, called=f"stream_predictions(model, batches), grad mode {shown}", watch={"model": model})


@stream_predictions.claim("leaves the caller's grad mode its own at every step", weight=3)
def _(trial: Trial) -> None:
    cases = ([True] * 4, [False] * 4, [True, False, True, False], [False, True, False, True], [True, True])
    for number, modes in enumerate(cases):
        seen, expected = _drive(trial, modes, keep=number % 2 == 0), [*modes, modes[-1]]
        if seen == expected:
            continue
        on_is_kept = all(after == before for after, before in zip(seen, expected, strict=True) if before)
        constant = "always on" if on_is_kept else "leak" if seen[-1] == modes[-1] else "plain call"
        key = constant if len(set(modes)) == 1 else "remembered"
        raise Missed(
            key,
            expected="on, off after each step: " + ", ".join("on" if mode else "off" for mode in expected),
            got=", ".join("on" if mode else "off" for mode in seen),
        )


@stream_predictions.claim("leaves the training flags alone", weight=1)
def _(trial: Trial) -> None:
    for training, other in ((True, 2), (False, 3)):
        head = nn.Sequential(nn.Linear(8, 4), Turn())
        model = trial.fill(nn.Sequential(nn.Linear(3, 8), Turn(), nn.Tanh(), head).double()).train(training)
        model[other].training = not training
        before = training_flags(model)
        batches = [trial.randn(3, 3) for _ in range(3)]
        with torch.no_grad():
            expected = [model(x) for x in batches]

        def drive(model: nn.Module = model, batches: list[Tensor] = batches) -> list[tuple[Tensor, list[bool]]]:
            return [(y, training_flags(model)) for y in trial.answer(model, iter(batches))]

        show = f"stream_predictions(model in {flag_words([training])} mode, 3 batches)"
        for (got, flags), wanted in zip(trial.run(drive, called=show), expected, strict=True):
            if flags != before:
                raise Missed(
                    "eval", expected=f"training flags {flag_words(before)} in the caller's loop", got=flag_words(flags)
                )
            if not same(trial.tensor(got), wanted):
                raise Missed("eval", expected="outputs in the modes that the model is in", got="other values")
        if training_flags(model) != before:
            raise Missed("eval", expected=f"training flags {flag_words(before)}", got=flag_words(training_flags(model)))


@stream_predictions.claim("lets errors through, with the caller's mode put back", weight=0.5)
def _(trial: Trial) -> None:
    for kind in (Unlucky, RuntimeError):
        model = _plain_model(trial)
        batches = [trial.randn(2, 3)]
        given = _unlucky(batches) if kind is Unlucky else iter([*batches, trial.randn(2, 2), *batches])
        who = "source" if kind is Unlucky else "model"
        seen: list[bool] = []

        def drive(model: nn.Module = model, given: Iterable = given, seen: list[bool] = seen) -> None:
            try:
                for _ in trial.answer(model, given):
                    pass
            finally:
                seen.append(_mode())

        show = f"stream_predictions(model, batches), the {who} raises"
        _expect_error(trial, kind, lambda drive=drive, show=show: trial.run(drive, called=show))
        if seen != [True]:
            raise Missed("only without error", expected="the caller's mode: on", got="off")
