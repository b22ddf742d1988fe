"""A class of more than a hundred, graded once: everybody gets what they deserve, and every table says so."""

import json
import os
import re
import signal
import subprocess
import sys
import time

import psutil
import pytest

from course_utils import Lesson
from tests.classroom import the_class
from tests.classroom.handed_in import DETACH, NEEDS_SANDBOX, ROOT, exercises
from tests.classroom.mishaps import UNREADABLE
from tests.classroom.students import BLANK, BY_HAND
from tests.classroom.teacher import paragraphs, row, said_of
from tests.classroom.the_class import AT_A_PUSH, SHOWN, STUDENTS, TOPICS

pytestmark = [*NEEDS_SANDBOX]


class Graded:
    """The class after ``grade``, ``feedback`` and ``export``, and what the first of them printed."""

    def __init__(self, teacher, students):
        self.teacher, self.students = teacher, students
        self.printed = the_class.grade(teacher)
        self.rows = outcomes(teacher)
        self.shown = [name for name in SHOWN if name in self.rows]

    def wrong(self):
        """What came otherwise than it must: student -> exercise -> what came, what should have."""
        return {one.name: wrong for one in self.students if (wrong := differences(one, self.rows[one.name]))}


def outcomes(teacher):
    """student -> exercise -> (outcome, points entered), as exported."""
    teacher.run("export")
    found = {}
    for line in teacher.exported("outcomes"):
        found.setdefault(line["student"], {})[line["exercise"]] = line["outcome"], float(line["earned"] or 0)
    return found


@pytest.fixture(scope="module")
def students(request):
    return STUDENTS if request.config.getoption("--tier") == "nightly" else AT_A_PUSH


@pytest.fixture(scope="module")
def handed_in(students, released_course, tmp_path_factory):
    teacher = released_course.copy(tmp_path_factory.mktemp("handed_in") / "class")
    with teacher.gradebook() as gradebook:
        gradebook.add_student("absent")
    the_class.hand_in(teacher, students)
    return teacher


@pytest.fixture(scope="module")
def graded(handed_in, students, tmp_path_factory):
    graded = Graded(handed_in.copy(tmp_path_factory.mktemp("graded") / "class"), students)
    graded.teacher.run("feedback", DETACH, "--student", *graded.shown)
    return graded


def differences(student, found):
    """exercise -> what came, what should have."""
    wrong = {}
    for exercise, (wanted, points) in student.outcomes.items():
        outcome, earned = found.get(exercise, ("nothing", 0.0))
        as_many = points is None or earned == pytest.approx(points, abs=0.006)
        if outcome not in wanted.split(" or ") or not as_many:
            wrong[exercise] = (outcome, earned), (wanted, points)
    return wrong


@pytest.mark.parametrize(
    "student",
    [pytest.param(one, id=one.name, marks=() if one in AT_A_PUSH else pytest.mark.nightly) for one in STUDENTS],
)
def test_everybody_gets_what_they_deserve(student, graded):
    assert differences(student, graded.rows[student.name]) == {}, said_of(graded.printed, student.name)


def test_a_teacher_is_told_whom_to_look_at_and_what_stands_in_a_notebook(graded):
    wrong = {}
    for student in graded.students:
        said = said_of(graded.printed, student.name)
        told = " ".join(text for text in said if text.startswith("Look at these by hand"))
        listed = " ".join(text for text in said if "Words that no answer to this lesson needs" in text)
        waits = {exercise for exercise, (outcome, _) in graded.rows[student.name].items() if outcome == BY_HAND}
        as_wanted = [matches(student.listed, listed)]
        as_wanted += [student.told is None or matches(student.told, told)]
        as_wanted += [bool(told) or all(exercise.endswith("-written") for exercise in waits)]
        if not all(as_wanted):
            wrong[student.name] = said
    assert wrong == {}, "no word too many, and no point waits without its reason"


def matches(pattern, text):
    return bool(re.search(pattern, text)) if pattern else not text


