"""``activation_gradients``: what it claims."""

import warnings
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from course_utils.base.text import describe
from course_utils.checks.exercise import exercise
from course_utils.checks.trial import Missed, Trial
from course_utils.lessons.leaf_tensors._shared import _first

activation_gradients = exercise(__file__)


def _perceptron(trial: Trial) -> tuple[list[nn.Module], Tensor]:
    first, middle, last = trial.integer(2, 4), trial.integer(5, 7), trial.integer(2, 4)
    layers = [nn.Linear(first, middle), nn.Tanh(), nn.Identity(), nn.Linear(middle, last), nn.Softplus()]
    return [trial.fill(layer.double()) for layer in layers], trial.randn(trial.integer(2, 4), first)


def _convolution(trial: Trial) -> tuple[list[nn.Module], Tensor]:
    side = trial.integer(4, 6)
    layers = [nn.Conv2d(1, 2, 3), nn.Sigmoid(), nn.Flatten(), nn.Linear(2 * (side - 2) ** 2, 3)]
    return [trial.fill(layer.double()) for layer in layers], trial.randn(2, 1, side, side)


def _outputs(layers: Sequence[nn.Module], x: Tensor) -> list[Tensor]:
    """Every layer's output, all on one recorded path, and no path to ``x``."""
    outputs = [layers[0](x.detach()).detach().requires_grad_()]
    for layer in layers[1:]:
        outputs.append(layer(outputs[-1]))
    return outputs


def _expected_gradients(layers: Sequence[nn.Module], x: Tensor) -> list[Tensor]:
    outputs = _outputs(layers, x)
    return list(torch.autograd.grad(outputs[-1].sum(), outputs))


def _gradients(trial: Trial, layers: list[nn.Module], x: Tensor) -> list[Any]:
    """What the answer returned, as a list with one item a layer; Missed where it is not that."""
    show = f"activation_gradients([{', '.join(type(layer).__name__ for layer in layers)}], {describe(x)})"
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = trial.call(layers, x, show=show)
    for warning in caught:  # on to the card
        warnings.warn_explicit(warning.message, warning.category, warning.filename, warning.lineno)
    if result is None:
        raise Missed("no return value", expected="a list of gradients", got="None")
    if not isinstance(result, (list, tuple)):
        raise Missed(expected="a list of gradients", got=result)
    if any(item is None for item in result):
        frozen = not any(parameter.requires_grad for parameter in layers[0].parameters())
        if any("not a leaf" in str(warning.message) for warning in caught):
            key = "never asked"
        elif all(item is None for item in result):
            key = "asked too late"
        else:
            key = "frozen" if frozen else "cut"
        missing = [index for index, item in enumerate(result) if item is None]
        raise Missed(key, expected=f"{len(layers)} tensors", got=f"None at {missing}")
    return list(result)


def _judge_gradients(trial: Trial, layers: list[nn.Module], x: Tensor) -> None:
    outputs, expected = _outputs(layers, x), _expected_gradients(layers, x)
    got = _gradients(trial, layers, x)
    if len(got) != len(layers):
        key = "last left out" if _equal_lists(got, expected[:-1]) else _other_list(layers, x, got)
        raise Missed(key, expected=f"{len(layers)} gradients, one a layer", got=f"{len(got)}")
    got = [trial.tensor(item, what="a list of tensors") for item in got]
    if _equal_lists(got, expected):
        return
    shapes = [tuple(item.shape) for item in got], [tuple(item.shape) for item in expected]
    key = _other_list(layers, x, got)
    patterns = (
        ("values", outputs),
        ("own sum", [torch.ones_like(output) for output in outputs]),
        ("mean", [gradient / outputs[-1].numel() for gradient in expected]),
    )
    key = key or next((key for key, pattern in patterns if _equal_lists(got, pattern)), "")
    if shapes[0] != shapes[1]:
        raise Missed(key, expected="shapes " + _listed(shapes[1]), got="shapes " + _listed(shapes[0]))
    wrong = next(i for i, (a, b) in enumerate(zip(got, expected, strict=True)) if not torch.allclose(a, b))
    raise Missed(
        key,
        expected=f"{_first(expected[wrong])} in the first place of gradient {wrong} (from 0)",
        got=_first(got[wrong]),
    )


def _other_list(layers: Sequence[nn.Module], x: Tensor, got: Sequence[Any]) -> str:
    """The misconception by which somebody gets this list, where it is a known one."""
    expected = _expected_gradients(layers, x)
    source = x.detach().clone().requires_grad_()
    value = source
    for layer in layers:
        value = layer(value)
    (at_input,) = torch.autograd.grad(value.sum(), source, allow_unused=True)
    shapes = {tuple(p.shape) for layer in layers for p in layer.parameters()}
    if _equal_lists(got, expected[::-1]):
        return "reversed"
    if _equal_lists(got, [at_input, *expected[:-1]]) or _equal_lists(got, [at_input, *expected]):
        return "inputs"
    if got and all(isinstance(item, Tensor) and tuple(item.shape) in shapes for item in got):
        return "weights"
    return ""


def _equal_lists(got: Sequence[Any], expected: Sequence[Any]) -> bool:
    return len(got) == len(expected) and all(
        isinstance(a, Tensor) and a.shape == b.shape and a.dtype == b.dtype and torch.allclose(a, b)
        for a, b in zip(got, expected, strict=True)
    )


def _listed(shapes: Sequence[tuple[int, ...]]) -> str:
    return ", ".join(map(str, shapes))


@activation_gradients.claim("is d (last output).sum() / d output for each layer, in order", weight=2, gate=True)
def _(trial: Trial) -> None:
    for layers, x in (_perceptron(trial), _convolution(trial)):
        _judge_gradients(trial, layers, x)


@activation_gradients.claim("leaves every `.grad` as it was", weight=1)
def _(trial: Trial) -> None:
    for flagged in (False, True):
        layers, x = _perceptron(trial)
        layers[0].weight.grad = trial.randn(*layers[0].weight.shape)
        if flagged:
            x.requires_grad_().grad = trial.randn(*x.shape)
        watched = {f"layers[{i}].{name}": p for i in (0, 3) for name, p in layers[i].named_parameters()} | {"x": x}
        before = {name: None if p.grad is None else p.grad.clone() for name, p in watched.items()}
        _gradients(trial, layers, x)
        for name, tensor in watched.items():
            was, now = before[name], tensor.grad
            if (was is None) != (now is None):
                found = "None" if now is None else "a gradient"
                key = "cleanup" if now is None else "backward fills"
                raise Missed(key, expected=f"{name}.grad as before", got=found)
            if was is not None and not torch.equal(was, now):
                key = "cleanup" if not now.any() else "backward fills"
                raise Missed(key, expected=f"{name}.grad as before", got="other values")


@activation_gradients.claim("works when the first layer is frozen", weight=1)
def _(trial: Trial) -> None:
    for count in (5, 1):
        layers, x = _perceptron(trial)
        layers[0].requires_grad_(False)
        _judge_gradients(trial, layers[:count], x)
