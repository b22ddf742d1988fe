"""``frozen_features``: a backbone's output, for a head to train on."""

import torch
from torch import Tensor, nn

from course_utils import evaluating
from course_utils.checks.compare import Seen, Trial, compared
from course_utils.lessons.volatile_history.modes import left_by, left_in_both_modes, mixed_model, passes_of

frozen_features = compared(__file__, evaluating=evaluating)


class _Token(nn.Module):
    """Gives a vector of its own, the same for every row of ``x``."""

    def __init__(self) -> None:
        super().__init__()
        self.token = nn.Parameter(torch.zeros(4, dtype=torch.float64))

    def forward(self, x: Tensor) -> Tensor:
        return self.token.expand(len(x), -1)


def _features(trial: Trial, backbone: nn.Module, x: Tensor, show: str) -> Tensor:
    return trial.tensor(trial.call(backbone, x, watch_training=False, show=f"frozen_features({show})"))


@frozen_features.looks("is the backbone's output", gate=True)
def _(trial: Trial) -> Seen:
    backbone = mixed_model(trial).eval()
    return {"the features": _features(trial, backbone, trial.randn(5, 3), "backbone in eval mode, x").detach()}


@frozen_features.looks("is computed in eval mode", weight=3)
def _(trial: Trial) -> Seen:
    for training in (True, False):
        backbone, x = mixed_model(trial), trial.randn(5, 3)
        backbone[1].train(training)
        backbone.training = not training
        yield "the features", _features(trial, backbone, x, "backbone with parts in training mode, x").detach()


@frozen_features.looks("puts back every submodule's own training flag, also where the backbone raises", weight=3)
def _(trial: Trial) -> Seen:
    what = "backbone with parts in both modes, x"
    yield from left_in_both_modes(trial, lambda training: (mixed_model(trial, training), trial.randn(5, 3)), what)
    yield from left_by(trial, mixed_model(trial), trial.randn(5, 2), "backbone, x with a column too few")


@frozen_features.looks("can be saved for the backward of a head", weight=9)
def _(trial: Trial) -> Seen:
    backbone, head = mixed_model(trial).eval(), trial.randn(4, 2, requires_grad=True)
    features = _features(trial, backbone, trial.randn(5, 3), "backbone, x")
    yield "an inference tensor", features.is_inference()
    (features @ head).sum().backward()
    yield "the head's gradient", head.grad


@frozen_features.looks("records nothing, and does not require grad, whatever the backbone and `x` are", weight=9)
def _(trial: Trial) -> Seen:
    for flagged in (False, True):
        backbone = mixed_model(trial).requires_grad_(not flagged)
        passes = passes_of(backbone)
        show = "frozen backbone, x that requires grad" if flagged else "backbone, x"
        features = _features(trial, backbone, trial.randn(4, 3, requires_grad=flagged), show)
        yield "recorded in the backbone", any(recorded for _, recorded in passes)
        yield "requires grad", features.requires_grad
    for layer in (nn.Identity(), nn.Flatten(), _Token()):
        x = trial.randn(4, 3, 2, requires_grad=True)
        features = _features(trial, layer, x, f"{type(layer).__name__.strip('_')}(), x that requires grad")
        yield "requires grad", features.requires_grad
