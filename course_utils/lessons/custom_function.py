"""Lesson 08, custom autograd.Function: its exercises, what they claim, and the misconceptions that they recognise."""

import ctypes
import gc
import math
import mmap
import sys
import tracemalloc
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import product
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import BackwardCFunction
from torch.utils.flop_counter import FlopCounterMode

from course_utils.base.text import describe, format_bytes
from course_utils.checks.exercise import Exercise, Misconception, Missed, Trial
from course_utils.checks.trial import AnswerRaised
from course_utils.memory import MemoryTracker

# ------------------------------------------------------------------------------- what all four exercises have in common

_INCOMING = "the incoming gradient"

_FUNCTION_MISCONCEPTIONS = {
    "plain function": Misconception(
        "A function with the right value has the right backward",
        "Autograd records the operations of a plain function one by one, and has a backward for each of them already. "
        "A rule of your own needs a place where autograd looks for it: a subclass of `torch.autograd.Function`.",
        "Make it a class with the two static methods `forward` and `backward`, and do not call `apply` yet.",
    ),
    "plain class": Misconception(
        "A class with forward and backward is a Function",
        "Autograd calls `backward` for subclasses of `torch.autograd.Function` alone. In any other class, modules "
        "included, it is a method like others that nobody calls.",
        "Look at the line with `class`: what stands in its brackets?",
    ),
    "own backward": Misconception(
        "The class is a Function, so its backward is used",
        "The node is made by the `apply` that `torch.autograd.Function` brings along. What an `apply` of your own does "
        "instead is recorded operation by operation, and your `backward` is never called.",
        "Take out `apply`, leave `forward` and `backward`, and look at `grad_fn.name()` of the result.",
    ),
    "no backward": Misconception(
        "backward follows from forward",
        "Inside `forward` nothing is recorded: the whole of it is one node, and only you know its derivative.",
        "Write the formula of the derivative down first, then the method `backward`.",
    ),
    "call": Misconception(
        "A Function is an object that one calls",
        "`apply` looks for static methods called `forward` and `backward` on the class. `__init__` and `__call__` play "
        "no part, and no object of the class is ever made.",
        "Call the methods `forward` and `backward`.",
    ),
    "signature": Misconception(
        "forward takes what I like",
        "`apply` hands its arguments to `forward`, all of them, with `ctx` in front. Only a class that has "
        "`setup_context(ctx, inputs, output)` gets them without `ctx`.",
        "Count the parameters of your methods against the arguments of `apply`.",
    ),
    "no gradient": Misconception(
        "What backward works out is kept somewhere",
        "The gradients are what `backward` *returns*. None says that there is no gradient, and autograd believes it "
        "without a word.",
        "End `backward` with `return`.",
    ),
    "count": Misconception(
        "backward returns as many gradients as there are tensors",
        "It returns one for each argument of `apply`, in their order. Whatever has no gradient gets None in its place. "
        "Without `return` it gives a single None.",
        "Count the arguments of `apply`, then the values after `return`.",
    ),
    "upstream": Misconception(
        "backward returns the derivative",
        "It returns the derivative times the gradient that came in. They agree where what comes in is all ones, as "
        "after a `sum()`.",
        "Multiply the result by 5 before `sum().backward()`.",
    ),
    "edits gradient": Misconception(
        "The incoming gradient is mine to edit",
        "The same tensor can be on its way to another branch of the graph. That branch then gets your edited values, "
        "and nothing raises.",
        "Make a new tensor in `backward`, and leave the one that came in as it is.",
    ),
    "shared state": Misconception(
        "The class remembers for its call",
        "All calls share the class and the module's globals. The second call writes over what the first one will need "
        "in its backward. What belongs to one call has its place on that call's `ctx`.",
        "Call `apply` twice with different inputs, and only then run both backward passes.",
    ),
    "names": Misconception(
        "backward sees the variables of forward",
        "They are two functions, and the second runs long after the first has returned. What connects them is `ctx`.",
        "Hand tensors over with `ctx.save_for_backward`, and take them from `ctx.saved_tensors`.",
    ),
    "in place": Misconception(
        "forward may work in place",
        "The input is the caller's tensor. It holds other values from now on, also for whoever saved it before.",
        "Print the input after `apply`.",
    ),
}

