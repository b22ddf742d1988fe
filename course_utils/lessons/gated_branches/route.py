"""``route``: what it claims."""

from collections.abc import Iterator

import torch
from torch import Tensor

from course_utils.checks.exercise import exercise
from course_utils.checks.trial import Missed, Trial
from course_utils.lessons.gated_branches._shared import _Branch, _branches, _expect_gradients, _flops, _forget_gradients

route = exercise(__file__)


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
