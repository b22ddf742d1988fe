"""What is said to a wrong prediction."""

import operator

import pytest

from course_utils import Lesson
from course_utils.catalogue import LESSONS
from course_utils.checks.misconceptions import thought_behind, thoughts

TEXT = '''
["How many?"]
"1" = """You count
only one."""
"('a', 2)" = "You count pairs."
other = "Count again."
'''


def test_a_listed_guess_and_any_other(tmp_path):
    assert thoughts(tmp_path) == {} and thought_behind({}, 1, operator.eq) == ""  # a lesson that says nothing
    (tmp_path / "predictions.toml").write_text(TEXT)
    said = thoughts(tmp_path)["How many?"]
    guesses = (1, ("a", 2), 7, "1")
    assert [thought_behind(said, guess, operator.eq) for guess in guesses] == [
        "You count only one.",
        "You count pairs.",
        "Count again.",
        "Count again.",
    ]


@pytest.mark.parametrize(
    ("text", "named"),
    [('["Q"]\n"1" = "x"', "lacks other"), ('["Q"]\n"o n e" = "x"\nother = "y"', "no value")],
)
def test_a_file_that_is_wrong_is_named(tmp_path, text, named):
    (tmp_path / "predictions.toml").write_text(text)
    with pytest.raises(ValueError, match=rf"predictions\.toml: 'Q' .*{named}"):
        thoughts(tmp_path)


def test_the_files_of_the_course_can_be_read():
    assert [Lesson(lesson.name) for lesson in LESSONS]


def test_a_wrong_guess_is_told_the_thought_behind_it_and_a_right_one_is_not(monkeypatch):
    lesson = Lesson("detach")
    monkeypatch.setattr(lesson, "_thoughts", {"Q": {"2": "Twice.", "other": "Else."}})
    cards = [lesson.predict("Q", guess, 4) for guess in (..., 2, 3, 4)]
    assert [card.thought for card in cards] == ["", "Twice.", "Else.", ""]
    assert "Twice." in repr(cards[1]) and "Twice." in cards[1]._repr_html_()


def test_the_written_question_opens_its_model_answer_at_the_second_time_and_has_no_hints():
    lesson = Lesson("detach")
    assert not lesson.solution("written").written
    card = lesson.solution("written")
    assert card.written and "solution" in repr(card) and "<p" in card._repr_html_()
    assert "has none" in repr(lesson.hint("written"))
    with pytest.raises(ValueError, match="no exercise"):
        Lesson("start_here").solution("written")