_FUNCTION_RAISES = (
    ("must implement either the backward", "no backward"),
    ("must implement the forward function", "call"),
    ("incorrect number of gradients", "count"),
    ("leaf Variable that requires grad is being used in an in-place", "edits gradient"),
    ("more than one element of the written-to tensor", "edits gradient"),
    ("positional argument", "signature"),
    ("NameError", "names"),
)

_TUPLE = Misconception(
    "saved_tensors is the tensor that I saved",
    "It is a tuple, also for a single tensor.",
    "Unpack it: a comma after the name on the left side, or `[0]` on the right.",
)

_NOT_RECORDED = Misconception(
    "Inside forward and backward autograd records as usual",
    "`forward` runs with grad mode off, and so does `backward`, unless somebody asked for `create_graph=True`. There "
    "is no history to differentiate.",
    "Print `torch.is_grad_enabled()` there. Or write the derivative down as a formula.",
)


def _expect_function(trial: Trial) -> None:
    answer = trial.answer
    if isinstance(answer, type):
        if not issubclass(answer, torch.autograd.Function):
            kind = "a module" if issubclass(answer, nn.Module) else "another class"
            raise Missed("plain class", expected="a subclass of torch.autograd.Function", got=kind)
        return
    if isinstance(getattr(answer, "__self__", None), type):
        raise Missed(expected=f"the class {trial.name} itself", got="one of its methods, such as apply")
    if isinstance(answer, torch.autograd.Function):
        raise Missed("call", expected=f"the class {trial.name} itself", got="an instance of it")
    kind = "a function" if callable(answer) else describe(answer)
    key = "plain function" if callable(answer) else ""
    raise Missed(key, expected="a subclass of torch.autograd.Function", got=kind)


def _apply(trial: Trial, watch: Mapping[str, Any], *inputs: Any) -> Tensor:
    """Calls ``apply``. ``watch``: the inputs that must stay as they are, by name."""
    shown = ", ".join(describe(value, 40) for value in inputs)
    called = f"{trial.name}.apply({shown})"
    result = trial.run(lambda: trial.answer.apply(*inputs), called=called, watch=watch)
    if isinstance(result, (tuple, list)):
        raise Missed(expected="one tensor", got=f"a {type(result).__name__} of {len(result)}")
    return trial.tensor(result)


def _backward(
    trial: Trial,
    result: Tensor,
    wanted: Sequence[Tensor],
    incoming: Tensor,
    *,
    create_graph: bool = False,
    within: Any = None,
    after: str = "",
) -> tuple[Tensor | None, ...]:
    """The gradients that the answer's backward gives to ``wanted``, None where it gives none."""

    def run() -> tuple[Tensor | None, ...]:
        return torch.autograd.grad(
            result, wanted, incoming, create_graph=create_graph, retain_graph=True, allow_unused=True
        )

    called = f"backward of {trial.name}.apply(...){after}, incoming gradient {describe(incoming)}"
    return trial.run(run, called=called, watch={_INCOMING: incoming}, within=within)


def _node(result: Tensor) -> Any:
    """The node of a custom Function nearest to the result, None where there is none."""
    waiting = [result.grad_fn]
    while waiting:
        node = waiting.pop(0)
        if isinstance(node, BackwardCFunction):
            return node
        waiting.extend(following for following, _ in node.next_functions if following) if node else None
    return None


def _expect_own_node(result: Tensor) -> None:
    if _node(result) is None:
        got = "no grad_fn" if result.grad_fn is None else f"grad_fn {result.grad_fn.name()}"
        raise Missed("own backward", expected="a node of your own behind the result", got=got)


def _kept_on_node(node: Any) -> list[Tensor]:
    """The tensors that a custom node keeps: saved ones and those in its attributes."""
    found = [node.saved_tensors, vars(node)]
    return [value for value in torch.utils._pytree.tree_leaves(found) if isinstance(value, Tensor)]


def _is_memory_of(tensor: Tensor, other: Tensor) -> bool:
    return tensor.untyped_storage().data_ptr() == other.untyped_storage().data_ptr()


