"""``will_require_grad``: say whether a result would require grad. The check asks for many inputs, under all modes."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import partial
from operator import eq
from typing import Any

import torch
from torch import Tensor, nn

from course_utils.checks.claims import AnswerRaised, Calls, Missed, Trial, exercise, expect, reading

will_require_grad = exercise(__file__)

_Mode = Callable[[], AbstractContextManager]


def _can_be_flagged(tensor: Tensor) -> bool:
    return tensor.is_floating_point() or tensor.is_complex()


def _tried(work: Callable[[Sequence[Tensor]], Tensor], *tensors: Tensor) -> bool:
    """The flag of what an operation gives, False where it does not take these shapes."""
    try:
        return work(tensors).requires_grad
    except RuntimeError:
        return False


# What an answer may take for the rule. An answer that agrees with one of them in every case is told so.
_BELIEFS: tuple[tuple[str, Callable[..., bool]], ...] = (
    ("all", lambda *tensors: all(tensor.requires_grad for tensor in tensors)),
    ("first", lambda *tensors: tensors[0].requires_grad),
    ("first", lambda *tensors: tensors[-1].requires_grad),
    ("leaves", lambda *tensors: any(tensor.requires_grad and tensor.is_leaf for tensor in tensors)),
    ("history", lambda *tensors: any(tensor.grad_fn is not None for tensor in tensors)),
    ("parameters", lambda *tensors: any(isinstance(tensor, nn.Parameter) for tensor in tensors)),
    ("dtype", lambda *tensors: any(map(_can_be_flagged, tensors))),
    ("whole", lambda *tensors: all(map(_can_be_flagged, tensors)) and any(tensor.requires_grad for tensor in tensors)),
    *(("try it", partial(_tried, work)) for work in (sum, torch.stack, torch.cat)),
)

# Whether something is recorded in these modes, and the modes, the outermost first.
_MODES: dict[str, tuple[bool, Sequence[_Mode]]] = {
    "no_grad()": (False, [torch.no_grad]),
    "set_grad_enabled(False)": (False, [partial(torch.set_grad_enabled, False)]),
    "no_grad(), enable_grad()": (True, [torch.no_grad, torch.enable_grad]),
    "enable_grad()": (True, [torch.enable_grad]),
    "inference_mode()": (False, [torch.inference_mode]),
    "inference_mode(), enable_grad()": (False, [torch.inference_mode, torch.enable_grad]),
    "inference_mode(), inference_mode(False)": (True, [torch.inference_mode, partial(torch.inference_mode, False)]),
    "inference_mode(False)": (True, [partial(torch.inference_mode, False)]),
}


@contextmanager
def _entered(modes: Sequence[_Mode]) -> Iterator[None]:
    # Each is made here and not where it is listed: ``set_grad_enabled`` acts when it is constructed.
    with ExitStack() as stack:
        for make in modes:
            stack.enter_context(make())
        yield


def _call(trial: Trial, *inputs: Any, within: AbstractContextManager | None = None, show: str = "") -> Any:
    """Calls the answer. What it asks for a flag in vain is no input, where it does so without any input, too."""
    try:
        return trial.call(*inputs, within=within, show=show)
    except AnswerRaised as raised:
        if isinstance(raised.error, AttributeError) and not any(isinstance(value, Tensor) for value in inputs):
            called = trial.called
            nothing = _fails_without_inputs(trial)
            trial.called = called
            if nothing:
                raise Missed("no tensor", expected="False", got=f"AttributeError: {raised.error}") from None
        raise


def _fails_without_inputs(trial: Trial) -> bool:
    """Whether a call without inputs asks for an attribute in vain."""
    try:
        trial.call()
    except AnswerRaised as raised:
        return isinstance(raised.error, AttributeError)
    return False


def _flag(
    trial: Trial, *inputs: Any, right: bool, within: AbstractContextManager | None = None, show: str = ""
) -> bool:
    """The answer's result as a bool. What kind of object it is, a claim of its own judges, also of None for False."""
    names = ", ".join("tensor" if isinstance(value, Tensor) else repr(value) for value in inputs)
    got = _call(trial, *inputs, within=within, show=f"will_require_grad({names}){show}")
    expect(got is not None or not right, "no return value", expected="True", got="None")
    try:
        return bool(got)
    except (RuntimeError, ValueError):  # a tensor or an array of several elements
        raise Missed("no bool", expected="True or False", got=got) from None


def _tensor_cases(trial: Trial, alike: bool) -> list[tuple[Tensor, ...]]:
    """Tensors that can be added up, or cannot: another claim judges whether their shapes matter."""
    rows, columns = trial.integer(2, 4), trial.integer(5, 7)
    rows = columns if alike else rows
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
        (frozen, plain),
        (frozen, number),
        (whole,),
        (torch.complex(plain, plain), whole),
        (flagged, inner, parameter),
    ]


