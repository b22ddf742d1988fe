"""What the checks of lesson 08 have in common: they call ``apply`` and the answer's backward, and look at its node."""

import tracemalloc
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import product
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd import Function, gradcheck

from course_utils.base.text import describe
from course_utils.base.torch_private import BackwardCFunction, tree_leaves
from course_utils.checks.claims import AnswerRaised, Lazy, Missed, Trial, expect, numbers_apart, reading, same
from course_utils.graph.recorded import nodes_behind
from course_utils.graph.references import probing_alone
from course_utils.memory.dispatch import DispatchMode

INPUTS = ("x", "weight", "bias")  # what a card calls the tensors that `apply` is given
INCOMING = "the incoming gradient"

Wrong = Iterable[tuple[str, Tensor]]  # misconceptions and the values that they lead to
Right = Callable[..., list[Tensor]]  # (incoming, *tensors) -> the right gradients of the tensors

# In float64's own precision: no answer has to leave it, and an approximation would pass otherwise.
agree = partial(same, rtol=1e-11, atol=1e-12)


@contextmanager
def rename_misconception(other: Mapping[str, str]) -> Iterator[None]:
    """Within it one misconception, or none (``""``), is told as another."""
    try:
        yield
    except Missed as missed:
        missed.misconception = other.get(missed.misconception, missed.misconception)
        raise


def expect_function(trial: Trial) -> None:
    """The answer is a subclass of ``torch.autograd.Function``, and nothing that is mistaken for one."""
    answer, expected = trial.answer, "a subclass of torch.autograd.Function"
    if isinstance(answer, type):
        kind = "a module" if issubclass(answer, nn.Module) else "another class"
        expect(issubclass(answer, Function), "plain class", expected=expected, got=kind)
        return
    itself, is_method = f"the class {trial.name} itself", isinstance(getattr(answer, "__self__", None), type)
    expect(not is_method, expected=itself, got="one of its methods, such as apply")
    expect(not isinstance(answer, Function), "call", expected=itself, got="an instance of it")
    expect(not callable(answer), "plain function", expected=expected, got="a function")
    raise Missed(expected=expected, got=describe(answer))


def apply(trial: Trial, *inputs: Any) -> Tensor:
    """Calls ``apply``, whose tensors must stay as they are."""
    watch = {name: value for name, value in zip(INPUTS, inputs, strict=False) if isinstance(value, Tensor)}
    called = f"{trial.name}.apply({', '.join(describe(value, 40) for value in inputs)})"
    result = trial.run(lambda: trial.answer.apply(*inputs), called=called, watch=watch)
    is_one = not isinstance(result, (tuple, list))
    expect(is_one, expected="one tensor", got=Lazy(lambda: f"a {type(result).__name__} of {len(result)}"))
    return trial.tensor(result)


class _HandsOn(Function):
    """A number whose backward gives ``result`` a gradient, that very tensor. ``grad(result, wanted, incoming)`` does it
    too, but loads sympy at a process's first call: seconds."""

    @staticmethod
    def forward(ctx: Any, result: Tensor, incoming: list[Tensor]) -> Tensor:
        ctx.incoming = incoming
        return result.new_zeros(())

    @staticmethod
    def backward(ctx: Any, _: Tensor) -> tuple[Tensor, None]:
        return ctx.incoming[0], None


def backward(
    trial: Trial,
    result: Tensor,
    wanted: list[Tensor],
    incoming: Tensor,
    after: str = "",
    within: Any = None,
    **how: bool,
) -> tuple[Tensor | None, ...]:
    """The gradients that the answer's backward gives to ``wanted``. ``after``: what the card says of the call."""
    number = _HandsOn.apply(result, [incoming])
    return trial.run(
        lambda: torch.autograd.grad(number, wanted, retain_graph=True, allow_unused=True, **how),
        called=f"backward of {trial.name}.apply(...){after}, incoming gradient {describe(incoming)}",
        watch={INCOMING: incoming},
        within=within,
    )


def node_of(result: Tensor) -> Any:
    """The node of a custom Function nearest to the result, None where there is none."""
    return next((node for node in nodes_behind(result) if isinstance(node, BackwardCFunction)), None)


def holder_of(result: Tensor) -> Any:
    """What keeps the nodes behind a result filled when it is gone. Before 2.13 the Python object of a custom Function's
    node alone does not: the node behind it, in C++, has to be held by another one."""
    with probing_alone():  # what the caller watches with must not see this operation
        return result.sum().grad_fn


