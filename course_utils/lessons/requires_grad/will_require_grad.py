"""``will_require_grad`` says whether a result would require grad."""

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import nn

from course_utils.checks.compare import Seen, Trial, compared

will_require_grad = compared(__file__)


def _answer(
    trial: Trial, words: str, *inputs: Any, within: AbstractContextManager | None = None, mode: str = ""
) -> Any:
    return trial.call(*inputs, within=within, show=f"will_require_grad({words}){mode}")


@will_require_grad.looks("is True as soon as one tensor is flagged, and only then", gate=True, weight=2)
def _(trial: Trial) -> Seen:
    size = trial.integer(2, 5)
    plain, other, flagged = trial.randn(size), trial.randn(size), trial.randn(size, requires_grad=True)
    for words, inputs in {
        "plain, plain": (plain, other),
        "flagged": (flagged,),
        "flagged, plain": (flagged, plain),
        "plain, flagged": (plain, flagged),
        "plain, flagged, plain": (plain, flagged, other),
    }.items():
        yield f"for {words}", bool(_answer(trial, words, *inputs))


@will_require_grad.looks("looks at nothing but the flag of a tensor", weight=3)
def _(trial: Trial) -> Seen:
    size = trial.integer(2, 5)
    plain, flagged = trial.randn(size), trial.randn(size, requires_grad=True)
    for words, inputs in {
        "a result of a flagged tensor": (flagged * 2, plain),
        "a parameter": (plain, nn.Parameter(trial.randn(size))),
        "a frozen parameter": (nn.Parameter(trial.randn(size), requires_grad=False), plain),
        "whole numbers, flagged": ((plain * 9).long(), flagged),
    }.items():
        yield f"for {words}", bool(_answer(trial, words, *inputs))


@will_require_grad.looks("takes numbers, and tensors of any shapes")
def _(trial: Trial) -> Seen:
    plain, flagged = trial.randn(3), trial.randn(trial.integer(4, 6), 2, requires_grad=True)
    number = trial.integer(2, 9)
    for words, inputs in {
        f"flagged, {number}": (flagged, number),
        "0.5, flagged": (0.5, flagged),
        f"plain, {number}": (plain, number),
        f"{number}, 1.5": (number, 1.5),
        "plain, flagged, of shapes that cannot be added": (plain, flagged),
    }.items():
        yield f"for {words}", bool(_answer(trial, words, *inputs))


@will_require_grad.looks("obeys the grad mode", weight=4)
def _(trial: Trial) -> Seen:
    inputs = trial.randn(3, requires_grad=True), trial.randn(3)
    for mode, outer, inner in (
        ("under no_grad()", nullcontext(), torch.no_grad()),
        ("under enable_grad() inside no_grad()", torch.no_grad(), torch.enable_grad()),
    ):
        with outer:
            found = bool(_answer(trial, "flagged, plain", *inputs, within=inner, mode=f", {mode}"))
        yield f"for flagged, plain, {mode}", found


@will_require_grad.looks("answers with a bool", "no bool")
def _(trial: Trial) -> Seen:
    plain, flagged = trial.randn(3), trial.randn(3, requires_grad=True)
    for words, inputs in {"flagged, plain": (flagged, plain), "plain": (plain,)}.items():
        yield f"type of the answer for {words}", type(_answer(trial, words, *inputs)).__name__
