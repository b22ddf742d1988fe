"""What several exercises of lesson 05, no_grad, look at."""

import copy
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from course_utils.checks.claims import Trial, Turn, expect, expect_error, expect_training_flags, training_flags


def plain_model(trial: Trial, outputs: int = 5) -> nn.Sequential:
    """A model that does the same in both modes. Takes three columns."""
    return trial.fill(nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, outputs)).double())


def moody_model(trial: Trial, training: bool, other: int) -> nn.Sequential:
    """A model whose values tell the modes apart; its submodule number ``other`` is in another mode than the rest."""
    norm = nn.BatchNorm1d(8)
    parts = (nn.Linear(3, 8), norm, nn.Tanh(), nn.Sequential(nn.Linear(8, 5), Turn()))
    model = trial.fill(nn.Sequential(*parts).double()).train(training)
    norm.running_mean.copy_(trial.randn(8))
    norm.running_var.copy_(trial.randn(8).abs() + 0.5)
    model[other].training = not training
    return model


def in_eval_mode(model: nn.Module, x: Tensor) -> Tensor:
    with torch.no_grad():
        return copy.deepcopy(model).eval()(x.detach())


def call(trial: Trial, model: nn.Module, data: Any, show: str) -> Any:
    """Calls the answer. Training flags have claims of their own; all else about the model must stay as it was."""
    return trial.call(model, data, watch_training=False, show=f"{trial.name}({show})")


def expect_grad_mode_kept(trial: Trial, key: str) -> None:
    changes = [effect for effect in trial.effects if "grad mode" in effect]
    expect(not changes, key, expected="the grad mode as before", got=", ".join(changes))


def expect_flags_put_back(trial: Trial, run: Callable[[nn.Module], object]) -> None:
    """Every submodule's training flag is its own again after a run without an error."""
    for training, other in ((True, 1), (False, 3), (True, 2)):
        model = moody_model(trial, training, other)
        before = training_flags(model)
        run(model)
        expect_training_flags(model, before, "left in eval", "one flag")


def expect_modes_put_back(trial: Trial, model: nn.Module, data: Any, show: str, kind: type[Exception]) -> None:
    """Where a call raises, the error goes through, and training flags and grad mode are those of before."""
    before = training_flags(model)
    what = "the error of the batch or the model"
    expect_error(kind, lambda: call(trial, model, data, show), "swallowed", what=what)
    expect_training_flags(model, before, "only without error")
    expect_grad_mode_kept(trial, "only without error")
