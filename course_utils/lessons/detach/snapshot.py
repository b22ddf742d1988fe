"""``snapshot``: what it claims."""

from collections.abc import Iterator

import torch
from torch import Tensor

from course_utils.base.text import message_of
from course_utils.checks.claims import (
    AnswerRaised,
    Calls,
    DroppedDetach,
    Missed,
    Trial,
    exercise,
    expect,
    expect_no_history,
)

snapshot = exercise(__file__)


def _sources(trial: Trial) -> Iterator[Tensor]:
    """Tensors of every kind that a snapshot can be taken of."""
    rows, columns = trial.integer(2, 5), trial.integer(2, 5)
    yield trial.randn(rows, columns, requires_grad=True)
    yield trial.randn(rows, columns, requires_grad=True) * 3
    yield trial.randn(rows, columns, dtype=torch.float32)
    yield trial.randn(rows + 2, columns, requires_grad=True)[1:-1]
    yield (trial.randn(rows, columns) * 100).long()
    yield trial.randn(columns, dtype=torch.float16)
    yield torch.tensor([5e-324, -1e-310, 0.1], dtype=torch.float64) * trial.integer(1, 9)


@snapshot.claim("is a new tensor of the dtype of `x`, with every digit")
@snapshot.claim("has the values and shape of `x`", weight=0, gate=True, elsewhere=["dtype", "x itself"])
def _(trial: Trial) -> None:
    for x in _sources(trial):
        values = x.detach().clone()
        got = trial.tensor(trial.call(x), shape=x.shape)
        expect(got is not x, "x itself", expected="a new tensor", got="x itself")
        numbers = got.detach().cpu()
        exact = torch.equal(numbers, values.to(got.dtype))
        rounded = torch.equal(numbers, values.float().to(got.dtype))  # x has other values then: a detour
        holds = got.device == x.device and (exact or rounded)
        expect(holds, expected="the values of x", got="others")
        expect(got.dtype == x.dtype, "dtype", expected=str(x.dtype), got=str(got.dtype))
        expect(exact, "dtype", expected="the values of x", got="those values rounded to float32")


@snapshot.claim("has no history and is not flagged", weight=2)
def _(trial: Trial) -> None:
    for x in _sources(trial):
        unassigned = DroppedDetach()
        got = trial.tensor(trial.call(x, within=unassigned))
        expect(got is not x, "x itself", expected="a new tensor", got="x itself")
        is_view = got.is_leaf and got.requires_grad and got.data_ptr() == x.data_ptr()
        expect(not is_view, "view", expected="no flag", got="a view of x, not recorded, with the flag of x")
        filled = got.grad_fn is not None and "Copy" in got.grad_fn.name()
        key = "filled" if filled else "unassigned" if unassigned.found else "history"
        expect_no_history(got, key, "flagged", "grad_fn None, requires_grad False")


@snapshot.claim("shares no memory with `x`", weight=2)
def _(trial: Trial) -> None:
    for x in _sources(trial):
        calls = Calls()
        got = trial.tensor(trial.call(x, within=calls))
        key = "alias" if {"detach", "__get__"} >= set(calls.names) else "same memory"  # x.data is a call of __get__
        key = "x itself" if got is x else key
        before = got.detach().clone()
        with torch.no_grad():
            x.detach().add_(1)
        kept = torch.equal(got.detach(), before)
        expect(kept, key, expected="the old values after an edit of x", got="the edit shows in the snapshot")


@snapshot.claim("is a new tensor for an `x` of any shape, 0-dim or without elements, too", weight=0.25)
def _(trial: Trial) -> None:
    for x in (trial.randn(requires_grad=True), trial.randn(0, trial.integer(2, 5))):
        got = trial.tensor(trial.call(x), shape=x.shape)
        expect(got is not x, "x itself", expected="a new tensor", got="x itself")
        expect(torch.equal(got.detach().to(x), x), expected="the values of x", got="others")


@snapshot.claim("is a new tensor of the dtype of `x` where that is bool or bfloat16, too", weight=0.25)
def _(trial: Trial) -> None:
    numbers = trial.randn(trial.integer(2, 5))
    for x in (numbers > 0, numbers.bfloat16()):
        got = trial.tensor(trial.call(x), shape=x.shape)
        expect(got is not x, "x itself", expected="a new tensor", got="x itself")
        key = "arithmetic" if got.dtype is torch.int64 else "dtype"
        expect(got.dtype == x.dtype, key, expected=str(x.dtype), got=str(got.dtype))


@snapshot.claim("is a new tensor on the device of `x`", weight=0.25)
def _(trial: Trial) -> None:
    # The one device beside the CPU that every machine has: its tensors have a shape, and no numbers.
    x = torch.empty(trial.integer(2, 5), device="meta", requires_grad=True)
    try:
        got = trial.tensor(trial.call(x, may_change=(x,)))
    except AnswerRaised as raised:
        raise Missed("device", expected="a tensor on meta", raised=message_of(raised.error, 100)) from None
    expect(got is not x, "x itself", expected="a new tensor", got="x itself")
    expect(got.device == x.device, "device", expected=f"a tensor on {x.device}", got=f"one on {got.device}")
