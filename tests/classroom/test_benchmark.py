"""The classroom's benchmark measures what it says; how much it is, is for ``python -m benchmarks`` to say."""

import os
import sys

import pytest

from benchmarks import classroom
from course_utils.classroom.rebuild.rebuild import rebuild
from course_utils.classroom.rebuild.released import read_released
from tests.classroom.handed_in import released

pytestmark = pytest.mark.slow


def test_a_submission_is_the_time_between_results_and_not_the_start(tmp_path):
    for number in range(5):
        (tmp_path / f"{number}.json").touch()
        os.utime(tmp_path / f"{number}.json", (0, 100 + 0.5 * number))
    assert classroom.seconds_each(tmp_path, "*.json") == 0.5


def test_submissions_are_handed_in_once_each(tmp_path):
    classroom.fill(tmp_path, 3)
    found = sorted(tmp_path.glob("submitted/*/03_detach/03_detach.ipynb"))
    assert [path.read_bytes() for path in found] == list(classroom.submissions(3))


def test_submissions_are_of_the_lesson_as_it_is_released_today():
    given = read_released(released(classroom.ASSIGNMENT, today=True))
    for content in classroom.submissions(7):
        rebuilt = rebuild(given, content, len(content))
        # Of another edition, every experiment would be a cell of the student's own: helpers apart, there is none.
        assert len([step for step in rebuilt.steps if step.role == "added"]) <= 1
        assert not rebuilt.repairs


def test_a_command_that_fails_says_what_it_said(tmp_path):
    with pytest.raises(RuntimeError, match="no such thing"):
        classroom.run([sys.executable, "-c", "raise SystemExit('no such thing')"], tmp_path)
