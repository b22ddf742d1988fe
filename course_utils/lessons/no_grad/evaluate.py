"""Asks for a model's accuracy over batches; the check looks at the number, at recording, and at modes put back."""

import contextlib
import math
from collections.abc import Iterable, Iterator
from functools import partial

import torch
from torch import Tensor, nn

from course_utils.base.text import message_of
from course_utils.checks import modes
from course_utils.checks.claims import AnswerRaised, Missed, Trial, exercise, expect, reading, unlucky
from course_utils.lessons.no_grad import _shared

evaluate = exercise(__file__)

_Batch = tuple[Tensor, Tensor]  # x, and the labels of its rows
_call = partial(_shared.call, names=("model", "batches"))
_near = partial(math.isclose, rel_tol=0.0, abs_tol=1e-6)  # an answer may divide in float32


def _labelled(trial: Trial, model: nn.Module, *sizes: int) -> tuple[list[_Batch], list[int]]:
    """Batches, and how many labels of each agree with the model in eval mode: all, few, all but one, and again."""
    batches, right = [], []
    for number, size in enumerate(sizes):
        x = trial.randn(size, 3)
        scores = _shared.in_eval_mode(model, x)
        agree = (size, min(2, size), size - 1)[number % 3]
        labels = (scores.argmax(1) + (torch.arange(size) >= agree)) % scores.shape[1]  # wrong is the next class
        order = torch.argsort(x[:, 0])  # the wrong ones stand anywhere
        batches.append((x[order], labels[order]))
        right.append(agree)
    return batches, right


def _share(trial: Trial, model: nn.Module, batches: Iterable[_Batch], show: str = "model, 2 batches") -> float:
    got = _call(trial, model, batches, show)
    expect(got is not None, "no return value", expected="a float", got="None")
    # A tensor of one number has the number: its type has a claim of its own.
    is_number = not isinstance(got, Tensor) or got.numel() == 1
    expect(is_number, "tensor", expected="a float", got="a tensor of several numbers")
    try:
        return float(got)
    except (TypeError, ValueError, RuntimeError):
        raise Missed(expected="a float", got=got) from None


@evaluate.claim("counts each sample once, also in batches of different size", weight=3)
@evaluate.claim("is an accuracy over all batches, from 0 to 1", weight=0, gate=True, elsewhere=["mean of means"])
def _(trial: Trial) -> None:
    model = _shared.plain_model(trial, trial.integer(3, 6))
    sizes = [trial.integer(2, 3), trial.integer(9, 12), trial.integer(4, 5)]  # no size is their mean
    batches, right = _labelled(trial, model, *sizes)
    hits, samples = sum(right), sum(sizes)
    shares = [agree / size for agree, size in zip(right, sizes, strict=True)]
    matches = [(labels == _shared.in_eval_mode(model, x).argmax()).sum().item() for x, labels in batches]
    otherwise = [("mean of means", sum(shares) / 3), ("count", hits), ("count", hits / 3)]
    otherwise += [("percent", 100 * hits / samples), ("last", shares[-1]), ("argmax of all", sum(matches) / samples)]
    otherwise += [("batch size", hits / (3 * size)) for size in (sizes[0], sizes[-1])]
    x = batches[0][0]
    before = _shared.in_eval_mode(model, x)
    got = _share(trial, model, batches, "model, 3 batches of different size")
    _shared.expect_usable(trial, model, x, before)
    key = reading(got, otherwise, _near)
    expect(_near(got, hits / samples), key, expected=f"{hits} of {samples}: {hits / samples:.6f}", got=f"{got:.6f}")


@evaluate.claim("takes a batch of one sample", weight=0.5)
def _(trial: Trial) -> None:
    model = _shared.plain_model(trial)
    for sizes in ((1, 1), (1,)):
        batches, right = _labelled(trial, model, *sizes)
        expected, show = f"{sum(right) / sum(sizes):.6f}", f"model, batches of {' and '.join(map(str, sizes))} samples"
        try:
            got = _share(trial, model, batches, show)
        except AnswerRaised as raised:
            told = message_of(raised.error, 100)
            expect("Dimension out of range" not in told, "squeezed", expected=expected, raised=told)
            raise
        expect(_near(got, sum(right) / sum(sizes)), expected=expected, got=f"{got:.6f}")


@evaluate.claim("is a float", weight=2)
def _(trial: Trial) -> None:
    model = _shared.plain_model(trial)
    got = _call(trial, model, _labelled(trial, model, 4, 3)[0], "model, 2 batches")
    expect(not isinstance(got, Tensor), "tensor", expected="a float", got="a tensor")


def _is_recorded(trial: Trial, frozen: bool = False, **show: str) -> bool:
    """Whether what the model computes in the answer is being recorded; a frozen one gets data that requires grad."""
    model, recorded = _shared.plain_model(trial), []
    batches, _right = _labelled(trial, model, 4, 3)
    model[0].register_forward_hook(lambda _module, _inputs, output: recorded.append(output.requires_grad))
    model.requires_grad_(not frozen)
    _share(trial, model, [(x.requires_grad_(frozen), labels) for x, labels in batches], **show)
    return any(recorded)


