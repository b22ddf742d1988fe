"""The card of an answer in ``tests/lessons``, by its label; and a name that is none is not passed over."""

import pytest

from course_utils.authoring.__main__ import main


def test_the_card_of_a_wrong_answer_is_shown_and_not_stored(capsys, progress_file):
    assert main(["card", "start_here", "double", "square"]) == 0
    said = capsys.readouterr().out
    # On a busy machine a line above the card says that the answer has been running for long.
    assert "\ndouble: " in f"\n{said}" and "Likely misconception" in said
    assert not progress_file.exists()


@pytest.mark.parametrize(
    ("named", "there"),
    [
        (("card", "start_here", "double", "squared"), "'torch.mul', 'a clone, edited in place', 'square'"),
        (("card", "start_here", "twice", "square"), "no exercise 'twice'"),
        (("card", "start", "double", "square"), "no lesson called 'start'"),
        (("programs", "start"), "no lesson called 'start'"),
    ],
)
def test_what_is_not_there_is_answered_with_what_is(capsys, named, there):
    assert main([*named]) == 1
    assert there in capsys.readouterr().err
