"""``truncated_bptt``: what it claims."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from course_utils.checks.exercise import exercise
from course_utils.checks.trial import Missed, Trial

truncated_bptt = exercise(__file__)


class _Cell:
    """A recurrent cell with weights of its own: state = tanh(x @ a + state @ b)."""

    def __init__(self, trial: Trial, width: int) -> None:
        self.a = trial.randn(width, width, requires_grad=True)
        self.b = trial.randn(width, width, requires_grad=True)

    def __call__(self, x: Tensor, state: Tensor) -> Tensor:
        return torch.tanh(x @ self.a + state @ self.b)


def _reference(cell: Callable, inputs: list[Tensor], state: Tensor, window: int) -> list[Tensor]:
    states = []
    for step, x in enumerate(inputs):
        if step and step % window == 0:
            state = state.detach()
        state = cell(x, state)
        states.append(state)
    return states


def _sequence(trial: Trial, steps: int, window: int) -> tuple[_Cell, list[Tensor], Tensor, int]:
    width = trial.integer(2, 4)
    inputs = [trial.randn(2, width, requires_grad=True) for _ in range(steps)]
    return _Cell(trial, width), inputs, trial.randn(2, width, requires_grad=True), window


def _answer(trial: Trial, cell: Any, inputs: list[Tensor], state: Tensor, window: int) -> tuple[list[Tensor], Tensor]:
    result = trial.call(
        cell, inputs, state, window, show=f"truncated_bptt(cell, {len(inputs)} inputs, state, window={window})"
    )
    if result is None:
        raise Missed("no return value", expected="(states, last state)", got="None")
    if not isinstance(result, (tuple, list)) or len(result) != 2 or not isinstance(result[0], (list, tuple)):
        raise Missed(expected="a tuple of a list of states and the last state", got=result)
    if len(result[0]) != len(inputs):
        raise Missed(expected=f"{len(inputs)} states", got=f"{len(result[0])} states")
    return [trial.tensor(value) for value in result[0]], trial.tensor(result[1])


def _gradient(result: Tensor, wanted: Tensor) -> Tensor | None:
    """d result.sum() / d wanted, None where no path leads there."""
    if not result.requires_grad:
        return None
    gradient = torch.autograd.grad(result.sum(), wanted, retain_graph=True, allow_unused=True)[0]
    return None if gradient is None or not gradient.any() else gradient


def _cuts(states: list[Tensor], inputs: list[Tensor]) -> list[int]:
    """Before which steps the history is cut: where a state does not depend on the input of the step before."""
    return [step for step in range(1, len(states)) if _gradient(states[step], inputs[step - 1]) is None]


# (steps, window): borders inside, a sequence that ends on a border, windows of one, one window for all, a single step.
_SHAPES = ((7, 3), (6, 2), (4, 1), (3, 5), (1, 2))


@truncated_bptt.claim("gives every state of the plain loop, and the last one", weight=0, gate=True)
def _(trial: Trial) -> None:
    for shape in _SHAPES:
        cell, inputs, state, window = _sequence(trial, *shape)
        states, last = _answer(trial, cell, inputs, state, window)
        plain = _reference(cell, inputs, state, len(inputs) + 1)
        for step, (got, expected) in enumerate(zip(states, plain, strict=True)):
            if got.shape != expected.shape or not torch.allclose(got, expected):
                raise Missed(expected=f"the plain loop's state at step {step}", got="other values")
        if last.shape != plain[-1].shape or not torch.allclose(last, plain[-1]):
            raise Missed(expected="the state of the last step", got="other values")


@truncated_bptt.claim("cuts the history of the state", weight=0, gate=True)
def _(trial: Trial) -> None:
    cell, inputs, state, window = _sequence(trial, 7, 3)
    states, _last = _answer(trial, cell, inputs, state, window)
    if not any(value.requires_grad for value in states):
        raise Missed("stored detached", expected="states with their history", got="no state has a grad_fn")
    if not _cuts(states, inputs) and _gradient(states[-1], state) is not None:
        raise Missed("never cut", expected="no gradient from step 6 to step 0", got="a gradient")


@truncated_bptt.claim("lets gradients flow inside each window, to inputs and weights", weight=3)
def _(trial: Trial) -> None:
    for shape in _SHAPES:
        cell, inputs, state, window = _sequence(trial, *shape)
        states, _last = _answer(trial, cell, inputs, state, window)
        reference = _reference(cell, inputs, state, window)
        for step, (got, expected) in enumerate(zip(states, reference, strict=True)):
            begin = step - step % window
            if not got.requires_grad:
                at_border = (step + 1) % window == 0 or step == len(states) - 1
                key = "border stored" if at_border and any(s.requires_grad for s in states) else "stored detached"
                raise Missed(key, expected=f"state {step} with its history", got="no grad_fn")
            for i in range(begin, step + 1):
                if _gradient(got, inputs[i]) is None and _gradient(expected, inputs[i]) is not None:
                    if i == step:
                        key = "inputs cut"
                    elif all(cut in _cuts(states, inputs) for cut in range(1, len(states))):
                        key = "every step"
                    else:
                        key = "off by one"
                    raise Missed(
                        key,
                        expected=f"a gradient from state {step} to input {i}",
                        got=f"none; cut before steps {_cuts(states, inputs)}",
                    )
            for weight in (cell.a, *inputs[begin : step + 1]):
                wanted, found = _gradient(expected, weight), _gradient(got, weight)
                if found is None or not torch.allclose(found, wanted):
                    cuts = [border for border in range(window, len(inputs), window)]
                    raise Missed(
                        "off by one" if _cuts(states, inputs) != cuts else "",
                        expected=f"the gradient of state {step} inside its window",
                        got="another gradient",
                    )


@truncated_bptt.claim("lets no gradient across a border", weight=2)
def _(trial: Trial) -> None:
    for steps, window in _SHAPES[:3]:
        cell, inputs, state, window = _sequence(trial, steps, window)
        states, _last = _answer(trial, cell, inputs, state, window)
        borders = list(range(window, steps, window))
        for step, value in enumerate(states):
            for i in range(step - step % window):
                if _gradient(value, inputs[i]) is not None:
                    raise Missed(
                        "off by one" if _cuts(states, inputs) else "never cut",
                        expected=f"cut before steps {borders}",
                        got=f"cut before steps {_cuts(states, inputs)}",
                    )
        if _gradient(states[-1], state) is not None and steps > window:
            raise Missed("never cut", expected="no gradient from the last window to the given state", got="a gradient")


@truncated_bptt.claim("reaches the given state from the first window", weight=1)
def _(trial: Trial) -> None:
    for shape in _SHAPES:
        cell, inputs, state, window = _sequence(trial, *shape)
        states, _last = _answer(trial, cell, inputs, state, window)
        if _gradient(states[0], state) is None:
            key = "given state cut" if states[0].requires_grad else "border stored"
            raise Missed(key, expected="a gradient from state 0 to the given state", got="none")


@truncated_bptt.claim("returns the last state with its history", weight=1)
def _(trial: Trial) -> None:
    for shape in _SHAPES:
        cell, inputs, state, window = _sequence(trial, *shape)
        _states, last = _answer(trial, cell, inputs, state, window)
        if _gradient(last, cell.a) is None:
            raise Missed("last detached", expected="a gradient from the last state to the weights", got="none")
