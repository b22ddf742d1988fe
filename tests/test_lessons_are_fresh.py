"""All that is made is what its sources give, and every solution obeys the rules."""

from pathlib import Path

import pytest

from course_utils.authoring.build import made
from course_utils.authoring.files import Course
from course_utils.authoring.lint import lint_course, report
from course_utils.catalogue import LESSONS

COURSE = Course(Path(__file__).resolve().parents[1])
NAMES = sorted({path.stem for path in (*COURSE.solutions.glob("*.ipynb"), *COURSE.learners.glob("*.ipynb"))})


def test_every_lesson_of_the_catalogue_has_its_notebooks():
    assert [lesson.notebook for lesson in LESSONS] == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_what_is_made_of_a_lesson_is_what_its_sources_give(name):
    texts = made(COURSE, [name])
    solution, learner = (folder / f"{name}.ipynb" for folder in (COURSE.solutions, COURSE.learners))
    further = [path for path in [COURSE.further / f"{name}.ipynb"] if path.exists()]
    assert list(texts) == [solution, learner, *further, COURSE.catalogue, COURSE.readme]
    for path, text in texts.items():
        assert path.exists(), f"{path} does not exist; run: make lessons"
        if path.read_text(encoding="utf-8") != text:  # line ends apart, which git may have changed on Windows
            pytest.fail(f"{COURSE.name(path)} is not what its sources give; run: make lessons", pytrace=False)


@pytest.mark.parametrize("name", NAMES)
def test_the_notebooks_break_no_rule(name):
    problems = lint_course(COURSE, [name])
    if problems:
        pytest.fail(report(problems), pytrace=False)
