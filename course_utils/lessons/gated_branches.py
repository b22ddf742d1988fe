"""Lesson 06, gated branches: its exercises, what they claim, and the misconceptions that they recognise."""

from collections.abc import Callable, Iterator
from itertools import product
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from course_utils.checks.exercise import Exercise, Misconception, Missed, Predict, Trial
from course_utils.two_branches import CLOSE, TwoBranchNet

# ------------------------------------------------------------------------------- what several exercises look at: calls


class _Branch(nn.Module):
    """A branch that notes each call: what came in, and whether the call was recorded."""

    def __init__(self, *layers: nn.Module) -> None:
        super().__init__()
        self.layers = nn.Sequential(*layers)
        self.inputs: list[Tensor] = []
        self.grad_modes: list[bool] = []
        self.flagged: list[bool] = []

    def forward(self, x: Tensor) -> Tensor:
        self.inputs.append(x.detach())
        self.grad_modes.append(torch.is_grad_enabled())
        self.flagged.append(all(parameter.requires_grad for parameter in self.parameters()))
        return self.layers(x)


class _Constant(nn.Module):
    """Adds a value that is not finite to every other column, as a branch does that has overflowed."""

    def __init__(self, value: float) -> None:
        super().__init__()
        self.value = value

    def forward(self, x: Tensor) -> Tensor:
        bad = torch.zeros_like(x)
        bad[:, ::2] = self.value
        return x + bad


def _branches(trial: Trial, kind: str, *last: nn.Module) -> tuple[_Branch, _Branch, Tensor]:
    """Two branches of one architecture with other weights, and a flagged input for them."""
    rows, width, out = trial.integer(3, 6), trial.integer(2, 4), trial.integer(5, 7)

    def layers() -> list[nn.Module]:
        if kind == "vectors":
            return [nn.Linear(width, 8), nn.Tanh(), nn.Linear(8, out), *last]
        if kind == "same width":
            return [nn.Linear(width, width), nn.Tanh(), *last]
        return [nn.Conv2d(width, 4, 3), nn.Tanh(), nn.Conv2d(4, out, 1), *last]

    a, b = (trial.fill(_Branch(*layers()).double()) for _ in range(2))
    shape = (rows, width, 5, 4) if kind == "images" else (rows, width)
    return a, b, trial.randn(*shape, requires_grad=True)


def _gradients(result: Tensor, upstream: Tensor, wanted: list[Tensor]) -> list[Tensor | None]:
    if not result.requires_grad:
        return [None] * len(wanted)
    return list(torch.autograd.grad(result, wanted, upstream, retain_graph=True, allow_unused=True))


def _expect_gradients(got: Tensor, expected: Tensor, named: dict[str, Tensor], trial: Trial) -> None:
    """The two results pass the same gradient on to every tensor that is named."""
    upstream = trial.randn(*expected.shape)
    wanted, names = list(named.values()), list(named)
    for name, found, right in zip(
        names, _gradients(got, upstream, wanted), _gradients(expected, upstream, wanted), strict=True
    ):
        if right is None:
            continue
        if found is None:
            raise Missed("detached", expected=f"a gradient for {name}", got="none")
        if not torch.allclose(found, right):
            raise Missed(expected=f"the gradient of {name} in the plain network", got="another gradient")


def _flops(function: Callable[[], Tensor]) -> int:
    """FLOPs of a forward and a backward pass."""
    with FlopCounterMode(display=False) as counter:
        result = function()
        if result.requires_grad:
            result.sum().backward()
    return counter.get_total_flops()


def _forget_gradients(*branches: nn.Module) -> None:
    for branch in branches:
        branch.zero_grad(set_to_none=True)


# ----------------------------------------------------------------------------------------------------- gated_forward

gated_forward = Exercise(
    name="gated_forward",
    points=3,
    hints=(
        "A branch that must not cost anything must not be called. What decides in Python whether a line runs?",
        "The closed half has the shape, dtype and device of the open half. So the open half is all that you need to "
        "make it.",
        "Call the one branch, make zeros like its output, and then put the two in the order a, b: one order for each "
        "value of the gate.",
    ),
    misconceptions={
        "multiply": Misconception(
            "A gate of 0 keeps the branch from running",
            "The product is worked out after the branch has run. Its forward pass has been paid for, and backward "
            "carries a gradient of zeros through all of it.",
            "Count the calls with a forward hook on each branch.",
        ),
        "no_grad": Misconception(
            "Under no_grad a branch costs nothing",
            "`no_grad` saves the graph and the backward pass. The forward pass runs in full.",
            "Count the FLOPs of a call under `no_grad`.",
        ),
        "frozen": Misconception(
            "A branch with lowered flags is a closed one",
            "Lowered flags stop gradients for the weights. The branch computes as before, and its output still goes "
            "into the next layer.",
            "Count the calls with a forward hook on each branch.",
        ),
        "shape": Misconception(
            "To know the shape of the closed half I have to run the closed branch",
            "Both branches return the same shape, so the open half tells it. A call whose values are thrown away costs "
            "as much as any other.",
            "Print the shape of what the open branch returns.",
        ),
        "twice": Misconception(
            "Asking a branch for its shape is free",
            "The open branch has been called more than once, and each call is a full forward pass.",
            "Keep the output of the first call under a name.",
        ),
        "order": Misconception(
            "The open half can come first",
            "The next layer's weights are tied to places. With the halves exchanged, the weights of branch a meet the "
            "features of branch b, and no shape complains.",
            "Print where the zeros are for each value of the gate.",
        ),
        "inverted": Misconception(
            "use_a names the branch that is closed",
            "`use_a` says that branch a is open.",
            "Call your function with `use_a=True`, and look at which half is zeros.",
        ),
        "missing": Misconception(
            "A closed branch takes no room",
            "The next layer expects both halves: in `cat` the closed one is a tensor of zeros at its own place.",
            "Compare the shape of your result with that of both halves joined.",
        ),
        "other dimension": Misconception(
            "cat joins the features by itself",
            "`cat` joins along the dimension that it is told, and along the first one, the batch, if it is told none. "
            "Features stand in dimension 1; for images the last one is their width.",
            "Print the shape of your result for images.",
        ),
        "not zeroed": Misconception(
            "A branch without gradient is closed",
            "Its values still flow into the next layer. A closed half is zeros.",
            "Print the closed half of your result.",
        ),
        "input masked": Misconception(
            "Zeros in, zeros out",
            "A branch with biases makes something else than zeros of an input of zeros, and it costs as much as ever.",
            "Call a branch on zeros, and print what it returns.",
        ),
        "nan": Misconception(
            "0 times anything is 0",
            "Zeros made by multiplication are not zeros where the other factor is inf or NaN: there the product is "
            "NaN.",
            "Let the open branch return inf, and print the closed half.",
        ),
        "dtype": Misconception(
            "Zeros fit anything",
            "Zeros are made in the default dtype and on the CPU unless they are told otherwise. In `cat` they turn a "
            "network of 16-bit numbers into one of 32-bit numbers.",
            "Print the dtype of your result for a branch in bfloat16.",
        ),
        "tensor gate": Misconception(
            "Every true gate `is True`",
            "`is` asks for one particular object. A 0-dim tensor that holds True is another one, so the gate looks "
            "closed.",
            "Call your function with `torch.tensor(True)`.",
        ),
        "bool gate": Misconception(
            "A gate is always a tensor",
            "A coin in Python gives a bool, which has no tensor methods.",
            "Call your function with `True`.",
        ),
        "detached": Misconception(
            "Closing one half means cutting the result",
            "The open half keeps its history: its branch is the one that trains at this step.",
            "Print `grad_fn` of your result.",
        ),
        "shape of x": Misconception(
            "The output of a branch has the shape of its input",
            "A branch may change every dimension but the first one. The closed half must fit the open half.",
            "Print the shapes of `x` and of what a branch returns.",
        ),
        "unwritten": Misconception(
            "New memory is zeros",
            "Memory that is not written holds whatever was there before. Sometimes that is zeros.",
            "Fill it yourself, or ask for zeros.",
        ),
        "fabricated": Misconception(
            "Every parameter needs a gradient",
            "None says that there was none, and an optimizer passes over it. Zeros are a gradient like any other, "
            "and with momentum or weight decay they move the weights.",
            "Leave `.grad` of the closed branch alone.",
        ),
    },
    raises=(
        ("Sizes of tensors must match", "shape of x"),
        ("'bool' object has no attribute", "bool gate"),
        ("expected Tensor as element", "missing"),
        ("expected a non-empty list", "missing"),
        ("zero-dimensional tensor", "missing"),
        ("Tensors must have same number of dimensions", "missing"),
    ),
    effects=((".grad", "fabricated"), ("requires_grad", "frozen")),
)