@evaluate.claim("records nothing", weight=7)
def _(trial: Trial) -> None:
    expected, got = "no graph while the model runs", "the model's outputs require grad"
    if _is_recorded(trial):
        key = modes.why_recorded(trial, lambda frozen: _is_recorded(trial, frozen))
        raise Missed(key, expected=expected, got=got)
    show = "frozen model, batches that require grad"
    expect(not _is_recorded(trial, True, show=show), "x path", expected=expected, got=got)


@evaluate.claim("leaves the grad mode as it found it, on or off")
def _(trial: Trial) -> None:
    for enabled, show in ((True, "model, batches"), (False, "model, batches, called inside no_grad")):
        with torch.set_grad_enabled(enabled):
            _is_recorded(trial, show=show)
        modes.expect_grad_mode_kept(trial)


@evaluate.claim("is computed in eval mode", weight=2, gate=True)
def _(trial: Trial) -> None:
    for training, other in ((True, 2), (False, 1)):
        model = modes.mixed_mode_model(trial, training, other)
        batches, right = _labelled(trial, model, 7, 7)
        got = _share(trial, model, batches, "model in training mode, 2 batches")
        expected = f"{sum(right)} of 14 right, in eval mode"
        expect(_near(got, sum(right) / 14), "no eval", expected=expected, got=f"{got * 14:.1f} of 14")
        moved = any("running_" in effect for effect in trial.effects)
        expect(not moved, "no eval", expected="batch norm's statistics as before", got="they have moved")


@evaluate.claim("puts back every submodule's own training flag")
def _(trial: Trial) -> None:
    modes.expect_flags_put_back(trial, lambda model: _share(trial, model, _labelled(trial, model, 4, 3)[0]))


def _judge_error(trial: Trial, who: str) -> None:
    model = modes.mixed_mode_model(trial, True, 1 if who == "source" else 3)
    batches, _right = _labelled(trial, model, 4)
    wrong_width = (trial.randn(4, 2), batches[0][1])
    given = unlucky(batches) if who == "source" else [*batches, wrong_width]
    call = partial(_call, trial, show=f"model, batches; the {who} raises")
    modes.expect_modes_put_back(trial, call, model, given, good=batches)


@contextlib.contextmanager
def _or_outside_the_try(trial: Trial, other: str) -> Iterator[None]:
    """What is told apart from "only without error": after the other error, all is well."""
    try:
        yield
    except Missed as missed:
        called, effects, trial.effects = trial.called, trial.effects, []
        if missed.misconception == "only without error":
            with contextlib.suppress(AnswerRaised, Missed):
                _judge_error(trial, other)
                missed.misconception = "outside the try"
        trial.called, trial.effects = called, effects
        raise


@evaluate.claim("puts back flags, and a mode that was on, where a batch raises, and lets the error through")
def _(trial: Trial) -> None:
    for who, other in (("source", "model"), ("model", "source")):
        with _or_outside_the_try(trial, other):
            _judge_error(trial, who)


@evaluate.claim("raises ValueError for no batches, with the flags put back")
def _(trial: Trial) -> None:
    model = modes.mixed_mode_model(trial, True, 1)
    batches, _right = _labelled(trial, model, 4)
    for empty, shown, key in (([], "[]", "empty"), (iter([]), "iter([])", "empty iterator")):

        def call(model: nn.Module, given: Iterable[_Batch], shown: str = shown) -> object:
            try:
                return _call(trial, model, given, f"model, {shown}")
            except AnswerRaised as raised:
                if "has no len()" in str(raised.error):
                    raise Missed("len", expected="ValueError", got=message_of(raised.error, 100)) from None
                raise

        with _or_outside_the_try(trial, "model"):
            modes.expect_modes_put_back(trial, call, model, empty, good=batches, key=key)


class _Unsized:
    """Batches that have the method and no length, as a loader over an ``IterableDataset`` has."""

    def __init__(self, batches: list[_Batch]) -> None:
        self._batches = batches

    def __iter__(self) -> Iterator[_Batch]:
        return iter(self._batches)

    def __len__(self) -> int:
        raise TypeError("this loader has no length")


@evaluate.claim(
    "takes any iterable of batches: one that can be gone through once, and a loader without a length", weight=0.5
)
def _(trial: Trial) -> None:
    model = _shared.plain_model(trial)
    batches, right = _labelled(trial, model, 5, 5)
    for given, shown in ((iter(batches), "iter(batches)"), (_Unsized(batches), "a loader over an IterableDataset")):
        got = _share(trial, model, given, f"model, {shown}")
        expect(_near(got, sum(right) / 10), "read twice", expected=f"{sum(right) / 10:.6f}", got=f"{got:.6f}")
