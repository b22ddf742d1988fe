"""Asks to send each row through its own branch; the check looks at order, rows given, FLOPs and gradients."""

from collections.abc import Iterator

import torch
from torch import Tensor, nn

from course_utils.checks.claims import AnswerRaised, Missed, Page, Trial, exercise, expect, same
from course_utils.lessons.gated_branches._shared import (
    Branch,
    branches,
    expect_gradients,
    flops,
    flops_alone,
    with_casts,
)

route = exercise(__file__)


def _orders(gate: Tensor) -> tuple[Tensor, Tensor]:
    """The rows of branch a and then those of b, and the other way round."""
    first, second = gate.nonzero().flatten(), (~gate).nonzero().flatten()
    return torch.cat((first, second)), torch.cat((second, first))


def _mixed_gate(trial: Trial, rows: int) -> Tensor:
    """A gate with at least two rows for each branch, in an order that is not its own inverse."""
    while True:
        gate = trial.randn(rows) > 0
        moved = all(not torch.equal(order[order], torch.arange(rows)) for order in _orders(gate))
        if moved and 2 <= int(gate.sum()) <= rows - 2:
            return gate


_Case = tuple[Branch, Branch, Tensor, Tensor]  # branches, input and gate


def _cases(trial: Trial, few: bool = False) -> Iterator[_Case]:
    """Mixed rows; all rows for one branch, and one row for a branch, where the answer manages that: each of the two has
    a claim of its own."""
    for kind in ("vectors", "images") if few else ("same width", "vectors", "images"):
        a, b, x = branches(trial, kind)
        x = trial.randn(trial.integer(7, 9), *x.shape[1:], requires_grad=True)
        yield a, b, x, _mixed_gate(trial, len(x))
    for open_a in trial.once(_sides):
        yield _of_five(trial, 5 * open_a)
    if trial.once(_takes_one_row):
        yield from _single_rows(trial)


def _of_five(trial: Trial, count: int) -> _Case:
    # Flatten needs a batch: a single row that has lost that dimension is no input for it.
    a, b, x = branches(trial, "images" if count % 2 else "vectors", nn.Flatten())
    gate = (torch.arange(5) < count)[torch.argsort(trial.randn(5))]
    return a, b, trial.randn(5, *x.shape[1:], requires_grad=True), gate


def _single_rows(trial: Trial) -> Iterator[_Case]:
    """One row for a branch beside others, and a batch of one row."""
    for count in (4, 1):
        yield _of_five(trial, count)
    for open_a in (True, False):
        a, b, x = branches(trial, "vectors")
        yield a, b, trial.randn(1, x.shape[1], requires_grad=True), torch.tensor([open_a])


def _routed(trial: Trial, a: Branch, b: Branch, x: Tensor, gate: Tensor, within: Page | None = None) -> Tensor:
    show = f"route(branch_a, branch_b, x of {len(x)} rows, gate with {int(gate.sum())} True)"
    try:
        return trial.tensor(trial.call(a, b, x, gate, show=show, within=within))
    except AnswerRaised as raised:
        _expect_batches(a, b, x, f"{type(raised.error).__name__}: {raised.error}"[:120])
        # Vectors went well before: a mask with a vector's dimensions chooses, when a branch has run on all rows.
        on_all = any(len(rows) == len(x) for branch in (a, b) for rows in branch.inputs)
        unaligned = x.dim() > 2 and "must match the size of tensor" in str(raised.error)
        if on_all and unaligned and gate.any() and not gate.all():
            got = f"a branch on all {len(x)} rows, and then: {raised.error}"[:160]
            raise Missed("choose afterwards", expected="each branch on its own rows", got=got) from None
        no_room = x.dim() > 2 and any(text in str(raised.error) for text in ("shape mismatch", "expanded size"))
        expect(not no_room, "vectors", expected="room for images", got=str(raised.error)[:120])
        raise