def _gates() -> Iterator[tuple[str, bool, bool | Tensor]]:
    """(kind of branch, whether branch a is open, the gate): bools and 0-dim tensors."""
    for use_a in (True, False):
        yield "vectors" if use_a else "images", use_a, use_a
        yield "images" if use_a else "vectors", use_a, torch.tensor(use_a)


def _gated(trial: Trial, a: nn.Module, b: nn.Module, x: Tensor, gate: Any, **options: Any) -> Tensor:
    shown = f"torch.tensor({bool(gate)})" if isinstance(gate, Tensor) else str(gate)
    return trial.tensor(trial.call(a, b, x, gate, show=f"gated_forward(branch_a, branch_b, x, {shown})", **options))


def _halves(a: _Branch, b: _Branch, x: Tensor, use_a: bool) -> tuple[Tensor, Tensor]:
    """The open and the closed half. The calls are not counted."""
    opened = (a if use_a else b).layers(x)
    return opened, torch.zeros_like(opened)


def _joined(opened: Tensor, closed: Tensor, use_a: bool) -> Tensor:
    return torch.cat((opened, closed) if use_a else (closed, opened), dim=1)


@gated_forward.claim("is `cat([a, b], dim=1)` with zeros for the closed half", weight=0, gate=True)
def _(trial: Trial) -> None:
    for turned in (False, True):
        for kind, use_a, gate in _gates():
            a, b, x = _branches(trial, {"vectors": "images", "images": "vectors"}[kind] if turned else kind)
            got = _gated(trial, a, b, x, gate)
            with torch.no_grad():
                opened, closed = _halves(a, b, x, use_a)
                expected = _joined(opened, closed, use_a)
                if got.shape != expected.shape:
                    others = [dim for dim in range(opened.dim()) if dim != 1]
                    elsewhere = any(got.shape == torch.cat((opened, closed), dim).shape for dim in others)
                    key = "other dimension" if elsewhere else ""
                    key = "missing" if got.shape == opened.shape else key
                    if got.dim() == 2 and got.shape[1] == opened.shape[1] + x.shape[1]:
                        key = "shape of x"
                    raise Missed(key, expected=f"shape {tuple(expected.shape)}", got=f"shape {tuple(got.shape)}")
                if torch.allclose(got.double(), expected, rtol=1e-5, atol=1e-6):
                    continue
                raise _wrong_values(got.double(), a, b, x, use_a, gate)


def _wrong_values(got: Tensor, a: _Branch, b: _Branch, x: Tensor, use_a: bool, gate: Any) -> Missed:
    opened, closed = _halves(a, b, x, use_a)
    other, _ = _halves(a, b, x, not use_a)
    place = "second" if use_a else "first"
    expected = f"the {'first' if use_a else 'second'} half from branch_{'a' if use_a else 'b'}, the {place} zeros"
    masked = (b if use_a else a).layers(torch.zeros_like(x))

    def like(opened: Tensor, closed: Tensor, use_a: bool) -> bool:
        return torch.allclose(got, _joined(opened, closed, use_a), rtol=1e-5, atol=1e-6)

    if like(opened, closed, not use_a):
        return Missed("order", expected=expected, got="the two halves exchanged")
    if like(other, closed, not use_a):
        key = "tensor gate" if isinstance(gate, Tensor) else "inverted"
        return Missed(key, expected=expected, got="the other branch open")
    if like(other, closed, use_a):
        return Missed("order", expected=expected, got="the other branch's features at this one's place")
    if like(opened, other, use_a):
        return Missed("not zeroed", expected=expected, got="both branches open")
    if like(opened, masked, use_a):
        return Missed("input masked", expected=expected, got="what the closed branch makes of zeros")
    size = opened.shape[1]
    open_half, closed_half = (got[:, :size], got[:, size:]) if use_a else (got[:, size:], got[:, :size])
    if torch.allclose(open_half, opened, rtol=1e-5, atol=1e-6):
        return Missed("unwritten", expected=expected, got=f"{closed_half.flatten()[0].item():.4g} in the closed half")
    return Missed(expected=expected, got="other values")