def test_each_message_is_one_short_line_and_each_missing_point_has_its_reason(graded):
    assert max(len(text) for _, _, text in paragraphs(graded.printed)) < 150
    missing = {one["said"] for one in graded.teacher.exported("outcomes") if one["outcome"] not in ("passed", BLANK)}
    assert "" not in missing and {"points", "likely:", "ended"} <= {*" ".join(missing).replace("(", "").split()}


def test_the_gradebook_holds_the_same_points(graded):
    for student in graded.students:
        name, assignment, found = student.name, student.assignment, graded.rows[student.name]
        marks = graded.teacher.marks(name, assignment)
        for exercise, (outcome, earned) in found.items():
            waits = outcome in (BY_HAND, "unreadable")
            expected = (None, None, True) if waits else (pytest.approx(earned, abs=0.006), None, False)
            assert marks[exercise.removeprefix(f"{assignment.partition('_')[2]}-")] == expected, (name, exercise)


def test_the_table_names_everybody_and_no_nought_stands_alone(graded):
    for student in graded.students:
        outcomes = re.split(r"\s{2,}", row(graded.printed, student.name))[2:]
        assert len(outcomes) >= len(exercises(student.assignment)) and "0" not in outcomes
        for outcome, earned in graded.rows[student.name].values():
            shown = {BY_HAND: "? by hand", "unreadable": "? unreadable"}.get(outcome, f"{earned:g} {outcome}")
            assert shown in outcomes, student.name
    assert re.search(r"^Without a submission: .*\babsent\b", graded.printed, re.MULTILINE)
    count = sum(student.assignment == DETACH for student in graded.students)
    missing = len(graded.students) + 1 - count
    assert f"{DETACH}: {count} graded ({count} now, 0 unchanged), {missing} without a submission" in graded.printed
    assert re.search(r"^Outcomes: \d+ passed, \d+ partial, .* review by hand$", graded.printed, re.MULTILINE)
    assert re.search(rf"^{DETACH}: still to mark: \d+ \(.*detach-written \d+\)$", graded.printed, re.MULTILINE)


@pytest.mark.parametrize("name", UNREADABLE)
def test_a_file_that_cannot_be_read_is_told_with_the_reason(name, graded):
    (said,) = [text for text in said_of(graded.printed, name) if text.startswith("Could not be read")]
    assert re.search(UNREADABLE[name][1], said)


@pytest.mark.parametrize(
    ("name", "repair"),
    [
        ("splits-and-merges", "The check cell of `mean_loss` was missing; it was put back."),
        ("copies-and-moves", f"There is no {DETACH}.ipynb; detach final (2).ipynb was read in its place."),
        ("retypes-and-relabels", "The answer cell of `snapshot` had been turned into text; it was read as code."),
        ("deletes-and-edits", "The check cell of `snapshot` had been edited; the released one was used."),
        ("deletes-and-edits", "The locked cell `setup` had been edited; the released one was used."),
        ("writes-far-from-the-question", "your teacher reads what may be meant, in cell 4."),
        ("answers-nothing", "`truncated_bptt` was missing; it was put back as it was released."),
    ],
)
def test_what_was_put_right_in_a_file_is_said(name, repair, graded):
    assert any(repair in text for text in said_of(graded.printed, name)), said_of(graded.printed, name)


def test_a_notebook_in_which_nothing_was_put_right_needs_no_word(graded):
    for name in ("detach-right-0", "detach-wrong-0", "as-released"):
        assert said_of(graded.printed, name) == []


def test_the_graded_notebook_is_the_released_one_with_answers_and_cards(graded):
    released = graded.teacher.cells("", DETACH, "release")
    for name in ("detach-right-0", "deletes-and-edits", "loses-everything-but-sources", "writes-far-from-the-question"):
        cells = graded.teacher.cells(name)
        assert [cell for cell in cells if not cell.startswith("added")] == list(released)
        for exercise in exercises():
            card = cells[f"{exercise}-check"]["outputs"][0]["data"]
            assert cells[f"{exercise}-check"]["source"] == "".join(released[f"{exercise}-check"]["source"])
            assert exercise in card["text/html"] and float(card["text/plain"]) == exercises()[exercise]
            assert cells[exercise]["metadata"] == released[exercise]["metadata"]


