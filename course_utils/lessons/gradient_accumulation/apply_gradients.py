"""``apply_gradients``: one step with the average of gradients that come in lists."""

from collections.abc import Collection
from functools import partial

import torch
from torch import Tensor

from course_utils.checks.compare import Seen, Trial, compared, outcome

apply_gradients = compared(__file__)

_SHAPES = ((3, 4), (3, 4), (4,), ())


class _Lists:
    """Parameters, an optimizer whose momentum is under way, and three lists of pairs.

    Args:
        trial: draws them.
        missing: micro-batch and place of gradients that are None.
        begun: whether the optimizer has made a step before, from which its momentum comes.
    """

    def __init__(self, trial: Trial, missing: Collection[tuple[int, int]] = (), begun: bool = True) -> None:
        self.trial, self.draw = trial, partial(trial.randn, dtype=torch.float32)
        self.parameters = [self.draw(*shape, requires_grad=True) for shape in _SHAPES]
        groups = [{"params": self.parameters[:2]}, {"params": self.parameters[2:]}]
        self.optimizer = torch.optim.SGD(groups, lr=0.1, momentum=0.9, weight_decay=0.05)
        if begun:
            self.old_gradients()
            self.optimizer.step()
            self.optimizer.zero_grad()
        self.lists = [
            [(None if (batch, at) in missing else self.draw(*p.shape), p) for at, p in enumerate(self.parameters)]
            for batch in range(3)
        ]

    def old_gradients(self) -> None:
        for parameter in self.parameters:
            parameter.grad = self.draw(*parameter.shape)

    def step(self, what: str, *weights: list[float]) -> dict[str, list[Tensor]]:
        show = f"apply_gradients(SGD with momentum, {', '.join(['3 micro-batches', *map(str, weights)])}), {what}"
        may_change = tuple(self.parameters)
        self.trial.call(self.optimizer, self.lists, *weights, may_change=may_change, show=show)
        return self.moved()

    def moved(self) -> dict[str, list[Tensor]]:
        return {"parameters after the step": [p.detach().clone() for p in self.parameters]}


@apply_gradients.looks("makes one step with the average of the gradients", gate=True)
def _(trial: Trial) -> Seen:
    return _Lists(trial).step("no weights")


@apply_gradients.looks("finds each gradient's parameter in any order", "order")
def _(trial: Trial) -> Seen:
    lists = _Lists(trial)
    lists.lists[0].insert(0, lists.lists[0].pop(1))
    return lists.step("the first two pairs of one list exchanged")


@apply_gradients.looks("takes weights: sum(w·g) / sum(w)", "weights")
def _(trial: Trial) -> Seen:
    return _Lists(trial).step("with weights", [trial.integer(2, 9), 0.5, 0])


@apply_gradients.looks("counts None as a gradient of zero in the average", "None left out")
def _(trial: Trial) -> Seen:
    return _Lists(trial, {(0, 0), (1, 1), (2, 1)}).step("some None", [5, 1, 2])


@apply_gradients.looks("passes over a parameter that has only None, even with momentum, and over no other", weight=4)
def _(trial: Trial) -> Seen:
    one = {(0, 1), (1, 1), (2, 1)}
    yield from _Lists(trial, one).step("only None for one parameter").items()
    yield from _Lists(trial, one).step("with weights, and only None for one parameter", [5, 1, 2]).items()
    yield from _Lists(trial, one, begun=False).step("a first step, and only None for one parameter").items()
    zeros = _Lists(trial)
    zeros.lists = [[(0 * gradient, parameter) for gradient, parameter in pairs] for pairs in zeros.lists]
    yield from zeros.step("zeros for every parameter").items()


@apply_gradients.looks("ignores old `.grad`, and leaves every `.grad` None", "old grad")
def _(trial: Trial) -> Seen:
    lists = _Lists(trial, {(0, 1), (1, 1), (2, 1)})
    lists.lists = [pairs[:3] for pairs in lists.lists]
    lists.old_gradients()
    yield from lists.step("with old gradients in `.grad`, only None for one parameter, and no pair for one").items()
    yield ".grad afterwards", [parameter.grad for parameter in lists.parameters]


@apply_gradients.looks("raises ValueError for a gradient of another shape, before anything moves", "shape", weight=2)
def _(trial: Trial) -> Seen:
    for at, shape in ((1, (1, 4)), (2, ()), (0, (4, 3))):
        lists = _Lists(trial)
        lists.lists[2][at] = (lists.draw(*shape), lists.parameters[at])
        what = f"a gradient of shape {shape} for a parameter of shape {_SHAPES[at]}"
        yield what, outcome(lambda: lists.step(what))
        yield f"{what}: unmoved", lists.moved()
