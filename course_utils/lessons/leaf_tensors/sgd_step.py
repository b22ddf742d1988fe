"""``sgd_step``: what it claims."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from course_utils.checks.exercise import exercise
from course_utils.checks.trial import Missed, Trial
from course_utils.lessons.leaf_tensors._shared import _first

sgd_step = exercise(__file__)


def _parameters(trial: Trial) -> list[Tensor]:
    """Flagged leaves of several shapes, one of float32 and one that is not contiguous, each with a gradient."""
    rows, columns = trial.integer(2, 5), trial.integer(2, 5)
    parameters = [
        nn.Parameter(trial.randn(rows, columns)),
        trial.randn(columns, requires_grad=True),
        trial.randn(requires_grad=True),
        trial.randn(rows, dtype=torch.float32, requires_grad=True),
        trial.randn(columns, rows).T.clone(memory_format=torch.preserve_format).requires_grad_(),
    ]
    for parameter in parameters:
        parameter.grad = trial.randn(*parameter.shape).to(parameter.dtype)
    return parameters


def _learning_rate(trial: Trial) -> float:
    return trial.integer(20, 900) / 1000


def _step(trial: Trial, given: Any, parameters: Sequence[Tensor], lr: float, what: str) -> None:
    trial.call(given, lr, may_change=tuple(parameters), show=f"sgd_step({what}, lr={lr})")


def _stepped(parameters: Sequence[Tensor], lr: float) -> list[Tensor]:
    """Where the parameters belong after the step."""
    return [p.detach().clone() if p.grad is None else p.detach() - lr * p.grad for p in parameters]


def _same_values(got: Tensor, expected: Tensor) -> bool:
    return got.shape == expected.shape and torch.allclose(got.detach(), expected, rtol=1e-5, atol=1e-7)


@sgd_step.claim("moves each parameter by -lr times its gradient", weight=2, gate=True)
def _(trial: Trial) -> None:
    parameters, lr = _parameters(trial), _learning_rate(trial)
    before = [p.detach().clone() for p in parameters]
    gradients = [p.grad.clone() for p in parameters]
    expected = _stepped(parameters, lr)
    _step(trial, parameters, parameters, lr, f"{len(parameters)} parameters")
    for index, parameter in enumerate(parameters):
        if _same_values(parameter, expected[index]):
            continue
        start, gradient = before[index], gradients[index]
        raise Missed(
            _other_step(parameter.detach(), start, gradient, lr),
            expected=f"parameter {index} at {_first(expected[index])} (first element; it was {_first(start)})",
            got=_first(parameter),
        )


def _other_step(value: Tensor, start: Tensor, gradient: Tensor, lr: float) -> str:
    """The misconception by which a parameter gets from ``start`` to ``value``, where it is a known one."""
    if value.shape != start.shape:
        return ""
    if torch.equal(value, start):
        return "rebinding"
    factors = (value - start) / gradient
    if torch.allclose(factors, factors.mean(), rtol=1e-4):
        return "ascent" if factors.mean() > 0 else "length"
    return "other rule" if torch.allclose(value, start - lr * gradient.sign(), rtol=1e-3) else ""


@sgd_step.claim("keeps the objects and their memory", weight=2)
def _(trial: Trial) -> None:
    parameters, lr = _parameters(trial), _learning_rate(trial)
    aliases, places = [p.detach() for p in parameters], [p.data_ptr() for p in parameters]
    _step(trial, parameters, parameters, lr, f"{len(parameters)} parameters")
    for parameter, alias, place in zip(parameters, aliases, places, strict=True):
        if parameter.data_ptr() != place or not torch.equal(parameter.detach(), alias):
            raise Missed("new memory", expected="the new values in the old memory", got="other memory")


@sgd_step.claim("leaves flagged leaves, and nothing recorded", weight=1)
def _(trial: Trial) -> None:
    parameters, lr = _parameters(trial), _learning_rate(trial)
    _step(trial, parameters, parameters, lr, f"{len(parameters)} parameters")
    for parameter in parameters:
        if parameter.grad_fn is not None:
            raise Missed(expected="grad_fn None", got=f"grad_fn {parameter.grad_fn.name()}")
        if not parameter.requires_grad:
            raise Missed("flag lost", expected="requires_grad True", got="requires_grad False")


@sgd_step.claim("leaves `.grad` None", weight=1)
def _(trial: Trial) -> None:
    parameters, lr = _parameters(trial), _learning_rate(trial)
    _step(trial, parameters, parameters, lr, f"{len(parameters)} parameters")
    _no_gradients(parameters)


def _no_gradients(parameters: Sequence[Tensor], key: str = "") -> None:
    for parameter in parameters:
        if parameter.grad is not None:
            zeros = not parameter.grad.any()
            key = key or ("zeros" if zeros else "kept")
            raise Missed(key, expected=".grad None", got="zeros" if zeros else "the old gradient")


@sgd_step.claim("skips a parameter whose `.grad` is None", weight=1)
def _(trial: Trial) -> None:
    parameters, lr = _parameters(trial), _learning_rate(trial)
    parameters[0].grad = parameters[2].grad = None
    expected = _stepped(parameters, lr)
    moving = [p for p in parameters if p.grad is not None]
    _step(trial, parameters, parameters, lr, f"{len(parameters)} parameters, two without gradient")
    for parameter, value in zip(parameters, expected, strict=True):
        if not _same_values(parameter, value):
            stopped = any(parameter is p for p in moving)
            raise Missed(
                "stops" if stopped else "",
                expected="only those with a gradient move",
                got="one with a gradient stood still" if stopped else "one without a gradient moved",
            )
    _no_gradients(parameters)
    for parameter in parameters:
        parameter.grad = None
    _step(trial, parameters, parameters, lr, f"{len(parameters)} parameters, none with a gradient")


@sgd_step.claim("takes an iterator as well as a list", weight=1)
def _(trial: Trial) -> None:
    parameters, lr = _parameters(trial), _learning_rate(trial)
    expected = _stepped(parameters, lr)
    _step(trial, iter(parameters), parameters, lr, "an iterator")
    if not all(map(_same_values, parameters, expected)):
        raise Missed("read twice", expected="every parameter moved", got="some or all stood still")
    # Where a list works and an iterator does not, it was the second pass that found nothing.
    listed = _parameters(trial)
    _step(trial, listed, listed, lr, "a list")
    _no_gradients(parameters, "read twice" if all(p.grad is None for p in listed) else "")