@gated_forward.claim("passes gradients on to the open branch and to x", weight=0, gate=True)
def _(trial: Trial) -> None:
    for kind, use_a, gate in _gates():
        a, b, x = _branches(trial, kind)
        got = _gated(trial, a, b, x, gate)
        expected = _joined(*_halves(a, b, x, use_a), use_a)
        _expect_gradients(got, expected, {"x": x} | dict((a if use_a else b).named_parameters()), trial)


def _expect_not_called(closed: _Branch, got: Tensor) -> None:
    if not closed.inputs:
        return
    if not all(closed.flagged):
        key = "frozen"
    elif max(len(rows) for rows in closed.inputs) < len(got):
        key = "shape"  # a few rows, or none, are enough for a shape
    elif not any(closed.grad_modes):
        key = "no_grad"
    else:
        path = any(g is not None for g in _gradients(got, torch.ones_like(got), list(closed.parameters())))
        key = "multiply" if path else "shape"
    calls = f"{len(closed.inputs)} call{'s' if len(closed.inputs) > 1 else ''}"
    raise Missed(key, expected="no call of the closed branch", got=calls)


@gated_forward.claim("does not call the closed branch", weight=2)
def _(trial: Trial) -> None:
    for kind, use_a, gate in _gates():
        a, b, x = _branches(trial, kind)
        got = _gated(trial, a, b, x, gate)
        _expect_not_called(b if use_a else a, got)


@gated_forward.claim("has exact zeros there, also where a branch returns inf or nan")
def _(trial: Trial) -> None:
    for _kind, use_a, gate in _gates():
        value = float("nan") if isinstance(gate, Tensor) else float("inf")
        a, b, x = _branches(trial, "vectors", _Constant(value))
        got = _gated(trial, a, b, x, gate)
        size = got.shape[1] // 2
        half = got[:, size:] if use_a else got[:, :size]
        if half.any():
            key = "nan" if half.isnan().any() else "unwritten"
            wrong = half[half != 0][0].item()
            raise Missed(key, expected="zeros in the closed half", got=f"{wrong:.4g}")


@gated_forward.claim("leaves `.grad` of the closed branch None after backward")
def _(trial: Trial) -> None:
    for _kind, use_a, gate in _gates():
        a, b, x = _branches(trial, "images")
        got = _gated(trial, a, b, x, gate)
        got.sum().backward()
        for parameter in (b if use_a else a).parameters():
            if parameter.grad is not None:
                key = "fabricated" if any(".grad" in effect for effect in trial.effects) else "multiply"
                raise Missed(key, expected="None", got="zeros" if not parameter.grad.any() else "a gradient")


@gated_forward.claim("costs the FLOPs of one branch, forward and backward")
def _(trial: Trial) -> None:
    for kind, use_a, gate in _gates():
        a, b, x = _branches(trial, kind)
        budget = _flops(lambda a=a, b=b, x=x, use_a=use_a: _halves(a, b, x, use_a)[0])
        _forget_gradients(a, b)
        x.grad = None
        spent = _flops(lambda a=a, b=b, x=x, gate=gate: _gated(trial, a, b, x, gate))
        if spent > budget:
            opened, closed = (a, b) if use_a else (b, a)
            details = {"expected": f"{budget} FLOPs", "got": f"{spent} FLOPs"}
            if len(opened.inputs) > 1:
                raise Missed("twice", **details)
            if closed.inputs and not any(closed.grad_modes):
                raise Missed("no_grad", **details)
            raise Missed("multiply" if closed.inputs else "", **details)


@gated_forward.claim("keeps the branches' dtype, without a call of the closed one", weight=0.5)
def _(trial: Trial) -> None:
    for _kind, use_a, gate in _gates():
        dtype = torch.float32 if isinstance(gate, Tensor) else torch.bfloat16
        a, b, x = _branches(trial, "vectors")
        a, b, x = a.to(dtype), b.to(dtype), x.detach().to(dtype)
        got = _gated(trial, a, b, x, gate)
        if got.dtype != dtype:
            raise Missed("dtype", expected=str(dtype), got=str(got.dtype))
        _expect_not_called(b if use_a else a, got)


# ---------------------------------------------------------------------------------------------------- predicted_cost


def _costs_seen(trial: Trial) -> dict[str, tuple[int, int, str]]:
    """Branches computed forward and backward, and the closed branch's gradient, for each way to close it."""
    seen = {}
    for close in CLOSE:
        net = trial.fill(TwoBranchNet((2, 2)).double())
        forward: list[int] = []
        backward: list[int] = []

        def count(_module: nn.Module, _inputs: Any, output: Tensor, forward=forward, backward=backward) -> None:
            forward.append(1)
            if output.requires_grad:
                output.register_hook(lambda _gradient: backward.append(1))

        for branch in (net.branch_a, net.branch_b):
            branch.register_forward_hook(count)
        net(trial.randn(2, 3, 32, 32), True, close).sum().backward()
        gradients = [parameter.grad for parameter in net.branch_b.parameters()]
        state = "none" if all(gradient is None for gradient in gradients) else "zeros"
        seen[close] = (len(forward), len(backward), state)
    return seen


def _normal_cost(value: Any) -> tuple[int, int, str]:
    message = '(branches forward, branches backward, "zeros" or "None"), for example (2, 0, "zeros")'
    if not isinstance(value, (tuple, list)) or len(value) != 3:
        raise TypeError(message)
    *counts, gradient = value
    gradient = "none" if gradient is None else gradient
    if not isinstance(gradient, str) or any(isinstance(count, str) or count not in (0, 1, 2) for count in counts):
        raise TypeError(message)
    gradient = gradient.strip().casefold()
    if gradient not in ("zeros", "none"):
        raise TypeError(message)
    return int(counts[0]), int(counts[1]), gradient


_COST_READINGS = {
    "multiply": ((2, "gate stops forward"), (2, "gate stops backward"), ("zeros", "zeros are none")),
    "no_grad": ((2, "no_grad stops forward"), (1, "no_grad goes backward"), ("none", "unrecorded gives zeros")),
    "skip": ((1, "skip runs"), (1, "skip goes backward"), ("none", "skip gives zeros")),
}


