"""``LowMemorySwish`` keeps x alone for its backward: its check counts bytes, and gives x other values in between."""

from typing import Any

import torch
from torch import Tensor

from course_utils.base.text import describe, format_bytes
from course_utils.checks.claims import Missed, Trial, exercise, expect, first_sign, reading
from course_utils.lessons.custom_function import _shared as shared
from course_utils.memory import MemoryTracker
from course_utils.memory.collector import collector_off

LowMemorySwish = exercise(__file__)


def _swish(x: Tensor) -> Tensor:
    return x * torch.sigmoid(x)


def _slope(x: Tensor) -> Tensor:
    s = torch.sigmoid(x)
    return s + x * s * (1 - s)


@LowMemorySwish.claim("is a `torch.autograd.Function` whose `apply` gives x · sigmoid(x)", weight=0, gate=True)
def _(trial: Trial) -> None:
    shared.expect_function(trial)
    for x in (*shared.inputs_of_all_kinds(trial), trial.randn(4, dtype=torch.float32)):
        shared.expect_value(trial, [x], _swish(x), [("value", torch.sigmoid(x))])


def _wrong(incoming: Tensor, x: Tensor) -> shared.Wrong:
    s = torch.sigmoid(x)
    slope = s * (1 - s)
    factors = (s, slope, x * slope, s * slope, s + slope, s - x * slope)
    known = [("product rule", factor * incoming) for factor in factors]
    return [*known, ("own derivative", (s + x * s) * incoming)]


_NEARLY = {"rtol": 0.1, "atol": 0.1}  # the last digits have a claim of their own


def _inexact(trial: Trial) -> tuple[Missed, str] | None:
    """What the gradient misses in its digits alone, with the misconception behind it, and in which call; None where
    it is exact."""
    try:
        shared.expect_slope(trial, _slope, _wrong)
    except Missed as missed:
        called = trial.called
        x, rounding = trial.randn(6, requires_grad=True), shared.Rounding()
        result = shared.apply(trial, x)
        (got,) = shared.backward(trial, result, [x], torch.ones(6, dtype=torch.float64), within=rounding)
        if missed.misconception or got is None:
            raise
        if not torch.allclose(got, _slope(x), **_NEARLY):
            raise Missed("formula", **dict(missed.details)) from None
        kept = [tensor for part in shared.kept_on_node(shared.node_of(result), x) for tensor in part]
        # Kept in another dtype, or computed in one, all of it or a part: then what comes out has only its digits.
        packed = rounding.found or torch.equal(got, got.float().double()) or any(t.dtype != x.dtype for t in kept)
        return Missed("packed" if packed else "approximate", **dict(missed.details)), called
    return None


@LowMemorySwish.claim("has a backward of its own with the derivative of x · sigmoid(x)", weight=1, gate=True)
def _(trial: Trial) -> None:
    trial.once(_inexact)


@LowMemorySwish.claim("gives the gradient to float64's last digits", weight=2.5)
def _(trial: Trial) -> None:
    if inexact := trial.once(_inexact):
        missed, trial.called = inexact
        raise missed


@LowMemorySwish.claim("gives the right gradient at x = 0, too", weight=0.5)
def _(trial: Trial) -> None:
    shared.expect_slope_at_zero(trial, _slope, **_NEARLY)


@LowMemorySwish.claim("lets no other call write over what a call has kept", weight=0.5)
def _(trial: Trial) -> None:
    x, other = trial.randn(20), trial.randn(20) - 9
    shared.expect_calls_apart(trial, [x], [other], lambda incoming, x: [_slope(x) * incoming], **_NEARLY)


@LowMemorySwish.claim("has value and gradient also for very large `x`, positive and negative", weight=0.5)
def _(trial: Trial) -> None:
    x = torch.tensor([750.0, -750.0, 1e4, -1e4, 1e5, -1e5], dtype=torch.float64) * (1 + trial.randn().abs())
    inexact = trial.once(_inexact)  # 16 bits have no number above 65504
    with shared.rename_misconception({"": inexact[0].misconception if inexact else "by hand"}):
        shared.expect_value(trial, [x], _swish(x), [])
        shared.expect_gradients(trial, [x], lambda g, x: [_slope(x) * g], lambda *_: [[]], tolerance=_NEARLY)


