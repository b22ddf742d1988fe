import warnings

import pytest
import torch

from course_utils.base.expected import expect_error, show_warnings


def test_an_expected_error_is_printed_by_type_and_phrase(capsys):
    with expect_error("does not require grad"):
        torch.ones(1).sum().backward()
    assert capsys.readouterr().out == "RuntimeError: ... does not require grad ...\n"


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