def _cost_readings() -> Iterator[tuple[tuple[str, Any], str]]:
    """For each wrong prediction the misconception of its first part that is wrong."""
    for key, parts in _COST_READINGS.items():
        for value in product((0, 1, 2), (0, 1, 2), ("zeros", "none")):
            wrong = [reading for given, (right, reading) in zip(value, parts, strict=True) if given != right]
            if wrong:
                yield (key, value), wrong[0]


predicted_cost = Predict(
    name="predicted_cost",
    points=2,
    truth=_costs_seen,
    keys=CLOSE,
    normal=_normal_cost,
    hints=(
        "Go through the three ways line by line. Which calls of a branch does Python reach?",
        "Backward walks the recorded graph. A branch that was not recorded has no nodes to walk through, and a factor "
        "of 0 is a node like any other.",
        "A weight gets a gradient if backward reaches it, and that gradient may be zeros. If it is not reached, "
        "`.grad` stays what it was.",
    ),
    misconceptions={
        "gate stops forward": Misconception(
            "A gate of 0 keeps the branch from running",
            "The call stands in the line, so Python makes it. The gate multiplies what comes back.",
            "Count the calls with a forward hook on each branch.",
        ),
        "gate stops backward": Misconception(
            "Backward stops where the gradient is zero",
            "The engine does not look at values. It goes through every recorded node, with zeros if that is what it "
            "was handed.",
            "Put a tensor hook on the closed branch's output, and see whether it fires.",
        ),
        "zeros are none": Misconception(
            "A gradient of zeros is no gradient",
            "Backward has reached the weights, and has written zeros. None means that it has not been there.",
            "Print `.grad` of one weight of the closed branch.",
        ),
        "no_grad stops forward": Misconception(
            "Under no_grad nothing is computed",
            "The values are computed as ever. What is left out is the recording.",
            "Count the calls with a forward hook on each branch.",
        ),
        "no_grad goes backward": Misconception(
            "Backward reaches what ran under no_grad",
            "What was not recorded is not in the graph. Backward goes through the open branch alone.",
            "Draw the graph of the result.",
        ),
        "unrecorded gives zeros": Misconception(
            "Every parameter has a gradient after backward",
            "Backward writes to the leaves that it reaches. `.grad` of all others stays as it was, and here it was "
            "None.",
            "Print `.grad` of a weight that is not used in the loss.",
        ),
        "skip runs": Misconception(
            "A network always runs all of its layers",
            "A forward pass is Python code. What is not called is not run.",
            "Count the calls with a forward hook on each branch.",
        ),
        "skip goes backward": Misconception(
            "Zeros in the closed half are a path back into the branch",
            "The zeros are a new tensor without history. Nothing leads from them to the closed branch's weights, and "
            "the open branch is walked through as ever.",
            "Draw the graph of the result.",
        ),
        "skip gives zeros": Misconception(
            "A skipped branch has a gradient of zeros",
            "Nobody has written anything to its `.grad`.",
            "Print `.grad` of one weight of the skipped branch.",
        ),
    },
    readings=dict(_cost_readings()),
)

# ------------------------------------------------------------------------------------------------------------- route

route = Exercise(
    name="route",
    points=2,
    hints=(
        "Pick the rows before you call a branch, not afterwards. A bool vector is an index.",
        "Each branch returns its rows as a block. Where does each of them belong, and what says so?",
        "Make room for the result from what a branch returned, write each block to the places that its mask names, and "
        "think of the branch that has nothing to do.",
    ),
    misconceptions={
        "choose afterwards": Misconception(
            "Choosing among results costs no more than choosing among branches",
            "`torch.where` and masks choose when both branches have run on all rows, forward and backward.",
            "Count the rows that each branch is given.",
        ),
        "grouped": Misconception(
            "cat puts the rows back",
            "`cat` puts one branch's block behind the other's. Row 0 of the result is then no longer row 0 of `x`, "
            "and meets another row's label.",
            "Use branches that return their input, and compare the result with `x`.",
        ),
        "inverse": Misconception(
            "The order that sorted the rows also puts them back",
            "An index that gathers says where each row comes from. To put them back it has to say where each row "
            "goes to: the inverse.",
            "Try it with an order of three rows: 1, 2, 0.",
        ),
        "twice": Misconception(
            "Asking a branch for its shape is free",
            "Each call of a branch is a forward pass of the rows that it is given, and one of a branch without rows is "
            "a call too many.",
            "Count the calls of each branch, and take the shape from rows that have to be computed anyway.",
        ),
        "left out": Misconception(
            "A row that branch a does not take stays zeros",
            "It goes through branch b. Zeros stand for a branch that is closed for the whole batch.",
            "Print the rows of your result where the gate is False.",
        ),
        "swapped": Misconception(
            "True sends a row to branch b",
            "A row goes through branch_a where the gate is True.",
            "Call your function with a gate that is True everywhere, and count the rows of each branch.",
        ),
        "one gate": Misconception(
            "A gate is one decision",
            "Here it is one decision a row: Python's `if`, `any()` and `all()` make one of them for the whole batch.",
            "Call your function with a gate that is True for one row and False for another.",
        ),
        "broadcast": Misconception(
            "A vector with one entry a row lines up with the rows",
            "Shapes are aligned from the last dimension: a vector of length n lines up with columns.",
            "Print `gate[:, None].shape`. Then ask whether both branches have to run at all.",
        ),
        "empty batch": Misconception(
            "A batch without rows does no harm",
            "The branch is called all the same: hooks fire, batch norm counts a batch, and backward writes zeros where "
            "None should be. With momentum or weight decay they move its weights.",
            "Call your function with a gate that is True everywhere, run backward, and print `.grad` of branch b.",
        ),
        "in place": Misconception(
            "x is a good place for the results",
            "It is the caller's tensor. On a flagged leaf torch refuses; elsewhere the caller's batch is gone, or "
            "branch_b sees rows that have changed.",
            "Write into a tensor of your own.",
        ),
        "shape of x": Misconception(
            "The output of a branch has the shape of its input",
            "A branch may change every dimension but the first one.",
            "Make room for the result from what a branch returned.",
        ),
        "dtype": Misconception(
            "New zeros take whatever is written into them",
            "They have the default dtype unless they are told otherwise, and an indexed write does not convert.",
            "Print the dtype of your empty result and of what a branch returns.",
        ),
        "detached": Misconception(
            "A result that is put together by hand carries its history along",
            "A write that is not recorded, and a tensor made from lists or arrays, cut the history: the values are "
            "right and nothing behind them learns.",
            "Print `grad_fn` of your result.",
        ),
    },
    raises=(
        ("Boolean value of Tensor", "one gate"),
        ("leaf Variable", "in place"),
        ("must match the size of tensor", "broadcast"),
        ("shape mismatch", "shape of x"),
        ("expanded size", "shape of x"),
        ("destination dtypes match", "dtype"),
        ("same dtype", "dtype"),
        ("expected self and source", "dtype"),
        ("numpy() on Tensor that requires grad", "detached"),
    ),
    effects=(("edited x", "in place"), ("history of x", "in place")),
)