def _same(got: Tensor, wanted: Tensor, rtol: float = 1e-11) -> bool:
    return got.shape == wanted.shape and torch.allclose(
        got.detach().double(), wanted.detach().double(), rtol=rtol, atol=1e-12, equal_nan=True
    )


def _expect_same(
    got: Tensor | None, wanted: Tensor, what: str, patterns: Mapping[str, Any] | None = None, rtol: float = 1e-11
) -> None:
    """``patterns``: wrong values by the misconception that leads to them; several in a list."""
    if got is None:
        raise Missed("no gradient", expected=what, got="None")
    if got.shape != wanted.shape:
        raise Missed(expected=f"{what}, shape {tuple(wanted.shape)}", got=f"shape {tuple(got.shape)}")
    if _same(got, wanted, rtol):
        return
    for key, values in (patterns or {}).items():
        for value in values if isinstance(values, list) else [values]:
            if _same(got, value.expand_as(wanted)):
                raise Missed(key, **_first_difference(got, wanted, what))
    raise Missed(**_first_difference(got, wanted, what))


def _first_difference(got: Tensor, wanted: Tensor, what: str) -> dict[str, str]:
    got, wanted = got.detach().double().flatten(), wanted.detach().double().flatten()
    place = int(torch.nan_to_num((got - wanted).abs(), nan=torch.inf).argmax())
    pair = wanted[place].item(), got[place].item()
    numbers = [f"{value:.6g}" for value in pair]
    if numbers[0] == numbers[1]:
        numbers = [f"{value:.15g}" for value in pair]
    return {"expected": f"{what}: {numbers[0]} at element {place}", "got": numbers[1]}


def _expect_input_unedited(x: Tensor, before: Tensor, name: str = "x") -> None:
    if not torch.equal(x, before):
        raise Missed("in place", expected=f"{name} as it was", got="other values in it")


def _expect_incoming_unedited(incoming: Tensor, before: Tensor) -> None:
    if not torch.equal(incoming, before):
        raise Missed("edits gradient", expected="the incoming gradient as it was", got="other values in it")


def _expect_gradcheck(trial: Trial, check: Callable[..., bool], inputs: tuple[Any, ...]) -> None:
    shown = ", ".join(describe(value, 40) for value in inputs)
    called = f"{check.__name__}({trial.name}.apply, ({shown}))"
    if not trial.run(lambda: check(trial.answer.apply, inputs, raise_exception=False), called=called):
        raise Missed(expected=f"{check.__name__} passes in float64", got="it finds another derivative")


def _values(trial: Trial) -> Iterator[Tensor]:
    """Fresh inputs of all kinds: a vector with a zero in it, a matrix, one that is not contiguous, a 0-dim tensor."""
    vector = 2 * trial.randn(trial.integer(5, 9))
    vector[2] = 0.0
    yield vector
    yield trial.randn(trial.integer(2, 4), 3)
    yield trial.randn(4, trial.integer(2, 3)).T
    yield trial.randn()


def _expect_values(trial: Trial, formula: Callable[[Tensor], Tensor], patterns: Mapping[str, Any]) -> None:
    for values in (*_values(trial), trial.randn(4, dtype=torch.float32)):
        x = values.clone()
        got = trial.tensor(_apply(trial, {"x": x}, x), shape=x.shape, dtype=x.dtype)
        wrong = {key: pattern(values) for key, pattern in patterns.items()}
        _expect_same(got, formula(values), "the value", wrong, rtol=1e-11 if x.dtype == torch.float64 else 1e-5)
        _expect_input_unedited(x, values)


