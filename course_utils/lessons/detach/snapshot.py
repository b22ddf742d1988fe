"""``snapshot``: values on memory of their own, without a history."""

import torch

from course_utils.checks.compare import Seen, Trial, compared

snapshot = compared(__file__)


@snapshot.looks("has the values and the dtype of x", gate=True)
def _(trial: Trial) -> Seen:
    for x in (trial.randn(2, 3, requires_grad=True), trial.randn(3).float(), torch.arange(trial.integer(3, 9))):
        got = trial.tensor(trial.call(x))
        yield "the values", got.detach()
        yield "the dtype", str(got.dtype)


@snapshot.looks("has no history, and does not require grad", weight=2)
def _(trial: Trial) -> Seen:
    leaf = trial.randn(2, 3, requires_grad=True)
    for x in (leaf, leaf * 2, trial.randn(2, 3)):
        yield "requires grad", trial.call(x).requires_grad


@snapshot.looks("shares no memory with x", weight=2)
def _(trial: Trial) -> Seen:
    x = trial.randn(2, 3, requires_grad=True)
    got = trial.call(x, show="snapshot(x), and x is edited in place afterwards")
    x.detach().mul_(-3)
    return {"the values afterwards": got.detach()}
