"""Asks for a root that is 0 where x is not positive; the check looks at values, gradients and hooks left on x."""

from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from course_utils.base.text import message_of
from course_utils.checks.claims import AnswerRaised, Missed, Trial, exercise, expect, numbers_apart, same
from course_utils.lessons.gated_branches._shared import edited_gradient, expect_shape

masked_sqrt = exercise(__file__)

_TINY = {torch.float64: 1e-300, torch.float32: 1e-36, torch.bfloat16: 1e-36, torch.float16: 1e-4}
_WIDE = (torch.float64, torch.float32)  # a dtype of 16 bits has a claim of its own
_DEFAULT = torch.float32  # in which all but the dtype is judged: an answer that knows no other one falls by that alone


def _numbers(trial: Trial, some_positive: bool = False) -> Iterator[Tensor]:
    """Finite numbers of every sign; every tensor with a positive element holds others, too. Those that are positive and
    nearly 0 have a claim of their own.

    With ``some_positive`` no tensor without any: that it has a gradient, too, is for the claims of 0 to tell.
    """
    special = torch.tensor([-1.0, 0.0, -0.0, 4.0, -_TINY[_DEFAULT], 1e30, -1e30])
    drawn = trial.randn(trial.integer(5, 9), dtype=_DEFAULT)
    yield torch.cat((special, drawn + 0.05 * drawn.sign()))
    drawn = trial.randn(trial.integer(2, 4), 5, dtype=_DEFAULT).t()
    yield drawn + 0.05 * drawn.sign()
    yield trial.randn(4, dtype=_DEFAULT).abs() + 0.1
    yield trial.randn(dtype=_DEFAULT).abs() + 1
    if some_positive:
        return
    yield trial.randn(3, 2, dtype=_DEFAULT) - 10
    yield -trial.randn(dtype=_DEFAULT).abs() - 1
    yield torch.zeros(())


def _expect_root(trial: Trial, values: Tensor, rtol: float, atol: float, other: str = "", flagged: bool = True) -> None:
    expected = values.double().clamp(min=0).sqrt().to(values.dtype)
    got = trial.tensor(trial.call(values.clone().requires_grad_(flagged))).detach()
    expect_shape(got, values.shape)
    cast = values.dtype in _WIDE and got.dtype != values.dtype
    # What is exact has all digits. Elsewhere a cast costs digits alone: the dtype has a claim of its own.
    expect(atol or not cast, "dtype", expected=str(values.dtype), got=str(got.dtype))
    right = torch.isclose(got.to(values.dtype), expected, rtol=max(rtol, 1e-4 * cast), atol=atol)
    if right.all():
        return
    apart = (got - expected).abs()
    off = (apart / expected).masked_fill(right, 0).nan_to_num(torch.inf, torch.inf).flatten()
    worst = (off == off.max()).nonzero()[0, 0]  # the first of those that are off by most times their root
    number, given, wanted = (t.flatten()[worst] for t in (values, got, expected))
    key = "epsilon" if (apart < 0.11).all() else other  # the root of x + 0.01, which is much, is off by 0.1
    beside = got[values <= 0]
    if same(beside, values[values <= 0].abs().sqrt()):
        key = "absolute"
    elif key != "epsilon" and beside.any() and (beside == beside[0]).all():
        key = "stand-in"
    key = "multiply" if number < 0 and given.isnan() else "dtype" if cast else key
    shown, other = numbers_apart(given, wanted)
    raise Missed(key, expected=f"{shown} for x = {number:.6g}", got=other)


@masked_sqrt.claim("is near the root where x is positive, and near 0 elsewhere", weight=0, gate=True)
def _(trial: Trial) -> None:
    for values in _numbers(trial):
        _expect_root(trial, values, 1e-4, atol=1e-4)  # off by an epsilon: the claim for the tiniest numbers tells it


