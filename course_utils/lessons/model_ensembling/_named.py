"""Dicts of tensors by parameter name, as lesson 10's functions give them: made, compared and demanded."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from course_utils.base.text import describe
from course_utils.checks.claims import Missed, expect, numbers_apart, same

Named = Mapping[str, Tensor]


def stack(rows: Sequence[Named]) -> dict[str, Tensor]:
    """One dict of tensors for many, with a new first dimension."""
    return {name: torch.stack([row[name] for row in rows]) for name in rows[0]}


def all_same(got: Named, expected: Named) -> bool:
    return all(name in got and same(got[name], value) for name, value in expected.items())


def is_exactly(result: Any, expected: Named) -> bool:
    """Whether this is a dict of tensors with these names and values, and no others."""
    if not isinstance(result, Mapping) or set(result) != set(expected):
        return False
    return all(isinstance(value, Tensor) for value in result.values()) and all_same(result, expected)


def rows_agree(got: Named, expected: Named) -> bool:
    """Whether these tensors have the expected shapes, and each of them the same numbers in every row."""
    sized = [(got[name], value.shape) for name, value in expected.items()]
    return all(one.shape == shape and same(one, one[:1].expand(shape)) for one, shape in sized)


def expect_dtype(result: Any, expected: Named) -> None:
    """Each tensor of the dict has the dtype of the expected one; what else it is, other claims judge."""
    for name, right in expected.items():
        got = result.get(name) if isinstance(result, Mapping) else None
        if isinstance(got, Tensor):
            expect(got.dtype == right.dtype, "cast", expected=f"{right.dtype} for {name}", got=str(got.dtype))


def expect_named(result: Any, expected: Named, key_of: Callable[[Named], str], not_named: str) -> None:
    """The result is a dict of tensors with these names, shapes and values; else ``key_of`` says what it shows, and
    ``not_named`` what something else than such a dict shows."""
    wanted = "a dict of tensors by parameter name"
    expect(result is not None, "no return value", expected=wanted, got="None")
    expect(isinstance(result, Mapping), not_named, expected=wanted, got=describe(result))
    names = "names " + ", ".join(expected)
    given, asked = set(result), set(expected)
    key = "with buffers" if given > asked else "some names" if given < asked else not_named
    expect(given == asked, key, expected=names, got=describe(list(result), 120))
    for name in expected:
        got = describe(result[name], 60)
        expect(isinstance(result[name], Tensor), "not a tensor", expected=f"a tensor for {name}", got=got)
    for name, right in expected.items():
        got = result[name]
        if got.shape != right.shape:
            shapes = f"shape {tuple(right.shape)} for {name}", f"shape {tuple(got.shape)}"
            raise Missed(key_of(result), expected=shapes[0], got=shapes[1])
    for name, right in expected.items():
        if not same(result[name], right):
            right_number, number = numbers_apart(result[name], right)
            raise Missed(key_of(result), expected=f"{name}: {right_number}", got=number)
