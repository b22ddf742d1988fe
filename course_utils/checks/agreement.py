"""What was seen of an answer beside what was seen of another: whether it will do (``agree``), whether it is the same
mistake (``alike``), and how a card tells where they differ (``shown``).
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy
import torch
from torch import Tensor

from course_utils.base.text import describe, message_of
from course_utils.checks import AnswerRaised


@dataclass(frozen=True)
class AtMost:
    """A number of which an answer may have less than the model: bytes, calls, FLOPs."""

    number: float


@dataclass(frozen=True)
class Raised:
    """An error. It is right if it is of the model's kind, and the same mistake if it says the same."""

    kind: type[BaseException]
    message: str

    @classmethod
    def by(cls, error: BaseException) -> "Raised":
        """The error that an answer has raised."""
        return cls(type(error), message_of(error, 60))


ABSENT = object()  # in place of what a look did not come to


def agree(got: Any, right: Any) -> bool:
    """Whether what was seen of an answer will do.

    Args:
        got: what was seen of the answer: containers are gone through; tensors and fractions agree within a tolerance,
            whatever their dtype, errors if theirs is of the right one's kind, and all else exactly.
        right: the same of the model answer.
    """
    if isinstance(right, Raised):
        return isinstance(got, Raised) and issubclass(got.kind, right.kind)
    if isinstance(right, AtMost):
        return isinstance(got, AtMost) and got.number <= right.number
    return _match(got, right, agree)


def alike(one: Any, other: Any) -> bool:
    """Whether two mistakes show in the same way: numbers of bytes or calls within a tenth, errors by what they say, all
    else as in ``agree``."""
    if isinstance(one, Raised) or isinstance(other, Raised):
        return one == other
    if isinstance(one, AtMost) and isinstance(other, AtMost):
        return abs(one.number - other.number) <= 0.1 * max(abs(one.number), abs(other.number))
    return _match(one, other, alike)


def _match(one: Any, other: Any, test: Callable[[Any, Any], bool]) -> bool:
    for kind in (Tensor, numpy.ndarray):
        if isinstance(other, kind):
            return isinstance(one, kind) and one.shape == other.shape and bool(_close(one, other).all())
    if isinstance(other, float):
        is_number = isinstance(one, (int, float)) and not isinstance(one, bool)
        return is_number and bool(_close(torch.tensor(one), torch.tensor(other)))
    if isinstance(other, Mapping):
        return isinstance(one, Mapping) and one.keys() == other.keys() and all(test(one[at], other[at]) for at in other)
    if isinstance(other, (list, tuple)):
        return isinstance(one, (list, tuple)) and len(one) == len(other) and all(map(test, one, other))
    return type(one) is type(other) and bool(one == other)


def _close(one: Tensor | numpy.ndarray, other: Tensor | numpy.ndarray) -> Tensor:
    """Element by element: 1e-5 of the value and 1e-6 beside it, because an answer may go through float32 on its way."""
    first, second = (torch.as_tensor(numbers).detach().double() for numbers in (one, other))
    return torch.isclose(first, second, rtol=1e-5, atol=1e-6, equal_nan=True)


def shown(got: tuple[str, Any], right: tuple[str, Any], error: Exception | None) -> dict[str, str]:
    """The lines of a card: what was expected, and what came.

    Args:
        got: what was looked at, by name, and what was seen of the answer there.
        right: the same of the model answer.
        error: what ended the look at the answer early; it is told where the two looks did not come to the same.
    """
    if isinstance(error, AnswerRaised) and got[0] != right[0]:
        return dict(error.details)
    if error and got[0] != right[0]:
        return {"could_not_be_judged": message_of(error)}
    return _apart(right[0] or got[0], got[1], right[1])


def _apart(name: str, got: Any, right: Any) -> dict[str, str]:
    if isinstance(right, (list, tuple)) and isinstance(got, (list, tuple)) and len(right) == len(got):
        at = next(index for index, pair in enumerate(zip(got, right, strict=True)) if not agree(*pair))
        return _apart(f"{name}, {at + 1} of {len(right)}" if len(right) > 1 else name, got[at], right[at])
    if isinstance(right, Mapping) and isinstance(got, Mapping) and right.keys() == got.keys():
        key = next(key for key in right if not agree(got[key], right[key]))
        return _apart(f"{name}, {key}", got[key], right[key])
    if isinstance(right, Tensor) and isinstance(got, Tensor) and right.shape == got.shape:
        expected, number = _numbers(got, right)
        return {"expected": f"{name}: {expected}", "got": number}
    most = "at most " * isinstance(right, AtMost)
    return {"expected": f"{name}: {most}{_words(right)}", "got": _words(got)}


def _numbers(got: Tensor, right: Tensor) -> tuple[str, str]:
    """Where two tensors of one shape first differ: the right number and the answer's, each with its place, and as many
    digits as tell them apart; and what the answer is of the right one, if it is a multiple: 0.333 times that."""
    one, other = got.detach().double(), right.detach().double()
    at = tuple((~_close(got, right)).nonzero()[0].tolist())
    numbers = other[at].item() + 0.0, one[at].item() + 0.0  # -0.0 + 0.0 is 0.0
    digits = 6 if f"{numbers[0]:.6g}" != f"{numbers[1]:.6g}" else 15
    expected, number = (f"{each:.{digits}g}" + f" at {list(at)}" * bool(at) for each in numbers)
    factor = ((one * other).sum() / other.square().sum()).item()
    is_multiple = factor and math.isfinite(factor) and bool(_close(one, factor * other).all())
    return expected, number + f", {factor:.3g} times that" * bool(is_multiple)


def _words(value: Any) -> str:
    if value is ABSENT:
        return "nothing"
    if isinstance(value, AtMost):
        return f"{value.number:,.0f}"
    if isinstance(value, Raised):
        return value.message if value.message.startswith(value.kind.__name__) else value.kind.__name__
    if isinstance(value, Tensor) and value.dim():
        return f"shape {tuple(value.shape)}"
    return value if isinstance(value, str) else describe(value)
