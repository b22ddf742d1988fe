import doctest

import pytest
import torch
from torch import nn

from course_utils import errors, text
from course_utils.text import aligned, describe, format_bytes


@pytest.mark.parametrize("module", [text, errors], ids=lambda module: module.__name__)
def test_the_examples_are_true(module):
    assert doctest.testmod(module, extraglobs={"torch": torch}).failed == 0


@pytest.mark.parametrize(
    ("nbytes", "shown"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1.0 KiB"),
        (1024**2 - 1, "1.0 MiB"),
        (-2048, "-2.0 KiB"),
        (3 * 1024**3, "3.0 GiB"),
        (5000 * 1024**4, "5000.0 TiB"),
    ],
)
def test_bytes_are_shown_in_powers_of_1024(nbytes, shown):
    assert format_bytes(nbytes) == shown


class Rude:
    def __repr__(self):
        raise RuntimeError("no repr")


class Recursive(list):
    pass


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (torch.ones(2, 3), "f32[2, 3]"),
        (torch.ones(2, dtype=torch.bool), "bool[2]"),
        (torch.tensor(3), "i64[] 3"),
        (torch.ones(2, device="meta"), "f32[2] meta"),
        (nn.Linear(1, 1), "Linear"),
        ([torch.ones(1), 2, None], "[f32[1], 2, None]"),
        ((torch.ones(1),), "(f32[1],)"),
        ({"a": torch.ones(1)}, "{'a': f32[1]}"),
        (..., "..."),
        (len, "len"),
        (Rude(), "<Rude whose repr raises RuntimeError>"),
    ],
)
def test_values_are_described_in_one_line(value, shown):
    assert describe(value) == shown


def test_long_and_endless_values_are_cut():
    endless = [1]
    endless.append(endless)
    assert describe(endless).startswith("[1, [1, ")
    assert describe("x" * 1000).endswith("...") and len(describe("x" * 1000)) == 80
    assert "20 items" in describe(list(range(20)))
    assert "\n" not in describe("two\nlines")


def test_rows_are_aligned_and_an_empty_table_is_empty():
    assert aligned([("a", "1"), ("long", "2")]) == "a     1\nlong  2"
    assert aligned([]) == ""
