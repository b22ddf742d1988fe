"""Plain nbgrader beside this: the same release, the same marks, and its commands work in the course folder."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.classroom.handed_in import DETACH, NEEDS_SANDBOX, Notebook
from tests.classroom.the_class import BY_NAME, grade

pytestmark = [*NEEDS_SANDBOX, pytest.mark.nightly]

SCRIPTS = Path(sys.executable).parent
# One that did nothing, one that is right, and one that is wrong in every exercise.
HONEST = {"blank": Notebook().bytes(), **{name: BY_NAME[f"detach-{name}"].content for name in ("right-0", "wrong-0")}}


def nbgrader(teacher, *arguments):
    """Runs an nbgrader command in the course folder; returns what it logged."""
    path = os.pathsep.join((str(SCRIPTS), os.environ["PATH"]))  # as an activated environment has it
    command = [SCRIPTS / "nbgrader", *arguments]
    done = subprocess.run(command, cwd=teacher.root, env=os.environ | {"PATH": path}, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stderr


def held(teacher, student):
    """Marks, comments and time of a student, and the names of the files that were written."""
    with teacher.gradebook() as gradebook:
        submission = gradebook.find_submission(DETACH, student)
        (notebook,) = submission.notebooks
        marks = {grade.name: (grade.auto_score, grade.needs_manual_grade) for grade in notebook.grades}
        marks = {name: (None if score is None else round(score, 6), waits) for name, (score, waits) in marks.items()}
        comments = {comment.name: comment.auto_comment for comment in notebook.comments}
        files = sorted(path.name for path in teacher.notebook("autograded", student=student).parent.iterdir())
        return marks, comments, submission.timestamp, files


@pytest.fixture(scope="module")
def both(released_course, tmp_path_factory):
    """The same honest submissions in two folders: graded by nbgrader, graded by this."""
    plain, ours = (released_course.copy(tmp_path_factory.mktemp(name) / "class") for name in ("plain", "ours"))
    for teacher in (plain, ours):
        for student, content in HONEST.items():
            teacher.put(student, content, timestamp="2027-03-01 12:00:00 UTC")
    nbgrader(plain, "autograde", DETACH)
    grade(ours, DETACH)
    return plain, ours


def test_honest_students_get_the_marks_times_and_files_that_nbgrader_gives(both):
    plain, ours = both
    for student in HONEST:
        assert held(ours, student) == held(plain, student)


def test_nbgrader_takes_it_from_there(both, tmp_path):
    teacher = both[1].copy(tmp_path / "class")
    before = [teacher.marks(student) for student in HONEST]
    assert "Skipping existing assignment" in nbgrader(teacher, "autograde", DETACH)
    assert [teacher.marks(student) for student in HONEST] == before
    nbgrader(teacher, "generate_feedback", DETACH, "--student", "wrong-0")
    assert "12" in teacher.page("wrong-0")
    nbgrader(teacher, "export", "--to", "marks.csv")
    assert "right-0" in (teacher.root / "marks.csv").read_text()


def test_nbgraders_own_release_is_the_same(teacher):
    ours = teacher.notebook("release").read_bytes()
    nbgrader(teacher, "generate_assignment", DETACH, "--force")
    assert teacher.notebook("release").read_bytes() == ours
