"""The learner notebooks in the repository are what their solutions give, and every solution obeys the rules."""

from pathlib import Path

import pytest

from course_utils.authoring.build import learner_text
from course_utils.authoring.files import Course, read
from course_utils.authoring.lint import exercises_of, lint_course, report
from course_utils.catalogue import LESSONS

COURSE = Course(Path(__file__).resolve().parents[1])
NAMES = sorted({path.stem for path in (*COURSE.solutions.glob("*.ipynb"), *COURSE.learner_paths())})


def test_every_lesson_of_the_catalogue_has_its_notebooks():
    assert [lesson.notebook for lesson in LESSONS] == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_the_learner_notebook_is_what_its_solution_gives(name):
    solution, learner = COURSE.solutions / f"{name}.ipynb", COURSE.learners / f"{name}.ipynb"
    assert solution.exists(), f"{learner.name} has no solution notebook"
    assert learner.exists(), f"{learner.name} does not exist; run: make lessons"
    # Line ends apart, which git may have changed on Windows.
    expected = learner_text(read(solution), COURSE.config)
    if learner.read_text(encoding="utf-8") != expected:
        pytest.fail(f"{learner.name} is not what its solution gives; run: make lessons", pytrace=False)


@pytest.mark.parametrize("name", NAMES)
def test_the_notebooks_break_no_rule(name):
    problems = lint_course(COURSE, [name], exercises_of)
    if problems:
        pytest.fail(report(problems), pytrace=False)
