"""``LinearFunction``: what it claims."""

import ctypes
import math
import mmap
import sys
from collections.abc import Sequence
from itertools import product
from typing import Any

import torch
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from course_utils.checks.exercise import exercise
from course_utils.checks.trial import AnswerRaised, Missed, Trial
from course_utils.lessons.custom_function._shared import (
    _INCOMING,
    _apply,
    _backward,
    _expect_function,
    _expect_gradcheck,
    _expect_incoming_unedited,
    _expect_input_unedited,
    _expect_own_node,
    _expect_same,
)

LinearFunction = exercise(__file__)

_INPUTS = ("x", "weight", "bias")


def _linear_inputs(trial: Trial, sizes: tuple[int, int, int], with_bias: bool) -> list[Tensor]:
    batch, inside, outside = sizes
    shapes: list[tuple[int, ...]] = [(batch, inside), (outside, inside), (outside,)]
    return [trial.randn(*shape) for shape in shapes[: 3 if with_bias else 2]]


def _sizes(trial: Trial) -> tuple[int, int, int]:
    """Batch, in and out, three different numbers."""
    return trial.integer(5, 6), trial.integer(2, 3), 4


def _linear(trial: Trial, tensors: Sequence[Tensor]) -> Tensor:
    given = [*tensors, None][:3]
    return _apply(trial, dict(zip(_INPUTS, tensors, strict=False)), *given)


def _linear_gradients(incoming: Tensor, x: Tensor, weight: Tensor, bias: Tensor | None = None) -> list[Tensor]:
    """The right gradients, of bias only where there is one."""
    return [incoming @ weight, incoming.T @ x, incoming.sum(0)][: 2 if bias is None else 3]


@LinearFunction.claim(
    "is a `torch.autograd.Function` whose `apply` gives x @ weight.T + bias, without bias for None", weight=0, gate=True
)
def _(trial: Trial) -> None:
    _expect_function(trial)
    square = trial.integer(2, 4)
    for sizes, with_bias in product((_sizes(trial), (square,) * 3, (1, 2, 3)), (True, False)):
        tensors = _linear_inputs(trial, sizes, with_bias)
        x, weight, *bias = (tensor.clone() for tensor in tensors)
        try:
            got = _linear(trial, tensors)
        except AnswerRaised as error:
            if "cannot be multiplied" in str(error.error):
                raise Missed("value", expected="x @ weight.T", got=str(error.error)) from None
            raise
        wanted = x @ weight.T + sum(bias)
        _expect_same(
            trial.tensor(got, shape=wanted.shape, dtype=x.dtype), wanted, "the value", _wrong_values(x, weight, bias)
        )
        for name, given, before in zip(_INPUTS, tensors, [x, weight, *bias], strict=False):
            _expect_input_unedited(given, before, name)


def _wrong_values(x: Tensor, weight: Tensor, bias: list[Tensor]) -> dict[str, Any]:
    if x.shape[1] != weight.shape[0]:
        return {}
    return {"value": x @ weight + sum(bias)} if x.shape[1] == weight.shape[1] else {}


def _wrong_gradients(incoming: Tensor, x: Tensor, weight: Tensor) -> list[dict[str, Any]]:
    """For x, weight and bias: wrong gradients of the right shape by misconception."""
    batch, inside = x.shape
    outside = weight.shape[0]
    g_x, g_weight = _linear_gradients(incoming, x, weight)
    ones = torch.ones_like(incoming)
    wrong: list[dict[str, Any]] = [
        {"upstream": ones @ weight},
        {"mean": g_weight / batch, "upstream": ones.T @ x},
        {"mean": incoming.mean(0), "upstream": ones.sum(0)},
    ]
    if batch == inside == outside:
        wrong[0] |= {"transposed": [incoming @ weight.T, g_x.T], "order": g_weight}
        wrong[1] |= {"transposed": [g_weight.T, incoming @ x, x @ incoming], "order": g_x}
        wrong[2] |= {"bias axis": incoming.sum(1)}
    return wrong


