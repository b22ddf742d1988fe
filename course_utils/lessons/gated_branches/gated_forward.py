"""``gated_forward``: what it claims."""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from course_utils.checks.exercise import exercise
from course_utils.checks.trial import Missed, Trial
from course_utils.lessons.gated_branches._shared import (
    _Branch,
    _branches,
    _Constant,
    _expect_gradients,
    _flops,
    _forget_gradients,
    _gradients,
)

gated_forward = exercise(__file__)


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
