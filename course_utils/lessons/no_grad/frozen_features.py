"""Asks for a frozen backbone's output that a head can train on; the check looks at history, backward and modes."""

from functools import partial

import torch
from torch import Tensor, nn

from course_utils.base.text import message_of
from course_utils.checks import modes
from course_utils.checks.claims import (
    AnswerRaised,
    Missed,
    Trial,
    exercise,
    expect,
    expect_no_history,
    expect_same,
    same,
)
from course_utils.lessons.no_grad import _shared

frozen_features = exercise(__file__)

_call = partial(_shared.call, names=("backbone", "x"))


def _features(trial: Trial, backbone: nn.Module, x: Tensor, show: str = "backbone, x") -> Tensor:
    return trial.tensor(_call(trial, backbone, x, show))


@frozen_features.claim("gives the backbone's output for `x`", weight=0, gate=True)
def _(trial: Trial) -> None:
    reshaped = _shared.plain_model(trial, 6).extend((nn.Unflatten(1, (2, 3)), nn.Tanh()))  # views have a claim
    for backbone, dtype in ((reshaped, torch.float64), (_shared.plain_model(trial), torch.float16)):
        backbone, x = backbone.to(dtype), trial.randn(trial.integer(1, 6), 3, dtype=dtype)
        expected = _shared.in_eval_mode(backbone, x)
        got = _features(trial, backbone, x, f"backbone, {dtype} x")
        _shared.expect_usable(trial, backbone, x, expected)
        expect_same(got, expected, what=f"the backbone's output, {tuple(expected.shape)}")


@frozen_features.claim("has the backbone's dtype", weight=0.5)
def _(trial: Trial) -> None:
    for dtype in (torch.float64, torch.float32, torch.float16):
        got = _features(trial, _shared.plain_model(trial).to(dtype), trial.randn(4, 3, dtype=dtype))
        expect(got.dtype == dtype, "dtype", expected=f"{dtype}, as the backbone gives it", got=str(got.dtype))


def _is_recorded(trial: Trial, frozen: bool) -> bool:
    """Whether the features have a history; a frozen backbone gets an ``x`` that requires grad."""
    backbone = _shared.plain_model(trial).requires_grad_(not frozen)
    return _features(trial, backbone, trial.randn(4, 3, requires_grad=frozen)).grad_fn is not None


@frozen_features.claim(
    "does not require grad and has no graph, where every layer makes a new tensor", weight=0.5, gate=True
)
def _(trial: Trial) -> None:
    for flagged_x, frozen in ((False, False), (True, False), (True, True)):
        backbone = _shared.plain_model(trial).requires_grad_(not frozen)
        x = trial.randn(4, 3, requires_grad=flagged_x)
        got = _features(trial, backbone, x, f"{'frozen ' * frozen}backbone, x{' that requires grad' * flagged_x}")
        key = "x path" if flagged_x else ""
        if got.grad_fn is not None and not flagged_x:
            key = modes.why_recorded(trial, lambda frozen: _is_recorded(trial, frozen))
            key = "unassigned" if key == "detached" else key  # what was detached is not what came back
        expect_no_history(got, key, "flagged")


def _ordinary_features(trial: Trial, backbone: nn.Sequential, x: Tensor, show: str) -> Tensor:
    """The features, which are no inference tensor: neither what the backbone made nor a copy of that."""
    made: list[int] = []
    backbone[-1].register_forward_hook(lambda _module, _inputs, output: made.append(output.data_ptr()))
    features = _features(trial, backbone, x, show)
    key = "inference" if features.data_ptr() in made else "cloned inside"
    expect(not features.is_inference(), key, expected="an ordinary tensor", got="an inference tensor")
    return features


@frozen_features.claim("can be saved for the backward of a head", weight=1)
def _(trial: Trial) -> None:
    for enabled, show in ((True, "backbone, x"), (False, "backbone, x, called inside no_grad")):
        backbone, x = _shared.plain_model(trial), trial.randn(4, 3, requires_grad=True)
        expected = _shared.in_eval_mode(backbone, x).sum(0).unsqueeze(1).expand(5, 2)
        with torch.set_grad_enabled(enabled):
            features = _ordinary_features(trial, backbone, x, show)
        weight = trial.randn(5, 2, requires_grad=True)
        (features.to(weight.dtype) @ weight).sum().backward()
        expect_same(weight.grad, expected, what="the head's gradient")
        modes.expect_grad_mode_kept(trial)