def _slopes(trial: Trial, values: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The gradient that the answer passes on, the one that it was handed, and x."""
    x = values.clone().requires_grad_()
    got = trial.tensor(trial.call(x), shape=x.shape)
    upstream = trial.randn(*values.shape, dtype=got.dtype).abs() + 0.5
    found = edited_gradient(got, x, upstream, "result edited")
    if found is None:
        key, where = ("detached", "where x is positive") if (values > 0).any() else ("early", "of 0")
        raise Missed(key, expected=f"a gradient {where}", got="no path to x")
    return found, upstream, x


def _expect_slope(trial: Trial, values: Tensor, rtol: float = 1e-4, key: str = "") -> None:
    positive = values > 0
    found, upstream, slope = (t[positive] for t in (*_slopes(trial, values)[:2], 0.5 / values.sqrt()))
    right = torch.isclose(found, upstream.to(found.dtype) * slope, rtol=rtol, atol=0.0)
    if not key and torch.allclose(found, slope, rtol=1e-4):
        key = "upstream"
    if not right.all():
        wrong = (~right).nonzero()[0]
        number, wanted, given = (t[wrong].item() for t in (values[positive], upstream * slope, found))
        expected = f"upstream · 1 / (2·sqrt(x)) = {wanted:.6g} at x = {number:.6g}"
        raise Missed(key or ("" if found.any() else "detached"), expected=expected, got=f"{given:.6g}")


@masked_sqrt.claim("has the gradient of the root where x is positive, and not tiny", weight=0, gate=True)
def _(trial: Trial) -> None:
    for values in _numbers(trial, some_positive=True):
        _expect_slope(trial, values)


@masked_sqrt.claim(
    "is exact: 0 where x is not positive, else the root and its gradient, of the tiniest x too", weight=1.5
)
def _(trial: Trial) -> None:
    for dtype, tiny in _TINY.items():
        rtol = 1e-4 if dtype in _WIDE else 0.25  # half the logarithm is rounded coarsely there
        tiniest = torch.finfo(dtype).smallest_normal * torch.finfo(dtype).eps
        special = torch.tensor([-1.0, 0.0, -0.0, tiny, -tiny, 3 * tiniest, tiniest, -tiniest], dtype=dtype)
        values = torch.cat((special, trial.randn(3).abs().add(1e-3).to(dtype)))
        _expect_root(trial, values, rtol, atol=0.0, other="epsilon")
        _expect_slope(trial, values, rtol, "epsilon")


def _expect_zero(trial: Trial, chosen: Callable[[Tensor], Tensor], key: str) -> None:
    for values in _numbers(trial):
        there, slopes = chosen(values), _slopes(trial, values)[0]
        found = slopes[there]
        if found.any():  # NaN and inf count as true
            key = "where" if slopes[values < 0].any() else key
            number, slope = values[there][found != 0][0].item(), found[found != 0][0].item()
            raise Missed(key, expected=f"0 at x = {number:.6g}", got=f"{slope:.6g}")
    for dtype in (torch.float16, torch.bfloat16):  # where a small number that was added or chosen may be 0
        values = torch.tensor([-1.0, 0.0, -0.0, 4.0], dtype=dtype)
        found = _slopes(trial, values)[0][chosen(values)]
        expect(not found.any(), "epsilon", expected=f"0 in {dtype}, too", got=f"{found.abs().max().item():.6g}")


@masked_sqrt.claim("has the gradient 0 where x is negative", weight=2)
def _(trial: Trial) -> None:
    _expect_zero(trial, lambda values: values < 0, "where")


@masked_sqrt.claim("has the gradient 0 where x is 0", weight=3)
def _(trial: Trial) -> None:
    _expect_zero(trial, lambda values: values == 0, "zero itself")


@masked_sqrt.claim("keeps the dtype of x, also where that has 16 bits", weight=0.5)
def _(trial: Trial) -> None:
    for dtype in (*_WIDE, torch.bfloat16, torch.float16):
        for shape in ((6,), ()):  # a helper of a wider dtype widens x only where x has no more dimensions
            x = trial.randn(*shape).to(dtype).requires_grad_()
            got = trial.tensor(trial.call(x, show=f"masked_sqrt(x of shape {shape} in {dtype})"))
            expect(got.dtype == dtype, "dtype", expected=str(dtype), got=str(got.dtype))
    _expect_root(trial, trial.randn(6) + 2, 1e-9, atol=1e-9, other="dtype")


@masked_sqrt.claim("takes an x that does not require grad, too", weight=0.5)
def _(trial: Trial) -> None:
    for values in _numbers(trial):
        try:
            _expect_root(trial, values, 1e-4, atol=1e-4, flagged=False)
        except AnswerRaised as raised:
            trial.call(hooked := values.clone().requires_grad_())
            key = "hook on x" if hooked._backward_hooks else ""
            raise Missed(key, expected="the root of a plain x, too", raised=message_of(raised.error, 100)) from None


@masked_sqrt.claim("takes an x without elements, too", weight=0.5)
def _(trial: Trial) -> None:
    for shape in ((0,), (0, 3)):
        try:
            _slopes(trial, torch.empty(shape))
        except AnswerRaised as raised:
            expected = f"a tensor of shape {shape}"
            raise Missed("no elements", expected=expected, raised=message_of(raised.error, 100)) from None


@masked_sqrt.claim("leaves no hook on x")
def _(trial: Trial) -> None:
    for values in _numbers(trial, some_positive=True):
        *_, x = _slopes(trial, values)
        expect(not x._backward_hooks, "hook on x", expected="x without a hook", got="a hook on x")
