"""Lesson 03, detach: its exercises, what they claim, and the misconceptions that they recognise."""

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn

from course_utils.base.text import format_bytes
from course_utils.checks.claims import Unlucky
from course_utils.checks.exercise import Exercise, Misconception, Missed, Predict, Trial
from course_utils.checks.trial import AnswerRaised
from course_utils.memory import MemoryTracker

# ---------------------------------------------------------------------------------------------------------- snapshot

snapshot = Exercise(
    name="snapshot",
    points=1,
    hints=(
        "A snapshot must survive an edit of `x`. Which of the ways you saw gives memory of its own?",
        "Two things have to be cut: the history and the memory. `detach()` cuts one of them, `clone()` the other.",
        "Combine both in one line. Either order gives the right tensor; one order records less on the way.",
    ),
    misconceptions={
        "alias": Misconception(
            "detach() makes a copy",
            "`detach()` and `.data` give a new tensor on the same memory. When `x` is edited, your snapshot changes "
            "with it, so a training step rewrites the weights you wanted to keep.",
            "Edit `x` in place after taking the snapshot, and print both.",
        ),
        "history": Misconception(
            "clone() leaves the history behind",
            "`clone()` copies the values and is recorded like any other operation: the copy still hangs on the graph "
            "of `x` and keeps it alive.",
            "Print `grad_fn` of what you return.",
        ),
        "flagged": Misconception(
            "A snapshot has to require grad like its source",
            "A snapshot is plain data. With the flag raised it is a new leaf: every operation on it is recorded, and "
            "gradients collect in it.",
            "Print `requires_grad` of what you return.",
        ),
        "dtype": Misconception(
            "Any copy keeps the dtype",
            "Going through lists or `torch.Tensor(...)` builds a new tensor with a default dtype. float64 loses half "
            "of its digits, integers become floats.",
            "Print `dtype` before and after.",
        ),
        "lower the flag": Misconception(
            "requires_grad_(False) cuts a tensor free",
            "The flag can be lowered on leaves only. A tensor with history is flagged because its sources are, and "
            "stays so.",
            "Read the error: it names the method that cuts.",
        ),
        "in place": Misconception(
            "detach_() is a longer name for detach()",
            "The underscore means in place: `detach_()` turns `x` itself into a leaf, so whoever handed it to you has "
            "lost its history. On a view it raises.",
            "Look at `x.grad_fn` after your function has run.",
        ),
        "numpy": Misconception(
            "numpy() works on any tensor",
            "NumPy records nothing, so torch refuses to hand over a tensor that requires grad.",
            "Stay with tensor methods: none of them needs NumPy here.",
        ),
        "deepcopy": Misconception(
            "copy.deepcopy(x) copies any tensor",
            "`deepcopy` refuses a tensor with history, because it cannot copy the graph. On a leaf it copies the flag "
            "too.",
            "Try it on `x * 2`, where `x` requires grad.",
        ),
    },
    raises=(
        ("Can't detach views in-place", "in place"),
        ("Can't call numpy()", "numpy"),
        ("deepcopy protocol", "deepcopy"),
        ("requires_grad flags of leaf", "lower the flag"),
    ),
    effects=(("history of", "in place"), ("requires_grad", "in place")),
)


def _sources(trial: Trial) -> Iterator[Tensor]:
    """Tensors of every kind that a snapshot can be taken of."""
    rows, columns = trial.integer(2, 5), trial.integer(2, 5)
    yield trial.randn(rows, columns, requires_grad=True)
    yield trial.randn(rows, columns, requires_grad=True) * 3
    yield trial.randn(rows, columns, dtype=torch.float32)
    yield trial.randn(rows + 2, columns, requires_grad=True)[1:-1]
    yield (trial.randn(rows, columns) * 100).long()
    yield trial.randn(requires_grad=True)


@snapshot.claim("has the values, shape, dtype and device of `x`", weight=0, gate=True)
def _(trial: Trial) -> None:
    for x in _sources(trial):
        values = x.detach().clone()
        got = trial.tensor(trial.call(x), shape=x.shape)
        if got.dtype != x.dtype:
            raise Missed("dtype", expected=str(x.dtype), got=str(got.dtype))
        if got.device != x.device or not torch.equal(got.detach(), values):
            raise Missed(expected="the values of x", got="other values")


