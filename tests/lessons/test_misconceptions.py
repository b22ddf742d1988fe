"""A misconception belongs to the course: it has one name, one home, and a place where a lesson explains it."""

import difflib
from collections import Counter

import nbformat
import pytest

from course_utils.catalogue import find
from course_utils.checks.misconceptions import heading, read
from course_utils.lesson import SOLUTIONS
from tests.lessons.loaded import LOADED

USED = [
    (lesson, name, key, misconception)
    for lesson, loaded in LOADED.items()
    for name, exercise in loaded.exercises.items()
    for key, misconception in exercise.misconceptions.items()
]
HOMES = {misconception.home: misconception for _, _, _, misconception in USED}


def headings(lesson):
    notebook = nbformat.read(SOLUTIONS / f"{find(lesson).notebook}.ipynb", as_version=4)
    lines = [line for cell in notebook.cells if cell.cell_type == "markdown" for line in cell.source.splitlines()]
    return [line.lstrip("#").strip() for line in lines if line.startswith("#")]


def test_no_two_have_the_same_name():
    named = Counter(misconception.name for misconception in HOMES.values())
    twice = {home: misconception.name for home, misconception in HOMES.items() if named[misconception.name] > 1}
    assert not twice, f"one name in two homes: let one say same_as, or name what differs: {twice}"


@pytest.mark.parametrize("lesson", sorted({misconception.explained[0] for *_, misconception in USED}))
def test_each_is_explained_under_a_heading_that_exists_and_by_no_contract(lesson):
    explained = {(f"{by}/{name}", m.explained[1]) for by, name, _, m in USED if m.explained[0] == lesson}
    there = headings(lesson)
    gone = {place for place in explained if place[1] not in there or place[1].startswith("Exercise")}
    near = {heading: difflib.get_close_matches(heading, there, 1, 0) for _, heading in gone}
    lines = (f'{name}.toml: "{heading}" -> "{near[heading][0]}"' for name, heading in gone)
    if gone:
        pytest.fail(f"These are no headings of lesson {lesson}:\n" + "\n".join(sorted(set(lines))), pytrace=False)


def test_no_explanation_stands_in_a_later_lesson():
    later = [
        f"{lesson}/{name}.toml, {key!r}: {misconception.explained}"
        for lesson, name, key, misconception in USED
        if find(misconception.explained[0]).number > find(lesson).number
    ]
    told = "A learner has not read it yet; give `explained`, with same_as too:\n" + "\n".join(later)
    assert not later, told


@pytest.mark.parametrize("lesson", LOADED)
def test_the_exercises_have_the_headings_that_their_text_files_give(lesson):
    given = [exercise.heading for exercise in LOADED[lesson].exercises.values()]
    there = [heading for heading in headings(lesson) if heading.startswith("Exercise ")]
    told = "number, points and minutes stand in the exercise's text file and in its heading"
    assert there == given, f"{told}: the notebook has {there}, the text files {given}"
    places = [heading.split()[1] for heading in given]
    number = find(lesson).number
    assert places == [f"{number}.{place}" for place in range(1, len(given) + 1)], "exercises are numbered in order"


MADE = 'name = "x"\nexplained = "x"\nexplanation = "x"'
BROKEN = {
    f"[misconceptions.a]\n{fields}": f"misconception 'a'.*{said}"
    for fields, said in {
        MADE.removeprefix('name = "x"') + '\nnext_step = "x"': "lacks name",
        MADE + '\nnext_step = "x"\nmore = 1': "has more",
        MADE + '\nnextstep = "x"': r"lacks next_step and has nextstep\. Its fields are",
        'same_as = "detach/snapshot/nothing"': "",
        'same_as = "detach/nothing/alias"': "",
    }.items()
} | {"number = 1\npoints = one": "is no TOML: .*line 2"}


@pytest.mark.parametrize(("text", "said"), BROKEN.items())
def test_a_text_file_that_is_wrong_is_named_and_what_is_wrong_in_it(tmp_path, text, said):
    path = tmp_path / "task.toml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match=rf"task\.toml.* {said}"):
        read(path)


def test_a_heading_has_number_points_and_minutes(tmp_path):
    path = tmp_path / "detach" / "task.toml"
    values = {"number": 7, "points": 1, "minutes": 4}
    assert heading(path, values) == "Exercise 3.7 · task · 1 point, 4 minutes"
    with pytest.raises(ValueError, match=r"task\.toml: the exercise lacks number"):
        heading(path, {"points": 1, "minutes": 4})