def _expect_batches(a: Branch, b: Branch, x: Tensor, then: str) -> None:
    """Each branch was given as many dimensions as ``x`` has; ``then`` is what went wrong after that."""
    for rows in (*a.inputs, *b.inputs):
        expected = f"rows of x, of shape (n, {str(tuple(x.shape[1:]))[1:]}"
        got = f"shape {tuple(rows.shape)}, and then {then}"
        expect(rows.dim() == x.dim(), "one row" if rows.dim() < x.dim() else "nonzero", expected=expected, got=got)


def _row_by_row(a: Branch, b: Branch, x: Tensor, gate: Tensor) -> Tensor:
    return torch.cat([(a if gate[i] else b).layers(x[i : i + 1]) for i in range(len(x))])


def _sides(trial: Trial) -> list[bool]:
    """Which entries a gate may have everywhere: True for branch a, False for branch b."""
    return [open_a for open_a in (False, True) if _manages(trial, iter([_of_five(trial, 5 * open_a)]))]


def _takes_one_row(trial: Trial) -> bool:
    return _manages(trial, _single_rows(trial))


def _manages(trial: Trial, cases: Iterator[_Case]) -> bool:
    called, effects = trial.called, list(trial.effects)
    try:
        _expect_rows(trial, cases)
    except (AnswerRaised, Missed):
        return False
    finally:
        trial.called, trial.effects = called, effects
    return True


def _expect_rows(trial: Trial, cases: Iterator[_Case]) -> None:
    for a, b, x, gate in cases:
        got = _routed(trial, a, b, x, gate)
        with torch.no_grad():
            expected = _row_by_row(a, b, x, gate)
            if got.shape != expected.shape:
                _expect_batches(a, b, x, shape := f"shape {tuple(got.shape)}")
                is_kept = got.shape == expected[:, None].shape
                key = "size one" if is_kept else "shape of x" if got.shape == x.shape else ""
                raise Missed(key, expected=f"shape {tuple(expected.shape)}", got=shape)
            if not same(got, expected):
                raise _wrong_rows(got, a, b, x, gate, expected)


@route.claim("sends each row through its branch, and gives the rows back in order", weight=0, gate=True)
def _(trial: Trial) -> None:
    _expect_rows(trial, _cases(trial))


@route.claim("takes a gate that is True, or False, for all rows")
def _(trial: Trial) -> None:
    _expect_rows(trial, (_of_five(trial, count) for count in (0, 5)))


@route.claim("takes one row for a branch, and a batch of one row", weight=2)
def _(trial: Trial) -> None:
    _expect_rows(trial, _single_rows(trial))


def _wrong_rows(got: Tensor, a: Branch, b: Branch, x: Tensor, gate: Tensor, expected: Tensor) -> Missed:
    for order in _orders(gate):
        # Batches of a few rows: a gate like this has no order of its own to be confused with the right one.
        for key, rows in (("grouped", order), ("inverse", order[order])):
            if same(got, expected[rows]):
                return Missed(key, expected="row i of x at row i", got=f"the rows {rows.tolist()} of x")
    if same(got, _row_by_row(a, b, x, ~gate)):
        return Missed("swapped", expected="branch_a where the gate is True", got="branch_b there")
    if same(got, a.layers(x)) or same(got, b.layers(x)):
        return Missed("one gate", expected="one decision per row", got="one branch for all rows")
    wrong = [i for i in range(len(x)) if not same(got[i], expected[i])]
    emptied = any(not row.any() for branch in (a, b) for rows in branch.inputs for row in rows)
    key, shown = ("input masked" if emptied else "", "other values") if got[wrong].any() else ("left out", "zeros")
    return Missed(key, expected="row by row what its own branch returns", got=f"{shown} in row {wrong[0]}")


@route.claim("passes gradients on to x and to both branches", weight=4)
def _(trial: Trial) -> None:
    for a, b, x, gate in _cases(trial, few=True):
        both = nn.ModuleDict({"branch_a": a, "branch_b": b})
        named = {"x": x} | dict(both.named_parameters())
        expect_gradients(trial, _routed(trial, a, b, x, gate), _row_by_row(a, b, x, gate), named)


