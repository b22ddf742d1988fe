"""Steps of an optimizer: the right one, those that mistakes make, and the answer's."""

import copy
from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import Tensor

from course_utils.checks.claims import Missed, Trial, expect, reading
from course_utils.lessons.gradient_accumulation._shared import close, difference, flat

Gradients = Sequence[Tensor | None]  # one a parameter


class Stepping:
    """Parameters, and an optimizer that an answer makes a step with.

    SGD with what shows a wrong length of the gradient or a step too many: two rates, weight decay, and momentum that
    is under way.

    Attributes:
        steps: how many the answer has made.
    """

    def __init__(self, trial: Trial, parameters: Sequence[Tensor], moved: Sequence[Tensor]) -> None:
        self.trial, self.parameters, self.steps = trial, list(parameters), 0
        groups = [{"params": moved[:1], "lr": 0.2}, {"params": moved[1:]}]
        self.optimizer = torch.optim.SGD(groups, lr=0.1, momentum=0.9, weight_decay=0.05)
        for parameter in moved:
            parameter.grad = trial.randn(*parameter.shape, dtype=parameter.dtype)
        self.optimizer.step()
        self.optimizer.zero_grad()
        self._before = copy.deepcopy((self.parameters, self.optimizer))

    def after(self, gradients: Gradients) -> list[Tensor]:
        """What the parameters are after a step with these gradients."""
        parameters, optimizer = copy.deepcopy(self._before)
        for parameter, gradient in zip(parameters, gradients, strict=True):
            parameter.grad = None if gradient is None else gradient.clone()
        optimizer.step()
        return parameters

    def moved(self, gradients: Gradients | None = None) -> Tensor:
        """How far a step with these gradients moves the parameters; without them, how far they have moved."""
        parameters = self.parameters if gradients is None else self.after(gradients)
        return flat(parameters, parameters) - flat(self._before[0], parameters)

    def count(self, *arguments: Any, **options: Any) -> Any:
        """Calls the answer as ``trial.call`` does, and counts its steps."""
        steps: list[int] = []
        counting = self.optimizer.register_step_post_hook(lambda *_: steps.append(1))
        try:
            return self.trial.call(*arguments, **options)
        finally:
            counting.remove()
            self.steps = len(steps)

    def expect(
        self,
        right: Gradients,
        otherwise: Iterable[tuple[str, Gradients]],
        no_step: str = "no step",
        elsewhere: Iterable[Gradients] = (),
    ) -> None:
        """The parameters have moved as by one step with the right gradients; else the mistake is named.

        Args:
            right: the gradients of the right step.
            otherwise: those of wrong ones, with the misconception that each shows.
            no_step: the misconception where no step was made.
            elsewhere: those of wrong ones that another claim judges: here they hold.
        """
        got, expected = self.moved(), self.moved(right)

        def agree(one: Tensor, other: Tensor) -> bool:
            return close(one, other, 1e-5)

        if agree(got, expected) or (self.steps <= 1 and any(agree(got, self.moved(wrong)) for wrong in elsewhere)):
            return
        expect(self.steps <= 1, "step each", expected="one step of the optimizer", got=f"{self.steps} steps")
        key = reading(got, ((key, self.moved(wrong)) for key, wrong in otherwise), agree)
        # Momentum and weight decay make most of a move: the gradient's part in it tells how wrong the gradient was.
        idle = self.moved([None if g is None else torch.zeros_like(g) for g in right])
        has_one = flat([None if g is None else torch.ones_like(g) for g in right], self.parameters)
        part, whole = (got - idle) * has_one, (expected - idle) * has_one
        whole_move = "the move of one right step"
        if self.steps and got.any() and not close(part, whole, 1e-5):
            raise Missed(key, expected=f"the gradient's part in {whole_move}", got=difference(part, whole))
        shown = f"a move that is {difference(got, expected)}" if self.steps else "no step of the optimizer"
        raise Missed(key or ("" if self.steps else no_step), expected=whole_move, got=shown)
