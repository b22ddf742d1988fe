"""``will_require_grad``: what it claims."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from course_utils.checks.exercise import exercise
from course_utils.checks.trial import Missed, Trial

will_require_grad = exercise(__file__)

# What an answer may take for the rule. An answer that agrees with one of them in every case is told so.
_BELIEFS: dict[str, Callable[..., bool]] = {
    "all": lambda *tensors: all(tensor.requires_grad for tensor in tensors),
    "first": lambda *tensors: tensors[0].requires_grad,
    "last": lambda *tensors: tensors[-1].requires_grad,
    "leaves": lambda *tensors: any(tensor.requires_grad and tensor.is_leaf for tensor in tensors),
    "history": lambda *tensors: any(tensor.grad_fn is not None for tensor in tensors),
    "parameters": lambda *tensors: any(isinstance(tensor, nn.Parameter) for tensor in tensors),
    "dtype": lambda *tensors: any(tensor.is_floating_point() or tensor.is_complex() for tensor in tensors),
}


def _flag(trial: Trial, *inputs: Any, within: AbstractContextManager | None = None, show: str = "") -> bool:
    """The answer's result as a bool. What kind of object it is, a claim of its own judges."""
    shown = f" under {show}" if show else ""
    names = ", ".join("tensor" if isinstance(value, Tensor) else repr(value) for value in inputs)
    got = trial.call(*inputs, within=within, show=f"will_require_grad({names}){shown}")
    if got is None:
        raise Missed("no return value", expected="True or False", got="None")
    try:
        return bool(got)
    except (RuntimeError, ValueError):  # a tensor or an array of several elements
        raise Missed("no bool", expected="True or False", got=got) from None


def _tensor_cases(trial: Trial) -> list[tuple[Tensor, ...]]:
    rows, columns = trial.integer(2, 4), trial.integer(5, 7)
    plain, flagged = trial.randn(rows, columns), trial.randn(columns, requires_grad=True)
    inner, parameter = trial.randn(rows, requires_grad=True) * 2, nn.Parameter(trial.randn(columns))
    frozen = nn.Parameter(trial.randn(columns), requires_grad=False)
    whole, number = (trial.randn(rows) * 9).long(), trial.randn(requires_grad=True)
    return [
        (plain, trial.randn(columns)),
        (flagged,),
        (flagged, plain),
        (plain, flagged),
        (whole, plain, flagged),
        (inner,),
        (plain, inner),
        (inner.detach(), plain),
        (parameter, plain),
        (frozen, plain),
        (frozen, number),
        (whole,),
        (torch.complex(plain, plain), whole),
        (torch.complex(plain, plain).requires_grad_(), whole),
        (flagged, inner, parameter),
    ]


def _described(tensors: Sequence[Tensor]) -> str:
    return ", ".join("flagged" if tensor.requires_grad else "not flagged" for tensor in tensors)


@will_require_grad.claim("is True as soon as one tensor is flagged, and only then", weight=2, gate=True)
def _(trial: Trial) -> None:
    cases, got = _tensor_cases(trial), []
    for tensors in cases:
        got.append(_flag(trial, *tensors))
    for tensors, answer in zip(cases, got, strict=True):
        expected = any(tensor.requires_grad for tensor in tensors)
        if answer != expected:
            trial.called = f"will_require_grad({', '.join('tensor' for _ in tensors)})"
            raise Missed(_belief(cases, got, tensors), inputs=_described(tensors), expected=expected, got=answer)


def _belief(cases: Sequence[tuple[Tensor, ...]], got: Sequence[bool], wrong: tuple[Tensor, ...]) -> str:
    """The key of the rule that the answer follows; else what its first wrong case points to."""
    for key, rule in _BELIEFS.items():
        if [rule(*tensors) for tensors in cases] == list(got):
            return "first" if key == "last" else key
    if not any(tensor.requires_grad for tensor in wrong):
        return "parameters" if any(isinstance(tensor, nn.Parameter) for tensor in wrong) else "dtype"
    if len(wrong) > 1:
        return "all"
    return "history" if wrong[0].is_leaf else "leaves"


@will_require_grad.claim("passes over numbers, strings and None", weight=1)
def _(trial: Trial) -> None:
    plain, flagged = trial.randn(trial.integer(2, 4)), trial.randn(3, trial.integer(2, 4), requires_grad=True)
    number = trial.integer(2, 9)
    for inputs in (
        (flagged, number),
        (0.5, flagged),
        (plain, number, "mean"),
        ("sum", None, True, flagged, 0),
        (None,),
        (number, 1.5, 2j),
        (),
    ):
        expected = any(isinstance(value, Tensor) and value.requires_grad for value in inputs)
        got = _flag(trial, *inputs)
        if got != expected:
            raise Missed("not tensors", expected=expected, got=got)


@contextmanager
def _modes(*modes: AbstractContextManager) -> Iterator[None]:
    """Enters several modes, the first one outermost."""
    if not modes:
        yield
        return
    with modes[0], _modes(*modes[1:]):
        yield


@contextmanager
def _grad_set_off() -> Iterator[None]:
    # Made here and not where the cases are listed: it acts when it is constructed.
    with torch.set_grad_enabled(False):
        yield


def _judge_modes(trial: Trial, cases: Mapping[str, tuple[bool, Callable[[], AbstractContextManager]]]) -> None:
    flagged, plain = trial.randn(trial.integer(2, 4), requires_grad=True), trial.randn(3)
    for name, (records, make) in cases.items():
        for inputs in ((flagged, plain), (plain, 2)):
            expected = records and inputs[0] is flagged
            got = _flag(trial, *inputs, within=make(), show=name)
            if got != expected:
                key = "inference" if "inference_mode(), enable" in name else "mode"
                raise Missed(key, inputs=_described(inputs[:1]), expected=expected, got=got)


@will_require_grad.claim("obeys the grad mode", weight=1)
def _(trial: Trial) -> None:
    _judge_modes(
        trial,
        {
            "no_grad()": (False, torch.no_grad),
            "set_grad_enabled(False)": (False, _grad_set_off),
            "no_grad(), enable_grad()": (True, lambda: _modes(torch.no_grad(), torch.enable_grad())),
            "enable_grad()": (True, torch.enable_grad),
        },
    )


@will_require_grad.claim("obeys inference mode", weight=1)
def _(trial: Trial) -> None:
    inference = torch.inference_mode
    _judge_modes(
        trial,
        {
            "inference_mode()": (False, inference),
            "inference_mode(), enable_grad()": (False, lambda: _modes(inference(), torch.enable_grad())),
            "inference_mode(), inference_mode(False)": (True, lambda: _modes(inference(), inference(False))),
            "inference_mode(False)": (True, lambda: inference(False)),
        },
    )


@will_require_grad.claim("answers with a bool", weight=0)
def _(trial: Trial) -> None:
    flagged, plain = trial.randn(3, requires_grad=True), trial.randn(2)
    for inputs in ((flagged, plain), (plain, 2), (plain,), ()):
        for make in (torch.enable_grad, torch.no_grad, torch.inference_mode):
            got = trial.call(*inputs, within=make())
            if not isinstance(got, bool) and type(got).__module__ != "numpy":
                raise Missed("no bool", expected="True or False", got=got)
