"""``activation_gradients``: the gradient by each layer's output. The check compares them, and every `.grad`."""

import warnings
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from functools import partial
from itertools import pairwise

import torch
from torch import Tensor, nn

from course_utils.base.text import describe, message_of
from course_utils.checks.claims import (
    AnswerRaised,
    Lazy,
    Missed,
    ModeRoll,
    Raises,
    Trial,
    Unlucky,
    equal_or_none,
    exercise,
    expect,
    expect_no_history,
    expect_raises,
    first_difference,
    reading,
    same,
)

activation_gradients = exercise(__file__)


def _perceptron(trial: Trial) -> tuple[list[nn.Module], Tensor]:
    first, middle, last = trial.integer(2, 4), trial.integer(5, 7), trial.integer(2, 4)
    layers = [nn.Linear(first, middle), nn.Tanh(), nn.Identity(), nn.Linear(middle, last), nn.Softplus()]
    return [trial.fill(layer.double()) for layer in layers], trial.randn(trial.integer(2, 4), first)


def _convolution(trial: Trial) -> tuple[list[nn.Module], Tensor]:
    side = trial.integer(4, 6)
    layers = [nn.Conv2d(1, 2, 3), nn.Sigmoid(), nn.Flatten(), nn.Linear(2 * (side - 2) ** 2, 3)]
    return [trial.fill(layer.double()) for layer in layers], trial.randn(2, 1, side, side)


def _gradients(
    trial: Trial, layers: list[nn.Module], x: Tensor, within: AbstractContextManager | None = None
) -> list[Tensor]:
    """What the answer returned; Missed where it is no list of tensors."""
    under = " under no_grad()" if within else ""
    names = (f"{'frozen ' * _is_frozen(layer)}{type(layer).__name__}" for layer in layers)
    show = f"activation_gradients([{', '.join(names)}], {describe(x)}){under}"
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = trial.call(layers, x, show=show, within=within)
    for warning in caught:  # on to the card
        warnings.warn_explicit(warning.message, warning.category, warning.filename, warning.lineno)
    expect(result is not None, "no return value", expected="a list of gradients", got="None")
    expect(isinstance(result, (list, tuple)), expected="a list of gradients", got=Lazy(lambda: result))
    missing = [index for index, item in enumerate(result) if item is None]
    if any("not a leaf" in str(warning.message) for warning in caught):
        key = "never asked"
    elif len(missing) == len(result):
        key = "asked too late"
    else:
        key = "frozen" if _is_frozen(layers[0]) else "cut"
    expect(not missing, key, expected=f"{len(layers)} tensors", got=f"None at {missing}")
    return [trial.tensor(item, dtype=x.dtype, what="tensors") for item in result]


def _is_frozen(layer: nn.Module) -> bool:
    flags = [parameter.requires_grad for parameter in layer.parameters()]
    return bool(flags) and not any(flags)


def _same_lists(got: Sequence[Tensor], expected: Sequence[Tensor]) -> bool:
    return len(got) == len(expected) and all(map(same, got, expected))


def _mistakes(gradients: Sequence[Tensor], outputs: Sequence[Tensor]) -> Iterator[tuple[str, Sequence[Tensor]]]:
    """What known mistakes return; both lists begin with the input's."""
    yield "last left out", gradients[1:-1]
    yield "reversed", gradients[:0:-1]
    yield from (("inputs", gradients[:-1]), ("inputs", gradients))
    yield "values", outputs[1:]
    yield "own sum", [torch.ones_like(output) for output in outputs[1:]]
    yield "mean", [gradient / outputs[-1].numel() for gradient in gradients[1:]]
    yield "every sum", torch.autograd.grad(sum(output.sum() for output in outputs[1:]), outputs, retain_graph=True)[1:]
    pairs = pairwise(outputs)
    own = [torch.autograd.grad(after.sum(), before, retain_graph=True)[0] for before, after in pairs]
    yield from (("own derivative", [*own[1:], torch.ones_like(outputs[-1])]), ("own derivative", own))


def _judge_gradients(
    trial: Trial, layers: list[nn.Module], x: Tensor, within: AbstractContextManager | None = None
) -> None:
    outputs = [x.detach().requires_grad_()]
    for layer in layers:
        outputs.append(layer(outputs[-1]))
    gradients = torch.autograd.grad(outputs[-1].sum(), outputs, retain_graph=True)
    got, expected = _gradients(trial, layers, x, within), gradients[1:]
    if _same_lists(got, expected):
        return
    weight_shapes = {parameter.shape for layer in layers for parameter in layer.parameters()}
    are_weights = got and all(item.shape in weight_shapes for item in got)
    key = reading(got, _mistakes(gradients, outputs), _same_lists) or ("weights" if are_weights else "")
    expect(len(got) == len(layers), key, expected=f"{len(layers)} gradients, one for each layer", got=f"{len(got)}")
    shapes, wanted = (", ".join(str(tuple(item.shape)) for item in items) for items in (got, expected))
    expect(shapes == wanted, key, expected=f"shapes {wanted}", got=f"shapes {shapes}")
    wrong = [same(*pair) for pair in zip(got, expected, strict=True)].index(False)
    key = key or ("other number" if got[wrong].any() else "cut")
    place, right, number = first_difference(got[wrong], expected[wrong])
    raise Missed(key, expected=f"{right:.6g}{place} of gradient {wrong} (from 0)", got=f"{number:.6g}")


