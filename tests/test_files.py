"""TOML is read once for every text it has."""

import copy
import tomllib

import pytest

from course_utils import Lesson
from course_utils.base.files import read_toml
from course_utils.catalogue import LESSONS
from course_utils.checks.misconceptions import LESSONS as FOLDER


def test_a_file_that_was_edited_is_read_again(tmp_path):
    path = tmp_path / "task.toml"
    for number in (1, 2, 1):
        path.write_text(f"number = {number}", encoding="utf-8")
        assert read_toml(path) == {"number": number}
        assert read_toml(path) is read_toml(path)


def test_what_is_no_toml_is_named_each_time(tmp_path):
    path = tmp_path / "task.toml"
    path.write_text("hints = none", encoding="utf-8")
    for _ in range(2):
        with pytest.raises(ValueError, match=r"task\.toml is no TOML: .*line 1, column 9"):
            read_toml(path)


def test_nobody_changes_what_everybody_is_given():
    before = {path: copy.deepcopy(dict(read_toml(path))) for path in FOLDER.glob("*/*.toml")}
    for lesson in LESSONS:
        Lesson(lesson.name)
    assert before
    assert [path.name for path, values in before.items() if read_toml(path) != values] == []
    assert [path.name for path in before if dict(read_toml(path)) != tomllib.loads(path.read_text("utf-8"))] == []