def _alive(trial: Trial, x: Tensor) -> tuple[int, int, Any, Any]:
    """Bytes alive after ``apply`` above those before, with the output and without it; the node, and what holds it."""
    memory = MemoryTracker(x)

    def measure() -> tuple[int, int, Any, Any]:
        result = trial.answer.apply(x)
        node, holder = shared.node_of(result), shared.holder_of(result)
        # The tracker sees nothing of an output that NumPy or another thread made.
        together = max(memory.current, result.untyped_storage().nbytes())
        del result
        return together, memory.current, node, holder

    shown = f"{describe(x)}{', transposed' * (not x.is_contiguous())}"
    with collector_off():
        return trial.run(measure, called=f"{trial.name}.apply({shown})", watch={"x": x}, within=memory)


def _what_is_kept(node: Any, x: Tensor) -> str:
    """The misconception behind a second tensor, by what the node keeps."""
    _, own = shared.kept_on_node(node, x)
    key = first_sign(
        ("elsewhere", not own),
        ("graph kept", any(tensor.grad_fn not in (None, node) for tensor in own)),
        ("packed", any(tensor.is_floating_point() and tensor.dtype != x.dtype for tensor in own)),
        ("small", all(tensor.nbytes < x.nbytes for tensor in own)),
    )
    known = {"clone": x, "output": _swish(x), "sigmoid": torch.sigmoid(x)}
    return key or reading(own, known, lambda own, value: any(shared.agree(one, value) for one in own)) or "derivative"


def _expect_gradient_from_x_alone(trial: Trial, leaf: Tensor, x: Tensor) -> None:
    """Gives ``x`` other values between forward and backward, unseen by the version counter: the gradient must be that
    at the new values. Whatever else was kept, and wherever, stems from the old ones."""
    result = shared.apply(trial, x)
    later, incoming = trial.randn(*x.shape), trial.randn(*x.shape)
    x.data.copy_(later)
    (got,) = shared.backward(trial, result, [leaf], incoming, after=", after x was given other values through x.data")
    with shared.rename_misconception({"": "elsewhere", "no gradient": "elsewhere"}):
        right = _slope(later) * incoming
        shared.expect_agree(got, right, "the gradient at the values that x holds now", **_NEARLY)


def _expect_x_alone_kept(trial: Trial, values: Tensor) -> None:
    for inner in (False, True):
        leaf = values.clone().requires_grad_()
        x = leaf * 1 if inner else leaf
        together, without, node, _holder = _alive(trial, x)
        key = _what_is_kept(node, x) if without else ""
        shown = f"{format_bytes(without)}; x has {format_bytes(x.nbytes)}"
        expect(not without, key, expected="0 B besides x, with the output deleted and a loss waiting", got=shown)
        expected = f"{format_bytes(x.nbytes)} for the output"
        expect(together <= x.nbytes, "elsewhere", expected=expected, got=format_bytes(together))
        _expect_gradient_from_x_alone(trial, leaf, x)


@LowMemorySwish.claim("keeps nothing but a contiguous `x` from forward to backward", weight=4.5)
def _(trial: Trial) -> None:
    for shape in ((trial.integer(50, 90),), (trial.integer(3, 9), trial.integer(4, 8))):
        _expect_x_alone_kept(trial, trial.randn(*shape))
    many = trial.randn(16384, requires_grad=True)
    outside = shared.outside_of_tensors(trial, many)
    shown = f"{format_bytes(outside)} in arrays or Python objects"
    expect(outside <= many.numel() // 4, "elsewhere", expected="nothing kept besides x", got=shown)


@LowMemorySwish.claim("keeps nothing but a transposed `x`", weight=0.5)
def _(trial: Trial) -> None:
    _expect_x_alone_kept(trial, trial.randn(trial.integer(3, 9), trial.integer(4, 8)).T)


@LowMemorySwish.claim("passes gradcheck in float64", weight=0.5)
def _(trial: Trial) -> None:
    inexact = trial.once(_inexact)
    with shared.rename_misconception({"": inexact[0].misconception if inexact else ""}):
        # Fixed numbers, too: drawn ones show an `x` of 16 bits two times in three.
        fixed = torch.linspace(-3, 3, 50, dtype=torch.float64)
        for x in (trial.randn(trial.integer(3, 5)), trial.randn(2, 2), trial.randn(), fixed):
            shared.expect_gradcheck(trial, x.requires_grad_())
