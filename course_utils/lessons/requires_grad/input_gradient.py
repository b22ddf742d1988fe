"""``input_gradient``: what it claims."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from course_utils.checks.exercise import exercise
from course_utils.checks.trial import AnswerRaised, Missed, Trial

input_gradient = exercise(__file__)


class _Mode(nn.Module):
    """Doubles its input in training mode alone, as dropout and batch norm behave differently in the two modes."""

    def forward(self, x: Tensor) -> Tensor:
        return x * 2 if self.training else x


def _network(trial: Trial, width: int, dtype: torch.dtype = torch.float64) -> nn.Sequential:
    """Some parameters frozen, some with a gradient from before, some with none."""
    hidden = trial.integer(3, 5)
    layers = [nn.Linear(width, hidden), nn.Tanh(), _Mode(), nn.Linear(hidden, hidden), nn.Tanh(), nn.Linear(hidden, 3)]
    model = trial.fill(nn.Sequential(*layers).to(dtype))
    model[0].weight.grad = trial.randn(*model[0].weight.shape, dtype=dtype)
    model[5].bias.grad = trial.randn(3, dtype=dtype)
    model[3].bias.requires_grad_(False)
    return model


def _true_gradient(model: nn.Module, x: Tensor) -> Tensor:
    inner = x.detach().clone().requires_grad_()
    return torch.autograd.grad(model(inner).sum(), inner)[0]


def _shapes(trial: Trial) -> Iterator[tuple[int, ...]]:
    width = trial.integer(2, 5)
    yield from ((trial.integer(2, 5), width), (width,), (2, trial.integer(2, 3), width))


def _one_shape(trial: Trial) -> tuple[int, ...]:
    """For claims that the shape has no part in: one of the shapes, by chance."""
    return list(_shapes(trial))[trial.integer(0, 2)]


def _close(got: Tensor, expected: Tensor) -> bool:
    # Wide enough for central differences in float64, and for another order of sums in float32.
    return torch.allclose(got.detach().to(expected), expected, rtol=1e-4, atol=1e-6)


def _call(
    trial: Trial, model: nn.Module, x: Tensor, show: str = "", within: AbstractContextManager | None = None
) -> Any:
    """Calls the answer. Its arguments are reported as ``model`` and ``x``, whatever it calls them."""
    return trial.run(
        lambda: trial.answer(model, x),
        called=show or f"input_gradient(model, x of shape {tuple(x.shape)})",
        watch={"model": model, "x": x},
        within=within,
    )


def _effect_key(effect: str) -> str:
    return next((key for phrase, key in input_gradient.effects if phrase in effect), "")


def _gradient_of(
    trial: Trial, model: nn.Module, x: Tensor, show: str = "", within: AbstractContextManager | None = None
) -> Tensor:
    """Calls the answer and compares with the live engine."""
    expected = _true_gradient(model, x)
    start = x.grad.clone() if x.is_leaf and x.grad is not None else None
    with torch.no_grad():
        output = model(x)
    result = _call(trial, model, x, show, within)
    if result is None and not x.is_leaf:
        raise Missed("non-leaf", expected=f"a gradient of shape {tuple(x.shape)}", got="None")
    if result is None and not x.requires_grad and _works_when_flagged(trial, model, x):
        raise Missed("unflagged", expected=f"a gradient of shape {tuple(x.shape)}", got="None")
    got = trial.tensor(result)
    if got.shape == x.shape and _close(got, expected):
        if got.dtype != x.dtype:
            raise Missed(expected=str(x.dtype), got=str(got.dtype))
        return got
    key = ""
    if start is not None and got.shape == x.shape and _close(got, expected + start):
        key = "accumulated"
    elif got.shape == x.shape and _close(got, expected.abs()):
        key = "absolute"
    elif got.shape == x.shape and any(_close(got * count, expected) for count in range(2, output.numel() + 1)):
        key = "mean"
    elif got.shape == x.shape and any(_close(got, gradient) for gradient in _gradients_of_parts(model, x)):
        key = "part"
    elif got.numel() in (1, output.numel()) and _close(got, output if got.dim() else output.sum()):
        key = "output"
    elif got.shape == x.shape and _close(got, _in_eval_mode(model, x)):
        key = "eval"
    if got.shape != x.shape:
        raise Missed(key, expected=f"shape {tuple(x.shape)}", got=f"shape {tuple(got.shape)}")
    raise Missed(key, expected=_numbers(expected), got=_numbers(got))


def _numbers(values: Tensor) -> str:
    return ", ".join(f"{value:.4g}" for value in values.detach().flatten()[:3].tolist()) + ", ..."


def _gradients_of_parts(model: nn.Module, x: Tensor) -> Iterator[Tensor]:
    inner = x.detach().clone().requires_grad_()
    output = model(inner)
    for part in (output.flatten()[0], output[0].sum(), output[..., 0].sum(), output.max(), output.amax(-1).sum()):
        yield torch.autograd.grad(part, inner, retain_graph=True)[0]


def _works_when_flagged(trial: Trial, model: nn.Module, x: Tensor) -> bool:
    flagged = x.detach().clone().requires_grad_()
    called, effects = trial.called, list(trial.effects)
    try:
        return isinstance(_call(trial, model, flagged), Tensor)
    except AnswerRaised:
        return False
    finally:
        trial.called, trial.effects[:] = called, effects


def _in_eval_mode(model: nn.Module, x: Tensor) -> Tensor:
    flags = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        return _true_gradient(model, x)
    finally:
        for module, training in flags:
            module.training = training


@input_gradient.claim("is d model(x).sum() / dx, with the shape and dtype of `x`", weight=2, gate=True)
def _(trial: Trial) -> None:
    for shape in _shapes(trial):
        _gradient_of(trial, _network(trial, shape[-1]).eval(), trial.randn(*shape))
    x = trial.randn(3, 4, dtype=torch.float32)
    _gradient_of(trial, _network(trial, 4, torch.float32).eval(), x)


@input_gradient.claim("leaves `x`, its flag and its `.grad` alone, whatever they are", weight=2)
def _(trial: Trial) -> None:
    for shape in _shapes(trial):
        model = _network(trial, shape[-1]).eval()
        leaf = trial.randn(*shape, requires_grad=True)
        leaf.grad = trial.randn(*shape)
        source = trial.randn(*shape, requires_grad=True)
        for x in (
            trial.randn(*shape),
            leaf,
            trial.randn(*shape, requires_grad=True),
            source * 2,
            (source * 2).view(shape),
        ):
            _gradient_of(trial, model, x)
            changes = [effect for effect in trial.effects if _effect_key(effect) == "x changed"]
            if source.grad is not None:
                changes.append("filled the .grad of what x was computed from")
                source.grad = None
            if changes:
                key = "non-leaf" if "computed" in changes[0] else "x changed"
                raise Missed(key, expected="x as it was", got=f"the answer {changes[0]}")


@input_gradient.claim("has no history", weight=1)
def _(trial: Trial) -> None:
    shape = _one_shape(trial)
    for x in (
        trial.randn(*shape),
        trial.randn(*shape, requires_grad=True),
        trial.randn(*shape, requires_grad=True) * 2,
    ):
        got = _plain_call(trial, _network(trial, shape[-1]), x)
        if got.requires_grad:
            found = got.grad_fn.name() if got.grad_fn is not None else "a flagged leaf"
            raise Missed("history", expected="no history", got=found)


def _plain_call(trial: Trial, model: nn.Module, x: Tensor) -> Tensor:
    result = _call(trial, model, x)
    if result is None:
        raise Missed("non-leaf" if not x.is_leaf else "no return value", expected="a gradient", got="None")
    return trial.tensor(result, shape=x.shape)


@input_gradient.claim("touches no parameter's `.grad` or flag, and takes the model as it is", weight=3)
def _(trial: Trial) -> None:
    shape = _one_shape(trial)
    model = _network(trial, shape[-1])
    _gradient_of(trial, model, trial.randn(*shape))
    changes = [effect for effect in trial.effects if "model" in effect]
    if changes:
        raise Missed(_effect_key(changes[0]), expected="a model as it was", got=f"the answer {changes[0]}")


@input_gradient.claim("works for a frozen model", weight=1)
def _(trial: Trial) -> None:
    shape = _one_shape(trial)
    model = _network(trial, shape[-1]).requires_grad_(False)
    for x in (trial.randn(*shape), trial.randn(*shape, requires_grad=True)):
        try:
            _gradient_of(trial, model, x, show="input_gradient(a frozen model, x)")
        except AnswerRaised as raised:
            if "does not require grad" not in str(raised.error):
                raise
            raise Missed("frozen", expected="a gradient", raised=str(raised.error)[:90]) from None
        except Missed as missed:
            if missed.misconception:
                raise
            raise Missed("frozen", expected="the gradient that leads to x", got="another tensor") from None


@contextmanager
def _callers_no_grad() -> Iterator[None]:
    """``no_grad`` as the caller's own mode: it must still be off when the answer has returned."""
    with torch.no_grad():
        try:
            yield
        finally:
            if torch.is_grad_enabled():
                raise Missed("mode left", expected="grad mode still off after the call", got="grad mode on")


