"""A course folder of three lessons, released, for each test a copy of its own; and a worker that needs no processes."""

import fcntl
import os
import shutil
from pathlib import Path

import pytest

from course_utils.classroom.course.create import create
from course_utils.classroom.course.folder import ClassFolder
from course_utils.classroom.course.release import release
from course_utils.classroom.judging.grader import Grader
from course_utils.classroom.judging.limits import Limits
from tests.classroom.handed_in import FROZEN
from tests.classroom.stand_in import Here

LESSONS = ("01_requires_grad", "03_detach", "05_no_grad")


@pytest.fixture(scope="session")
def released_course(tmp_path_factory) -> Path:
    """Made once for all processes of a run: nbgrader takes seconds. Not to be written to."""
    base = tmp_path_factory.getbasetemp()
    shared = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    root, done = shared / "released" / "class", shared / "released" / "done"
    root.mkdir(parents=True, exist_ok=True)
    with (root.parent / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not done.exists():
            create(root, LESSONS, "autograd-2027", FROZEN)
            for assignment in LESSONS:
                release(ClassFolder(root), assignment)
            done.touch()
    return root


@pytest.fixture(scope="session")
def warm_grader():
    """One warm Python for all tests of this process: to start one takes five seconds of processor time."""
    with Grader() as grader:
        yield grader


@pytest.fixture
def grader(warm_grader, request) -> Grader:
    """The warm grader with the limits that the module names."""
    warm_grader.limits = getattr(request.module, "LIMITS", Limits())
    return warm_grader


@pytest.fixture
def course(released_course, tmp_path) -> ClassFolder:
    """A released course without students."""
    root = tmp_path / "class"
    shutil.copytree(released_course, root)
    return ClassFolder(root)


@pytest.fixture
def here() -> Here:
    """The stand-in grader, in this process."""
    return Here()
