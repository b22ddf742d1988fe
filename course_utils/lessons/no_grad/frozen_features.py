"""``frozen_features``: what it claims."""

import torch
from torch import Tensor, nn

from course_utils.checks.claims import expect_training_flags, same, training_flags
from course_utils.checks.exercise import exercise
from course_utils.checks.trial import Missed, Trial
from course_utils.lessons.no_grad._shared import (
    _call,
    _expect_error,
    _expect_grad_mode,
    _in_eval_mode,
    _moody_model,
    _plain_model,
)

frozen_features = exercise(__file__)


def _features(trial: Trial, backbone: nn.Module, x: Tensor, show: str = "") -> Tensor:
    return trial.tensor(_call(trial, backbone, x, show=f"frozen_features({show or 'backbone, x'})"))


@frozen_features.claim("gives the backbone's output for `x`", weight=0, gate=True)
def _(trial: Trial) -> None:
    for ending in ((), (nn.Unflatten(1, (2, 3)),)):
        backbone = _plain_model(trial, 6).extend(ending)
        x = trial.randn(trial.integer(1, 6), 3)
        if not same(_features(trial, backbone, x), _in_eval_mode(backbone, x)):
            raise Missed(expected="the backbone's output", got="other values")


@frozen_features.claim("is not flagged and has no graph into the backbone or `x`", gate=True)
def _(trial: Trial) -> None:
    for flagged_x, frozen in ((False, False), (True, False), (True, True)):
        backbone = _plain_model(trial).requires_grad_(not frozen)
        x = trial.randn(4, 3, requires_grad=flagged_x)
        got = _features(trial, backbone, x, f"{'frozen ' * frozen}backbone, {'flagged ' * flagged_x}x")
        if got.grad_fn is not None:
            key = "x path" if flagged_x else "recorded"
            raise Missed(key, expected="no history", got=f"grad_fn {got.grad_fn.name()}")
        if got.requires_grad:
            raise Missed("flagged", expected="requires_grad False", got="requires_grad True")


@frozen_features.claim("can be saved for the backward of a head", weight=2)
def _(trial: Trial) -> None:
    for enabled in (True, False):
        backbone = _plain_model(trial)
        x = trial.randn(4, 3, requires_grad=True)
        with torch.set_grad_enabled(enabled):
            features = _features(trial, backbone, x, "backbone, x" + ("" if enabled else ", called inside no_grad"))
        weight = trial.randn(5, 2, requires_grad=True)
        if features.is_inference():
            raise Missed("inference", expected="an ordinary tensor", got="an inference tensor")
        (features @ weight).sum().backward()
        wanted = _in_eval_mode(backbone, x).sum(0).unsqueeze(1).expand(5, 2)
        if weight.grad is None or not same(weight.grad, wanted):
            raise Missed(expected="the head's gradient", got="another one")
        _expect_grad_mode(trial, "grad mode", enabled)


@frozen_features.claim("is computed in eval mode, and batch norm learns nothing", weight=2, gate=True)
def _(trial: Trial) -> None:
    for training, other in ((False, 1), (True, 1), (True, 2)):
        backbone = _moody_model(trial, training, other)
        x = trial.randn(5, 3)
        before = [buffer.clone() for buffer in backbone.buffers()]
        expected = _in_eval_mode(backbone, x)
        if not same(_features(trial, backbone, x, "backbone in training mode, x"), expected):
            raise Missed("no eval", expected="the values of eval mode", got="other values")
        if not all(torch.equal(*pair) for pair in zip(backbone.buffers(), before, strict=True)):
            raise Missed("no eval", expected="batch norm's statistics as before", got="they have moved")


@frozen_features.claim("puts back every submodule's own training flag, also where the backbone raises")
def _(trial: Trial) -> None:
    for training, other in ((True, 1), (False, 3), (True, 2)):
        backbone = _moody_model(trial, training, other)
        before = training_flags(backbone)
        _features(trial, backbone, trial.randn(4, 3))
        expect_training_flags(backbone, before, "left in eval", "one flag")
    for training, other in ((True, 1), (False, 3)):
        backbone = _moody_model(trial, training, other)
        before = training_flags(backbone)
        show = "frozen_features(backbone, x of a wrong width)"
        bad = trial.randn(4, 2)
        _expect_error(trial, RuntimeError, lambda b=backbone, bad=bad, show=show: _call(trial, b, bad, show=show))
        expect_training_flags(backbone, before, "only without error")
        _expect_grad_mode(trial, "only without error", True)