def _expect_gradients(
    trial: Trial,
    derivative: Callable[[Tensor], Tensor],
    patterns: Callable[[Tensor, Tensor], Mapping[str, Any]],
) -> None:
    """The gradient of an elementwise Function, for leaves and inner tensors, and for two calls before any backward.

    Args:
        trial: holds the answer.
        derivative: x -> the right derivative.
        patterns: (x, incoming) -> wrong gradients by misconception.
    """
    for values in _values(trial):
        for inner in (False, True):
            leaf = values.clone().requires_grad_()
            x = leaf * 1 if inner else leaf
            result = _apply(trial, {"x": x}, x)
            _expect_own_node(result)
            incoming = trial.randn(*values.shape)
            before = incoming.clone()
            (got,) = _backward(trial, result, [leaf], incoming)
            wrong = {"upstream": derivative(values)} | dict(patterns(values, before))
            _expect_same(got, derivative(values) * before, "the gradient", wrong)
            _expect_incoming_unedited(incoming, before)
    first, second = (trial.randn(5).requires_grad_() for _ in range(2))
    result = _apply(trial, {"x": first}, first)
    _apply(trial, {"x": second}, second)
    incoming = trial.randn(5)
    (got,) = _backward(trial, result, [first], incoming, after=", with another call in between")
    wrong = {"shared state": derivative(second.detach()) * incoming}
    _expect_same(got, derivative(first.detach()) * incoming, "the gradient of the first call", wrong)


# ---------------------------------------------------------------------------------------------------------------- Cube

Cube = Exercise(
    name="Cube",
    points=2,
    hints=(
        "Which tensor does the derivative of x³ need? That is what `forward` hands to `save_for_backward`.",
        "For a second derivative autograd records what `backward` does. It finds the way back to `x` only through "
        "tensors that are inputs of `forward` and were saved as such.",
        "Save the input, nothing that you computed from it. Unpack it in `backward`, and write 3x² times the incoming "
        "gradient there, with ordinary recorded operations.",
    ),
    misconceptions=_FUNCTION_MISCONCEPTIONS
    | {
        "value": Misconception(
            "The cube is three times x",
            "x³ is x · x · x.",
            "Try x = 2: the answer is 8.",
        ),
        "power rule": Misconception(
            "The derivative of x³ is x²",
            "The exponent comes down as a factor, and is one less: 3x².",
            "At x = 2 the slope is 12. Print what your backward gives there.",
        ),
        "passed on": Misconception(
            "backward hands the gradient on",
            "That is the backward of the identity. The gradient of the result has to be turned into that of the input, "
            "by the derivative at the input.",
            "Compare `x.grad` at x = 1 and at x = 2.",
        ),
        "added": Misconception(
            "The chain rule adds",
            "It multiplies: how fast the result follows `x`, times how fast the loss follows the result.",
            "Let zeros come in, and print what goes out: it must be zeros.",
        ),
        "at zero": Misconception(
            "The input can be worked out from the output",
            "At x = 0 the quotient of output and input is 0 / 0. Nothing raises, and one nan spreads to every weight.",
            "Run backward for an input that holds a 0.",
        ),
        "intermediate": Misconception(
            "gradcheck has passed, so all derivatives are right",
            "What `forward` computes is a constant to autograd, since nothing is recorded in there. Saved and used in "
            "`backward`, it gives the right gradient, and a second derivative from which your formula is missing.",
            "Print `requires_grad` of each saved tensor inside `backward`.",
        ),
        "cut": Misconception(
            "Inside backward nothing needs a gradient",
            "With `create_graph=True` the operations of `backward` are recorded like any others. `detach`, `.data` or "
            "`no_grad` takes `x` out of that record, and the second derivative is silently wrong.",
            "Run backward with `create_graph=True`, and look for `x` with `plot_graph` of the gradient.",
        ),
        "once": Misconception(
            "once_differentiable makes backward safe",
            "It says that there is no second derivative, and lets those who ask for one see an error. Here one is "
            "asked for.",
            "Take the decorator off, and run `torch.autograd.gradgradcheck`.",
        ),
        "tuple": _TUPLE,
        "not recorded": _NOT_RECORDED,
    },
    raises=(
        ("marked with @once_differentiable", "once"),
        ("'tuple'", "tuple"),
        ("not tuple", "tuple"),
        ("does not require grad", "not recorded"),
        *_FUNCTION_RAISES,
    ),
    effects=(("edited the incoming gradient", "edits gradient"), ("edited x", "in place")),
)


@Cube.claim("is a `torch.autograd.Function` whose `apply` gives x³", weight=0, gate=True)
def _(trial: Trial) -> None:
    _expect_function(trial)
    _expect_values(trial, lambda x: x * x * x, {"value": lambda x: 3 * x})


