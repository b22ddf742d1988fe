"""``truncated_bptt``: unroll a cell in windows. The check looks at which states depend on which inputs, and how."""

from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from course_utils.checks.claims import AnswerRaised, Calls, Lazy, Missed, Trial, exercise, expect, gradient, same

truncated_bptt = exercise(__file__)

# (steps, window): borders inside, a sequence that ends on a border, windows of one, one window for all, a single step.
_SHAPES = ((7, 3), (6, 2), (4, 1), (3, 5), (1, 2))


class _Cell:
    """A recurrent cell with weights of its own: state = tanh(x @ a + state @ b)."""

    def __init__(self, trial: Trial, width: int) -> None:
        self.a, self.b = (trial.randn(width, width, requires_grad=True) for _ in range(2))

    def __call__(self, x: Tensor, state: Tensor) -> Tensor:
        return torch.tanh(x @ self.a + state @ self.b)


class _Run:
    """A cell, a sequence and a first state, and what the answer made of them."""

    def __init__(self, trial: Trial, steps: int, window: int) -> None:
        width, self.window = trial.integer(2, 4), window
        self.inputs = [trial.randn(2, width, requires_grad=True) for _ in range(steps)]
        self.cell, self.start = _Cell(trial, width), trial.randn(2, width, requires_grad=True)
        show = f"truncated_bptt(cell, {steps} inputs, state, window={window})"
        calls = Calls()
        result = trial.call(self.cell, list(self.inputs), self.start, window, show=show, within=calls)
        self.detaches, self.in_place = "detach" in calls.names, "detach_" in calls.names
        self.hooks = "register_hook" in calls.names
        filled = next((effect for effect in trial.effects if "filled" in effect), "")
        expect(not filled, "backward inside", expected="states, for the caller's backward", got=f"your answer {filled}")
        expect(result is not None, "no return value", expected="(states, last state)", got="None")
        is_pair = isinstance(result, (tuple, list)) and len(result) == 2 and isinstance(result[0], (list, tuple))
        expect(is_pair, expected="a tuple of a list of states and the last state", got=Lazy(lambda: result))
        self.is_list = isinstance(result[0], list)
        rest = steps % window
        expect(
            len(result[0]) == steps,
            "whole windows" if rest and len(result[0]) == steps - rest else "no list",
            expected=f"{steps} states",
            got=Lazy(lambda: f"{len(result[0])} states"),
        )
        self.states, self.last = [trial.tensor(value) for value in result[0]], trial.tensor(result[1])

    def states_with(self, at_border: Callable[[Tensor], Tensor], window: int) -> Iterator[Tensor]:
        state = self.start
        for step, x in enumerate(self.inputs):
            state = self.cell(x, at_border(state) if step and step % window == 0 else state)
            yield state

    def right_states(self) -> Iterator[Tensor]:
        return self.states_with(Tensor.detach, self.window)

    def begins_afresh(self) -> bool:
        """Whether the states are those of windows that begin with zeros, or with the given state, each."""
        afresh = (self.states_with(begin, self.window) for begin in (torch.zeros_like, lambda _: self.start))
        return any(all(map(same, self.states, states)) for states in afresh)

    def learns_last_alone(self) -> bool:
        """Whether the states have a history from one of the later ones on, or are connected from there on."""
        flags = [state.requires_grad for state in self.states]
        first = flags.index(True) if any(flags) else 0
        cuts = self.cuts()
        is_begun = 1 < len(cuts) < len(flags) - 1 and cuts == list(range(1, len(cuts) + 1))
        return (first > 1 and all(flags[first:])) or is_begun

    def borders(self) -> list[int]:
        """Before which steps it is to be cut."""
        return list(range(self.window, len(self.inputs), self.window))

    def cuts(self) -> list[int]:
        """Before which steps the history is cut: where a state does not depend on the input of the step before."""
        steps = range(1, len(self.states))
        return [step for step in steps if not _depends(self.states[step], self.inputs[step - 1])]


def _runs(trial: Trial, shapes: tuple[tuple[int, int], ...] = _SHAPES) -> Iterator[_Run]:
    """Runs of these shapes; of whole windows alone for an answer that leaves out the rest: that is judged by itself."""
    takes_rest = trial.once(_takes_rest)
    return (_Run(trial, steps, window) for steps, window in shapes if takes_rest or not steps % window)


def _takes_rest(trial: Trial) -> bool:
    try:
        _Run(trial, *_SHAPES[0])
    except Missed as missed:
        return missed.misconception != "whole windows"
    except AnswerRaised:
        pass  # raised again where it is judged
    return True


def _depends(result: Tensor, on: Tensor) -> bool:
    found = gradient(result, on)
    return found is not None and bool(found.any())


@truncated_bptt.claim("gives every state of the plain loop, and the last one", weight=0, gate=True)
def _(trial: Trial) -> None:
    _judge_states(_runs(trial))


