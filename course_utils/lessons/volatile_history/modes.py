"""What exercises of lessons 04, volatile_history, and 05, no_grad, look at: modes during a call, and after it."""

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn

from course_utils.checks.compare import ModeRoll, Raised, Trial, outcome


def mixed_model(trial: Trial, training: bool = True) -> nn.Sequential:
    """A model from 3 columns to 4 that tells the modes apart. Two parts, at two depths, are in another mode than the
    rest, one of them with two parents, and one parameter is frozen."""
    last = nn.Sequential(nn.Tanh(), nn.Linear(6, 4))
    layers = nn.Linear(3, 6), ModeRoll(), last, nn.Dropout(0.0), nn.Sequential(last[0])
    model = trial.fill(nn.Sequential(*layers).double()).train(training)
    model[0].bias.requires_grad_(False)
    for part in (last[0], model[3]):
        part.train(not training)
    return model


def with_batches(trial: Trial, *sizes: int, training: bool = True) -> tuple[nn.Sequential, list[Tensor]]:
    """Such a model, and batches of so many rows for it."""
    return mixed_model(trial, training), [trial.randn(size, 3) for size in sizes]


def passes_of(model: nn.Module) -> list[tuple[bool, bool]]:
    """From now on each pass through a part of the model adds its training flag, and whether it was recorded."""
    passes: list[tuple[bool, bool]] = []
    for part in model.modules():  # on each part: an answer may run a copy of the model
        part.register_forward_hook(lambda part, _, output: passes.append((part.training, output.requires_grad)))
    return passes


def left_by(trial: Trial, model: nn.Module, given: Any, what: str, recording: bool = True) -> Iterator[tuple[str, Any]]:
    """What a call ends with, as its caller finds it: the error or none, the training flags, and the grad mode.

    Args:
        model, given: what the answer is called with.
        what: the same in words, for the card.
        recording: the caller's grad mode.
    """
    called = f"{trial.name}({what}){', under no_grad' * (not recording)}"
    modes: list[bool] = []

    def drive() -> Any:
        with torch.set_grad_enabled(recording):
            try:
                return trial.answer(model, given)
            finally:
                modes.append(torch.is_grad_enabled())

    watch = {"model": model, "the input": given}
    ended = outcome(lambda: trial.run(drive, called=called, watch=watch, watch_training=False))
    yield "an error for the caller", ended if isinstance(ended, Raised) else "none"
    yield "training flags afterwards", {name or "the model": part.training for name, part in model.named_modules()}
    yield "grad mode afterwards", modes


def left_in_both_modes(trial: Trial, make: Callable[[bool], tuple[nn.Module, Any]], what: str) -> Iterator[Any]:
    """``left_by`` for a model in training mode and a caller who records, and for the opposite of both.

    Args:
        make: for a training flag, the model and what else the answer is called with.
        what: the same in words, for the card.
    """
    for on in (True, False):
        yield from left_by(trial, *make(on), what, recording=on)