@Cube.claim("has a backward of its own, which gives 3x² times the incoming gradient", weight=1, gate=True)
def _(trial: Trial) -> None:
    def wrong(x: Tensor, g: Tensor) -> dict[str, Any]:
        at_zero = torch.where(x == 0, torch.nan, 3 * x * x * g)
        powers = [x * x * g, 3 * x * g, 2 * x * g]
        return {"power rule": powers, "passed on": g, "added": 3 * x * x + g, "at zero": at_zero}

    _expect_gradients(trial, lambda x: 3 * x * x, wrong)


@Cube.claim("passes gradcheck in float64", weight=0.5)
def _(trial: Trial) -> None:
    for shape in ((trial.integer(3, 5),), (2, 2), ()):
        _expect_gradcheck(trial, torch.autograd.gradcheck, (trial.randn(*shape, requires_grad=True),))


@Cube.claim("has a second derivative: 6x, and passes gradgradcheck", weight=3)
def _(trial: Trial) -> None:
    values = trial.randn(trial.integer(4, 6))
    x, incoming = values.clone().requires_grad_(), trial.randn(*values.shape, requires_grad=True)
    result = _apply(trial, {"x": x}, x)
    kept = _kept_on_node(_node(result))
    cut = "cut" if kept and all(_is_memory_of(tensor, x) for tensor in kept) else "intermediate"
    (gradient,) = _backward(trial, result, [x], incoming, create_graph=True)
    if gradient is None:
        raise Missed("no gradient", expected="a gradient", got="None")
    if gradient.grad_fn is None:
        raise Missed("cut", expected="a gradient with a history (create_graph=True)", got="no grad_fn")
    if gradient.grad_fn.name().endswith("Error"):  # the node that once_differentiable puts there
        raise Missed("once", expected="a gradient that can be differentiated again", got="once_differentiable")
    direction = trial.randn(*values.shape)
    second, mixed = _backward(trial, gradient, [x, incoming], direction, after=" with create_graph=True, again")
    if second is None:
        raise Missed(cut, expected="a path from the gradient to x", got="none: the second derivative is 0")
    _expect_same(second, 6 * values * incoming * direction, "the second derivative")
    _expect_same(mixed, 3 * values * values * direction, "the derivative for the incoming gradient")
    for shape in ((trial.integer(2, 4),), (2, 2)):
        _expect_gradcheck(trial, torch.autograd.gradgradcheck, (trial.randn(*shape, requires_grad=True),))


# ----------------------------------------------------------------------------------------------------- ReverseGradient

ReverseGradient = Exercise(
    name="ReverseGradient",
    points=2,
    hints=(
        "`forward` has to remember one thing for `backward`. Is it a tensor?",
        "A number is no tensor: `save_for_backward` refuses it. It can be an attribute of `ctx`, which belongs to this "
        "call alone. A number cannot be edited in place.",
        "`backward` returns two values, one for each argument of `apply`. The first is a new tensor, made from the "
        "incoming gradient; the second is None.",
    ),
    misconceptions=_FUNCTION_MISCONCEPTIONS
    | {
        "forward scaled": Misconception(
            "What backward multiplies, forward must multiply",
            "A Function's two methods are independent. Here the value stays what it is, and only the gradient is "
            "changed. That is the point of it.",
            "Compare the result with `x`.",
        ),
        "sign": Misconception(
            "The optimizer turns the sign",
            "The gradient has to come out of `backward` reversed: with a minus. The optimizer steps against whatever "
            "it is given.",
            "Print the gradient for strength 1 and an incoming gradient of ones.",
        ),
        "not scaled": Misconception(
            "Reversed means multiplied by -1",
            "Only for strength 1. The strength is a factor, too.",
            "Print the gradient for strength 0.5.",
        ),
        "no factor": Misconception(
            "The strength is taken off the gradient",
            "It is a factor. It is neither subtracted nor divided by: strength 0 must let nothing through.",
            "Print the gradient for strength 2 and an incoming gradient of ones.",
        ),
        "passed on": Misconception(
            "An identity in forward is an identity in backward",
            "Autograd would say so, and you say otherwise: `backward` returns what you decide.",
            "Print the gradient for strength 2.",
        ),
        "number": Misconception(
            "save_for_backward takes whatever backward needs",
            "It takes tensors. The strength is a float: no version to check, no memory to free.",
            "Keep it as an attribute of `ctx`.",
        ),
        "tensor": Misconception(
            "The strength is a tensor",
            "The contract hands over a Python float, without methods or dtype of a tensor. Multiplied with a tensor, "
            "it scales all of its elements.",
            "Call your Function with `0.5`.",
        ),
        "gradient for a float": Misconception(
            "Every argument has a gradient",
            "The strength is a float, and autograd takes gradients for tensors alone. Its place in what `backward` "
            "returns is taken by None.",
            "Return None in the second place.",
        ),
    },
    raises=(
        ("save_for_backward can only save", "number"),
        ("a gradient different than None at position 2", "gradient for a float"),
        ("'float' object has no attribute", "tensor"),
        ("must be Tensor, not float", "tensor"),
        *_FUNCTION_RAISES,
    ),
    effects=(("edited the incoming gradient", "edits gradient"), ("edited x", "in place")),
)


