"""``route`` sends each row through its own branch."""

import torch
from torch import Tensor, nn

from course_utils.checks.compare import AtMost, Seen, Trial, compared
from course_utils.lessons.gated_branches._shared import Branch, branches, gradients, weights

route = compared(__file__)

# Rows for a and b in an order that is not its own inverse, from either branch's side.
_GATE = [False, True, False, False, False, False, True, False, True]


def _gate(trial: Trial) -> Tensor:
    return torch.tensor([*_GATE[: trial.integer(7, 9)]])


def _routed(trial: Trial, a: Branch, b: Branch, x: Tensor, gate: Tensor) -> Tensor:
    shown = f"route(branch_a, branch_b, x of shape {tuple(x.shape)}, gate with {int(gate.sum())} of {len(gate)} True)"
    return trial.tensor(trial.call(a, b, x, gate, show=shown))


@route.looks("gives each row what its branch makes of it, in the order of x", gate=True)
def _(trial: Trial) -> Seen:
    gate = _gate(trial)
    return {"the rows": _routed(trial, *branches(trial), trial.randn(len(gate), 3), gate)}


@route.looks("sends each row through one branch only", weight=4)
def _(trial: Trial) -> Seen:
    (a, b), gate = branches(trial), _gate(trial)
    _routed(trial, a, b, trial.randn(len(gate), 3), gate)
    yield "rows for branch_a", AtMost(sum(a.rows))
    yield "rows for branch_b", AtMost(sum(b.rows))


@route.looks("does not call a branch without rows", weight=1.5)
def _(trial: Trial) -> Seen:
    for use_a in (True, False):
        a, b = branches(trial)
        got = _routed(trial, a, b, trial.randn(4, 3), torch.full((4,), use_a))
        yield f"rows that are all for branch_{'a' if use_a else 'b'}", got
        yield f"calls of branch_{'b' if use_a else 'a'}, which has no rows", len((b if use_a else a).rows)


@route.looks("passes gradients on to x and to both branches", weight=2)
def _(trial: Trial) -> Seen:
    (a, b), gate = branches(trial), _gate(trial)
    x = trial.randn(len(gate), 3, requires_grad=True)
    got = _routed(trial, a, b, x, gate)
    yield "the result requires grad", got.requires_grad
    yield "gradient", gradients(got, trial.randn(*got.shape), {"x": x} | weights(branch_a=a, branch_b=b))


@route.looks("takes images, one row for a branch, and a batch of one row as well")
def _(trial: Trial) -> Seen:
    gate = _gate(trial)
    yield "images", _routed(trial, *branches(trial, images=True), trial.randn(len(gate), 3, 4, 5), gate)
    for gates in ([False, True, False], [True, False, True], [True]):
        a, b = (Branch(*branch, nn.Flatten()) for branch in branches(trial, images=True))  # Flatten needs a batch
        got = _routed(trial, a, b, trial.randn(len(gates), 3, 4, 5), torch.tensor(gates))
        yield f"a gate of {gates}", got
