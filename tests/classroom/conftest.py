"""A course folder of four lessons, released, for each test a copy of its own; and a grader that needs no processes."""

import os
from contextlib import nullcontext
from unittest import mock

import pytest
from filelock import FileLock

from course_utils.classroom.judging.grader import Grader
from course_utils.classroom.run.graders import Graders
from tests.classroom.handed_in import DETACH, ENGINE, FLAGS, MODES
from tests.classroom.stand_in import StandIn
from tests.classroom.teacher import Teacher, new_course


@pytest.fixture(scope="session")
def released_course(tmp_path_factory):
    """Made once for all processes of a run: nbgrader takes seconds. Not to be written to."""
    base = tmp_path_factory.getbasetemp()
    shared = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    root, done = shared / "released", shared / "released.done"
    with FileLock(shared / "released.lock"):
        if not done.exists():
            new_course(root, DETACH, FLAGS, MODES, ENGINE)
            done.touch()
    return Teacher(root)


@pytest.fixture
def teacher(released_course, tmp_path):
    """A released course without students."""
    return released_course.copy(tmp_path / "class")


@pytest.fixture(scope="module")
def grader():
    """One for all questions of a module to which its process does not matter: to start it takes seconds."""
    with Grader() as grader:
        yield grader


@pytest.fixture(scope="module")
def by_one_grader(grader):
    """Releases try tests of a teacher's own, and commands grade, by ``grader``."""
    release, graders = "course_utils.classroom.run.release.Grader", "course_utils.classroom.run.graders.Graders"
    by_it = Graders(1, lambda: nullcontext(grader))
    with mock.patch(release, lambda: nullcontext(grader)), mock.patch(graders, lambda *_: by_it):
        yield


@pytest.fixture
def here(monkeypatch):
    """Commands grade by the stand-in, in this process; it knows whom it graded."""
    stand_in = StandIn()

    class Here(Graders):
        def __init__(self, *options):
            super().__init__(1, lambda: stand_in)

    monkeypatch.setattr("course_utils.classroom.run.graders.Graders", Here)
    return stand_in
