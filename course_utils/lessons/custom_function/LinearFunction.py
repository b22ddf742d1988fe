"""``LinearFunction`` is a linear layer: its check sees what is kept and computed for each choice of flagged inputs."""

import math
from collections.abc import Sequence
from itertools import product
from typing import Any

import torch
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from course_utils.base.text import format_bytes, message_of
from course_utils.checks.claims import AnswerRaised, Missed, Page, Trial, exercise, expect
from course_utils.lessons.custom_function import _shared as shared
from course_utils.memory import MemoryTracker
from course_utils.memory.collector import collector_off

LinearFunction = exercise(__file__)

_Sizes = tuple[int, int, int]  # batch, in, out


def _different(trial: Trial) -> _Sizes:
    return trial.integer(5, 6), trial.integer(2, 3), 4


def _square(trial: Trial) -> _Sizes:
    return (trial.integer(2, 4),) * 3


def _inputs(trial: Trial, sizes: _Sizes, with_bias: bool = True) -> list[Tensor]:
    batch, inside, outside = sizes
    shapes = [(batch, inside), (outside, inside), (outside,)]
    return [trial.randn(*shape) for shape in shapes[: 2 + with_bias]]


def _biases(trial: Trial) -> tuple[bool, ...]:
    """With a bias and, where the answer takes it, with None: that has a claim of its own."""
    return (True, False) if trial.once(_takes_none) else (True,)


def _takes_none(trial: Trial) -> bool:
    """Whether a call without bias goes through, forward and backward, or one with a bias does not either."""
    works, effects = [], list(trial.effects)
    for with_bias in (True, False):
        leaves = [tensor.requires_grad_() for tensor in _inputs(trial, (5, 2, 4), with_bias)]
        try:
            result = shared.apply(trial, *leaves, *_no_bias(leaves))
            shared.backward(trial, result, leaves, torch.ones_like(result))
            works.append(True)
        except (AnswerRaised, Missed):
            works.append(False)
    trial.effects, trial.called = effects, ""
    return works != [True, False]


def _no_bias(tensors: Sequence[Any]) -> list[None]:
    """What stands for a bias among the arguments of ``apply``."""
    return [None] * (3 - len(tensors))


def _gradients(incoming: Tensor, x: Tensor, weight: Tensor, *bias: Tensor) -> list[Tensor]:
    """The right gradients, of bias only where there is one."""
    return [incoming @ weight, incoming.T @ x, incoming.sum(0)][: 2 + len(bias)]


@LinearFunction.claim("is a `torch.autograd.Function` whose `apply` gives x @ weight.T + bias", weight=0, gate=True)
def _(trial: Trial) -> None:
    shared.expect_function(trial)
    for sizes, with_bias in product((_different(trial), _square(trial), (1, 2, 3)), _biases(trial)):
        x, weight, *bias = tensors = _inputs(trial, sizes, with_bias)
        fits = weight.shape[0] == weight.shape[1]
        wrong = [("value", x @ weight + sum(bias))] if fits else []
        try:
            shared.expect_value(trial, tensors, x @ weight.T + sum(bias), wrong, *_no_bias(tensors))
        except AnswerRaised as error:
            if "cannot be multiplied" in str(error.error):
                raise Missed("value", expected="x @ weight.T", got=str(error.error)) from None
            raise


def _wrong(incoming: Tensor, x: Tensor, weight: Tensor, *_: Tensor) -> list[shared.Wrong]:
    g_x, g_weight, g_bias = _gradients(incoming, x, weight, incoming)
    upstream = [[("upstream", wrong)] for wrong in _gradients(torch.ones_like(incoming), x, weight, incoming)]
    of_x, of_weight, of_bias = upstream
    of_weight.append(("mean", g_weight / len(x)))
    of_bias.append(("mean", g_bias / len(x)))
    for dtype in (torch.float32, torch.float16, torch.bfloat16):
        packed = _gradients(incoming, *(tensor.to(dtype).to(tensor.dtype) for tensor in (x, weight)))
        of_x.append(("packed", packed[0]))
        of_weight.append(("packed", packed[1]))
    if x.shape == weight.shape == incoming.shape:  # all products fit
        of_x.append(("mixed up", incoming @ x))
        of_weight.append(("mixed up", incoming.T @ weight))
        others = incoming @ weight.T, g_x.T, weight.T @ incoming, weight @ incoming
        of_x += [("order", g_weight), *(("transposed", wrong) for wrong in others)]
        of_weight += [("transposed", wrong) for wrong in (g_weight.T, incoming @ x, x @ incoming)]
        of_weight.append(("order", g_x))
        of_bias.append(("bias axis", incoming.sum(1)))
    return upstream