def _strengths(trial: Trial) -> tuple[float, ...]:
    drawn = 0.2 + abs(trial.randn().item())
    return (drawn, 1.0, -drawn / 2)


@ReverseGradient.claim("is a `torch.autograd.Function` whose `apply` gives `x` back unchanged", weight=0, gate=True)
def _(trial: Trial) -> None:
    _expect_function(trial)
    for values in (*_values(trial), trial.randn(4, dtype=torch.float32)):
        for strength in _strengths(trial):
            x = values.clone()
            got = trial.tensor(_apply(trial, {"x": x}, x, strength), shape=x.shape, dtype=x.dtype)
            scaled = {"forward scaled": [-strength * values, strength * values]}
            _expect_same(got, values, "the value of x", scaled)
            _expect_input_unedited(x, values)


def _expect_reversed(got: Tensor | None, incoming: Tensor, strength: float) -> None:
    wrong: dict[str, Any] = {"upstream": -strength * torch.ones_like(incoming)}
    wrong |= {"sign": strength * incoming}
    if strength not in (1.0, -1.0):
        wrong |= {"not scaled": -incoming, "passed on": incoming}
        wrong |= {"no factor": [incoming - strength, -incoming - strength, -incoming / strength, incoming / strength]}
    _expect_same(got, -strength * incoming, f"the gradient for strength {strength:.3g}", wrong)


@ReverseGradient.claim("multiplies the gradient by -strength on its way back", weight=2, gate=True)
def _(trial: Trial) -> None:
    for number, values in enumerate(_values(trial)):
        for strength in _strengths(trial):
            leaf = values.clone().requires_grad_()
            x = leaf * 1 if number % 2 else leaf
            result = _apply(trial, {"x": x}, x, strength)
            _expect_own_node(result)
            incoming = trial.randn(*values.shape)
            before = incoming.clone()
            (got,) = _backward(trial, result, [leaf], incoming)
            _expect_reversed(got, before, strength)


@ReverseGradient.claim("keeps the strength of each call for that call", weight=0.5)
def _(trial: Trial) -> None:
    leaves = [trial.randn(3, requires_grad=True) for _ in range(3)]
    strengths = _strengths(trial)
    results = [_apply(trial, {"x": x}, x, strength) for x, strength in zip(leaves, strengths, strict=True)]
    incoming = trial.randn(3)
    for x, result, strength in zip(leaves, results, strengths, strict=True):
        (got,) = _backward(trial, result, [x], incoming.clone(), after=", with other calls in between")
        wrong = {"shared state": [-other * incoming for other in strengths if other != strength]}
        _expect_same(got, -strength * incoming, f"the gradient for strength {strength:.3g}", wrong)


