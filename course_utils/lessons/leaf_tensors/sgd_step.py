"""``sgd_step``: one step of gradient descent, in place. The check looks at values, memory, flags and gradients."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from course_utils.checks.claims import Lazy, Missed, Trial, exercise, expect, first_difference, same
from course_utils.lessons.leaf_tensors._shared import expect_flagged_leaf

sgd_step = exercise(__file__)


def _parameters(trial: Trial) -> list[Tensor]:
    """Flagged leaves of several shapes, one of float32, each with a gradient."""
    rows, columns = trial.integer(2, 5), trial.integer(2, 5)
    parameters = [
        nn.Parameter(trial.randn(rows, columns)),
        trial.randn(columns, requires_grad=True),
        trial.randn(requires_grad=True),
        trial.randn(rows, dtype=torch.float32, requires_grad=True),
    ]
    for parameter in parameters:
        parameter.grad = trial.randn(*parameter.shape).to(parameter.dtype)
    return parameters


def _stepped(trial: Trial, parameters: list[Tensor], what: str = "4 parameters", given: Any = None) -> list[Tensor]:
    """Where the parameters belong after a call of the answer, on them or on what is ``given`` in place of the list."""
    lr = trial.integer(20, 900) / 1000
    expected = [p.detach().clone() if p.grad is None else p.detach() - lr * p.grad for p in parameters]
    trial.call(given or parameters, lr, may_change=tuple(parameters), show=f"sgd_step({what}, lr={lr})")
    return expected


@sgd_step.claim("moves each parameter by -lr times its gradient", weight=2, gate=True)
def _(trial: Trial) -> None:
    parameters = _parameters(trial)
    starts = [p.detach().clone() for p in parameters]
    expected = _stepped(trial, parameters)
    for index, (got, right) in enumerate(zip(parameters, expected, strict=True)):
        shape = f"shape {tuple(got.shape)}"
        expect(got.shape == right.shape, expected=f"parameter {index} in the shape it had", got=shape)
        if not same(got, right):
            place, right_number, number = first_difference(got, right)
            key = _other_step(got.detach(), starts[index], right)
            raise Missed(key, expected=f"{right_number:.6g} in parameter {index}{place}", got=f"{number:.6g}")


def _other_step(value: Tensor, start: Tensor, right: Tensor) -> str:
    """The misconception by which a parameter gets from ``start`` to ``value``, where it is a known one."""
    if torch.equal(value, start):
        return "rebinding"
    factors = (value - start) / (right - start)
    if torch.allclose(factors, factors.mean(), rtol=1e-4):  # differences of float32 numbers have lost digits
        return "length" if factors.mean() > 0 else "ascent"
    return "other rule"


@sgd_step.claim("moves one whose gradient lies in memory in another order, too", weight=0.5)
def _(trial: Trial) -> None:
    parameter = trial.randn(3, 4).T.clone(memory_format=torch.preserve_format).requires_grad_()
    parameter.grad = trial.randn(4, 3)
    (right,) = _stepped(trial, [parameter], "a transposed parameter")
    moved = same(parameter, right)
    expect(moved, expected="-lr times its gradient added to each number", got="another step")


@sgd_step.claim("keeps the objects and their memory", weight=5)
def _(trial: Trial) -> None:
    parameters = _parameters(trial)
    aliases, places = [p.detach() for p in parameters], [p.data_ptr() for p in parameters]
    _stepped(trial, parameters)
    for parameter, alias, place in zip(parameters, aliases, places, strict=True):
        kept = parameter.data_ptr() == place and torch.equal(parameter.detach(), alias)
        expect(kept, "new memory", expected="the new values in the old memory", got="other memory")


@sgd_step.claim("leaves flagged leaves, and nothing recorded", weight=1)
def _(trial: Trial) -> None:
    for key, what in (("", "4 parameters"), ("flag down", "4 parameters whose gradients have a history")):
        parameters = _parameters(trial)
        for parameter in parameters if key else ():  # as a backward with create_graph leaves them
            parameter.grad = parameter.grad * parameter
        _stepped(trial, parameters, what)
        for parameter in parameters:
            expect_flagged_leaf(parameter, key, "flag lost")


@sgd_step.claim("leaves `.grad` None, given a list", weight=1)
def _(trial: Trial) -> None:
    parameters = _parameters(trial)
    _stepped(trial, parameters)
    _expect_no_gradients(parameters)
    for parameter in parameters:
        parameter.grad = torch.zeros_like(parameter)
    _stepped(trial, parameters, "4 parameters whose gradients are zeros")
    _expect_no_gradients(parameters, "zero gradient")


def _expect_no_gradients(parameters: Sequence[Tensor], key: str = "") -> None:
    left = [parameter.grad for parameter in parameters if parameter.grad is not None]
    kind, got = ("kept", "the old gradient") if any(gradient.any() for gradient in left) else ("zeros", "zeros")
    expect(not left, key or kind, expected=".grad None", got=got)


@sgd_step.claim("skips a parameter whose `.grad` is None", weight=1)
def _(trial: Trial) -> None:
    parameters = _parameters(trial)
    parameters[0].grad = parameters[2].grad = None
    had_gradient = [parameter.grad is not None for parameter in parameters]
    expected = _stepped(trial, parameters, "4 parameters, two without gradient")
    for parameter, right, moves in zip(parameters, expected, had_gradient, strict=True):
        key, got = ("stops", "one with a gradient stood still") if moves else ("", "one without a gradient moved")
        expect(same(parameter, right), key, expected="only those with a gradient move", got=got)
    _expect_no_gradients([p for p, had in zip(parameters, had_gradient, strict=True) if not had])
    for parameter in parameters:
        parameter.grad = None
    _stepped(trial, parameters, "4 parameters, none with a gradient")


@sgd_step.claim("takes an iterator as well as a list", weight=1)
def _(trial: Trial) -> None:
    parameters, listed = _parameters(trial), _parameters(trial)
    expected = _stepped(trial, parameters, "an iterator", given=iter(parameters))
    moved = all(map(same, parameters, expected))
    expect(moved, "read twice", expected="every parameter moved", got="some or all stood still")
    # Where a list works and an iterator does not, it was the second pass that found nothing.
    called = trial.called
    _stepped(trial, listed, "a list")
    trial.called = called  # the card shows the call that failed
    if all(p.grad is None for p in listed):
        _expect_no_gradients(parameters, "read twice")


@sgd_step.claim("edits so that the guard sees it", weight=1)
def _(trial: Trial) -> None:
    parameters = _parameters(trial)
    losses = [parameter.square().sum() for parameter in parameters]
    places = [parameter.data_ptr() for parameter in parameters]
    _stepped(trial, parameters)
    for index, loss in enumerate(losses):
        try:
            loss.backward()
        except RuntimeError:
            continue
        got = "the slope at the new numbers, for the loss at the old ones"
        key = "unseen" if parameters[index].data_ptr() == places[index] else "new memory"
        raise Missed(key, expected=f"an error in a backward from before, by parameter {index}", got=got)


@sgd_step.claim("leaves the numbers in the gradients that somebody else holds", weight=0.5)
def _(trial: Trial) -> None:
    parameters = _parameters(trial)
    held = [(parameter.grad, parameter.grad.clone()) for parameter in parameters]
    _stepped(trial, parameters)
    changed = [index for index, (gradient, before) in enumerate(held) if not torch.equal(gradient, before)]
    details = {"expected": "the numbers of before", "got": Lazy(lambda: f"others for parameter {changed[0]}")}
    expect(not changed, "gradient edited", **details)