def _expect_gradients(trial: Trial, tensors: list[Tensor], needed: Sequence[bool], within: Any = None) -> None:
    after = "" if all(needed) else f", {_flagged(needed)}"
    more = {"needed": needed, "within": within, "after": after}
    edited = shared.expect_gradients(trial, tensors, _gradients, _wrong, *_no_bias(tensors), **more)
    shared.expect_unedited(*edited)


def _flagged(needed: Sequence[bool]) -> str:
    return "requires_grad on " + " and ".join(name for name, flag in zip(shared.INPUTS, needed, strict=False) if flag)


@LinearFunction.claim("has a backward of its own with the gradients of x, weight and bias", weight=1, gate=True)
def _(trial: Trial) -> None:
    for sizes, with_bias in product((_square(trial), _different(trial), (1, 2, 3)), _biases(trial)):
        tensors = _inputs(trial, sizes, with_bias)
        _expect_gradients(trial, tensors, [True] * len(tensors))


@LinearFunction.claim("lets no other call write over what a call has kept")
def _(trial: Trial) -> None:
    sizes = _different(trial)
    shared.expect_calls_apart(trial, _inputs(trial, sizes), _inputs(trial, sizes), _gradients)


@LinearFunction.claim("takes None for the bias")
def _(trial: Trial) -> None:
    x, weight = _inputs(trial, _different(trial), with_bias=False)
    shared.expect_value(trial, [x, weight], x @ weight.T, [], None)
    _expect_gradients(trial, [x, weight], [True, True])


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


def _reads(trial: Trial, name: str, sizes: _Sizes, needed: Sequence[bool]) -> bool:
    """Whether backward reads an input, or ``"the incoming gradient"``; False where it fails for such sizes."""
    pages = dict(zip(shared.INPUTS, map(Page, _inputs(trial, sizes, len(needed) == 3)), strict=False))
    leaves = [page.tensor.requires_grad_(flag) for page, flag in zip(pages.values(), needed, strict=True)]
    try:
        result = shared.apply(trial, *leaves, *_no_bias(leaves))
        # Zeros, as the page that the system brings: nobody has edited the incoming gradient.
        incoming = pages[shared.INCOMING] = Page(torch.zeros_like(result))
        wanted = [leaf for leaf in leaves if leaf.requires_grad]
        shared.backward(trial, result, wanted, incoming.tensor, within=pages[name])
    except (AnswerRaised, Missed):  # an empty batch, say, is more than the contract asks for
        return False
    return pages[name].was_read


def _expect_nothing_for_nobody(trial: Trial, sizes: _Sizes, needed: tuple[bool, ...]) -> None:
    """Backward computes nothing with what no needed gradient takes, not even by means that PyTorch does not count.

    It may read it, to copy or to print it: then it does so, too, where the gradient for nobody is empty or not there.
    """
    batch, inside, outside = sizes
    alone = batch, 0, outside  # the products are empty
    rows = (  # whether it is idle; misconception; what; at which sizes; sizes and flags that leave nothing to compute
        (not needed[1], "computes all", "x", sizes, (batch, inside, 0), needed),
        (not needed[0], "computes all", "weight", sizes, (0, inside, outside), needed),
        (needed[2:] == (False,), "bias for nobody", shared.INCOMING, alone, alone, needed[:2]),
    )
    for is_idle, key, name, full, empty, left in rows:
        if is_idle and _reads(trial, name, full, needed) and not _reads(trial, name, empty, left):
            trial.called = f"backward of {trial.name}.apply(...), {_flagged(needed)}"
            expected = f"nothing computed from {name}, which no needed gradient takes"
            raise Missed(key, expected=expected, got="something that the count of FLOPs does not see")


def _backward_flops(trial: Trial, tensors: list[Tensor], needed: Sequence[bool]) -> int:
    counter = FlopCounterMode(display=False, custom_mapping=_MORE_FLOPS)
    # With all three flagged the gradients were right: the claim before this one is a gate.
    with shared.rename_misconception({"no gradient": "wrong switch", "": "wrong switch"}):
        try:
            _expect_gradients(trial, tensors, needed, within=counter)
        except AnswerRaised as raised:
            called, (x, weight, *_) = trial.called, tensors
            own = x.nbytes * needed[0] + weight.nbytes * needed[1]
            if "NoneType" in str(raised.error) and _kept(trial, tensors, needed) < own:  # not even what is flagged
                trial.called = called
                raise Missed("wrong switch", raised=message_of(raised.error, 100)) from None
            trial.called = called
            raise
    return counter.get_total_flops()