class Rounding(DispatchMode):
    """Finds out whether an answer turns float64 values into a smaller dtype; a mask of whole numbers loses nothing."""

    found = False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        source = args[0] if args else None
        if isinstance(result, Tensor) and isinstance(source, Tensor) and source.dtype == torch.float64:
            fewer = result.is_floating_point() and result.dtype != torch.float64 and result.dim() > 0
            rounded = fewer and same(result, source, rtol=1e-2, atol=1e-2)
            self.found |= rounded and not torch.equal(result.double(), source)
        return result


def kept_on_node(node: Any, x: Tensor) -> tuple[list[Tensor], list[Tensor]]:
    """What a custom node keeps, saved or in its attributes: tensors on the memory of ``x``, and others."""
    kept = [value for value in tree_leaves([node.saved_tensors, vars(node)]) if isinstance(value, Tensor)]
    address = x.untyped_storage().data_ptr()
    of_x = [tensor for tensor in kept if tensor.untyped_storage().data_ptr() == address]
    others = [tensor for tensor in kept if tensor.untyped_storage().data_ptr() != address]
    return of_x, others


def outside_of_tensors(trial: Trial, *inputs: Any) -> int:
    """Bytes in NumPy arrays and Python objects that ``apply`` leaves besides its output."""

    def measure() -> int:
        # Not the outputs, which NumPy may have made. The first call may fill caches.
        kept = [node_of(trial.answer.apply(*inputs))]
        started = not tracemalloc.is_tracing()
        if started:
            tracemalloc.start(1)
        try:
            before = tracemalloc.get_traced_memory()[0]
            kept.append(node_of(trial.answer.apply(*inputs)))
            return tracemalloc.get_traced_memory()[0] - before
        finally:
            if started:
                tracemalloc.stop()

    return trial.run(measure, called=f"{trial.name}.apply({', '.join(describe(value, 40) for value in inputs)})")


def expect_agree(got: Tensor | None, right: Tensor, what: str, wrong: Wrong = (), **tolerance: float) -> None:
    """The answer's value or gradient, called ``what``, is the right one; else the mistake that gives it is named."""
    if got is None:
        raise Missed("no gradient", expected=what, got="None")
    shape, right_shape = tuple(got.shape), tuple(right.shape)
    expect(shape == right_shape, expected=f"{what}, shape {right_shape}", got=f"shape {shape}")
    if not agree(got, right, **tolerance):
        expected, shown = numbers_apart(got, right)
        raise Missed(reading(got, wrong, agree), expected=f"{what}: {expected}", got=shown)


def expect_unedited(tensor: Tensor, before: Tensor, name: str = INCOMING, key: str = "edits gradient") -> None:
    """A tensor that the answer was given has the values of before."""
    expect(torch.equal(tensor, before), key, expected=f"{name} as it was", got="other values in it")


def expect_gradcheck(trial: Trial, *inputs: Any, check: Callable[..., bool] = gradcheck) -> None:
    """PyTorch's own test passes, in float64."""
    called = f"{check.__name__}({trial.name}.apply, ({', '.join(describe(value, 40) for value in inputs)}))"
    passes = trial.run(lambda: check(trial.answer.apply, inputs, raise_exception=False), called=called)
    expect(passes, expected=f"{check.__name__} passes in float64", got="it finds another derivative")


def inputs_of_all_kinds(trial: Trial, zero: float = 0.0) -> Iterator[Tensor]:
    """A vector with a zero in it, or what stands for one; a matrix, one that is not contiguous, a 0-dim tensor."""
    vector = 2 * trial.randn(trial.integer(5, 9))
    vector[2] = zero
    yield vector
    yield trial.randn(trial.integer(2, 4), 3)
    yield trial.randn(4, trial.integer(2, 3)).T
    yield trial.randn()


def expect_value(
    trial: Trial, tensors: list[Tensor], right: Tensor, wrong: Wrong, *more: Any, float32_rtol: float = 1e-5
) -> None:
    """``apply`` gives the right value of some tensors and ``more``, and leaves the tensors alone."""
    given = [tensor.clone() for tensor in tensors]
    got = trial.tensor(apply(trial, *given, *more), shape=right.shape, dtype=right.dtype)
    tolerance = {"rtol": float32_rtol} if right.dtype == torch.float32 else {}
    expect_agree(got, right, "the value", wrong, **tolerance)
    for name, tensor, before in zip(INPUTS, given, tensors, strict=False):
        expect_unedited(tensor, before, name, "in place")
    apply(trial, *(tensor.clone().requires_grad_() for tensor in tensors), *more)  # what is saved is looked at now


