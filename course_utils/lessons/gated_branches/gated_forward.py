"""``gated_forward`` joins two branches, one of them closed."""

import torch
from torch import Tensor

from course_utils.checks.compare import AtMost, Seen, Trial, compared
from course_utils.lessons.gated_branches._shared import Branch, branches, gradients, weights
from course_utils.measure import FlopCounterMode

gated_forward = compared(__file__)


def _given(trial: Trial, images: bool = False) -> tuple[Branch, Branch, Tensor]:
    rows = trial.integer(3, 6)
    return *branches(trial, images), trial.randn(rows, 3, 6, 7) if images else trial.randn(rows, 3)


def _gated(trial: Trial, a: Branch, b: Branch, x: Tensor, use_a: bool | Tensor) -> Tensor:
    gate = f"torch.tensor({bool(use_a)})" if isinstance(use_a, Tensor) else use_a
    shown = f"gated_forward(branch_a, branch_b, x{' of images' * (x.dim() > 2)}, {gate})"
    return trial.tensor(trial.call(a, b, x, use_a, show=shown))


@gated_forward.looks("is `cat([a, b], dim=1)` with zeros for the closed half", gate=True)
def _(trial: Trial) -> Seen:
    for use_a in (True, False):
        yield f"features, branch_{'a' if use_a else 'b'} open", _gated(trial, *_given(trial), use_a)
    yield "features of images", _gated(trial, *_given(trial, images=True), True)


@gated_forward.looks("takes a 0-dim tensor as well", "tensor gate", weight=0.5)
def _(trial: Trial) -> Seen:
    for use_a in (True, False):
        yield f"features, use_a=torch.tensor({use_a})", _gated(trial, *_given(trial), torch.tensor(use_a))


@gated_forward.looks("passes gradients on to the open branch and to x", weight=1.5)
def _(trial: Trial) -> Seen:
    a, b, x = _given(trial)
    got = _gated(trial, a, b, x.requires_grad_(), True)
    yield "the result requires grad", got.requires_grad
    yield "gradient", gradients(got, trial.randn(*got.shape), {"x": x} | weights(branch_a=a))


@gated_forward.looks("does not call the closed branch", weight=3)
def _(trial: Trial) -> Seen:
    for use_a in (True, False):
        a, b, x = _given(trial, images=True)
        _gated(trial, a, b, x, use_a)
        yield "calls of the closed branch", len((b if use_a else a).rows)


@gated_forward.looks("costs the FLOPs of one branch, and leaves `.grad` of the closed one None", weight=2)
def _(trial: Trial) -> Seen:
    for use_a in (True, False):
        a, b, x = _given(trial, images=True)
        with FlopCounterMode(display=False) as counter:
            got = _gated(trial, a, b, x, use_a)
            if got.requires_grad:
                torch.autograd.backward(got.sum())
        yield "FLOPs, forward and backward", AtMost(counter.get_total_flops())
        missing = [one.grad is None for one in (b if use_a else a).parameters()]
        yield ".grad of the closed branch", "None" if all(missing) else "a gradient"