@frozen_features.claim("is computed in eval mode, and batch norm learns nothing", weight=0.5, gate=True)
def _(trial: Trial) -> None:
    for training, other in ((False, 1), (True, 1), (True, 2)):
        backbone, x = modes.mixed_mode_model(trial, training, other), trial.randn(5, 3)
        before = [(buffer, buffer.clone()) for buffer in backbone.buffers()]
        expected = _shared.in_eval_mode(backbone, x)
        got = _features(trial, backbone, x, "backbone in training mode, x")
        expect_same(got, expected, what="the values of eval mode", key="no eval")
        kept = all(same(*pair) for pair in before)
        expect(kept, "no eval", expected="batch norm's statistics as before", got="they have moved")


@frozen_features.claim("puts back every submodule's own training flag, also where the backbone raises", weight=1.5)
def _(trial: Trial) -> None:
    modes.expect_flags_put_back(trial, lambda backbone: _features(trial, backbone, trial.randn(4, 3)))
    show = "backbone, x of a wrong width"
    for other in (1, 3):
        backbone, call = modes.mixed_mode_model(trial, True, other), partial(_call, trial, show=show)
        modes.expect_modes_put_back(trial, call, backbone, trial.randn(4, 2), good=trial.randn(4, 3))


def _lowers_flags(trial: Trial) -> bool:
    """Whether the flag of a leaf is lowered that comes through the backbone as it is."""
    called, x = trial.called, trial.randn(4, 3, requires_grad=True)
    _features(trial, nn.Identity(), x)
    trial.called = called
    return not x.requires_grad


def _lowers_flag_of_x(trial: Trial) -> bool:
    """Whether the flag of ``x`` is lowered where the backbone computes, so that it is not the result's."""
    called, effects = trial.called, trial.effects
    trial.effects = []
    _features(trial, _shared.plain_model(trial), trial.randn(4, 3, requires_grad=True))
    lowered = any("x.requires_grad" in effect for effect in trial.effects)
    trial.called, trial.effects = called, effects
    return lowered


@frozen_features.claim("records nothing while the backbone runs", weight=5)
def _(trial: Trial) -> None:
    for flagged_x, frozen in ((False, False), (True, False), (True, True)):
        backbone, recorded = _shared.plain_model(trial).requires_grad_(not frozen), list[bool]()
        backbone[0].register_forward_hook(lambda _module, _inputs, output: recorded.append(output.requires_grad))
        show = f"{'frozen ' * frozen}backbone, x{' that requires grad' * flagged_x}"
        _features(trial, backbone, trial.randn(4, 3, requires_grad=flagged_x), show)
        got = "the backbone's outputs require grad"
        expect(not any(recorded), "detached", expected="no graph while the backbone runs", got=got)


class _Token(nn.Module):
    """Gives one vector of its own, the same for every row of ``x``."""

    def __init__(self) -> None:
        super().__init__()
        self.token = nn.Parameter(torch.zeros(4, dtype=torch.float64))

    def forward(self, x: Tensor) -> Tensor:
        return self.token.expand(len(x), -1)


@frozen_features.claim(
    "is ordinary and does not require grad, also where the backbone gives back `x`, a parameter, or a view", weight=5
)
def _(trial: Trial) -> None:
    for backbone in (nn.Flatten(), nn.Identity(), nn.Sequential(nn.Dropout(), nn.Flatten(0))):
        leaf = trial.randn(4, 3, 2, requires_grad=True)
        for x in (leaf, leaf * 2):
            what = f"an output of {type(backbone).__name__} that does not require grad"
            try:
                got = _features(trial, backbone, x, "backbone, x that requires grad")
            except AnswerRaised as raised:
                if "requires_grad flags of leaf" in str(raised.error) and _lowers_flag_of_x(trial):
                    told = f"x with requires_grad False, and where x is no leaf: {message_of(raised.error, 60)}"
                    raise Missed("side effect", expected="x with its flag", got=told) from None
                raise
            key = "flag lowered" if got.requires_grad and _lowers_flags(trial) else "view"
            expect_no_history(got, key, what=what)
    token = trial.fill(_Token())
    got = _features(trial, token, trial.randn(4, 3), "backbone that expands a parameter, x")
    expect_no_history(got, "of the backbone", what="an output that does not require grad")
    expect(same(got, token.token.expand(4, -1)), expected="the parameter, once for each row", got="other values")
    viewed = nn.Sequential(nn.Tanh(), nn.Flatten())
    _ordinary_features(trial, viewed, trial.randn(4, 3, 2), "backbone that gives a view, x")