@input_gradient.claim("works inside the caller's `no_grad`", weight=2)
def _(trial: Trial) -> None:
    shape = _one_shape(trial)
    for frozen in (False, True):
        model = _network(trial, shape[-1]).requires_grad_(not frozen)
        for x in (trial.randn(*shape), trial.randn(*shape, requires_grad=True)):
            got = _inside_no_grad(trial, model, x)
            if got.requires_grad:
                raise Missed("history", expected="no history", got="a flagged result")


def _inside_no_grad(trial: Trial, model: nn.Module, x: Tensor) -> Tensor:
    try:
        return _gradient_of(trial, model, x, within=_callers_no_grad(), show="input_gradient(model, x) under no_grad()")
    except AnswerRaised as raised:
        if isinstance(raised.error, Missed):
            raise raised.error from None
        raise


class _Broken(Exception):
    """What a model raises in a check."""


class _Breaks(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        raise _Broken("this model cannot run")


@input_gradient.claim("lets through what the model raises, and puts back what it changed", weight=1)
def _(trial: Trial) -> None:
    for within in (None, _callers_no_grad()):
        model = _network(trial, 4).append(_Breaks())
        x = trial.randn(3, 4)
        try:
            got = _call(trial, model, x, "input_gradient(a model that raises, x)", within)
        except AnswerRaised as raised:
            if isinstance(raised.error, Missed):
                raise raised.error from None
            if not isinstance(raised.error, _Broken):
                raise Missed(expected="the model's error", got=f"{type(raised.error).__name__}") from None
        else:
            raise Missed("swallowed", expected="the model's error", got=got)
        if trial.effects:
            effect = trial.effects[0]
            raise Missed(_effect_key(effect), expected="everything put back", got=f"the answer {effect}")