def _expect_linear_gradients(
    trial: Trial,
    tensors: list[Tensor],
    needed: Sequence[bool],
    within: Any = None,
) -> None:
    """Runs forward and backward with only some inputs flagged, and judges the gradients of those."""
    leaves = [tensor.clone().requires_grad_(flag) for tensor, flag in zip(tensors, needed, strict=True)]
    result = _linear(trial, leaves)
    _expect_own_node(result)
    incoming = trial.randn(*result.shape)
    before = incoming.clone()
    wanted = [leaf for leaf, flag in zip(leaves, needed, strict=True) if flag]
    after = "" if all(needed) else f", {' and '.join(_flagged(needed))} flagged"
    gradients = iter(_backward(trial, result, wanted, incoming, within=within, after=after))
    right, wrong = _linear_gradients(before, *tensors), _wrong_gradients(before, *tensors[:2])
    for index, flag in enumerate(needed):
        if flag:
            _expect_same(next(gradients), right[index], f"the gradient of {_INPUTS[index]}", wrong[index])
    _expect_incoming_unedited(incoming, before)


def _flagged(needed: Sequence[bool]) -> list[str]:
    return [name for name, flag in zip(_INPUTS, needed, strict=False) if flag]


@LinearFunction.claim("has a backward of its own with the gradients of x, weight and bias", weight=1, gate=True)
def _(trial: Trial) -> None:
    square = trial.integer(2, 4)
    for sizes, with_bias in product(((square,) * 3, _sizes(trial), (1, 2, 3)), (True, False)):
        tensors = _linear_inputs(trial, sizes, with_bias)
        _expect_linear_gradients(trial, tensors, [True] * len(tensors))
    sizes = _sizes(trial)
    first, second = (_linear_inputs(trial, sizes, True) for _ in range(2))
    leaves = [tensor.clone().requires_grad_() for tensor in first]
    result = _linear(trial, leaves)
    _linear(trial, [tensor.clone().requires_grad_() for tensor in second])
    incoming = trial.randn(*result.shape)
    found = _backward(trial, result, leaves, incoming, after=", with another call in between")
    confused = _linear_gradients(incoming, *second)
    for index, (got, wanted) in enumerate(zip(found, _linear_gradients(incoming, *first), strict=True)):
        what = f"the gradient of {_INPUTS[index]} in the first call"
        _expect_same(got, wanted, what, {"shared state": confused[index]})


def _outer_flops(*shapes: Any, out_shape: Any = None, **_: Any) -> int:
    """Of a product that is larger than both factors, as where a matrix product is written out; 0 of any other."""
    size = math.prod(out_shape)
    return size if all(math.prod(shape) < size for shape in shapes if isinstance(shape, torch.Size)) else 0


# So that matrix products that are written in other words count what they cost, and a sum for nobody shows.
_MORE_FLOPS = {
    torch.ops.aten.mul: _outer_flops,
    torch.ops.aten.mv: lambda shape, *_, **__: 2 * math.prod(shape),
    torch.ops.aten.sum: lambda shape, *_, **__: math.prod(shape),
}


def _backward_flops(trial: Trial, tensors: list[Tensor], needed: Sequence[bool]) -> int:
    counter = FlopCounterMode(display=False, custom_mapping=_MORE_FLOPS)
    try:
        _expect_linear_gradients(trial, tensors, needed, within=counter)
    except Missed as missed:
        # With all three flagged the gradients were right: the claim before this one is a gate.
        if missed.misconception in ("no gradient", ""):
            raise Missed("wrong switch", **dict(missed.details)) from None
        raise
    return counter.get_total_flops()


_LIBC = ctypes.CDLL(None) if sys.platform == "linux" else None


