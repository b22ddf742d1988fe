"""Plain nbgrader beside this: the same release, the same marks, and its commands work in the course folder."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from course_utils.classroom.course.folder import ClassFolder
from tests.classroom import drive
from tests.classroom.hand_in import put
from tests.classroom.handed_in import NEEDS_SANDBOX
from tests.classroom.the_class import STUDENTS

SCRIPTS = Path(sys.executable).parent
DETACH = "03_detach"
# One that did nothing, one that is right, and one that is wrong in every exercise.
HONEST = ("detach-blank", "detach-right-0", "detach-wrong-0")

pytestmark = [*NEEDS_SANDBOX, pytest.mark.nightly]


def nbgrader(course: ClassFolder, *arguments: str) -> str:
    """Runs an nbgrader command in the course folder; returns what it logged."""
    path = os.pathsep.join((str(SCRIPTS), os.environ["PATH"]))  # as an activated environment has it
    result = subprocess.run(
        [SCRIPTS / "nbgrader", *arguments],
        cwd=course.root,
        env=os.environ | {"PATH": path},
        capture_output=True,
        text=True,
    )
    assert result.returncode == 0, result.stderr
    return result.stderr


def marks(course: ClassFolder):
    """(student, cell) -> (automatic score, whether a person has to look, the automatic comment of the answer)."""
    with course.gradebook() as gradebook:
        found = {}
        for submission in gradebook.assignment_submissions(DETACH):
            (notebook,) = submission.notebooks
            for grade in notebook.grades:
                score = None if grade.auto_score is None else pytest.approx(grade.auto_score)
                found[submission.student.id, grade.name] = score, grade.needs_manual_grade
            for comment in notebook.comments:
                found[submission.student.id, comment.name, "comment"] = comment.auto_comment
        return found


@pytest.fixture(scope="module")
def both(released_course, tmp_path_factory):
    """The same honest submissions in two folders: graded by nbgrader, graded by this."""
    folders = []
    for name in ("plain", "ours"):
        root = tmp_path_factory.mktemp(name) / "class"
        shutil.copytree(released_course, root)
        folders.append(ClassFolder(root))
        for student in STUDENTS:
            if student.name in HONEST:
                timestamp = "2027-03-01 12:00:00 UTC"
                put(folders[-1], student.name, DETACH, student.content, timestamp=timestamp)
    plain, ours = folders
    nbgrader(plain, "autograde", DETACH)
    (outcome,) = [outcome for outcome in drive.run(ours.root) if outcome.assignment == DETACH]
    assert outcome.complete
    return plain, ours


def test_honest_students_get_the_marks_that_nbgrader_gives(both):
    plain, ours = both
    assert len(marks(plain)) == len(HONEST) * (6 + 6)
    assert marks(ours) == marks(plain)


def test_times_and_files_are_those_that_nbgrader_writes(both):
    plain, ours = both
    for student in HONEST:
        found = [sorted(path.name for path in course.path("autograded", student, DETACH).iterdir()) for course in both]
        assert found[0] == found[1]
        with plain.gradebook() as one, ours.gradebook() as other:
            assert one.find_submission(DETACH, student).timestamp == other.find_submission(DETACH, student).timestamp


def test_nbgrader_takes_it_from_there(both, tmp_path):
    _, ours = both
    shutil.copytree(ours.root, tmp_path / "class")
    course = ClassFolder(tmp_path / "class")
    before = marks(course)
    assert "Skipping existing assignment" in nbgrader(course, "autograde", DETACH)
    assert marks(course) == before
    nbgrader(course, "generate_feedback", DETACH, "--student", "detach-wrong-0")
    assert course.notebook("feedback", DETACH, "detach-wrong-0").with_suffix(".html").is_file()
    nbgrader(course, "export", "--to", "marks.csv")
    assert "detach-right-0" in (course.root / "marks.csv").read_text()


def test_nbgraders_own_release_is_the_same(released_course, tmp_path):
    shutil.copytree(released_course, tmp_path / "class")
    course = ClassFolder(tmp_path / "class")
    ours = course.notebook("release", DETACH).read_bytes()
    nbgrader(course, "generate_assignment", DETACH, "--force")
    assert course.notebook("release", DETACH).read_bytes() == ours
