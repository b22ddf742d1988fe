"""The classroom's benchmark measures what it says; how much it is, is for ``make bench`` to say."""

import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks import classroom
from benchmarks.__main__ import names
from benchmarks.classroom import Run, each, verdict
from course_utils.classroom.rebuild.rebuild import rebuild
from course_utils.classroom.rebuild.released import read_released
from tests.classroom.handed_in import released

pytestmark = pytest.mark.slow


def test_it_is_one_of_the_benchmarks():
    assert "classroom" in names()


def a_run(size, seconds, between, peak_bytes=0):
    """A run whose results came so many seconds apart."""
    return Run(size, seconds, peak_bytes, tuple(100.0 + between * number for number in range(size)))


def test_a_submission_is_the_time_between_results_and_not_the_start():
    assert each([a_run(5, 20.0, 9.0), a_run(21, 30.0, 0.5)]) == 0.5


def test_what_was_not_measured_is_not_made_up():
    assert each([Run(5, 20.0, 0)]) is each([Run(1, 20.0, 0, (3.0,))]) is each([Run(2, 9.0, 0, (3.0, 3.0))]) is None


def test_submissions_are_handed_in_once_each(tmp_path):
    classroom.fill(tmp_path, 3)
    classroom.fill(tmp_path, 2, first=3)
    found = sorted(tmp_path.glob("submitted/*/03_detach/03_detach.ipynb"))
    assert len(found) == 5
    assert [path.read_bytes() for path in found] == list(classroom.submissions(5))


def test_submissions_are_of_the_lesson_as_it_is_released_today():
    given = read_released(released(classroom.ASSIGNMENT, today=True))
    for content in classroom.submissions(7):
        rebuilt = rebuild(given, content, len(content))
        # Of another edition, every experiment would be a cell of the student's own: helpers apart, there is none.
        assert len([step for step in rebuilt.steps if step.role == "added"]) <= 1
        assert not rebuilt.repairs


def test_a_command_is_timed_and_its_children_are_weighed(tmp_path):
    child = "x = b'x' * 150_000_000; import time; time.sleep(1.5)"
    parent = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {child!r}])"
    measured = classroom.run([sys.executable, "-c", parent], tmp_path, 1)
    assert measured.seconds > 1.5
    assert measured.peak_bytes > 150_000_000


def test_a_command_that_fails_says_what_it_said(tmp_path):
    with pytest.raises(RuntimeError, match="no such thing"):
        classroom.run([sys.executable, "-c", "raise SystemExit('no such thing')"], tmp_path, 1)


def test_a_missed_target_is_named(capsys):
    plain, ours = [a_run(20, 100.0, 4.0)], [a_run(20, 20.0, 0.25), a_run(60, 30.0, 0.25)]
    assert verdict(plain, ours, ours, whole=0.4, checks=0.3) == 0
    printed = capsys.readouterr().out
    assert "16.00  >= 10" in printed and "missed" not in printed
    assert "ratio of whole runs of 20, start included         5.00" in printed
    heavy = [a_run(20, 20.0, 0.25, 5 * 2**30), ours[1]]
    assert verdict(plain, heavy, ours, whole=0.4, checks=0.3) == 1
    (missed,) = [line for line in capsys.readouterr().out.splitlines() if line.endswith("missed")]
    assert missed.startswith("memory")


def test_a_ratio_that_could_not_be_measured_is_missed_and_not_shown(capsys):
    ours = [a_run(20, 20.0, 0.25)]
    assert verdict([Run(1, 24.0, 0, (3.0,))], ours, ours, whole=0.4, checks=0.3) == 1
    (missed,) = [line for line in capsys.readouterr().out.splitlines() if line.endswith("missed")]
    assert missed.startswith("ratio to nbgrader") and "unknown" in missed


@pytest.mark.nightly
def test_its_cluster_answers_over_tcp():
    with classroom.cluster(1) as address:
        assert address.startswith("tcp://127.0.0.1:")
        program = f"from distributed import Client; print(len(Client({address!r}).scheduler_info()['workers']))"
        printed = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=Path.cwd())
    assert printed.stdout.strip() == "1", printed.stderr