@activation_gradients.claim("is d (last output).sum() / d output for each layer, in order", weight=2, gate=True)
def _(trial: Trial) -> None:
    for layers, x in (_perceptron(trial), _convolution(trial)):
        try:
            _judge_gradients(trial, layers, x)
        except AnswerRaised as raised:  # every output was recorded here: what was asked for is no output
            if "differentiated Tensors does not require grad" not in str(raised.error):
                raise
            raise Missed("unflagged", expected="gradients", raised=message_of(raised.error, 110)) from None


@activation_gradients.claim("leaves every `.grad` as it was", weight=3)
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
            kept = equal_or_none(now, was)
            got = "None" if now is None else "a gradient" if was is None else "other values"
            cleared = was is not None and (now is None or not now.any())
            expect(kept, "cleanup" if cleared else "backward fills", expected=f"{name}.grad as before", got=got)


@activation_gradients.claim("works when the first layer is frozen or has no parameters, or all are frozen", weight=1)
def _(trial: Trial) -> None:
    for count, frozen in ((5, 1), (1, 1), (5, 5)):
        layers, x = _perceptron(trial)
        for layer in layers[:frozen]:
            layer.requires_grad_(False)
        _judge_gradients(trial, layers[:count], x)
    layers, x = _perceptron(trial)
    before = list(trial.effects)
    _judge_gradients(trial, [nn.Flatten(), *layers], x)  # of two dimensions, it returns x itself
    flagged = any(effect not in before and "requires_grad" in effect for effect in trial.effects)
    expect(not flagged, "handed back", expected="x.requires_grad as it was", got="the flag of x raised")


@activation_gradients.claim("runs each layer in the mode it is in", weight=0.5)
def _(trial: Trial) -> None:
    layers, x = _perceptron(trial)
    layers[1:3] = ModeRoll(), ModeRoll().eval()
    try:
        _judge_gradients(trial, layers, x)
    except Missed as missed:  # without a mode that matters, it was right
        raise Missed("eval", **dict(missed.details)) from None


@activation_gradients.claim("runs each layer once", weight=1.5)
def _(trial: Trial) -> None:
    layers, x = _perceptron(trial)
    runs = [0] * len(layers)

    def count(index: int, *_: object) -> None:
        runs[index] += 1

    for index, layer in enumerate(layers):
        layer.register_forward_pre_hook(partial(count, index))
    _gradients(trial, layers, x)
    expect(max(runs) <= 1, "run again", expected="one run of each layer", got=f"runs {runs}")


@activation_gradients.claim("takes a module that stands twice in the list", weight=0.5)
def _(trial: Trial) -> None:
    width, tanh = trial.integer(3, 5), nn.Tanh()
    layer = trial.fill(nn.Linear(width, width).double())
    x = trial.randn(trial.integer(2, 4), width)
    try:
        _judge_gradients(trial, [layer, tanh, layer, tanh], x)
    except Missed as missed:  # with four modules it was right
        raise Missed("twice", **dict(missed.details)) from None


@activation_gradients.claim("has the dtype of `x` where that has 16 bits, too", weight=0.5)
def _(trial: Trial) -> None:
    layers, x = _perceptron(trial)
    for dtype in (torch.bfloat16, torch.float16):
        cast, show = [layer.to(dtype) for layer in layers], f"activation_gradients(5 layers in {dtype}, x)"
        for item in trial.call(cast, x.to(dtype), show=show):
            expect(item.dtype == dtype, "dtype", expected=str(dtype), got=str(item.dtype))


@activation_gradients.claim("lets through what a layer raises", weight=0.5)
def _(trial: Trial) -> None:
    # torch's own errors are RuntimeErrors. A flag that was down before shows who raises flags and puts none back.
    show = "activation_gradients(layers of which the last raises, x)"
    for kind, frozen in ((Unlucky, 0), (RuntimeError, 0), (Unlucky, 1)):
        layers, x = _perceptron(trial)
        layers[0].weight.grad = trial.randn(*layers[0].weight.shape)
        for layer in layers[:frozen]:
            layer.requires_grad_(False)
        call = partial(trial.call, [*layers, Raises(kind)], x, show=show)
        expect_raises(kind, call, "swallowed", what="the layer's error", other="")


@activation_gradients.claim("returns a list, without history", weight=0.5)
def _(trial: Trial) -> None:
    layers, x = _perceptron(trial)
    for item in _gradients(trial, layers, x):
        expect_no_history(item, "history")
    got = trial.call(layers, x)
    expect(isinstance(got, list), "no list", expected="a list", got=Lazy(lambda: type(got).__name__))


@activation_gradients.claim("works inside the caller's `no_grad`", weight=1)
def _(trial: Trial) -> None:
    for frozen in (False, True):
        layers, x = _perceptron(trial)
        layers[0].requires_grad_(not frozen)
        if frozen:
            try:
                _judge_gradients(trial, layers, x)
            except (AnswerRaised, Missed):
                return  # with grad mode on it was wrong, too, and that is told above
        try:
            _judge_gradients(trial, layers, x, within=torch.no_grad())
        except AnswerRaised as raised:
            if frozen:
                raise
            raise Missed("no_grad", expected="gradients", raised=message_of(raised.error, 110)) from None
        except Missed as missed:
            missed.misconception = missed.misconception if frozen else "no_grad"  # with grad mode on, it was right
            raise