def _judge_tensors(trial: Trial, alike: bool) -> None:
    cases = _tensor_cases(trial, alike)
    flagged = [any(tensor.requires_grad for tensor in tensors) for tensors in cases]
    got = [_flag(trial, *tensors, right=right) for tensors, right in zip(cases, flagged, strict=True)]
    for tensors, answer, right in zip(cases, got, flagged, strict=True):
        if answer != right:
            trial.called = f"will_require_grad({', '.join('tensor' for _ in tensors)})"
            beliefs = ((key, [rule(*case) for case in cases]) for key, rule in _BELIEFS)
            key = reading(got, beliefs, eq) or "other sign"
            kinds = ["not flagged" if _can_be_flagged(tensor) else "whole numbers" for tensor in tensors]
            inputs = ", ".join(
                f"{'flagged' if tensor.requires_grad else kind} {tuple(tensor.shape)}"
                for tensor, kind in zip(tensors, kinds, strict=True)
            )
            raise Missed(key, inputs=inputs, expected=right, got=answer)


@will_require_grad.claim(
    "among ordinary tensors, is True as soon as one of floats is flagged, and only then", weight=2, gate=True
)
def _(trial: Trial) -> None:
    _judge_tensors(trial, alike=True)


@will_require_grad.claim("takes shapes that do not fit together", weight=1)
def _(trial: Trial) -> None:
    _judge_tensors(trial, alike=False)


class _Tagged(torch.Tensor):
    """A class of somebody's own."""


@will_require_grad.claim("sees the flag of a complex or float16 tensor, a Parameter and another subclass", weight=1)
def _(trial: Trial) -> None:
    plain, whole = trial.randn(2), trial.randn(2).long()
    for flag in (True, False):
        number = torch.complex(plain, plain).requires_grad_(flag)
        tagged = trial.randn(2).as_subclass(_Tagged).requires_grad_(flag)
        half = trial.randn(2, dtype=torch.float16).requires_grad_(flag)
        for key, tensor, shown in (
            ("complex", number, "complex"),
            ("plain type", nn.Parameter(plain.clone(), flag), "Parameter"),
            ("class", tagged, "of a subclass of Tensor"),
            ("other sign", half, "float16"),
        ):
            got = _flag(trial, tensor, whole, right=flag)
            flagged = "flagged" if flag else "not flagged"
            expect(got == flag, key, inputs=f"{flagged} {shown}, whole numbers", expected=flag, got=got)


@will_require_grad.claim("passes over numbers, strings and None", weight=1)
def _(trial: Trial) -> None:
    plain, flagged = trial.randn(trial.integer(2, 4)), trial.randn(3, trial.integer(2, 4), requires_grad=True)
    number = trial.integer(2, 9)
    for inputs, expected in (
        ((flagged, number), True),
        ((0.5, flagged), True),
        ((plain, number, "mean"), False),
        (("sum", None, True, flagged, 0), True),
        ((None,), False),
        ((number, 1.5, 2j), False),
        ((), False),
    ):
        got = _flag(trial, *inputs, right=expected)
        # With the flagged tensor in front it was right.
        key = "search ends" if expected and not isinstance(inputs[0], Tensor) else "not tensors"
        expect(got == expected, key, expected=expected, got=got)


def _judge_modes(trial: Trial, inference: bool) -> None:
    flagged, plain = trial.randn(3, requires_grad=True), trial.randn(3)
    for name, (records, modes) in _MODES.items():
        if ("inference" in name) != inference:
            continue
        for inputs, shown, expected in (((flagged, plain), "flagged", records), ((plain,), "not flagged", False)):
            got = _flag(trial, *inputs, right=expected, within=_entered(modes), show=f" under {name}")
            if got != expected:
                # Where inference mode lowers its answer, it does not look at the flags alone.
                alone = [
                    _flag(trial, flagged, plain, right=False, within=mode(), show=f" under {mode.__name__}()")
                    for mode in (torch.no_grad, torch.inference_mode)
                ]
                made = Calls()
                again = _entered([*modes, lambda: made])
                _flag(trial, *inputs, right=expected, within=again, show=f" under {name}")
                is_view = any(tensor._base is flagged for tensor in made.tensors)
                key = "inference" if "inference_mode(), enable" in name else "view" if is_view else "mode"
                key = "one switch" if alone == [True, False] and not is_view else key
                key = (
                    "" if getattr(trial.answer, "__kwdefaults__", None) else key
                )  # it may have asked at its definition
                raise Missed(key, inputs=shown, expected=expected, got=got)


@will_require_grad.claim("obeys the grad mode", weight=2)
def _(trial: Trial) -> None:
    _judge_modes(trial, inference=False)


@will_require_grad.claim("obeys inference mode", weight=1)
def _(trial: Trial) -> None:
    _judge_modes(trial, inference=True)


@will_require_grad.claim("answers with a bool", weight=0)
def _(trial: Trial) -> None:
    flagged, plain = trial.randn(3, requires_grad=True), trial.randn(3)
    for inputs in ((flagged, plain), (plain,), ()):
        for make in (torch.enable_grad, torch.no_grad, torch.inference_mode):
            got = _call(trial, *inputs, within=make())
            is_bool = isinstance(got, bool) or type(got).__module__ == "numpy"
            key = "no return value" if got is None else "no bool" if got else "no False"
            expect(is_bool, key, expected="True or False", got=got)
