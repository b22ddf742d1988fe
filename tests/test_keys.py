"""Claims and text file of an exercise are held against each other when its lesson is loaded."""

import pytest

from course_utils.checks.exercise import Exercise
from course_utils.checks.keys import agreed
from course_utils.checks.misconceptions import Misconception

KNOWN = {key: Misconception(key, "", "") for key in ("one", "two")}


def load(tmp_path, source, **more):
    (tmp_path / "task.py").write_text(source, encoding="utf-8")
    exercise = Exercise("task", 1, (), KNOWN, **more)
    return agreed(str(tmp_path / "__init__.py"), exercise)


@pytest.mark.parametrize(
    "source",
    [
        'raise Missed("one" if late else "two")',
        'key = "one" or "two"',
        'expect_same(got, right, otherwise={"one": 1, "two": 2})',
        'expect_same(got, right, otherwise=[("one", 1), ("two", 2)])',
        'for value, key in ((1, "one"), (2, "two")): expect(good, key)',
    ],
)
def test_keys_that_the_text_file_has_are_fine(tmp_path, source):
    assert len(load(tmp_path, source)) == 1


@pytest.mark.parametrize(
    "source",
    [
        'Missed("one"); Missed("three", got=1)',
        'expect(good, "three")',
        'key = "one" if early else "three"',
        'expect(x, key="three")',
        'for key, value in (("one", 1), ("three", 2)): expect(good, key)',
        '[expect(good, key) for key in ("one", "three")]',
    ],
)
def test_a_key_that_it_lacks_is_named(tmp_path, source):
    with pytest.raises(ValueError, match=r"task\.py names 'three', which task\.toml does not have"):
        load(tmp_path, source + "\nMissed('two')")


def test_a_misconception_that_nothing_names_is_named(tmp_path):
    with pytest.raises(ValueError, match=r"Nothing in .*task\.py names 'two'"):
        load(tmp_path, 'Missed("one")')
    assert load(tmp_path, 'Missed("one")', raises=[("part", "two")])


@pytest.mark.parametrize(
    ("source", "near"),
    [
        ('Missed("one"); Missed("twoo"); Missed("two")', r"'twoo', which .* Near it: 'two'"),
        ('Missed("one"); name = "twoo"', r"Nothing .* names 'two': .* Near it: 'twoo'"),
    ],
)
def test_what_a_misspelt_key_was_meant_to_be_is_said(tmp_path, source, near):
    with pytest.raises(ValueError, match=near):
        load(tmp_path, source)


def test_an_error_that_shows_no_misconception_of_the_exercise_is_named(tmp_path):
    with pytest.raises(ValueError, match=r"task\.toml names 'three'"):
        load(tmp_path, 'Missed("one"); Missed("two")', effects=[("part", "three")])


def test_a_general_misconception_and_one_from_a_shared_module_are_known(tmp_path):
    (tmp_path / "_shared.py").write_text('KEY = "two"', encoding="utf-8")
    assert load(tmp_path, 'Missed("one"); Missed("not a tensor"); Missed("")')