@snapshot.claim("has no history and is not flagged", weight=2)
def _(trial: Trial) -> None:
    for x in _sources(trial):
        got = trial.tensor(trial.call(x))
        if got.grad_fn is not None:
            raise Missed("history", expected="grad_fn None", got=f"grad_fn {got.grad_fn.name()}")
        if got.requires_grad:
            raise Missed("flagged", expected="requires_grad False", got="requires_grad True")


@snapshot.claim("shares no memory with `x`", weight=2)
def _(trial: Trial) -> None:
    for x in _sources(trial):
        got = trial.tensor(trial.call(x))
        before = got.detach().clone()
        with torch.no_grad():
            x.detach().add_(1)
        if not torch.equal(got.detach(), before):
            raise Missed("alias", expected="the old values after an edit of x", got="the edit shows in the snapshot")


# ---------------------------------------------------------------------------------------------------- predicted_edit

_EDITS: dict[str, Callable[[Tensor], Tensor]] = {
    "detach_edit": lambda y: y.detach(),
    "data_edit": lambda y: y.data,
    "clone_edit": lambda y: y.clone(),
    "detach_clone_edit": lambda y: y.detach().clone(),
}


def _edit_outcomes(trial: Trial) -> dict[str, str]:
    outcomes = {}
    for key, take in _EDITS.items():
        x = trial.randn(3, requires_grad=True)
        y = x.exp()
        take(y).mul_(5)
        try:
            y.sum().backward()
        except RuntimeError:
            outcomes[key] = "error"
        else:
            right = torch.allclose(x.grad, x.detach().exp())
            outcomes[key] = "right gradient" if right else "wrong gradient"
    return outcomes


predicted_edit = Predict(
    name="predicted_edit",
    points=2,
    truth=_edit_outcomes,
    keys=tuple(_EDITS),
    choices=("error", "wrong gradient", "right gradient"),
    hints=(
        "`exp` saves its own output for backward. So ask of each edit: does it change the memory of `y`?",
        "For those that do change `y`: can the engine know? It compares the version counter of what it saved.",
        "`y.detach()` shares memory *and* version counter with `y`; `y.data` shares the memory alone; a clone "
        "shares neither.",
    ),
    misconceptions={
        "detach copies": Misconception(
            "detach() makes a copy",
            "The edit reaches `y` itself, because `y.detach()` is a tensor on the same memory. `exp` needs that very "
            "output in its backward.",
            "Run `y.detach().mul_(5)` and print `y`.",
        ),
        "detach is silent": Misconception(
            "An edit through detach() goes unnoticed",
            "`y.detach()` shares the version counter of `y`. The engine sees that what it saved is no longer what it "
            "saved, and refuses.",
            "Print `y._version` before and after the edit.",
        ),
        "data is watched": Misconception(
            ".data is the same as detach()",
            "`y.data` shares the memory but has a version counter of its own. The engine has no way to notice the "
            "edit.",
            "Print `y._version` before and after `y.data.mul_(5)`.",
        ),
        "data copies": Misconception(
            ".data cannot reach the graph",
            "`y.data` is the same memory as `y`, and `exp` reads it in backward: derivative times five.",
            "Compute by hand what backward multiplies with, after the edit.",
        ),
        "clone is watched": Misconception(
            "A clone shares the version counter",
            "A clone is a new tensor with memory and a counter of its own. Editing it leaves what `exp` saved alone.",
            "Print `y._version` before and after `y.clone().mul_(5)`.",
        ),
        "clone feeds back": Misconception(
            "An edit of a clone changes its source's gradient",
            "The clone is a branch beside `y`. The sum is taken of `y`, and no gradient comes back through the clone.",
            "Draw the graph of `y.sum()`: is the clone in it?",
        ),
        "cut reaches back": Misconception(
            "detach() cuts the tensor that it is called on",
            "`detach()` returns a new tensor and leaves `y` as it was. Here a copy of that new tensor is edited, far "
            "from the graph.",
            "Print `y.grad_fn` after `y.detach()`.",
        ),
    },
    readings={
        ("detach_edit", "right gradient"): "detach copies",
        ("detach_edit", "wrong gradient"): "detach is silent",
        ("data_edit", "error"): "data is watched",
        ("data_edit", "right gradient"): "data copies",
        ("clone_edit", "error"): "clone is watched",
        ("clone_edit", "wrong gradient"): "clone feeds back",
        ("detach_clone_edit", ...): "cut reaches back",
    },
)

# --------------------------------------------------------------------------------------------------------- mean_loss

