"""The classroom's benchmark measures what it says; how much it is, is for ``python -m benchmarks`` to say."""

import json
import os

import pytest

from benchmarks import classroom
from tests.classroom.handed_in import released

pytestmark = pytest.mark.slow


def test_a_submission_is_the_time_between_results_and_not_the_start(tmp_path):
    for number in range(5):
        (tmp_path / f"{number}.json").touch()
        os.utime(tmp_path / f"{number}.json", (0, 100 + 0.5 * number))
    assert classroom.seconds_each(tmp_path, "*.json") == 0.5


def test_submissions_are_of_the_lesson_as_it_is_released_today_and_handed_in_once_each(tmp_path):
    classroom.fill(tmp_path, 7)
    found = sorted(tmp_path.glob("submitted/*/03_detach/03_detach.ipynb"))
    assert [path.read_bytes() for path in found] == list(classroom.submissions(7))
    given = {cell["id"] for cell in json.loads(released(classroom.ASSIGNMENT, today=True))["cells"]}
    for path in found:
        cells = [cell["id"] for cell in json.loads(path.read_bytes())["cells"]]
        assert given <= {*cells} and len(cells) <= len(given) + 1, "helpers apart, nothing is the student's own"
