"""A misconception belongs to the course: it has one name, one home, and a place where a lesson explains it."""

from collections import Counter

import nbformat
import pytest

from course_utils.catalogue import LESSONS, find
from course_utils.checks.misconceptions import read
from course_utils.lesson import SOLUTIONS, Lesson

HOMES = {
    misconception.home: misconception
    for info in LESSONS
    for exercise in Lesson(info.name).exercises.values()
    for misconception in exercise.misconceptions.values()
}


def headings(lesson):
    notebook = nbformat.read(SOLUTIONS / f"{find(lesson).notebook}.ipynb", as_version=4)
    lines = [line for cell in notebook.cells if cell.cell_type == "markdown" for line in cell.source.splitlines()]
    return {line.lstrip("#").strip() for line in lines if line.startswith("#")}


def test_no_two_have_the_same_name():
    named = Counter(misconception.name for misconception in HOMES.values())
    assert [name for name, count in named.items() if count > 1] == []


@pytest.mark.parametrize("lesson", sorted({misconception.explained[0] for misconception in HOMES.values()}))
def test_each_is_explained_under_a_heading_that_exists(lesson):
    explained = {m.home: m.explained[1] for m in HOMES.values() if m.explained[0] == lesson}
    there = headings(lesson)
    assert {home: heading for home, heading in explained.items() if heading not in there} == {}


BROKEN = {
    "no name": '[misconceptions.a]\nexplained = "x"\nexplanation = "x"\nnext_step = "x"',
    "one field too many": (
        '[misconceptions.a]\nname = "x"\nexplained = "x"\nexplanation = "x"\nnext_step = "x"\nmore = 1'
    ),
    "a home that is none": '[misconceptions.a]\nsame_as = "detach/snapshot/nothing"',
    "an exercise that is none": '[misconceptions.a]\nsame_as = "detach/nothing/alias"',
}


@pytest.mark.parametrize("text", BROKEN.values(), ids=BROKEN)
def test_a_text_file_that_is_wrong_is_named(tmp_path, text):
    path = tmp_path / "task.toml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match=r"task\.toml: misconception 'a'"):
        read(path)