def _mixed_gate(trial: Trial, rows: int) -> Tensor:
    """A gate with at least two rows for each branch, in an order that is not its own inverse."""
    while True:
        gate = trial.randn(rows) > 0
        order = torch.cat((gate.nonzero(), (~gate).nonzero())).flatten()
        other = torch.cat(((~gate).nonzero(), gate.nonzero())).flatten()
        moved = torch.arange(rows)
        if all(not torch.equal(one[one], moved) for one in (order, other)) and 2 <= int(gate.sum()) <= rows - 2:
            return gate


def _route_cases(trial: Trial, few: bool = False) -> Iterator[tuple[_Branch, _Branch, Tensor, Tensor]]:
    """Branches, input and gate: mixed rows, one row for a branch, all rows for one branch, a single row."""
    for kind in ("vectors", "images") if few else ("same width", "vectors", "images"):
        a, b, x = _branches(trial, kind)
        x = trial.randn(trial.integer(7, 9), *x.shape[1:], requires_grad=True)
        yield a, b, x, _mixed_gate(trial, len(x))
    for count in (0, 4) if few else (0, 1, 4, 5):
        a, b, x = _branches(trial, "images" if count % 2 else "vectors")
        x = trial.randn(5, *x.shape[1:], requires_grad=True)
        gate = torch.arange(5) < count
        yield a, b, x, gate[torch.argsort(trial.randn(5))]
    for open_a in (True,) if few else (True, False):
        a, b, x = _branches(trial, "vectors")
        yield a, b, trial.randn(1, x.shape[1], requires_grad=True), torch.tensor([open_a])


def _routed(trial: Trial, a: _Branch, b: _Branch, x: Tensor, gate: Tensor) -> Tensor:
    show = f"route(branch_a, branch_b, x of {len(x)} rows, gate with {int(gate.sum())} True)"
    return trial.tensor(trial.call(a, b, x, gate, show=show))


def _row_by_row(a: _Branch, b: _Branch, x: Tensor, gate: Tensor) -> Tensor:
    return torch.cat([(a if gate[i] else b).layers(x[i : i + 1]) for i in range(len(x))])


@route.claim("sends each row through its branch, and gives the rows back in order", weight=0, gate=True)
def _(trial: Trial) -> None:
    for a, b, x, gate in _route_cases(trial):
        got = _routed(trial, a, b, x, gate).detach()
        with torch.no_grad():
            expected = _row_by_row(a, b, x, gate)
            if got.shape != expected.shape:
                raise Missed(expected=f"shape {tuple(expected.shape)}", got=f"shape {tuple(got.shape)}")
            if torch.allclose(got.double(), expected, rtol=1e-5, atol=1e-6):
                continue
            raise _wrong_rows(got.double(), a, b, x, gate, expected)


def _wrong_rows(got: Tensor, a: _Branch, b: _Branch, x: Tensor, gate: Tensor, expected: Tensor) -> Missed:
    def like(values: Tensor) -> bool:
        return torch.allclose(got, values, rtol=1e-5, atol=1e-6)

    first, second = gate.nonzero().flatten(), (~gate).nonzero().flatten()
    for order in (torch.cat((first, second)), torch.cat((second, first))):
        # Batches of a few rows: a gate like this has no order of its own to be confused with the right one.
        if like(expected[order]):
            return Missed("grouped", expected="row i of x at row i", got=f"the rows {order.tolist()} of x")
        if like(expected[order][order]):
            return Missed("inverse", expected="row i of x at row i", got=f"the rows {order[order].tolist()} of x")
    if like(_row_by_row(a, b, x, ~gate)):
        return Missed("swapped", expected="branch_a where the gate is True", got="branch_b there")
    if like(a.layers(x)) or like(b.layers(x)):
        return Missed("one gate", expected="one decision a row", got="one branch for all rows")
    rows = [i for i in range(len(x)) if not torch.allclose(got[i], expected[i], rtol=1e-5, atol=1e-6)]
    if not got[rows].any():
        return Missed("left out", expected="row by row what its own branch returns", got=f"zeros in row {rows[0]}")
    return Missed(expected="row by row what its own branch returns", got=f"other values in row {rows[0]}")


@route.claim("passes gradients on to x and to both branches", weight=0, gate=True)
def _(trial: Trial) -> None:
    for a, b, x, gate in _route_cases(trial, few=True):
        got, expected = _routed(trial, a, b, x, gate), _row_by_row(a, b, x, gate)
        named = {"x": x}
        for name, branch in (("branch_a", a), ("branch_b", b)):
            named |= {f"{name}.{key}": parameter for key, parameter in branch.named_parameters()}
        _expect_gradients(got, expected, named, trial)


def _needless_call(branch: _Branch, rows: int) -> str:
    most = max(len(value) for value in branch.inputs)
    return "empty batch" if most == 0 else "choose afterwards" if most == rows else "twice"


@route.claim("gives each branch its own rows and no others", weight=2)
def _(trial: Trial) -> None:
    for a, b, x, gate in _route_cases(trial):
        _routed(trial, a, b, x, gate)
        for name, branch, mine in (("branch_a", a, gate), ("branch_b", b, ~gate)):
            count = sum(rows.numel() for rows in branch.inputs) // x[0].numel()
            if count > int(mine.sum()):
                key = _needless_call(branch, len(x))
                raise Missed(key, expected=f"{int(mine.sum())} rows for {name}", got=f"{count} of {len(x)} rows")


