"""``LowMemorySwish``: what it claims."""

import gc
import tracemalloc
from itertools import product
from typing import Any

import torch
from torch import Tensor

from course_utils.base.text import describe, format_bytes
from course_utils.checks.exercise import exercise
from course_utils.checks.trial import Missed, Trial
from course_utils.lessons.custom_function._shared import (
    _apply,
    _backward,
    _expect_function,
    _expect_gradcheck,
    _expect_gradients,
    _expect_same,
    _expect_values,
    _is_memory_of,
    _kept_on_node,
    _node,
    _same,
)
from course_utils.memory import MemoryTracker

LowMemorySwish = exercise(__file__)


def _swish(x: Tensor) -> Tensor:
    return x * torch.sigmoid(x)


def _swish_derivative(x: Tensor) -> Tensor:
    s = torch.sigmoid(x)
    return s + x * s * (1 - s)


@LowMemorySwish.claim("is a `torch.autograd.Function` whose `apply` gives x · sigmoid(x)", weight=0, gate=True)
def _(trial: Trial) -> None:
    _expect_function(trial)
    _expect_values(trial, _swish, {"value": torch.sigmoid})


@LowMemorySwish.claim("has a backward of its own with the exact gradient", weight=1, gate=True)
def _(trial: Trial) -> None:
    def wrong(x: Tensor, g: Tensor) -> dict[str, Any]:
        s = torch.sigmoid(x)
        slope = s * (1 - s)
        return {"product rule": [s * g, slope * g, x * slope * g, s * slope * g]}

    try:
        _expect_gradients(trial, _swish_derivative, wrong)
    except Missed as missed:
        x = trial.randn(6, requires_grad=True)
        result = _apply(trial, {"x": x}, x)
        (got,) = _backward(trial, result, [x], torch.ones(6, dtype=torch.float64))
        if missed.misconception or got is None or not torch.allclose(got, _swish_derivative(x), rtol=0.1, atol=0.1):
            raise
        packed = any(tensor.dtype != x.dtype for tensor in _kept_on_node(_node(result)))
        raise Missed("packed" if packed else "approximate", **dict(missed.details)) from None


def _alive(trial: Trial, x: Tensor) -> tuple[int, int, int, Any]:
    """Bytes alive after ``apply`` above those before: with the output, the output's, without it; and the node."""

    def measure() -> tuple[int, int, int, Any]:
        with MemoryTracker(x) as memory:
            result = trial.answer.apply(x)
            node, own, together = _node(result), result.untyped_storage().nbytes(), memory.current
            del result
            return together, own, memory.current, node

    enabled = gc.isenabled()
    gc.disable()  # what only the garbage collector would free is alive
    try:
        return trial.run(measure, called=f"{trial.name}.apply({describe(x)})", watch={"x": x})
    finally:
        if enabled:
            gc.enable()


def _outside_of_tensors(trial: Trial, x: Tensor) -> int:
    """Bytes in NumPy arrays and Python objects that ``apply`` leaves besides its output."""

    def measure() -> int:
        kept = _node(trial.answer.apply(x))  # the first call may fill caches
        started = not tracemalloc.is_tracing()
        if started:
            tracemalloc.start(1)
        try:
            before = tracemalloc.get_traced_memory()[0]
            kept = _node(trial.answer.apply(x))  # not the output, which NumPy may have made
            return tracemalloc.get_traced_memory()[0] - before
        finally:
            if started:
                tracemalloc.stop()
            del kept

    return trial.run(measure, called=f"{trial.name}.apply({describe(x)})")


def _what_is_kept(node: Any, x: Tensor) -> str:
    """The misconception behind a second tensor, by what the node keeps."""
    own = [tensor.detach() for tensor in _kept_on_node(node) if not _is_memory_of(tensor, x)]
    if not own:
        return "elsewhere"
    x = x.detach()
    if any(tensor.is_floating_point() and tensor.dtype != x.dtype for tensor in own):
        return "packed"
    if all(tensor.nbytes < x.nbytes for tensor in own):
        return "small"
    for key, value in (("clone", x), ("output", _swish(x)), ("sigmoid", torch.sigmoid(x))):
        if any(_same(tensor, value) for tensor in own):
            return key
    return "derivative"


@LowMemorySwish.claim("keeps nothing but `x` from forward to backward", weight=5)
def _(trial: Trial) -> None:
    sizes = ((trial.integer(50, 90),), (trial.integer(3, 9), trial.integer(4, 8)))
    for shape, inner in product(sizes, (False, True)):
        leaf = trial.randn(*shape, requires_grad=True)
        x = leaf * 1 if inner else leaf
        together, own, without, node = _alive(trial, x)
        size = x.numel() * x.element_size()
        if without:
            raise Missed(
                _what_is_kept(node, x),
                expected="0 B kept besides x, once the output is deleted",
                got=f"{format_bytes(without)}; x has {format_bytes(size)}",
            )
        most = max(together, own)  # the tracker sees nothing of an output that NumPy or another thread made
        if most > size:
            raise Missed("elsewhere", expected=f"{format_bytes(size)} for the output", got=format_bytes(most))
        _expect_gradient_from_x_alone(trial, leaf, x)
    many = trial.randn(16384, requires_grad=True)
    outside = _outside_of_tensors(trial, many)
    if outside > many.numel() // 4:
        raise Missed(
            "elsewhere", expected="nothing kept besides x", got=f"{format_bytes(outside)} in arrays or Python objects"
        )


def _expect_gradient_from_x_alone(trial: Trial, leaf: Tensor, x: Tensor) -> None:
    """Gives ``x`` other values between forward and backward, unseen by the version counter.

    The gradient must be that at the new values. Whatever else was kept, and wherever, stems from the old ones.
    """
    result = _apply(trial, {"x": x}, x)
    later, incoming = trial.randn(*x.shape), trial.randn(*x.shape)
    x.data.copy_(later)
    (got,) = _backward(trial, result, [leaf], incoming, after=", after x was given other values through x.data")
    try:
        _expect_same(got, _swish_derivative(later) * incoming, "the gradient at the values that x holds now")
    except Missed as missed:
        raise Missed("elsewhere", **dict(missed.details)) from None


@LowMemorySwish.claim("passes gradcheck in float64", weight=0.5)
def _(trial: Trial) -> None:
    for shape in ((trial.integer(3, 5),), (2, 2), ()):
        _expect_gradcheck(trial, torch.autograd.gradcheck, (trial.randn(*shape, requires_grad=True),))
