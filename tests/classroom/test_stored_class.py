"""A class that the first edition graded half-way is graded to its end by this one."""

import zipfile
from pathlib import Path

import pytest

from course_utils.classroom.__main__ import main
from course_utils.classroom.books.stored import load
from course_utils.classroom.course.folder import ClassFolder
from tests.classroom.handed_in import NEEDS_SANDBOX

pytestmark = [*NEEDS_SANDBOX]

STORED = Path(__file__).resolve().parents[1] / "stored" / "class_of_the_first_edition.zip"
DETACH = "03_detach"
GRADED = ("ada", "bo", "cy")  # and dee handed in after them


def test_what_was_graded_stands_and_the_rest_is_graded(tmp_path, capsys):
    with zipfile.ZipFile(STORED) as stored:
        stored.extractall(tmp_path)
    course = ClassFolder(tmp_path)
    before = {name: course.report(DETACH, name).read_bytes() for name in GRADED}
    assert main(["grade", "--course", str(tmp_path)]) == 0
    assert {name: course.report(DETACH, name).read_bytes() for name in GRADED} == before
    marks = {name: load(course.report(DETACH, name)).report.earned for name in (*GRADED, "dee")}
    assert marks | {"dee": 0} == {"ada": 10, "bo": 9.6, "cy": 3, "dee": 0} and 7 <= marks["dee"] < 10
    assert "dee" in capsys.readouterr().out


@pytest.mark.nightly
def test_one_whose_release_is_another_is_graded_again(tmp_path):
    with zipfile.ZipFile(STORED) as stored:
        stored.extractall(tmp_path)
    course = ClassFolder(tmp_path)
    release = course.notebook("release", DETACH)
    release.write_text(release.read_text(encoding="utf-8") + "\n", encoding="utf-8")
    before = course.report(DETACH, "ada").read_bytes()
    assert main(["grade", "--course", str(tmp_path)]) == 0
    assert course.report(DETACH, "ada").read_bytes() != before