mean_loss = Exercise(
    name="mean_loss",
    points=2,
    hints=(
        "What does `total` hold on to after three batches: three numbers, or three graphs?",
        "Either record nothing (`torch.no_grad()` around the model), or cut each loss before you add it.",
        "`batches` may be a generator: it has no `len()`, and it can be read once. Count as you go, and decide at the "
        "end what no batch at all means.",
    ),
    misconceptions={
        "graphs": Misconception(
            "total += loss adds numbers",
            "It adds tensors, and the sum remembers every one of them: `total` holds the graph of each batch, with "
            "all that the model saved for a backward that never comes.",
            "Draw `total` with `plot_graph` after two batches.",
        ),
        "cut too late": Misconception(
            "A result without history has kept nothing",
            "The tensor you return is clean. On the way something held the graph of every batch: a sum that is "
            "detached only at the end, a buffer it was written into, or a list of outputs. The peak grows with it.",
            "Watch the bytes inside the loop instead of after it.",
        ),
        "batches kept": Misconception(
            "Reading the batches into a list costs nothing",
            "A list keeps every batch alive until the function ends, however small the loop's own footprint is.",
            "Take one batch a turn and let it go.",
        ),
        "number": Misconception(
            "A float is a 0-dim tensor",
            "`.item()` leaves torch: the caller asked for a 0-dim tensor and cannot use tensor methods on a float.",
            "Make a tensor of the number before you return it.",
        ),
        "sum": Misconception(
            "The sum will do",
            "The sum grows with the number of batches, so two epochs of different length cannot be compared.",
            "Divide by the number of batches that came.",
        ),
        "weighted": Misconception(
            "Each sample must count the same",
            "The contract asks for the unweighted mean over batches: each batch counts once, whatever its size.",
            "Try two batches of size 1 and 9, and work out both means by hand.",
        ),
        "last": Misconception(
            "The last loss stands for all",
            "A mean over batches needs all of them; one batch is noise.",
            "Print the loss of each batch beside what you return.",
        ),
        "len": Misconception(
            "Every iterable has a length",
            "A generator makes its batches one by one and does not know how many there will be.",
            "Count the batches in the loop.",
        ),
        "empty": Misconception(
            "No batches: the mean takes care of itself",
            "A mean over nothing is no number. Returned as nan or 0 it travels on silently; a ValueError says where "
            "it happened.",
            "Call your function with an empty list.",
        ),
        "eval": Misconception(
            "A function that measures may call eval()",
            "The caller decides on the mode. Left in eval mode, dropout and batch norm stay off in the rest of the "
            "training.",
            "Print `model.training` before and after.",
        ),
        "grad mode": Misconception(
            "set_grad_enabled(False) ends with the function",
            "As a plain call it switches the whole thread, until somebody switches back. The caller's training stops "
            "recording.",
            "Use it with `with`, which puts back what it found, also when something raises.",
        ),
        "swallowed": Misconception(
            "A batch that fails can be skipped",
            "An error of the model, the loss or the data is the caller's to handle. Skipped silently, the mean is "
            "that of other data.",
            "Take out the `except`.",
        ),
    },
    raises=(
        ("has no len()", "len"),
        ("has no attribute '__len__'", "len"),
    ),
    effects=(("eval mode", "eval"), ("grad mode", "grad mode")),
)


def _regressor(trial: Trial, *middle: nn.Module) -> nn.Sequential:
    return trial.fill(nn.Sequential(nn.Linear(3, 8), *middle, nn.Tanh(), nn.Linear(8, 1)).double())


def _squared_error(prediction: Tensor, target: Tensor) -> Tensor:
    return (prediction - target).square().mean()


def _batches(trial: Trial, sizes: list[int]) -> list[tuple[Tensor, Tensor]]:
    return [(trial.randn(size, 3), trial.randn(size, 1)) for size in sizes]


def _unequal_sizes(trial: Trial) -> list[int]:
    return [trial.integer(1, 3), trial.integer(9, 12), trial.integer(4, 6), trial.integer(1, 2)]


def _close(got: Tensor, expected: Tensor) -> bool:
    # 1e-5: an answer may leave torch's float64 for a float32 number and come back.
    return torch.allclose(got.detach().double(), expected.double(), rtol=1e-5, atol=1e-8)


