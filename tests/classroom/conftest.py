"""A course folder of three lessons, released, for each test a copy of its own; and a crew that needs no processes."""

import shutil
from pathlib import Path

import pytest

from course_utils.classroom.course.create import create
from course_utils.classroom.course.folder import ClassFolder
from course_utils.classroom.course.release import release
from tests.classroom.handed_in import FROZEN
from tests.classroom.stand_in import Here

LESSONS = ("01_requires_grad", "03_detach", "05_no_grad")


@pytest.fixture(scope="session")
def released_course(tmp_path_factory) -> Path:
    """Made once a process: nbgrader takes seconds. Not to be written to."""
    root = tmp_path_factory.mktemp("released") / "class"
    create(root, LESSONS, "autograd-2027", FROZEN)
    for assignment in LESSONS:
        release(ClassFolder(root), assignment)
    return root


@pytest.fixture
def course(released_course, tmp_path) -> ClassFolder:
    """A released course without students."""
    root = tmp_path / "class"
    shutil.copytree(released_course, root)
    return ClassFolder(root)


@pytest.fixture
def here() -> Here:
    """A crew of the stand-in grader, in this process."""
    return Here()
