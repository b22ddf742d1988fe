"""``truncated_bptt`` unrolls a cell in windows: which gradients pass, and where they stop."""

import torch
from torch import Tensor

from course_utils.checks.compare import Missed, Seen, Trial, compared

truncated_bptt = compared(__file__)


class _Run:
    """A cell, a sequence and a first state, and what the answer made of them."""

    def __init__(self, trial: Trial, steps: int, window: int) -> None:
        self.window = window
        self.inputs = [trial.randn(2, 3, requires_grad=True) for _ in range(steps)]
        self.start = trial.randn(2, 3, requires_grad=True)
        a, b = trial.randn(3, 3, requires_grad=True), trial.randn(3, 3, requires_grad=True)

        def cell(x: Tensor, state: Tensor) -> Tensor:
            return torch.tanh(x @ a + state @ b)

        show = f"truncated_bptt(cell, {steps} inputs, state, window={window})"
        result = trial.call(cell, list(self.inputs), self.start, window, show=show)
        if not isinstance(result, (tuple, list)) or len(result) != 2 or not isinstance(result[0], (tuple, list)):
            key = "no return value" if result is None else "whole windows"
            raise Missed(key, expected="a list of states, and the last state", got=result)
        self.states, self.last = [trial.tensor(state) for state in result[0]], trial.tensor(result[1])

    def gradients(self, result: Tensor, wanted: list[Tensor]) -> list[Tensor]:
        """Of the result with respect to each; zeros where no path leads there."""
        if not wanted or not result.requires_grad:
            return [torch.zeros_like(one) for one in wanted]
        found = torch.autograd.grad(result.sum(), wanted, retain_graph=True, allow_unused=True, materialize_grads=True)
        return list(found)


def _values(run: _Run) -> Seen:
    return {"the states": [state.detach() for state in run.states], "the last state": run.last.detach()}


@truncated_bptt.looks("gives every state of the plain loop, and the last one", gate=True, weight=0.5)
def _(trial: Trial) -> Seen:
    return _values(_Run(trial, 6, 2))


@truncated_bptt.looks("does so where the last window is shorter, too")
def _(trial: Trial) -> Seen:
    for steps, window in ((7, 3), (1, 2)):
        yield from _values(_Run(trial, steps, window)).items()


@truncated_bptt.looks("lets gradients flow inside each window, to the inputs", weight=4)
def _(trial: Trial) -> Seen:
    run = _Run(trial, 6, 3)
    for step, state in enumerate(run.states):
        begin = step - step % run.window
        inside = run.gradients(state, run.inputs[begin : step + 1])
        yield f"gradient of state {step}", {f"input {begin + i}": gradient for i, gradient in enumerate(inside)}


@truncated_bptt.looks("lets no gradient across a border", weight=5)
def _(trial: Trial) -> Seen:
    run = _Run(trial, 6, 2)
    for step, state in enumerate(run.states[run.window :], run.window):
        earlier = run.gradients(state, run.inputs[: step - step % run.window])
        yield f"gradient of state {step}", {f"input {i}": gradient for i, gradient in enumerate(earlier)}


@truncated_bptt.looks("reaches the given state from the first window, and from it alone", weight=2)
def _(trial: Trial) -> Seen:
    run = _Run(trial, 5, 2)
    for step, state in enumerate(run.states):
        yield f"gradient of state {step} with respect to the given state", run.gradients(state, [run.start])[0]


@truncated_bptt.looks("returns the last state with its history")
def _(trial: Trial) -> Seen:
    run = _Run(trial, 4, 2)
    return {"gradient of the last state with respect to the last input": run.gradients(run.last, run.inputs[-1:])[0]}