@mean_loss.claim("is the unweighted mean of the batch losses, as a 0-dim tensor", weight=0, gate=True)
def _(trial: Trial) -> None:
    model, sizes = _regressor(trial), _unequal_sizes(trial)
    batches = _batches(trial, sizes)
    with torch.no_grad():
        losses = torch.stack([_squared_error(model(x), y) for x, y in batches])
    for given in (batches, iter(batches)):
        result = trial.call(model, _squared_error, given, show=f"mean_loss(model, loss_fn, {len(sizes)} batches)")
        if isinstance(result, (int, float)):
            raise Missed("number", expected="a 0-dim tensor", got=f"the number {result:.4f}")
        got = trial.tensor(result, what="a 0-dim tensor")
        if got.dim():
            raise Missed(expected="a 0-dim tensor", got=f"a tensor of shape {tuple(got.shape)}")
        if _close(got, losses.mean()):
            continue
        weighted = (losses * torch.tensor(sizes)).sum() / sum(sizes)
        guesses = (
            ("sum", losses.sum()),
            ("weighted", weighted),
            ("weighted", losses.sum() / sum(sizes)),
            ("last", losses[-1]),
        )
        misconception = next((key for key, value in guesses if _close(got, value)), "")
        raise Missed(misconception, expected=f"{losses.mean():.6f}", got=f"{got.item():.6f}")


@mean_loss.claim("runs the model in the modes it was given", weight=1)
def _(trial: Trial) -> None:
    # Batch norm tells the modes apart by its value, without a random number as in dropout.
    model = _regressor(trial, nn.BatchNorm1d(8).double())
    model[0].eval()
    batches = _batches(trial, [4, 6, 5])
    with torch.no_grad():
        mean = torch.stack([_squared_error(model(x), y) for x, y in batches]).mean()
    show = "mean_loss(model in training mode, ...)"
    got = trial.tensor(trial.call(model, _squared_error, batches, may_change=(model,), show=show))
    modes = [module.training for module in model]
    if modes != [False, True, True, True]:
        raise Missed("eval", expected="training flags as before", got="other training flags")
    if not _close(got, mean):
        raise Missed("eval", expected="batch norm in training mode, as given", got="another mode's value")
    if got.requires_grad:
        raise Missed("graphs", expected="no history", got=f"grad_fn {got.grad_fn.name()}")


@mean_loss.claim("has no history", weight=1)
def _(trial: Trial) -> None:
    got = trial.tensor(trial.call(_regressor(trial), _squared_error, _batches(trial, [4, 4])))
    if got.requires_grad or got.grad_fn is not None:
        history = got.grad_fn.name() if got.grad_fn is not None else "a flagged leaf"
        raise Missed("graphs", expected="no history", got=history)


# A float a batch in a list of 0-dim tensors is no leak: 16 bytes of growth a batch are left alone.
_GROWTH_BYTES = 16
_ROWS = 64


@mean_loss.claim("keeps no more bytes alive for 12 batches than for 4", weight=2)
def _(trial: Trial) -> None:
    model = _regressor(trial)
    peaks = {}
    for count in (4, 12):
        batches = (_batches(trial, [_ROWS])[0] for _ in range(count))
        tracker = MemoryTracker(model)
        show = f"mean_loss(model, loss_fn, {count} batches)"
        result = trial.call(model, _squared_error, batches, within=tracker, show=show)
        trial.tensor(result)
        peaks[count] = tracker.peak
    growth = (peaks[12] - peaks[4]) / 8
    if growth > _GROWTH_BYTES:
        batch_bytes = _ROWS * (3 + 1) * 8
        kept = "batches kept" if growth <= batch_bytes + _GROWTH_BYTES else "graphs"
        if kept == "graphs" and not result.requires_grad:
            kept = "cut too late"
        raise Missed(
            kept,
            expected="the same peak for 4 and for 12 batches",
            got=f"{format_bytes(peaks[4])}, then {format_bytes(peaks[12])}: {format_bytes(round(growth))} more a batch",
        )


@mean_loss.claim("raises ValueError for no batches, and lets every other error through", weight=1)
def _(trial: Trial) -> None:
    model = _regressor(trial)
    for empty in ([], iter([])):
        try:
            got = trial.call(model, _squared_error, empty, show="mean_loss(model, loss_fn, [])")
        except AnswerRaised as raised:
            if isinstance(raised.error, ValueError):
                continue
            raise Missed("empty", expected="ValueError", got=f"{type(raised.error).__name__}") from None
        raise Missed("empty", expected="ValueError", got=got)

    def unlucky() -> Iterator[tuple[Tensor, Tensor]]:
        yield from _batches(trial, [4])
        raise Unlucky("this batch cannot be read")

    try:
        trial.call(model, _squared_error, unlucky(), show="mean_loss(model, loss_fn, batches that raise)")
    except AnswerRaised as raised:
        if not isinstance(raised.error, Unlucky):
            raise Missed(expected="the error of the batch", got=f"{type(raised.error).__name__}") from None
    else:
        raise Missed("swallowed", expected="the error of the batch", got="no error")


