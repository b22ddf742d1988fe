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
        (("card", "start_here", "double", "squared"), "'sum', 'torch.mul', 'square'"),
        (("card", "start_here", "twice", "square"), "no exercise 'twice'"),
        (("card", "start", "double", "square"), "no lesson called 'start'"),
        (("programs", "start"), "no lesson called 'start'"),
    ],
)
def test_what_is_not_there_is_answered_with_what_is(capsys, named, there):
    assert main([*named]) == 1
    assert there in capsys.readouterr().err


def test_why_says_what_the_check_tried_in_order(capsys):
    assert main(["card", "detach", "mean_loss", "last", "--why"]) == 0
    said = capsys.readouterr().out
    assert said.index("Likely misconception") < said.index("What the check tried, in order:")
    tried = [line.strip() for line in said.partition("in order:\n")[2].splitlines()]
    assert [line for line in tried if line.startswith("reading")] == [
        "reading 'sum': does not fit",
        "reading 'weighted': does not fit",
        "reading 'weighted': does not fit",
        "reading 'last': fits",
    ]
    assert tried[5].startswith("mean_loss.py, line ") and tried[6] == "names 'last'"
    assert tried[-1].endswith("(not judged)")
    assert main(["card", "detach", "mean_loss", "last"]) == 0 and "What the check tried" not in capsys.readouterr().out
