"""What several exercises of lesson 04, volatile_history, look at."""

import copy
from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch import Tensor, nn

from course_utils.checks.claims import Unlucky, expect_training_flags, training_flags
from course_utils.checks.trial import AnswerRaised, Missed, Trial


def _device() -> torch.device:
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def _plain_model(trial: Trial, *after: nn.Module) -> nn.Sequential:
    """A model that does the same in both modes."""
    return trial.fill(nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 6), *after).double())


def _moody_model(trial: Trial, training: bool, other: int) -> nn.Sequential:
    """A model that tells the modes apart by its values; one submodule is in another mode than the rest.

    Args:
        trial: draws its parameters and statistics.
        training: the mode of the model and all but one of its submodules.
        other: the index of the one.
    """
    norm = nn.BatchNorm1d(8)
    parts = (nn.Linear(3, 8), norm, nn.Dropout(0.5), nn.Sequential(nn.Tanh(), nn.Linear(8, 4)))
    model = trial.fill(nn.Sequential(*parts).double())
    with torch.no_grad():
        norm.running_mean.copy_(trial.randn(8))
        norm.running_var.copy_(trial.randn(8).abs() + 0.5)
    model.train(training)
    model[other].training = not training
    return model


def _expected(model: nn.Module, batches: Iterable[Tensor]) -> list[Tensor]:
    with torch.no_grad():
        twin = copy.deepcopy(model).eval()
        return [twin(x).cpu() for x in batches]


def _batches(trial: Trial, *sizes: int) -> list[Tensor]:
    return [trial.randn(size, 3) for size in sizes]


def _call(trial: Trial, model: nn.Module, batches: Iterable[Tensor], show: str) -> Any:
    """Calls the answer. Training flags have claims of their own; all else about the model must stay as it was."""
    return trial.call(model, batches, watch_training=False, show=f"{trial.name}({show})")


def _expect_modes_after_errors(trial: Trial) -> None:
    """The submodules' flags are put back, and the error goes through, where a batch raises."""

    def unlucky() -> Iterator[Tensor]:
        yield from _batches(trial, 4)
        raise Unlucky("this batch cannot be read")

    wrong_width = [*_batches(trial, 4), trial.randn(4, 2)]
    cases = (
        (unlucky(), Unlucky, "the second batch raises", (True, 1)),
        (wrong_width, RuntimeError, "the model raises at the second batch", (False, 2)),
    )
    for batches, kind, show, moods in cases:
        model = _moody_model(trial, *moods)
        before = training_flags(model)
        try:
            _call(trial, model, batches, f"model, batches: {show}")
        except AnswerRaised as raised:
            if not isinstance(raised.error, kind):
                expected = "the error of the batch" if kind is Unlucky else "the error of the model"
                raise Missed(expected=expected, got=type(raised.error).__name__) from None
        else:
            raise Missed("swallowed", expected="the error goes through to the caller", got="no error")
        expect_training_flags(model, before, "only without error")


_EFFECTS = (("requires_grad", "frozen"), ("grad mode", "grad mode"))
_RAISES = (("has no len()", "len"), ("has no attribute '__len__'", "len"), ("is not subscriptable", "len"))
