"""What exercises of lessons 04, volatile_history, and 05, no_grad, look at: the modes that a call leaves behind."""

from collections.abc import Iterator
from typing import Any

import torch
from torch import nn

from course_utils.checks.claims import ModeRoll
from course_utils.checks.compare import Raised, Trial, outcome


def mixed_model(trial: Trial, training: bool = True) -> nn.Sequential:
    """A model from 3 columns to 4 that tells the modes apart. Two parts, at two depths, are in another mode than the
    rest, and one parameter is frozen."""
    last = nn.Sequential(nn.Tanh(), nn.Linear(6, 4))
    model = trial.fill(nn.Sequential(nn.Linear(3, 6), ModeRoll(), last, nn.Dropout(0.0)).double()).train(training)
    model[0].bias.requires_grad_(False)
    for part in (last[0], model[3]):
        part.train(not training)
    return model


def left_by(
    trial: Trial, model: nn.Module, given: Any, called: str, recording: bool = True
) -> Iterator[tuple[str, Any]]:
    """What a call ends with, as its caller finds it: the error or none, the training flags, and the grad mode.

    Args:
        model, given: what the answer is called with.
        called: the call for the card.
        recording: the caller's grad mode.
    """
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