@ReverseGradient.claim("leaves the incoming gradient as it is, so that a branch beside it gets the right one", weight=1)
def _(trial: Trial) -> None:
    for values in _values(trial):
        x, beside = values.clone().requires_grad_(), values.clone().requires_grad_()
        result = _apply(trial, {"x": x}, x, 2.0)
        incoming = trial.randn(*values.shape)
        before = incoming.clone()
        _backward(trial, result + beside, [x, beside], incoming)
        _expect_incoming_unedited(incoming, before)
        (_got,) = _backward(trial, result, [x], incoming)
        _expect_incoming_unedited(incoming, before)


# ------------------------------------------------------------------------------------------------------ LowMemorySwish

LowMemorySwish = Exercise(
    name="LowMemorySwish",
    points=3,
    hints=(
        "The derivative needs `x` and its sigmoid. Which of the two can be had from the other one?",
        "Saving the input costs nothing: the caller's tensor is there anyway. Whatever `forward` computes is a new "
        "storage, and it lives until backward if anything refers to it.",
        "Save `x` alone. In `backward`, compute the sigmoid again, and use the product rule with s' = s · (1 - s).",
    ),
    misconceptions=_FUNCTION_MISCONCEPTIONS
    | {
        "value": Misconception(
            "Swish is the sigmoid",
            "It is x times the sigmoid of x.",
            "Compare with `torch.nn.functional.silu(x)`.",
        ),
        "product rule": Misconception(
            "The derivative of a product is the product of what I remember",
            "Both factors, x and sigmoid(x), depend on x. Each gives a term, and the terms are added.",
            "Compare with `torch.autograd.functional.jacobian` of x * sigmoid(x) at x = 1.",
        ),
        "sigmoid": Misconception(
            "Computed already, so keeping it is free",
            "The sigmoid is a second tensor as large as `x`, and it lives until backward. Computing it again takes one "
            "elementwise operation.",
            "Ask which of the saved tensors backward could work out from `x`.",
        ),
        "output": Misconception(
            "The output is there anyway",
            "Only as long as somebody else keeps it. Kept for backward, it is a second tensor that cannot be freed "
            "when the caller lets go of it.",
            "Delete the result before backward, and look at the bytes alive.",
        ),
        "clone": Misconception(
            "A copy is safer than x",
            "A copy is a second storage of the same size. An edit of `x` need not be feared: `save_for_backward` "
            "notices it and raises.",
            "Count the bytes alive after `apply`, without the output's.",
        ),
        "packed": Misconception(
            "Half the bits are enough for backward",
            "They are a second tensor, and the gradient is no longer that of your function: bfloat16 keeps three "
            "digits, float16 four, float32 seven of float64's sixteen.",
            "Run `torch.autograd.gradcheck` in float64.",
        ),
        "approximate": Misconception(
            "A gradient that is nearly right is good enough",
            "Difference quotients and simpler curves are off by more than rounding. The derivative of swish has a "
            "formula, and it costs no more.",
            "Compare with autograd's gradient of x * sigmoid(x) in float64, to 12 digits.",
        ),
        "small": Misconception(
            "A mask is too small to count",
            "It is a second tensor, with a storage of its own that lives until backward. Whatever is in it can be "
            "worked out from `x`.",
            "Keep `x` alone, and compute the mask in `backward`, if you need it at all.",
        ),
        "derivative": Misconception(
            "One tensor for another: I keep the derivative and not x",
            "Whoever called you has `x` anyway, as the output of the layer before. The derivative is a tensor of its "
            "own on top of that.",
            "Count the bytes alive after `apply`, without the output's.",
        ),
        "elsewhere": Misconception(
            "What is not on ctx does not count",
            "Memory is held by any reference: a global, a list, an attribute of a tensor or of the class, an array or "
            "a list of numbers.",
            "Delete the result, and ask `MemoryTracker` what is alive.",
        ),
        "tuple": _TUPLE,
        "not recorded": _NOT_RECORDED,
    },
    raises=(
        ("'tuple'", "tuple"),
        ("not tuple", "tuple"),
        ("does not require grad", "not recorded"),
        *_FUNCTION_RAISES,
    ),
    effects=(("edited the incoming gradient", "edits gradient"), ("edited x", "in place")),
)


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


# ------------------------------------------------------------------------------------------------------ LinearFunction

