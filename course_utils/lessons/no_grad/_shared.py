"""What several exercises of lesson 05, no_grad, look at."""

import copy
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch
from torch import Tensor, nn

from course_utils.checks.claims import Turn, Unlucky
from course_utils.checks.trial import AnswerRaised, Missed, Trial


def _plain_model(trial: Trial, outputs: int = 5) -> nn.Sequential:
    """A model that does the same in both modes. Takes three columns."""
    return trial.fill(nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, outputs)).double())


def _moody_model(trial: Trial, training: bool, other: int, outputs: int = 5) -> nn.Sequential:
    """A model whose values tell the modes apart; its submodule number ``other`` is in another mode than the rest."""
    norm = nn.BatchNorm1d(8)
    head = nn.Sequential(nn.Linear(8, outputs), Turn())
    model = trial.fill(nn.Sequential(nn.Linear(3, 8), norm, nn.Tanh(), head).double())
    with torch.no_grad():
        norm.running_mean.copy_(trial.randn(8))
        norm.running_var.copy_(trial.randn(8).abs() + 0.5)
    model.train(training)
    model[other].training = not training
    return model


def _in_eval_mode(model: nn.Module, x: Tensor) -> Tensor:
    with torch.no_grad():
        return copy.deepcopy(model).eval()(x.detach())


def _call(trial: Trial, model: nn.Module, *args: Any, show: str) -> Any:
    """Calls the answer. Training flags have claims of their own; all else about the model must stay as it was."""
    return trial.call(model, *args, watch_training=False, show=show)


def _expect_grad_mode(trial: Trial, key: str, expected: bool) -> None:
    if any("grad mode" in effect for effect in trial.effects):
        raise Missed(key, expected=f"the grad mode {expected}, as before", got=f"{not expected}")


def _unlucky(batches: Iterable) -> Iterator:
    yield from batches
    raise Unlucky("this batch cannot be read")


def _expect_error(trial: Trial, kind: type[Exception], call: Callable[[], Any]) -> None:
    try:
        call()
    except AnswerRaised as raised:
        if not isinstance(raised.error, kind):
            got = type(raised.error).__name__
            raise Missed("swallowed", expected="the error of the batch or the model", got=got) from None
    else:
        raise Missed("swallowed", expected="the error of the batch or the model", got="no error")