class _Page:
    """A small tensor on a page of memory of its own, and whether the ``with`` block reads it: any thread, any library.

    On entry the system takes the page away, and brings one full of zeros once the tensor is read.

    Attributes:
        tensor: a copy of the values, at most a page of them.
        was_read: whether the block read it; False also where the system does not tell.
    """

    def __init__(self, values: Tensor) -> None:
        self.tensor, self.was_read, self._tells = values.clone(), False, False
        self._memory: mmap.mmap | None = None
        if _LIBC and values.numel():
            self._memory = mmap.mmap(-1, values.nbytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
            self.tensor = torch.frombuffer(self._memory, dtype=values.dtype).view(values.shape).copy_(values)
        self._address = ctypes.c_void_p(self.tensor.data_ptr())

    def __enter__(self) -> None:
        if self._memory:
            self._memory.madvise(mmap.MADV_DONTNEED)
        self._tells = not self._is_there()  # what stands in for Linux may say of every page that it is there

    def __exit__(self, *_: object) -> None:
        self.was_read = self._tells and self._is_there()

    def _is_there(self) -> bool:
        told = ctypes.c_ubyte(1)
        if _LIBC and self._memory:
            _LIBC.mincore(self._address, ctypes.c_size_t(1), ctypes.byref(told))
        return bool(told.value & 1)


def _reads(trial: Trial, name: str, sizes: tuple[int, int, int], needed: Sequence[bool]) -> bool:
    """Whether backward reads an input, or ``"the incoming gradient"``; False where it fails for such sizes."""
    pages = dict(zip(_INPUTS, map(_Page, _linear_inputs(trial, sizes, len(needed) == 3)), strict=False))
    leaves = [page.tensor.requires_grad_(flag) for page, flag in zip(pages.values(), needed, strict=True)]
    try:
        result = _linear(trial, leaves)
        # Zeros, as the page that the system brings: nobody has edited the incoming gradient.
        incoming = pages[_INCOMING] = _Page(torch.zeros_like(result))
        wanted = [leaf for leaf in leaves if leaf.requires_grad]
        _backward(trial, result, wanted, incoming.tensor, within=pages[name])
    except (AnswerRaised, Missed):  # an empty batch, say, is more than the contract asks for
        return False
    return pages[name].was_read


def _expect_nothing_for_nobody(trial: Trial, sizes: tuple[int, int, int], needed: tuple[bool, ...]) -> None:
    """Backward computes nothing with what no needed gradient takes, not even by means that PyTorch does not count.

    It may read it, to copy or to print it: then it does so, too, where the gradient for nobody is empty or not there.
    """
    batch, inside, outside = sizes
    rows = []  # misconception; what is idle, at which sizes; sizes and flags that leave nothing to compute from it
    if not needed[1]:
        rows.append(("computes all", "x", sizes, (batch, inside, 0), needed))
    if not needed[0]:
        rows.append(("computes all", "weight", sizes, (0, inside, outside), needed))
    if needed[2:] == (False,):
        alone = (batch, 0, outside)  # the products are empty
        rows.append(("bias for nobody", _INCOMING, alone, alone, needed[:2]))
    for key, name, full, empty, left in rows:
        if _reads(trial, name, full, needed) and not _reads(trial, name, empty, left):
            trial.called = _called(trial, needed)
            raise Missed(
                key,
                expected=f"nothing computed from {name}, which no needed gradient takes",
                got="something computed from it, by means that the count of FLOPs does not see",
            )


def _called(trial: Trial, needed: Sequence[bool]) -> str:
    return f"backward of {trial.name}.apply(...), {' and '.join(_flagged(needed))} flagged"


@LinearFunction.claim("computes only the gradients that are needed (FLOPs of backward, counted)", weight=5)
def _(trial: Trial) -> None:
    batch, inside, outside = sizes = (trial.integer(5, 7), trial.integer(8, 9), trial.integer(10, 12))
    one, most_sums = 2 * batch * inside * outside, 2 * batch * outside
    counted = {}
    for with_bias in (True, False):
        tensors = _linear_inputs(trial, sizes, with_bias)
        for needed in product((True, False), repeat=len(tensors)):
            if any(needed):
                counted[needed] = _backward_flops(trial, tensors, needed)

    def excess(needed: tuple[bool, ...]) -> int:
        # The sum over the batch: batch * outside additions, twice that where it is written as a product with ones.
        return counted[needed] - one * sum(needed[:2]) - most_sums * (needed[2:] == (True,))

    needed = max(counted, key=excess)
    if excess(needed) > 0:
        if excess(needed) <= most_sums:
            key = "bias for nobody"
        else:
            key = "recompute" if counted[True, True, True] >= 3 * one else "computes all"
        trial.called = _called(trial, needed)
        raise Missed(
            key,
            expected=f"{one * sum(needed[:2]):,} FLOPs" + " and the sum over the batch" * (needed[2:] == (True,)),
            got=f"{counted[needed]:,} FLOPs; one gradient by matrix product costs {one:,}",
        )
    for needed in counted:
        _expect_nothing_for_nobody(trial, sizes, needed)


@LinearFunction.claim("passes gradcheck in float64 for all inputs, with and without bias", weight=0.5)
def _(trial: Trial) -> None:
    for with_bias in (True, False):
        tensors = [tensor.requires_grad_() for tensor in _linear_inputs(trial, (3, 2, 4), with_bias)]
        _expect_gradcheck(trial, torch.autograd.gradcheck, tuple([*tensors, None][:3]))