# ---------------------------------------------------------------------------------------------------- truncated_bptt

truncated_bptt = Exercise(
    name="truncated_bptt",
    points=3,
    hints=(
        "A border is a place in time: before step `window`, before step `2 * window`, and so on. Nothing is cut before "
        "step 0.",
        "At a border, what goes into the cell is the old state without its history. What is already in your list keeps "
        "its own.",
        "`detach()` gives a new tensor and leaves the old one alone: you need the result, as the cell's input alone.",
    ),
    misconceptions={
        "never cut": Misconception(
            "Calling state.detach() detaches state",
            "`detach()` returns a new tensor. Without an assignment the old one goes on into the cell, and the graph "
            "grows with the whole sequence.",
            "Count the nodes behind the last state for 10 and for 100 steps.",
        ),
        "every step": Misconception(
            "Truncated means detached at each step",
            "Cut at every step, a state knows only its own input: nothing is learned about order. Inside a window the "
            "gradient has to flow.",
            "Ask which inputs the last state of a window depends on.",
        ),
        "given state cut": Misconception(
            "The first window begins with a cut, like the others",
            "There is no border before step 0: the first window reaches the state that was given, which may come from "
            "an encoder that wants to learn.",
            "Check what your condition says for step 0.",
        ),
        "off by one": Misconception(
            "A border one step early or late is the same",
            "Windows are steps 0 to window-1, then the next window steps. Shifted by one, the first window has another "
            "length, and gradients cross where they should not.",
            "Write down, for window 3, before which steps you cut.",
        ),
        "stored detached": Misconception(
            "What I keep in the list needs no history",
            "The caller builds the loss from these states. Without history, backward has nowhere to go.",
            "Look at `grad_fn` of each state in the list.",
        ),
        "last detached": Misconception(
            "The last state is cut for the next call",
            "The caller decides what happens after the sequence. The last state comes with its history, like the one "
            "in the list.",
            "Compare the last state you return with the last one in your list, for a sequence that ends on a border.",
        ),
        "border stored": Misconception(
            "The state at a border may be stored without its history",
            "It was cut before it went into the list, or with `detach_()`, which works in place and reaches the tensor "
            "that is already in the list. The last state of each window then passes no gradient on.",
            "Look at `grad_fn` of the state before a border, after the loop.",
        ),
        "inputs cut": Misconception(
            "At a border everything must be detached",
            "Only the state crosses a border. Inputs and weights belong to their own step and keep their gradient.",
            "Check which inputs get a gradient.",
        ),
    },
    raises=(("Can't detach views in-place", "border stored"), ("does not require grad", "stored detached")),
    effects=(("history of state", "border stored"), ("requires_grad", "border stored")),
)


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


# ------------------------------------------------------------------------------------------------ stop_gradient_round