def _needless_call(trial: Trial, branch: Branch, rows: int) -> str:
    most = max(len(value) for value in branch.inputs)
    if most in (0, rows):
        return "choose afterwards" if most else "empty batch"
    return "twice" if len(branch.inputs) > 1 or trial.once(_asks_for_shape) else "thrown away"


def _asks_for_shape(trial: Trial) -> bool:
    """Whether a branch that has rows of its own is called once more for a few."""
    called, (a, b, x, gate) = trial.called, next(_cases(trial))
    _routed(trial, a, b, x, gate)
    trial.called = called
    return any(len(branch.inputs) > 1 for branch in (a, b))


@route.claim("gives each branch its own rows and no others", weight=2)
def _(trial: Trial) -> None:
    for a, b, x, gate in _cases(trial):
        _routed(trial, a, b, x, gate)
        for name, branch, own in (("branch_a", a, int(gate.sum())), ("branch_b", b, int((~gate).sum()))):
            count = sum(rows.numel() for rows in branch.inputs) // x[0].numel()
            if count > own:
                key = _needless_call(trial, branch, len(x))
                raise Missed(key, expected=f"{own} of the {len(x)} rows for {name}", got=f"{count} rows")


@route.claim("costs the FLOPs of one branch per row, forward and backward")
def _(trial: Trial) -> None:
    for a, b, x, gate in _cases(trial, few=True):
        budget = sum(flops_alone(branch, x[rows]) for branch, rows in ((a, gate), (b, ~gate)) if rows.any())
        spent = flops(lambda case=(a, b, x, gate): _routed(trial, *case))
        needless = (
            branch for branch, rows in ((a, gate), (b, ~gate)) if sum(map(len, branch.inputs)) > int(rows.sum())
        )
        key = next((_needless_call(trial, branch, len(x)) for branch in needless), "choose afterwards")
        expect(spent <= budget, key, expected=f"{budget} FLOPs", got=f"{spent} FLOPs")


@route.claim("does not call a branch that has no rows")
def _(trial: Trial) -> None:
    for open_a in trial.once(_sides) or (True, False):
        for rows in (4, 1) if trial.once(_takes_one_row) else (4,):
            a, b, x = branches(trial, "vectors")
            x = trial.randn(rows, x.shape[1], requires_grad=True)
            idle = b if open_a else a
            page = Page.under(idle)
            _routed(trial, a, b, x, torch.full((rows,), open_a), page)
            if idle.inputs:
                given = max(len(value) for value in idle.inputs)
                raise Missed(_needless_call(trial, idle, rows), expected="no call", got=f"a call with {given} rows")
            expected = "weights that nobody reads where the branch has no rows"
            expect(not page.was_read, "choose afterwards", expected=expected, got="they are read")


@route.claim("keeps the branches' dtype", weight=0.5)
def _(trial: Trial) -> None:
    gates = [[True, False, True, False], *([open_a] * 4 for open_a in trial.once(_sides))]
    for dtype in (torch.float64, torch.float32, torch.bfloat16):
        for gate in gates:
            a, b, x = branches(trial, "vectors")
            x = trial.randn(4, x.shape[1]).to(dtype)
            got = _routed(trial, a.to(dtype), b.to(dtype), x, torch.tensor(gate))
            expect(got.dtype == dtype, "dtype", expected=str(dtype), got=str(got.dtype))
    expected = "torch.float16 from branches that return it for a float32 x"
    for gate in gates:
        a, b, x = branches(trial, "vectors")
        x = trial.randn(4, x.shape[1]).float()
        try:
            got = _routed(trial, with_casts(a), with_casts(b), x, torch.tensor(gate))
        except AnswerRaised as raised:  # a write between two dtypes, in an answer that has managed with one
            expect("dtype" not in str(raised.error), "dtype of x", expected=expected, got=str(raised.error)[:120])
            raise
        key = "dtype of x" if got.dtype == x.dtype else ""
        expect(got.dtype == torch.float16, key, expected=expected, got=str(got.dtype))