@LinearFunction.claim("computes only the gradients that are needed (FLOPs of backward, counted)", weight=4.5)
def _(trial: Trial) -> None:
    batch, inside, outside = sizes = (trial.integer(5, 7), trial.integer(8, 9), trial.integer(10, 12))
    one, most_sums = 2 * batch * inside * outside, 2 * batch * outside
    counted = {}
    for with_bias in _biases(trial):
        tensors = _inputs(trial, sizes, with_bias)
        for needed in product((True, False), repeat=len(tensors)):
            if any(needed):
                counted[needed] = _backward_flops(trial, tensors, needed)

    def excess(needed: tuple[bool, ...]) -> int:
        # The sum over the batch: batch * outside additions, twice that where it is written as a product with ones.
        return counted[needed] - one * sum(needed[:2]) - most_sums * (needed[2:] == (True,))

    needed = max(counted, key=excess)
    if excess(needed) > 0:
        key = "recompute" if counted[True, True, True] >= 3 * one else "computes all"
        trial.called, sums = f"backward of {trial.name}.apply(...), {_flagged(needed)}", "the sum over the batch"
        raise Missed(
            "bias for nobody" if excess(needed) <= most_sums else key,
            expected=" and ".join(
                [f"{one * sum(needed[:2]):,} FLOPs"] * any(needed[:2]) + [sums] * (needed[2:] == (True,))
            ),
            got=f"{counted[needed]:,} FLOPs; one gradient by matrix product costs {one:,}",
        )
    for needed in counted:
        _expect_nothing_for_nobody(trial, sizes, needed)


def _kept(trial: Trial, tensors: list[Tensor], needed: Sequence[bool]) -> int:
    """Bytes that ``apply`` keeps once the caller has let go of the inputs and the output."""
    leaves = [tensor.clone().requires_grad_(flag) for tensor, flag in zip(tensors, needed, strict=True)]
    memory = MemoryTracker(leaves)

    def measure() -> tuple[int, Any]:
        inputs = [leaf.clone() for leaf in leaves]  # their history keeps the leaves, and not them
        result = trial.answer.apply(*inputs, *_no_bias(inputs))
        holder = shared.holder_of(result)
        del inputs, result
        return memory.current, holder

    with collector_off():
        return trial.run(measure, called=f"{trial.name}.apply(...), {_flagged(needed)}", within=memory)[0]


@LinearFunction.claim("keeps nothing that the needed gradients do not take (bytes, counted)", weight=4.5)
def _(trial: Trial) -> None:
    # No inputs together are as large as the output, which would pass for them.
    sizes = trial.integer(5, 7), trial.integer(8, 9), trial.integer(11, 12)
    found, counted = list[tuple[Missed, str]](), {}
    for with_bias in _biases(trial):
        x, weight, *bias = tensors = _inputs(trial, sizes, with_bias)
        for needed in filter(any, product((True, False), repeat=len(tensors))):
            kept = counted[needed] = _kept(trial, tensors, needed)
            try:
                _expect_kept(kept, x, weight, bias, needed)
            except Missed as missed:
                found.append((missed, trial.called))
    if found:
        # Where more than the bias is kept for some flags, that is the larger half of the mistake.
        missed, trial.called = next((one for one in found if one[0].misconception != "keeps bias"), found[0])
        with_bias_alone, alone = counted.get((False, False, True)), counted.get((True, False, False))
        if with_bias_alone == x.nbytes and alone == weight.nbytes:
            missed.misconception = "bias takes x"
        raise missed
    for needed in ((True, False), (False, True)):
        x, weight = many = [trial.randn(64, 64, requires_grad=flag) for flag in needed]
        bias = None if trial.once(_takes_none) else trial.randn(64)
        outside = shared.outside_of_tensors(trial, *many, bias)
        shown = f"{format_bytes(outside)} in arrays or Python objects"
        most = x.nbytes + x.nbytes // 4  # one of the two, as an array: x and weight have one size
        expect(outside <= most, "keeps all", expected=f"at most {format_bytes(x.nbytes)} kept", got=shown)


def _expect_kept(kept: int, x: Tensor, weight: Tensor, bias: list[Tensor], needed: Sequence[bool]) -> None:
    most = weight.nbytes * needed[0] + x.nbytes * needed[1]
    if kept > most:
        names = [name for name, flag in zip(("weight", "x"), needed, strict=False) if flag]
        key = "keeps bias" if bias and kept == most + bias[0].nbytes else "keeps all"
        key = "output" if kept == most + len(x) * len(weight) * x.element_size() else key
        key = "partner" if sum(needed[:2]) == 1 and kept == x.nbytes * needed[0] + weight.nbytes * needed[1] else key
        expected = f"{most:,} B: {' and '.join(names)}" if names else "0 B: the gradient of bias takes no input"
        raise Missed(key, expected=expected, got=f"{kept:,} B, once the caller has let go of inputs and output")


@LinearFunction.claim("passes gradcheck in float64 where all inputs are flagged", weight=0.5)
def _(trial: Trial) -> None:
    for with_bias in _biases(trial):
        tensors = [tensor.requires_grad_() for tensor in _inputs(trial, (3, 2, 4), with_bias)]
        shared.expect_gradcheck(trial, *tensors, *_no_bias(tensors))