@truncated_bptt.claim("does so where the last window is shorter, too", weight=2)
def _(trial: Trial) -> None:
    _judge_states(_Run(trial, steps, window) for steps, window in _SHAPES if steps % window)


def _judge_states(runs: Iterator[_Run]) -> None:
    for run in runs:
        plain = list(run.right_states())
        key = "fresh state" if run.begins_afresh() else ""
        for step, (got, expected) in enumerate(zip(run.states, plain, strict=True)):
            expect(same(got, expected), key, expected=f"the plain loop's state at step {step}", got="other values")
        expect(same(run.last, plain[-1]), expected="the state of the last step", got="other values")


@truncated_bptt.claim("lets gradients go back, and not from the last step to the first", weight=0, gate=True)
def _(trial: Trial) -> None:
    run = _Run(trial, 6, 2)
    some = any(state.requires_grad for state in run.states)
    expect(some, "stored detached", expected="states with their history", got="no state in the list has a grad_fn")
    is_cut = bool(run.cuts()) or not _depends(run.states[-1], run.start)
    expect(
        is_cut,
        "never cut" if run.detaches else "no cut",
        expected="no gradient from step 5 to step 0",
        got="a gradient",
    )


@truncated_bptt.claim("lets gradients flow inside each window, to inputs and weights", weight=7)
def _(trial: Trial) -> None:
    for run in _runs(trial):
        for step, (got, expected) in enumerate(zip(run.states, run.right_states(), strict=True)):
            at_border = (step + 1) % run.window == 0 or step == len(run.states) - 1
            others = any(state.requires_grad for state in run.states)
            border = "in place" if run.in_place else "border stored"
            key = border if at_border and others else "stored detached"
            key = "border unrecorded" if others and step and step % run.window == 0 else key
            key = "last window" if run.learns_last_alone() else key
            expect(got.requires_grad, key, expected=f"state {step} with its history", got="no grad_fn")
            begin = step - step % run.window
            for i in range(begin, step + 1):
                if not _depends(got, run.inputs[i]):
                    cuts = run.cuts()
                    key = "every step" if cuts == list(range(1, len(run.states))) else "off by one"
                    key = "last window" if run.learns_last_alone() else key
                    key = "hook" if run.hooks else "inputs cut" if i == step else key
                    # What a hook zeroes, or a cut input, says nothing of where the state is cut.
                    got = "none" if key in ("hook", "inputs cut") else f"none; cut before steps {cuts}"
                    raise Missed(key, expected=f"a gradient from state {step} to input {i}", got=got)
            for leaf in (run.cell.a, *run.inputs[begin : step + 1]):
                found = gradient(got, leaf)
                if found is None or not same(found, gradient(expected, leaf)):
                    cuts, borders = run.cuts(), run.borders()
                    key = "some borders" if set(cuts) < set(borders) else "off by one" if cuts != borders else ""
                    raise Missed(key, expected=f"the gradient of state {step} inside its window", got="another one")


@truncated_bptt.claim("lets no gradient across a border", weight=3)
def _(trial: Trial) -> None:
    for run in _runs(trial, _SHAPES[:3]):
        for step, state in enumerate(run.states):
            if any(_depends(state, x) for x in run.inputs[: step - step % run.window]):
                cuts, borders = run.cuts(), run.borders()
                got = f"a gradient from state {step} to an earlier window; cut before steps {cuts}"
                key = "last window" if run.learns_last_alone() else ""
                key = "off by one" if abs(len(cuts) - len(borders)) < 2 else key
                key = "some borders" if set(cuts) < set(borders) and not run.learns_last_alone() else key
                raise Missed(key if cuts else "never cut", expected=f"cut before steps {borders}", got=got)
        what = "no gradient from the last window to the given state"
        expect(not _depends(run.states[-1], run.start), "never cut", expected=what, got="a gradient")


@truncated_bptt.claim("reaches the given state from step 0", weight=7)
def _(trial: Trial) -> None:
    for run in _runs(trial):
        # Windows of a single step come after longer ones: what they alone show is a border at another place.
        key = "given state cut" if run.window > 1 else "off by one"
        key = key if run.states[0].requires_grad else "in place" if run.in_place else "border stored"
        key = "last window" if run.window > 1 and run.learns_last_alone() else key
        key = "hook" if run.hooks else key
        reached = _depends(run.states[0], run.start)
        expect(reached, key, expected="a gradient from state 0 to the given state", got="none")


@truncated_bptt.claim("returns the states in a list", weight=0.5)
def _(trial: Trial) -> None:
    expect(_Run(trial, 4, 2).is_list, "no list", expected="the states in a list", got="a tuple of states")


@truncated_bptt.claim("returns the last state with its history", weight=0.5)
def _(trial: Trial) -> None:
    for run in _runs(trial):
        key = "last detached" if _depends(run.states[-1], run.cell.a) else ""
        reached = _depends(run.last, run.cell.a)
        expect(reached, key, expected="a gradient from the last state to the weights", got="none")
