"""What several exercises of lesson 08, custom_function, look at."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import BackwardCFunction

from course_utils.base.text import describe
from course_utils.checks.trial import Missed, Trial

_INCOMING = "the incoming gradient"

_FUNCTION_RAISES = (
    ("must implement either the backward", "no backward"),
    ("must implement the forward function", "call"),
    ("incorrect number of gradients", "count"),
    ("leaf Variable that requires grad is being used in an in-place", "edits gradient"),
    ("more than one element of the written-to tensor", "edits gradient"),
    ("positional argument", "signature"),
    ("NameError", "names"),
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