@route.claim("costs the FLOPs of one branch a row, forward and backward")
def _(trial: Trial) -> None:
    for a, b, x, gate in _route_cases(trial, few=True):
        budget = _flops(lambda a=a, x=x, gate=gate: a.layers(x[gate])) if gate.any() else 0
        budget += _flops(lambda b=b, x=x, gate=gate: b.layers(x[~gate])) if not gate.all() else 0
        _forget_gradients(a, b)
        x.grad = None
        spent = _flops(lambda a=a, b=b, x=x, gate=gate: _routed(trial, a, b, x, gate))
        if spent > budget:
            raise Missed("choose afterwards", expected=f"{budget} FLOPs", got=f"{spent} FLOPs")


@route.claim("does not call a branch that has no rows")
def _(trial: Trial) -> None:
    for open_a in (True, False):
        for rows in (4, 1):
            a, b, x = _branches(trial, "vectors")
            gate = torch.full((rows,), open_a)
            _routed(trial, a, b, trial.randn(rows, x.shape[1], requires_grad=True), gate)
            idle = b if open_a else a
            if idle.inputs:
                given = max(len(value) for value in idle.inputs)
                raise Missed(_needless_call(idle, rows), expected="no call", got=f"a call with {given} rows")


# ------------------------------------------------------------------------------------------------------- masked_sqrt

masked_sqrt = Exercise(
    name="masked_sqrt",
    points=1,
    hints=(
        "The slope of the square root is infinite at 0 and undefined below. What becomes of it when it is multiplied "
        "by a gradient of 0?",
        "Choosing between results comes too late: the root has been taken of every element. Choose what goes into the "
        "root.",
        "Which harmless number can stand in for the elements that are not positive, before the root? And what has to "
        "be done after it?",
    ),
    misconceptions={
        "where": Misconception(
            "A mask keeps the gradient out of the side that it closes",
            "Backward goes through the root on that side too. The slope there is inf or NaN, and 0 times that is NaN, "
            "whether the 0 comes from a mask, from `torch.where` or from anything else.",
            "Print the gradient of your function at -1, 0 and 4.",
        ),
        "result edited": Misconception(
            "The values of a root can be repaired afterwards",
            "`sqrt` keeps its own result for backward. Edited in place, it is no longer what was saved, and the engine "
            "refuses.",
            "Run backward on your result, and read the error.",
        ),
        "zero itself": Misconception(
            "At 0 the root is harmless",
            "Its value is, its slope is not: 1 / (2·sqrt(0)) is inf. Zero belongs to the side that must not reach the "
            "root.",
            "Print the gradient at exactly 0.",
        ),
        "multiply": Misconception(
            "0 times anything is 0",
            "The root of a negative number is NaN, and 0 times NaN is NaN.",
            "Print the value of your function at -1.",
        ),
        "epsilon": Misconception(
            "A small epsilon changes nothing",
            "It changes every value a little, and small ones beyond recognition. The root of 1e-12 is 1e-6.",
            "Compare your values with `x.sqrt()` at 1e-300 and at 4, and with 0 at -1.",
        ),
        "absolute": Misconception(
            "The root of the absolute value is safe",
            "It is defined, and it is no longer 0 where x is negative.",
            "Print the value of your function at -4.",
        ),
        "detached": Misconception(
            "Without history there is no NaN",
            "And no gradient where x is positive, either.",
            "Print the gradient of your function at 4.",
        ),
        "hook on x": Misconception(
            "A hook on x repairs my gradient alone",
            "The hook stays on the caller's tensor, and changes what comes back from everything else that uses `x`.",
            "Print `x._backward_hooks` after your function has run.",
        ),
        "edited": Misconception(
            "x is mine to clean up",
            "It is the caller's tensor: on a flagged leaf torch refuses, and elsewhere the caller's numbers are gone.",
            "Print `x` after your function has run.",
        ),
        "upstream": Misconception(
            "backward returns the slope",
            "It returns the slope times the gradient that it is handed.",
            "Multiply your result by 3 before you take its gradient.",
        ),
        "scalar if": Misconception(
            "if x > 0 looks at each element",
            "Python's `if` wants one truth value, and a tensor of several elements has none.",
            "Use the mask `x > 0` as a tensor.",
        ),
    },
    raises=(
        ("does not require grad", "detached"),
        ("leaf Variable", "edited"),
        ("Boolean value of Tensor", "scalar if"),
    ),
    effects=(("edited x", "edited"), ("history of x", "edited")),
)

_TINY = {torch.float64: 1e-300, torch.float32: 1e-36}


def _roots(trial: Trial) -> Iterator[Tensor]:
    """Finite numbers of every sign and size; every tensor with a positive element holds others, too."""
    for dtype in (torch.float64, torch.float32):
        special = torch.tensor([-1.0, 0.0, -0.0, 4.0, _TINY[dtype], -_TINY[dtype], 1e30, -1e30], dtype=dtype)
        yield torch.cat((special, trial.randn(trial.integer(5, 9), dtype=dtype)))
        yield trial.randn(trial.integer(2, 4), 5, dtype=dtype).t()
    yield trial.randn(3, 2) - 10
    yield trial.randn(4).abs() + 0.1
    yield trial.randn().abs() + 1
    yield -trial.randn().abs() - 1
    yield torch.zeros((), dtype=torch.float64)


def _root(trial: Trial, x: Tensor) -> Tensor:
    return trial.tensor(trial.call(x), shape=x.shape, dtype=x.dtype)


@masked_sqrt.claim("is the root where x is positive, and 0 elsewhere", weight=0, gate=True)
def _(trial: Trial) -> None:
    for values in _roots(trial):
        positive = values > 0
        expected = torch.zeros_like(values)
        expected[positive] = values[positive].sqrt()
        # A formula like exp(log(x) / 2) is right too, and loses some digits.
        digits = 1e-9 if values.dtype == torch.float64 else 1e-4
        for x in (values.clone(), values.clone().requires_grad_()):
            got = _root(trial, x).detach()
            right = torch.isclose(got, expected, rtol=digits, atol=0.0)
            if right.all():
                continue
            wrong = (~right).flatten().nonzero()[0]
            number, wanted, given = (t.flatten()[wrong].item() for t in (values, expected, got))
            if number < 0 and given != given:
                key = "multiply"
            elif number < 0 and abs(given**2 + number) < 1e-5 * abs(number):
                key = "absolute"
            elif abs(given - wanted) < 0.1:
                key = "epsilon"
            else:
                key = ""
            raise Missed(key, expected=f"{wanted:.6g} for x = {number:.6g}", got=f"{given:.6g}")


