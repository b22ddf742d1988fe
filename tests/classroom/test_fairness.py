"""Right answers keep all their points and are listed nowhere, however unusual the student's ways (``odd_styles``)."""

import subprocess
import sys
from contextlib import contextmanager
from functools import cache

import pytest

from tests.classroom.handed_in import NEEDS_SANDBOX, impatient, outcomes, points
from tests.classroom.odd_styles import STYLES, together
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


def grade(grader, style):
    with impatient(grader, style.seconds):
        content = style.notebook().bytes()
        return grader.grade(style.released, content, student="ada", assignment=style.assignment)


graded = cache(grade)


# Right answers that ask for frames or all objects while they are judged. They get neither; a person gives the points.
REFUSED = {
    "logs-who-called-it": "snapshot",
    "names-itself-by-its-frame": "snapshot",
    "counts-tensors-while-it-answers": "mean_loss",
    "asks-who-holds-a-tensor": "snapshot",
}


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


def in_fours(styles):
    """Styles, and the styles that each is made of: those that are cells alone stand four to a notebook."""
    alone = [(style, [style]) for style in styles if not style.cells]
    for is_needed in (False, True):
        those = [style for style in styles if style.cells and style.is_needed == is_needed]
        groups = [those[at : at + 4] for at in range(0, len(those), 4)]
        alone += [(together(group), group) for group in groups]
    return alone


def some_by_day():
    """Every fourth style at each push, all of them at night."""
    styles = list(STYLES.values())
    by_night = [style for at, style in enumerate(styles) if at % 4]
    day, night = in_fours(styles[::4]), in_fours(by_night)
    return [pytest.param(*one, id=one[0].name) for one in day] + [
        pytest.param(*one, id=one[0].name, marks=pytest.mark.nightly) for one in night
    ]


@pytest.mark.parametrize(("style", "parts"), some_by_day())
def test_an_unusual_style_costs_nothing(grader, style, parts):
    if wrong := what_it_cost(grader, style):
        alone = {part.name: what_it_cost(grader, part) for part in parts} if len(parts) > 1 else {}
        raise AssertionError(f"{wrong}; each alone: {alone}")


def what_it_cost(grader, style):
    """What a style lost, or what was said of it; empty where that is nothing."""
    report = graded(grader, style)
    full = {name: exercises(style.assignment)[name] for name in style.exercises}
    written = f"{LESSONS[style.assignment]}-written"
    expected = dict.fromkeys(full, PASSED) | {written: "review by hand"}, full | {written: 0}, (), []
    if style.name in REFUSED:
        expected[0][REFUSED[style.name]], expected[1][REFUSED[style.name]] = "review by hand", 0
        expected = (*expected[:2], report.reviews[:1], [])
        assert "the code looked at the frames" in report.reviews[0] or "garbage collector" in report.reviews[0]
    found = outcomes(report), points(report), report.reviews, style.untold(report.notes)
    return "" if found == expected else f"{found} in place of {expected}, {report.notes}"


@pytest.mark.nightly
def test_a_busy_machine_changes_nothing(grader):
    styles = [STYLES[name] for name in SENSITIVE]
    alone = [graded(grader, style) for style in styles]
    with busy(2):
        hindered = [grade(grader, style) for style in styles]
    for style, one, other in zip(styles, alone, hindered, strict=True):
        assert (outcomes(one), points(one), one.reviews) == (outcomes(other), points(other), other.reviews), style.name