LinearFunction = Exercise(
    name="LinearFunction",
    points=3,
    hints=(
        "Write down the shapes: x (batch, in), weight (out, in), incoming gradient (batch, out). Each gradient has the "
        "shape of its input, and only one product of two of them has that shape.",
        "`ctx.needs_input_grad` has one truth value for each argument of `apply`. Where it is False, None is the right "
        "gradient, and it costs nothing.",
        "Start with three times None, and fill in each gradient under an `if` of its own. The bias has no part in the "
        "products: its gradient is the sum of the incoming one over the batch.",
    ),
    misconceptions=_FUNCTION_MISCONCEPTIONS
    | {
        "value": Misconception(
            "weight has the shape (in, out)",
            "As in `nn.Linear`, its rows belong to the outputs: (out, in). The product needs its transpose.",
            "Compare with `torch.nn.functional.linear(x, weight, bias)` for a weight that is not square.",
        ),
        "None": Misconception(
            "A bias is always there",
            "The contract allows None. It can be neither added nor asked for its shape, and its place in what "
            "`backward` returns stays None.",
            "Call `apply(x, weight, None)`, forward and backward.",
        ),
        "transposed": Misconception(
            "A product whose shape fits is the gradient",
            "For square sizes many products fit. A gradient has the shape of its input for *all* sizes, and its "
            "elements must stand in the input's order.",
            "Use three different numbers for batch, in and out.",
        ),
        "order": Misconception(
            "Autograd finds out which gradient is whose",
            "It goes by position alone: the first value that `backward` returns is for the first argument of `apply`.",
            "Put the gradients in the order x, weight, bias.",
        ),
        "mean": Misconception(
            "Gradients are averaged over the batch",
            "Whether to average is the loss's business, and it is in the incoming gradient already. Each row adds its "
            "share to the gradient of weight and bias.",
            "Compare with `nn.Linear` for a batch of 2.",
        ),
        "bias axis": Misconception(
            "The bias gradient is a sum over what is left",
            "The bias is added to every row of the batch, so the sum runs over the rows. One number for each output "
            "remains.",
            "Compare the shape with that of bias, for a batch that has another size than out.",
        ),
        "computes all": Misconception(
            "backward computes only what is needed",
            "Autograd calls your whole `backward`, and throws away what nobody asked for. Only you can leave it out.",
            "Freeze the weight, and print `ctx.needs_input_grad` in `backward`.",
        ),
        "bias for nobody": Misconception(
            "A sum costs nothing",
            "It reads the whole incoming gradient. A frozen bias needs none.",
            "Freeze the bias alone, and see which lines of `backward` still run.",
        ),
        "recompute": Misconception(
            "Recorded again in backward, the rest is free",
            "Running forward once more costs a third matrix product. Both gradients can be had from the saved inputs "
            "with one product each.",
            "Count the FLOPs of your backward with `torch.utils.flop_counter.FlopCounterMode`.",
        ),
        "wrong switch": Misconception(
            "One switch for all of the gradients",
            "Which of x, weight and bias is frozen differs from caller to caller. Each gradient depends on its own "
            "entry of `ctx.needs_input_grad`, in the order of the arguments.",
            "Freeze one input at a time, and look at the gradients of the other two.",
        ),
        "truth": Misconception(
            "`if bias:` asks whether there is a bias",
            "It asks whether the tensor is true, and a tensor with several elements has no answer to that. With a "
            "single element it asks whether that is zero.",
            "Compare with None: `is not None`.",
        ),
        "not recorded": _NOT_RECORDED,
    },
    raises=(
        ("more than one value is ambiguous", "truth"),
        ("does not require grad", "not recorded"),
        ("NoneType", "None"),
        ("different than None at position 3", "None"),
        ("invalid gradient at index 0", "order"),
        ("invalid gradient at index 1", "transposed"),
        ("invalid gradient at index 2", "bias axis"),
        ("cannot be multiplied", "transposed"),
        *_FUNCTION_RAISES,
    ),
    effects=(("edited the incoming gradient", "edits gradient"), ("edited", "in place")),
)

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


EXERCISES = (Cube, ReverseGradient, LowMemorySwish, LinearFunction)