def _slopes(trial: Trial, values: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The gradient that the answer passes on, the one that it was handed, and x."""
    x = values.clone().requires_grad_()
    got = _root(trial, x)
    upstream = trial.randn(*values.shape, dtype=values.dtype).abs() + 0.5
    try:
        (gradient,) = _gradients(got, upstream, [x])
    except RuntimeError as error:
        key = "result edited" if "modified by an inplace" in str(error) else ""
        raise Missed(key, expected="a gradient", got=f"RuntimeError: {str(error)[:90]}") from None
    if gradient is None:
        if (values > 0).any():
            raise Missed("detached", expected="a gradient where x is positive", got="none")
        gradient = torch.zeros_like(values)  # nothing depends on x here, so nothing has to be recorded
    return gradient, upstream, x


@masked_sqrt.claim("has the gradient of the root where x is positive", weight=0, gate=True)
def _(trial: Trial) -> None:
    for values in _roots(trial):
        gradient, upstream, _x = _slopes(trial, values)
        positive = values > 0
        slope = 0.5 / values[positive].sqrt()
        if torch.allclose(gradient[positive], upstream[positive] * slope, rtol=1e-4):
            continue
        key = "upstream" if torch.allclose(gradient[positive], slope, rtol=1e-4) else ""
        key = "detached" if not gradient[positive].any() else key
        raise Missed(key, expected="upstream · 1 / (2·sqrt(x))", got="another gradient")


def _expect_zero(trial: Trial, chosen: Callable[[Tensor], Tensor], key: str) -> None:
    for values in _roots(trial):
        gradient, _upstream, _x = _slopes(trial, values)
        there = gradient[chosen(values)]
        if there.any():  # NaN and inf count as true
            number = values[chosen(values)][there != 0][0].item()
            raise Missed(key, expected=f"0 at x = {number:.6g}", got=f"{there[there != 0][0].item():.6g}")


@masked_sqrt.claim("has the gradient 0 where x is negative")
def _(trial: Trial) -> None:
    _expect_zero(trial, lambda values: values < 0, "where")


@masked_sqrt.claim("has the gradient 0 where x is 0")
def _(trial: Trial) -> None:
    _expect_zero(trial, lambda values: values == 0, "zero itself")


@masked_sqrt.claim("leaves no hook on x", weight=0)
def _(trial: Trial) -> None:
    for values in _roots(trial):
        *_, x = _slopes(trial, values)
        if x._backward_hooks:
            raise Missed("hook on x", expected="x without a hook", got="a hook on x")


# --------------------------------------------------------------------------------------------------------- hard_gate

hard_gate = Exercise(
    name="hard_gate",
    points=2,
    hints=(
        "Lesson 03 had a number whose value came from one term and whose gradient came from another.",
        "A comparison gives the value and has no gradient; `torch.sigmoid` gives the gradient. What is worth 0 and "
        "passes a gradient on?",
        "Floating-point sums depend on their order: (1 + s) - s need not be 1. Subtract first what is to cancel.",
    ),
    misconceptions={
        "comparison": Misconception(
            "A comparison passes a gradient on",
            "`logit > 0` has no history, and a cast does not bring it back. What decides the gate never learns.",
            "Print `requires_grad` of what you return, for a flagged logit.",
        ),
        "zero gradient": Misconception(
            "A step that autograd knows has a useful gradient",
            "`round`, `sign` and `floor` are recorded, and their gradient is 0 everywhere: nothing behind them learns, "
            "and nothing complains.",
            "Print the gradient of `torch.sigmoid(logit).round().sum()`.",
        ),
        "soft": Misconception(
            "A sigmoid is a gate",
            "It is open a little at every logit. A closed branch then has to run after all.",
            "Print the distinct values of what you return.",
        ),
        "identity": Misconception(
            "Any gradient will do",
            "The identity's gradient is 1 at every logit: a gate that is far open is pushed as hard as one that is "
            "undecided. Here that of the sigmoid is asked for.",
            "Compare the gradient with s·(1 - s) at logit 3.",
        ),
        "added": Misconception(
            "A term that is there for its gradient adds no value",
            "It adds the value that it has. To add its gradient alone, it has to be worth 0.",
            "Print what you return at logit 3.",
        ),
        "order": Misconception(
            "The order of a sum does not matter",
            "In floating point it does: (1 + s) - s rounds twice. The gate must be exactly 1.",
            "Subtract your result from `(logit > 0)` for a few hundred random logits.",
        ),
        "sigmoid first": Misconception(
            "sigmoid(logit) > 0.5 is the same as logit > 0",
            "On paper it is. The sigmoid of a tiny positive logit is rounded to exactly 0.5.",
            "Try a logit of 1e-30.",
        ),
        "at zero": Misconception(
            "0 is open",
            "The gate is open where the logit is greater than 0. At 0 it is closed.",
            "Try a logit of 0.",
        ),
        "doubled": Misconception(
            "Each use of the sigmoid can keep its gradient",
            "Every path from the result to the logit adds its gradient. With two open paths you get twice the "
            "sigmoid's.",
            "Count the paths that are not detached.",
        ),
        "scaled": Misconception(
            "A detached factor leaves the gradient alone",
            "Multiplying or dividing by it gives the right value, and scales the gradient, to 0 where the gate is "
            "closed.",
            "Compare the gradient with s·(1 - s) at a negative logit.",
        ),
        "upstream": Misconception(
            "backward returns the derivative",
            "It returns the derivative times the gradient that it is handed.",
            "Multiply the gate by 3 before `sum().backward()`, and print the gradient.",
        ),
        "saved output": Misconception(
            "The value of a result can be exchanged behind autograd's back",
            "`sigmoid` computes its gradient from its own output. Overwritten with 0 and 1, that output gives "
            "s·(1 - s) = 0, or an error where the edit is seen.",
            "Look at what the operation saved before you edit its result.",
        ),
        "dtype": Misconception(
            "float() keeps the dtype",
            "It makes 32-bit numbers, whatever was there. The gate has the dtype of the logit.",
            "Print the dtype for a logit in float64.",
        ),
        "fresh leaf": Misconception(
            "Raising the flag connects the result",
            "A tensor that is flagged afterwards is a new leaf. No path leads back to the logit.",
            "Run backward, and print the gradient of the logit.",
        ),
        "sampled": Misconception(
            "A gate has to be drawn",
            "A random gate is open with a probability. This one is open where the logit is greater than 0, each time.",
            "Call your function twice on the same logit.",
        ),
        "by hand": Misconception(
            "A sigmoid written by hand is the same",
            "`exp` overflows for large numbers, and inf over inf in its derivative is NaN. torch's own is written to "
            "avoid it.",
            "Print the gradient at a logit of -1000.",
        ),
    },
    raises=(
        ("modified by an inplace operation", "saved output"),
        ("leaf Variable", "saved output"),
        ("does not require grad", "comparison"),
        ("not differentiable", "comparison"),
        ("not implemented", "comparison"),
    ),
)


def _logits(trial: Trial) -> Iterator[Tensor]:
    # Not too near to 0: tiny logits have a claim of their own.
    for shape in ((trial.integer(40, 60),), (6, trial.integer(3, 5)), ()):
        values = trial.randn(*shape) * 2
        yield values + values.sign() * 0.01
    values = trial.randn(30, dtype=torch.float32) * 3
    yield values + values.sign() * 0.01


def _gate(trial: Trial, logit: Tensor) -> Tensor:
    got = trial.tensor(trial.call(logit), shape=logit.shape)
    if got.dtype != logit.dtype:
        key = "dtype" if got.is_floating_point() else "comparison"
        raise Missed(key, expected=str(logit.dtype), got=str(got.dtype))
    return got


@hard_gate.claim("is 1 where the logit is positive and 0 where it is negative", weight=0, gate=True)
def _(trial: Trial) -> None:
    for values in _logits(trial):
        expected = (values > 0).to(values.dtype)
        for logit in (values.clone(), values.clone().requires_grad_()):
            got = _gate(trial, logit).detach()
            if torch.allclose(got, expected, atol=1e-3):
                continue
            wrong = (got - expected).abs().flatten().argmax()
            number, wanted, given = (t.flatten()[wrong].item() for t in (values, expected, got))
            key = "soft" if ((got >= 0) & (got <= 1)).all() else ""
            if torch.allclose(got, expected + values.sigmoid(), atol=1e-3):
                key = "added"
            if ((got == 0) | (got == 1)).all():
                key = "sampled"
            raise Missed(key, expected=f"{wanted:g} for logit {number:.4g}", got=f"{given:.4g}")


def _judge_gradient(trial: Trial, values: Tensor) -> None:
    logit = values.clone().requires_grad_()
    source = logit * 1  # an inner tensor, so that a fresh leaf in the answer is told from a path to the logit
    got = _gate(trial, source)
    if got.grad_fn is None:
        key = "fresh leaf" if got.requires_grad else "comparison"
        raise Missed(key, expected="a path to the logit", got="no grad_fn")
    upstream = trial.randn(*values.shape, dtype=values.dtype).abs() + 0.5
    try:
        (gradient,) = torch.autograd.grad(got, logit, upstream, allow_unused=True)
    except RuntimeError as error:
        key = "saved output" if "modified by an inplace" in str(error) else "comparison"
        raise Missed(key, expected="a gradient", got=f"RuntimeError: {str(error)[:90]}") from None
    if gradient is None:
        raise Missed("fresh leaf", expected="a path to the logit", got="none")
    wide = values.double()
    # In float32, 1 - sigmoid(8) has lost four digits, and each formula loses others: hence float64, and 1e-6.
    s, slope = (t.to(values.dtype) for t in (wide.sigmoid(), wide.sigmoid() * (-wide).sigmoid()))
    near = 1e-9 if values.dtype == torch.float64 else 1e-6
    if torch.allclose(gradient, upstream * slope, rtol=1e-4, atol=near):
        return
    if gradient.isnan().any():
        key = "by hand"
    else:
        hard = (values > 0).to(values.dtype)
        patterns = (
            ("zero gradient", torch.zeros_like(slope)),
            ("identity", upstream),
            ("upstream", slope),
            ("doubled", 2 * upstream * slope),
            ("scaled", upstream * slope * hard),
            ("scaled", upstream * slope * hard / s),
        )
        key = next((key for key, pattern in patterns if torch.allclose(gradient, pattern, rtol=1e-4, atol=near)), "")
    at = (gradient - upstream * slope).abs().nan_to_num(float("inf")).flatten().argmax()
    number, wanted, given = (t.flatten()[at].item() for t in (values, slope, gradient / upstream))
    raise Missed(key, expected=f"the slope {wanted:.4g} at logit {number:.4g}", got=f"{given:.4g}")


@hard_gate.claim("has the gradient of sigmoid(logit)", weight=3, gate=True)
def _(trial: Trial) -> None:
    for values in _logits(trial):
        _judge_gradient(trial, values)


@hard_gate.claim("has it also for very large and very small logits", weight=0.5)
def _(trial: Trial) -> None:
    _judge_gradient(trial, torch.cat((torch.tensor([1000.0, -1000.0, 50.0, -50.0]).double(), trial.randn(3))))


@hard_gate.claim("is exactly 0 or 1")
def _(trial: Trial) -> None:
    for dtype in (torch.float64, torch.float32):
        values = trial.randn(400, dtype=dtype) * 3
        values = values + values.sign() * 0.01
        got = _gate(trial, values.clone().requires_grad_()).detach()
        wrong = got != (values > 0).to(dtype)
        if wrong.any():
            raise Missed("order", expected="exactly 0 or 1", got=f"{got[wrong][0].item():.17g}")


@hard_gate.claim("is open for the smallest positive logit, and closed at 0")
def _(trial: Trial) -> None:
    for dtype in (torch.float64, torch.float32):
        tiny = torch.tensor([1e-30, -1e-30, 1e-18, -1e-18], dtype=dtype)
        values = torch.cat((tiny, torch.tensor([0.0, -0.0], dtype=dtype), trial.randn(2, dtype=dtype)))
        got = _gate(trial, values.clone().requires_grad_()).detach()
        for number, given in zip(values.tolist(), got.tolist(), strict=True):
            if abs(given - (number > 0)) > 1e-3:
                key = "at zero" if number == 0 else "sigmoid first"
                raise Missed(key, expected=f"{float(number > 0):g} for logit {number:.4g}", got=f"{given:.4g}")


EXERCISES = (gated_forward, predicted_cost, route, masked_sqrt, hard_gate)
