import warnings

import pytest
import torch

from course_utils.base.expected import expect_error, show_warnings


def test_an_expected_error_is_printed_by_its_first_sentence(capsys):
    with expect_error("does not require grad"):
        torch.ones(1).sum().backward()
    said = "RuntimeError: element 0 of tensors does not require grad and does not have a grad_fn\n"
    assert capsys.readouterr().out == said


def test_where_the_phrase_stands_further_on_its_sentence_is_printed_too(capsys):
    with expect_error("gap"):
        raise ValueError("A train at 0x7f00aa\n  arrives. Mind the gap. And the rest.")
    assert capsys.readouterr().out == "ValueError: A train at 0x…\n... Mind the gap\n"


def test_no_error_and_another_error_fail_the_cell():
    with pytest.raises(AssertionError, match="ended without an error"), expect_error("anything"):
        pass
    with pytest.raises(AssertionError, match="division by zero"), expect_error("something else"):
        raise ZeroDivisionError("division by zero")


def test_warnings_are_printed_with_their_first_sentence_each_time(capsys):
    for _ in range(2):
        with show_warnings():
            warnings.warn("Mind the gap. And the rest.", UserWarning, stacklevel=1)
    assert capsys.readouterr().out == "UserWarning: Mind the gap\n" * 2
    with show_warnings():
        pass
    assert capsys.readouterr().out == "no warning\n"
