"""``ReverseGradient``: what it claims."""

from typing import Any

import torch
from torch import Tensor

from course_utils.checks.exercise import exercise
from course_utils.checks.trial import Trial
from course_utils.lessons.custom_function._shared import (
    _apply,
    _backward,
    _expect_function,
    _expect_incoming_unedited,
    _expect_input_unedited,
    _expect_own_node,
    _expect_same,
    _values,
)

ReverseGradient = exercise(__file__)


def _strengths(trial: Trial) -> tuple[float, ...]:
    drawn = 0.2 + abs(trial.randn().item())
    return (drawn, 1.0, -drawn / 2)


@ReverseGradient.claim("is a `torch.autograd.Function` whose `apply` gives `x` back unchanged", weight=0, gate=True)
def _(trial: Trial) -> None:
    _expect_function(trial)
    for values in (*_values(trial), trial.randn(4, dtype=torch.float32)):
        for strength in _strengths(trial):
            x = values.clone()
            got = trial.tensor(_apply(trial, {"x": x}, x, strength), shape=x.shape, dtype=x.dtype)
            scaled = {"forward scaled": [-strength * values, strength * values]}
            _expect_same(got, values, "the value of x", scaled)
            _expect_input_unedited(x, values)


def _expect_reversed(got: Tensor | None, incoming: Tensor, strength: float) -> None:
    wrong: dict[str, Any] = {"upstream": -strength * torch.ones_like(incoming)}
    wrong |= {"sign": strength * incoming}
    if strength not in (1.0, -1.0):
        wrong |= {"not scaled": -incoming, "passed on": incoming}
        wrong |= {"no factor": [incoming - strength, -incoming - strength, -incoming / strength, incoming / strength]}
    _expect_same(got, -strength * incoming, f"the gradient for strength {strength:.3g}", wrong)


@ReverseGradient.claim("multiplies the gradient by -strength on its way back", weight=2, gate=True)
def _(trial: Trial) -> None:
    for number, values in enumerate(_values(trial)):
        for strength in _strengths(trial):
            leaf = values.clone().requires_grad_()
            x = leaf * 1 if number % 2 else leaf
            result = _apply(trial, {"x": x}, x, strength)
            _expect_own_node(result)
            incoming = trial.randn(*values.shape)
            before = incoming.clone()
            (got,) = _backward(trial, result, [leaf], incoming)
            _expect_reversed(got, before, strength)


@ReverseGradient.claim("keeps the strength of each call for that call", weight=0.5)
def _(trial: Trial) -> None:
    leaves = [trial.randn(3, requires_grad=True) for _ in range(3)]
    strengths = _strengths(trial)
    results = [_apply(trial, {"x": x}, x, strength) for x, strength in zip(leaves, strengths, strict=True)]
    incoming = trial.randn(3)
    for x, result, strength in zip(leaves, results, strengths, strict=True):
        (got,) = _backward(trial, result, [x], incoming.clone(), after=", with other calls in between")
        wrong = {"shared state": [-other * incoming for other in strengths if other != strength]}
        _expect_same(got, -strength * incoming, f"the gradient for strength {strength:.3g}", wrong)


@ReverseGradient.claim("leaves the incoming gradient as it is, so that a branch beside it gets the right one", weight=1)
def _(trial: Trial) -> None:
    for values in _values(trial):
        x, beside = values.clone().requires_grad_(), values.clone().requires_grad_()
        result = _apply(trial, {"x": x}, x, 2.0)
        incoming = trial.randn(*values.shape)
        before = incoming.clone()
        _backward(trial, result + beside, [x, beside], incoming)
        _expect_incoming_unedited(incoming, before)
        (_got,) = _backward(trial, result, [x], incoming)
        _expect_incoming_unedited(incoming, before)
