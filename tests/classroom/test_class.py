"""A class of more than sixty: everybody gets what they deserve, in one run, and when the run is killed half-way."""

import csv
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from course_utils import Lesson
from course_utils.classroom.books.export import export
from course_utils.classroom.books.stored import load
from course_utils.classroom.course.folder import ClassFolder
from course_utils.classroom.run.table import NO_SUBMISSION, class_table
from tests.classroom import drive, the_class
from tests.classroom.hand_in import put
from tests.classroom.handed_in import NEEDS_SANDBOX
from tests.classroom.the_class import LESSONS, STUDENTS, Student

ROOT = Path(__file__).resolve().parents[2]

pytestmark = [*NEEDS_SANDBOX, pytest.mark.nightly]


def hand_everything_in(course: ClassFolder) -> None:
    with course.gradebook() as gradebook:
        gradebook.add_student("absent")
    for student in STUDENTS:
        folder = course.path("submitted", student.name, student.assignment)
        folder.mkdir(parents=True)
        if student.link:
            (folder / f"{student.assignment}.ipynb").symlink_to(student.link)
        elif student.content is not None:
            put(course, student.name, student.assignment, student.content, name=student.file)
        for name, content in student.extra.items():
            (folder / name).write_bytes(content)


@pytest.fixture(scope="module")
def full_course(released_course, tmp_path_factory) -> Path:
    root = tmp_path_factory.mktemp("full") / "class"
    shutil.copytree(released_course, root)
    hand_everything_in(ClassFolder(root))
    return root


@pytest.fixture(scope="module")
def graded(full_course, tmp_path_factory):
    """The class after one run: the folder, and what the run returned."""
    root = tmp_path_factory.mktemp("graded") / "class"
    shutil.copytree(full_course, root, symlinks=True)
    return ClassFolder(root), {outcome.assignment: outcome for outcome in drive.run(root)}


@pytest.fixture(scope="module")
def killed(full_course, tmp_path_factory):
    """The class after a run that was killed half-way, and what was graded by then."""
    root = tmp_path_factory.mktemp("killed") / "class"
    shutil.copytree(full_course, root, symlinks=True)
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.classroom.drive", str(root)], cwd=ROOT, stdout=subprocess.DEVNULL
    )
    while len(list(root.glob("reports/*/*/report.json"))) < len(STUDENTS) // 2:
        assert process.poll() is None, "the run ended before it could be killed"
        time.sleep(0.02)
    family = psutil.Process(process.pid).children(recursive=True)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    _, alive = psutil.wait_procs(family, timeout=30)
    course = ClassFolder(root)
    done = {student.name for student in STUDENTS if load(course.report(student.assignment, student.name))}
    again = {outcome.assignment: outcome for outcome in drive.run(root)}
    return course, done, alive, again


def report_of(course: ClassFolder, student: Student):
    found = load(course.report(student.assignment, student.name))
    assert found is not None, f"{student.name} has no result"
    return found.report


def outcomes(report):
    """exercise -> (outcome, points), of what is judged automatically."""
    return {
        result.exercise: (result.outcome, result.earned)
        for result in report.exercises
        if result.grade_id.endswith("-check")
    }


class Either(str):
    """An outcome that depends on which limit is met first: ``"killed or timed out"``."""

    def __eq__(self, other):
        return other in str(self).split(" or ")

    __hash__ = None


def expected(student: Student):
    return {name: (Either(outcome), pytest.approx(points)) for name, (outcome, points) in student.outcomes().items()}


def test_the_class_is_large_enough():
    assert len(STUDENTS) >= 60 and len({student.name for student in STUDENTS}) == len(STUDENTS)
    assert {student.assignment for student in STUDENTS} == set(LESSONS)


@pytest.mark.parametrize("student", STUDENTS, ids=lambda student: student.name)
def test_everybody_gets_what_they_deserve(student, graded):
    course, _ = graded
    report = report_of(course, student)
    assert outcomes(report) == expected(student), report.notes
    assert bool(report.reviews) == student.review, report.reviews


@pytest.mark.parametrize("student", STUDENTS, ids=lambda student: student.name)
def test_the_gradebook_holds_the_same_points(student, graded):
    course, _ = graded
    report = report_of(course, student)
    with course.gradebook() as gradebook:
        found = gradebook.find_submission(student.assignment, student.name)
        grades = {grade.name: grade for grade in found.notebooks[0].grades}
        for result in report.exercises:
            if result.outcome in ("review by hand", "unreadable"):
                assert grades[result.grade_id].needs_manual_grade and grades[result.grade_id].auto_score is None
            else:
                assert grades[result.grade_id].auto_score == result.earned
        assert found.score == pytest.approx(report.earned)


def test_a_killed_run_leaves_no_process_behind(killed):
    _, _, alive, _ = killed
    assert alive == []


def test_a_killed_run_goes_on_where_it_was(killed):
    _, done, _, again = killed
    news = {row.student for outcome in again.values() for row in outcome.rows if row.news}
    assert len(done) >= len(STUDENTS) // 2
    assert news == {student.name for student in STUDENTS} - done


def test_a_killed_run_loses_and_changes_nothing(killed, graded):
    course, *_ = killed
    for student in STUDENTS:
        assert outcomes(report_of(course, student)) == expected(student), student.name
    scores = []
    for folder in (course, graded[0]):
        with folder.gradebook() as gradebook:
            scores.append(
                {
                    (submission.name, submission.student.id): submission.score
                    for assignment in gradebook.assignments
                    for submission in assignment.submissions
                }
            )
    assert scores[0] == pytest.approx(scores[1]) and len(scores[0]) == len(STUDENTS)


def test_the_table_names_everybody(graded):
    _, runs = graded
    for assignment, outcome in runs.items():
        names = {student.name for student in STUDENTS if student.assignment == assignment}
        assert {row.student for row in outcome.rows if row.report} == names
        assert {row.student for row in outcome.rows if row.reason == NO_SUBMISSION} >= {"absent"}
        table = class_table(assignment, outcome.rows)
        shown = {line.split()[0] for line in table.splitlines() if line.strip()}
        assert {name[:27] for name in names} <= {name[:27] for name in shown}


def test_what_honest_students_misunderstood_is_counted(graded, tmp_path):
    course, _ = graded
    export(course, list(LESSONS), tmp_path)
    with open(tmp_path / "misunderstood.csv", newline="") as file:
        rows = {(row["assignment"], row["exercise"], row["misconception"]): row for row in csv.DictReader(file)}
    for assignment, topic in LESSONS.items():
        counted = {name for place, _, name in rows if place == assignment and name}
        shown = set()
        for student in STUDENTS:
            if student.assignment == assignment and "-wrong-" in student.name:
                shown |= {name for result in report_of(course, student).exercises for name in result.misconceptions}
        assert shown and shown <= counted
        known = {
            item.name for exercise in Lesson(topic).exercises.values() for item in exercise.misconceptions.values()
        }
        assert len(shown & known) >= 3
    for student in the_class.UNREADABLE:
        assert report_of(course, student).earned == 0


def test_no_students_code_left_anything_in_the_course(graded):
    course, _ = graded
    known = {"autograded", "gradebook.db", "nbgrader_config.py", "release", "reports", "source", "submitted"}
    assert {path.name for path in course.root.iterdir()} == known | {".classroom.lock"}