stop_gradient_round = Exercise(
    name="stop_gradient_round",
    points=2,
    hints=(
        "You want two things of one expression: the value of one term and the gradient of another.",
        "A term that is worth zero adds its gradient and no value. A detached term adds its value and no gradient.",
        "Floating-point sums depend on their order. Write it so that what is subtracted is exactly what was there.",
    ),
    misconceptions={
        "zero gradient": Misconception(
            "round() passes the gradient on",
            "`round` is flat between its steps, so torch gives it the gradient 0 everywhere: nothing behind it "
            "learns, and nothing complains.",
            "Print the gradient of `x.round().sum()`.",
        ),
        "all detached": Misconception(
            "Detach everything, then the gradient is the identity",
            "A detached result has no gradient at all. The identity is a path that must stay: only the rounding may "
            "be cut out.",
            "Check `requires_grad` of what you return for a flagged `x`.",
        ),
        "order": Misconception(
            "The order of a sum does not matter",
            "In floating point it does: `(r + x) - x` rounds twice and is not `r`. The value has to be exact.",
            "Subtract your result from `x.round()` for a few hundred random numbers.",
        ),
        "half up": Misconception(
            "Rounding is floor(x + 0.5)",
            "`round` sends a half to the even neighbour: 0.5 to 0, 2.5 to 2. `floor(x + 0.5)` does not.",
            "Try 0.5, 1.5, 2.5 and -0.5.",
        ),
        "scaled": Misconception(
            "A detached factor leaves the gradient alone",
            "Multiplying by a detached ratio gives the right value, and scales the gradient by that ratio. At x = 0 it "
            "is not a number.",
            "Compare the gradient with 1 at x = 0.6.",
        ),
        "doubled": Misconception(
            "Each use of x can keep its gradient",
            "Every path from `x` to the result adds its gradient. With two open paths you get twice the identity.",
            "Count the uses of `x` that are not detached.",
        ),
        "upstream": Misconception(
            "The gradient of the identity is 1, so backward returns 1",
            "`backward` is handed the gradient of what comes after, and passes it on. The identity hands on what it "
            "was given.",
            "Multiply the result by 3 before `sum().backward()`, and print `x.grad`.",
        ),
        "edited": Misconception(
            "x.data lets me change the value without a trace",
            "It changes the caller's tensor. Their `x` is rounded from now on, and whatever saved it is wrong.",
            "Print `x` after your function has run.",
        ),
        "leaf": Misconception(
            "An in-place round is a shortcut",
            "In place means on the caller's memory, and torch refuses it on a flagged leaf.",
            "Compute a new tensor.",
        ),
        "cut from x": Misconception(
            "A new tensor that requires grad is as good",
            "A fresh leaf has a gradient of its own, but no path back to `x`: `x.grad` stays None.",
            "Run backward and print `x.grad`.",
        ),
    },
    raises=(("leaf Variable", "leaf"), ("does not require grad", "all detached")),
    effects=(("edited x", "edited"),),
)


def _numbers(trial: Trial) -> Iterator[Tensor]:
    # Halves, zeros and numbers so great that a sum with them overflows.
    yield torch.tensor([0.5, 1.5, 2.5, -0.5, -1.5, 0.0, 1e30, -1.7e308], dtype=torch.float64)
    yield trial.randn(trial.integer(40, 60)) * 3
    yield trial.randn(8, 5, dtype=torch.float32) * 50
    yield trial.randn()


@stop_gradient_round.claim("has exactly the value of `x.round()`", weight=0, gate=True)
def _(trial: Trial) -> None:
    for values in _numbers(trial):
        for x in (values.clone(), values.clone().requires_grad_()):
            got = trial.tensor(trial.call(x), shape=x.shape, dtype=x.dtype).detach()
            if torch.equal(got, values.round()):
                continue
            undefined_at_zero = bool((values == 0).any()) and torch.equal(got.isnan(), values == 0)
            if undefined_at_zero:
                key = "scaled"
            elif torch.equal(got, (values + 0.5).floor()):
                key = "half up"
            elif torch.allclose(got, values.round(), atol=1e-3) or not got.isfinite().all():
                key = "order"
            else:
                key = ""
            wrong = (got != values.round()).flatten().nonzero()[0]
            number, rounded, given = (t.flatten()[wrong].item() for t in (values, values.round(), got))
            raise Missed(key, expected=f"{rounded:.17g} for x = {number:.17g}", got=f"{given:.17g}")


@stop_gradient_round.claim("passes the gradient on as the identity does", weight=3)
def _(trial: Trial) -> None:
    for values in _numbers(trial):
        x = values.clone().requires_grad_()
        source = x * 1  # an inner tensor, so that a fresh leaf in the answer is told from a path to x
        got = trial.tensor(trial.call(source), shape=x.shape)
        if got.grad_fn is None:
            key = "cut from x" if got.requires_grad else "all detached"
            raise Missed(key, expected="a path to x", got="no grad_fn")
        # From the trial: a gradient that torch's own generator draws could be foretold.
        upstream = trial.randn(*values.shape, dtype=values.dtype).abs() + 0.5
        (gradient,) = torch.autograd.grad(got, x, upstream, allow_unused=True)
        if gradient is None:
            raise Missed("cut from x", expected="a path to x", got="none")
        if torch.allclose(gradient, upstream, rtol=1e-6):
            continue
        patterns = (
            ("zero gradient", torch.zeros_like(upstream)),
            ("doubled", 2 * upstream),
            ("upstream", torch.ones_like(upstream)),
        )
        key = next((key for key, pattern in patterns if torch.allclose(gradient, pattern)), "")
        raise Missed(key, expected="d result / d x = 1", got=f"{(gradient / upstream).flatten()[0]:.4g} at x[0]")


EXERCISES = (snapshot, predicted_edit, mean_loss, truncated_bptt, stop_gradient_round)
