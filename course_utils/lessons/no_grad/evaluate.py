"""``evaluate``: what it claims."""

from collections.abc import Iterable

import torch
from torch import Tensor, nn

from course_utils.checks.claims import Unlucky, expect_training_flags, training_flags
from course_utils.checks.exercise import exercise
from course_utils.checks.trial import AnswerRaised, Missed, Trial
from course_utils.lessons.no_grad._shared import (
    _call,
    _expect_error,
    _expect_grad_mode,
    _in_eval_mode,
    _moody_model,
    _plain_model,
    _unlucky,
)

evaluate = exercise(__file__)


def _labelled(trial: Trial, model: nn.Module, *sizes: int) -> tuple[list[tuple[Tensor, Tensor]], list[int]]:
    """Batches, and how many labels of each agree with the model in eval mode: all, few, all but one, and again."""
    batches, right = [], []
    for number, size in enumerate(sizes):
        x = trial.randn(size, 3)
        scores = _in_eval_mode(model, x)
        agree = (size, min(2, size), size - 1)[number % 3]
        labels = scores.argmax(1)
        labels[agree:] = (labels[agree:] + 1) % scores.shape[1]
        order = torch.argsort(x[:, 0])  # the wrong ones stand anywhere
        batches.append((x[order], labels[order]))
        right.append(agree)
    return batches, right


def _share(trial: Trial, model: nn.Module, batches: Iterable[tuple[Tensor, Tensor]], show: str) -> float:
    got = _call(trial, model, batches, show=f"evaluate({show})")
    if got is None:
        raise Missed("no return value", expected="a float", got="None")
    if isinstance(got, Tensor):
        raise Missed("tensor", expected="a float", got="a tensor")
    try:
        return float(got)
    except (TypeError, ValueError):
        raise Missed(expected="a float", got=got) from None


@evaluate.claim("is the share of right top-1 answers over all samples, as a float", weight=0, gate=True)
def _(trial: Trial) -> None:
    model = _plain_model(trial, trial.integer(3, 6))
    sizes = [trial.integer(1, 2), trial.integer(9, 12), trial.integer(4, 6)]
    batches, right = _labelled(trial, model, *sizes)
    expected = sum(right) / sum(sizes)
    shares = [hits / size for hits, size in zip(right, sizes, strict=True)]
    for given in (batches, iter(batches)):
        got = _share(trial, model, given, "model, 3 batches of different size")
        if abs(got - expected) < 1e-6:
            continue
        guesses = (
            ("mean of means", sum(shares) / 3),
            ("count", float(sum(right))),
            ("count", sum(right) / 3),
            ("count", 100 * expected),
            ("last", shares[-1]),
        )
        key = next((key for key, value in guesses if abs(got - value) < 1e-6), "")
        raise Missed(key, expected=f"{sum(right)} of {sum(sizes)}: {expected:.6f}", got=f"{got:.6f}")


def _noting_model(trial: Trial) -> tuple[nn.Sequential, list[bool]]:
    """A plain model that notes at each forward pass whether what it computes is being recorded."""
    model, recorded = _plain_model(trial), []
    model[0].register_forward_hook(lambda _module, _inputs, output: recorded.append(output.requires_grad))
    return model, recorded


@evaluate.claim("records nothing", weight=2)
def _(trial: Trial) -> None:
    model, recorded = _noting_model(trial)
    batches, _right = _labelled(trial, model, 4, 3)
    recorded.clear()  # what the labels were worked out with
    _share(trial, model, batches, "model, 2 batches")
    if any(recorded):
        raise Missed("recorded", expected="no graph while the model runs", got="the model's outputs require grad")


@evaluate.claim("leaves the grad mode as it found it, on or off")
def _(trial: Trial) -> None:
    for enabled in (True, False):
        model, recorded = _noting_model(trial)
        batches, _right = _labelled(trial, model, 4, 3)
        recorded.clear()
        with torch.set_grad_enabled(enabled):
            _share(trial, model, batches, "model, batches" + ("" if enabled else ", called inside no_grad"))
        _expect_grad_mode(trial, "grad mode", enabled)
        # Leaving the mode alone earns nothing where it had to be switched.
        if any(recorded):
            raise Missed("recorded", expected="no graph while the model runs", got="the model's outputs require grad")


@evaluate.claim("is computed in eval mode", weight=2, gate=True)
def _(trial: Trial) -> None:
    for training, other in ((True, 2), (False, 1)):
        model = _moody_model(trial, training, other)
        batches, right = _labelled(trial, model, 5, 8)
        got = _share(trial, model, iter(batches), "model in training mode, 2 batches")
        if abs(got - sum(right) / 13) > 1e-6:
            raise Missed("no eval", expected=f"{sum(right)} of 13 right, in eval mode", got=f"{got * 13:.1f} of 13")
        if any("running_" in effect for effect in trial.effects):
            raise Missed("no eval", expected="batch norm's statistics as before", got="they have moved")


@evaluate.claim("puts back every submodule's own training flag")
def _(trial: Trial) -> None:
    for training, other in ((True, 1), (False, 3), (True, 2)):
        model = _moody_model(trial, training, other)
        before = training_flags(model)
        batches, _right = _labelled(trial, model, 4, 3)
        _share(trial, model, batches, "model, 2 batches")
        expect_training_flags(model, before, "left in eval", "one flag")


@evaluate.claim("puts back flags and grad mode where a batch raises, and lets the error through")
def _(trial: Trial) -> None:
    for kind, (training, other) in ((Unlucky, (True, 1)), (RuntimeError, (False, 3))):
        model = _moody_model(trial, training, other)
        before = training_flags(model)
        batches, _right = _labelled(trial, model, 4)
        given: Iterable = [*batches, (trial.randn(4, 2), batches[0][1])] if kind is RuntimeError else _unlucky(batches)
        show = f"evaluate(model, batches), the {'model' if kind is RuntimeError else 'source'} raises"
        _expect_error(trial, kind, lambda model=model, given=given, show=show: _call(trial, model, given, show=show))
        expect_training_flags(model, before, "only without error")
        _expect_grad_mode(trial, "only without error", True)


@evaluate.claim("raises ValueError for no batches")
def _(trial: Trial) -> None:
    for empty in ([], iter([])):
        try:
            got = _call(trial, _plain_model(trial), empty, show="evaluate(model, [])")
        except AnswerRaised as raised:
            if isinstance(raised.error, ValueError):
                continue
            raise Missed("empty", expected="ValueError", got=type(raised.error).__name__) from None
        raise Missed("empty", expected="ValueError", got=got)
