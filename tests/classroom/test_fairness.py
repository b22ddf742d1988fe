"""Right answers keep all their points and are listed nowhere, however unusual the student's ways (``odd_styles``)."""

import subprocess
import sys
from contextlib import contextmanager
from functools import cache

import pytest

from course_utils.classroom.judging.grader import Grader
from course_utils.classroom.judging.limits import Limits
from tests.classroom.handed_in import NEEDS_SANDBOX, impatient, outcomes, points
from tests.classroom.odd_styles import STYLES
from tests.classroom.the_class import LESSONS, PASSED, exercises

pytestmark = [*NEEDS_SANDBOX]
# What a busy machine can overtake: much output, much memory, waiting, other processes and threads.
SENSITIVE = (
    "prints-without-end",
    "prints-2-gb",
    "prints-many-lines",
    "takes-what-there-is",
    "keeps-more-than-a-gigabyte",
    "crashes-in-c",
    "joins-threads",
    "leaves-a-daemon-thread",
    "uses-a-pool-of-processes",
    "loads-with-workers",
    "works-for-a-second",
    "takes-its-time",
)


@pytest.fixture(scope="module")
def grader():
    with Grader(Limits()) as grader:
        yield grader


def grade(grader, style):
    with impatient(grader, style.seconds):
        content = style.notebook().bytes()
        return grader.grade(style.released, content, student="ada", assignment=style.assignment)


graded = cache(grade)


@contextmanager
def busy(processes):
    """Other programs leave no core idle while this lasts."""
    others = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(processes)]
    try:
        yield
    finally:
        for other in others:
            other.kill()
            other.wait()


def some_by_day():
    """Every fourth style at each push, all of them at night."""
    return [
        pytest.param(style, id=name, marks=pytest.mark.nightly if at % 4 else ())
        for at, (name, style) in enumerate(STYLES.items())
    ]


@pytest.mark.parametrize("style", some_by_day())
def test_an_unusual_style_costs_nothing(grader, style):
    report = graded(grader, style)
    full = {name: exercises(style.assignment)[name] for name in style.exercises}
    written = f"{LESSONS[style.assignment]}-written"
    assert outcomes(report) == dict.fromkeys(full, PASSED) | {written: "review by hand"}, report.notes
    assert points(report) == full | {written: 0}
    assert (report.reviews, style.untold(report.notes)) == ((), [])


@pytest.mark.nightly
def test_a_busy_machine_changes_nothing(grader):
    styles = [STYLES[name] for name in SENSITIVE]
    alone = [graded(grader, style) for style in styles]
    with busy(2):
        hindered = [grade(grader, style) for style in styles]
    for style, one, other in zip(styles, alone, hindered, strict=True):
        assert (outcomes(one), points(one), one.reviews) == (outcomes(other), points(other), other.reviews), style.name