def expect_gradients(
    trial: Trial,
    tensors: list[Tensor],
    right: Right,
    wrong: Callable[..., list[Wrong]],
    *more: Any,
    needed: Sequence[bool] = (True, True, True),
    inner: bool = False,
    after: str = "",
    within: Any = None,
    tolerance: Mapping[str, float] = MappingProxyType({}),
) -> tuple[Tensor, Tensor]:
    """Forward and backward make a node of the answer's own, and give the right gradients of the tensors that need one.

    Args:
        trial: holds the answer.
        tensors: the first arguments of ``apply``; ``more`` are the others.
        right: see ``Right``.
        wrong: (incoming, *tensors) -> for each of the tensors, what is wrong.
        needed: which of the tensors are flagged.
        inner: whether ``apply`` is given inner tensors, and no leaves.
        after, within: see ``backward``.
        tolerance: ``rtol`` and ``atol``, where the last digits have a claim of their own.

    Returns:
        The incoming gradient as it is now, and as it was before.
    """
    leaves = [tensor.clone().requires_grad_(flag) for tensor, flag in zip(tensors, needed, strict=False)]
    result = apply(trial, *[leaf * 1 if inner else leaf for leaf in leaves], *more)
    if node_of(result) is None:
        got = "no grad_fn" if result.grad_fn is None else f"grad_fn {result.grad_fn.name()}"
        raise Missed("own backward", expected="a node of your own behind the result", got=got)
    incoming = trial.randn(*result.shape)
    before = incoming.clone()
    wanted = [leaf for leaf in leaves if leaf.requires_grad]
    gradients = iter(backward(trial, result, wanted, incoming, after, within))
    rows = zip(INPUTS, leaves, right(before, *tensors), wrong(before, *tensors), strict=False)
    for name, leaf, gradient, mistakes in rows:
        if leaf.requires_grad:
            expect_agree(next(gradients), gradient, f"the gradient of {name}", mistakes, **tolerance)
    return incoming, before


def expect_calls_apart(
    trial: Trial, first: list[Tensor], second: list[Tensor], right: Right, **tolerance: float
) -> None:
    """A second call between a call and its backward changes nothing, with other flags either."""
    for flag in (True, False):
        leaves = [tensor.clone().requires_grad_() for tensor in first]
        result = apply(trial, *leaves)
        apply(trial, *(tensor.clone().requires_grad_(flag) for tensor in second))
        incoming = trial.randn(*result.shape)
        with rename_misconception({"": "shared state", "no gradient": "shared state"}):
            try:
                found = backward(trial, result, leaves, incoming, ", with another call in between")
            except AnswerRaised as raised:  # alone, the first call has gone through
                shown = f"{type(raised.error).__name__}: {raised.error}".split("\n")[0][:120]
                raise Missed(expected="the gradients of the first call", got=shown) from None
            for name, got, gradient in zip(INPUTS, found, right(incoming, *first), strict=False):
                expect_agree(got, gradient, f"the gradient of {name} in the first call", **tolerance)


def expect_slope(trial: Trial, slope: Callable[[Tensor], Tensor], wrong: Callable[[Tensor, Tensor], Wrong]) -> None:
    """The gradients of an elementwise Function, for leaves and inner tensors, but for x = 0.

    ``slope``: x -> the right derivative. ``wrong``: (incoming, x) -> what is wrong.
    """

    def right(incoming: Tensor, x: Tensor) -> list[Tensor]:
        return [slope(x) * incoming]

    def mistakes(incoming: Tensor, x: Tensor) -> list[Wrong]:
        return [[("upstream", slope(x)), *wrong(incoming, x)]]

    for x, inner in product(inputs_of_all_kinds(trial, zero=0.5), (False, True)):
        expect_unedited(*expect_gradients(trial, [x], right, mistakes, inner=inner))


def expect_slope_at_zero(trial: Trial, slope: Callable[[Tensor], Tensor], **tolerance: float) -> None:
    """The gradient of an elementwise Function where x is 0: what is right elsewhere may be 0 / 0 there."""
    x = trial.randn(trial.integer(4, 6))
    x[1] = 0.0
    with rename_misconception({"": "at zero"}):
        expect_gradients(trial, [x], lambda incoming, x: [slope(x) * incoming], lambda *_: [[]], tolerance=tolerance)