def test_whatever_a_notebook_shows_files_stay_small_and_whole(graded):
    for student in graded.students:
        text = graded.teacher.notebook("autograded", student.assignment, student.name).read_bytes()
        assert len(text) < 8 * 2**20 and json.loads(text.decode("utf-8")), student.name
    for name in graded.shown:
        assert len(graded.teacher.page(name)) < 2 * 2**20 and "<script>1" not in graded.teacher.page(name)


def test_feedback_says_what_is_missing_and_what_happened_to_the_file(graded):
    said = {name: " ".join(re.sub(r"<[^<>]*>", "", graded.teacher.page(name)).split()) for name in graded.shown}
    assert re.search(
        r"Together: [\d.]+ of 12 points; still to be marked: 1\.", " ".join(said["detach-wrong-0"].split())
    )
    assert "What happened to your file" in said["deletes-and-edits"] and "locked cell" in said["deletes-and-edits"]
    assert "Your file could not be read" in said["cut-off"] and "You wrote no answer." in said["as-released"]


def test_what_the_class_misunderstood_is_counted(graded):
    lines = graded.teacher.exported("misunderstood")
    table = (graded.teacher.root / "export" / "misunderstood.md").read_text()
    for assignment in {one.assignment for one in graded.students if "-wrong-" in one.name}:
        tasks = Lesson(TOPICS[assignment]).exercises.values()
        known = {item.name for exercise in tasks for item in exercise.misconceptions.values()}
        shown = {line["misconception"] for line in lines if line["assignment"] == assignment}
        assert len(shown & known) >= 3 and all(name.replace("|", "\\|") in table for name in shown)
    (mean,) = {(line["attempted"], line["passed"]) for line in lines if line["exercise"] == "mean_loss"}
    mine = [found["mean_loss"][0] for found in graded.rows.values() if "mean_loss" in found]
    assert mean == (str(len(mine) - mine.count("not attempted") - mine.count("unreadable")), str(mine.count("passed")))


def test_no_students_code_left_anything_behind(graded, handed_in):
    known = {"autograded", "export", "feedback", "gradebook.db", "nbgrader_config.py", "release", "source"}
    assert {path.name for path in graded.teacher.root.iterdir()} == known | {".classroom.lock", "submitted"}
    for step in ("submitted", "release", "source"):
        files = [path for path in (handed_in.root / step).rglob("*") if path.is_file()]
        for path in files:
            assert (graded.teacher.root / path.relative_to(handed_in.root)).read_bytes() == path.read_bytes()
    assert [one for one in psutil.Process().children(recursive=True) if "sleep" in one.name()] == []


# ------------------------------------------------------------------------------------------- at night: killed, and busy


@pytest.mark.nightly
@pytest.mark.parametrize("time", range(3))
def test_a_busy_machine_changes_nothing(time, handed_in, students, tmp_path):
    others = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(2)]
    try:
        assert Graded(handed_in.copy(tmp_path / "class"), students).wrong() == {}
    finally:
        for other in others:
            other.kill()
            other.wait()


@pytest.mark.nightly
def test_a_killed_run_leaves_no_process_and_loses_nothing(handed_in, students, tmp_path):
    teacher = handed_in.copy(tmp_path / "class")
    code = "import sys; from tests.classroom import the_class, teacher; the_class.grade(teacher.Teacher(sys.argv[1]))"
    process = subprocess.Popen([sys.executable, "-c", code, str(teacher.root)], cwd=ROOT, stdout=subprocess.DEVNULL)
    while len(list(teacher.root.glob("autograded/*/*/*.ipynb"))) < len(students) // 2:
        assert process.poll() is None, "the run ended before it could be killed"
        time.sleep(0.02)
    family = psutil.Process(process.pid).children(recursive=True)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert psutil.wait_procs(family, timeout=30)[1] == []
    again = Graded(teacher, students)
    assert again.wrong() == {}
    now = sum(map(int, re.findall(r"graded \((\d+) now", again.printed)))
    assert now <= len(students) - len(students) // 2 + 1, "what had been graded stayed graded"
