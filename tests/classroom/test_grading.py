"""Grading with everything but a grader: what is graded when, what reaches the gradebook, what the teacher is shown."""

import errno
import json
import os
import re
import shutil
import sqlite3
from dataclasses import replace

import pytest
from nbgrader.api import MissingEntry

from course_utils.base.words import rounded
from course_utils.classroom.__main__ import main
from course_utils.classroom.books import stored
from course_utils.classroom.books.feedback import feedback
from course_utils.classroom.books.gradebook import Records
from course_utils.classroom.course.folder import ClassFolder
from course_utils.classroom.course.submissions import read_submission
from course_utils.classroom.judging.results import OUTCOMES, Report
from course_utils.classroom.run import command as grading
from course_utils.classroom.run.command import grade
from course_utils.classroom.run.table import NO_SUBMISSION, Row, cell, class_table
from tests.classroom.hand_in import hand_in, put
from tests.classroom.stand_in import Here, StandIn

pytestmark = pytest.mark.slow

DETACH = "03_detach"
UNREAD = "Could not be read; put it right, ask for the file again, or mark it by hand"


def marks(course, student, assignment=DETACH):
    """What the gradebook holds: exercise -> (automatic, by hand, whether a person has to look)."""
    with course.gradebook() as gradebook:
        grades = gradebook.find_submission(assignment, student).notebooks[0].grades
        return {
            grade.name.removeprefix("detach-").removesuffix("-check"): (
                grade.auto_score,
                grade.manual_score,
                grade.needs_manual_grade,
            )
            for grade in grades
        }


def row(outcomes, student, assignment=DETACH):
    (outcome,) = [outcome for outcome in outcomes if outcome.assignment == assignment]
    (found,) = [found for found in outcome.rows if found.student == student]
    return found


# --------------------------------------------------------------------------------------------------- what reaches where


def test_marks_reach_the_gradebook_as_nbgrader_would_enter_them(course, here):
    answers = {
        "snapshot": "# right",
        "mean_loss": "# outcome: partial",
        "truncated_bptt": "# outcome: raised",
        "stop_gradient_round": "# outcome: review by hand",
        "written": "Because of the graph.",
    }
    hand_in(course, "ada", DETACH, answers)
    grade(course, [DETACH], here)
    assert marks(course, "ada") == {
        "snapshot": (1.0, None, False),
        "predicted_edit": (0.0, None, False),
        "mean_loss": (1.0, None, False),
        "truncated_bptt": (0.0, None, False),
        "stop_gradient_round": (None, None, True),  # withheld until a person has looked
        "written": (None, None, True),
    }
    with course.gradebook() as gradebook:
        assert gradebook.find_submission(DETACH, "ada").score == 2.0


def test_an_untouched_written_question_needs_nobody(course, here):
    hand_in(course, "ada", DETACH)
    grade(course, [DETACH], here)
    assert marks(course, "ada")["written"] == (0.0, None, False)
    with course.gradebook() as gradebook:
        comment = gradebook.find_comment("detach-written", DETACH, DETACH, "ada")
        assert comment.comment == "No response."


def test_the_graded_notebook_lies_where_nbgrader_looks_for_it(course, here):
    hand_in(course, "ada", DETACH, {"snapshot": "x = 1"}, timestamp="2027-03-01 12:00:00 UTC")
    grade(course, [DETACH], here)
    path = course.root / "autograded" / "ada" / DETACH / f"{DETACH}.ipynb"
    cells = {cell["id"]: cell for cell in json.loads(path.read_text())["cells"]}
    assert cells["snapshot"]["source"] == "x = 1"
    assert "snapshot: 1 of 1 points" in cells["snapshot-check"]["outputs"][0]["data"]["text/html"]
    assert path.stat().st_mode & 0o777 == 0o444
    assert path.with_name("timestamp.txt").read_text() == "2027-03-01 12:00:00 UTC\n"
    assert course.api.get_autograded_students(DETACH) == {"ada"}
    assert course.api.get_submission(DETACH, "ada")["autograded"]


def test_what_else_a_student_handed_in_goes_nowhere(course, here):
    hand_in(course, "ada", DETACH)
    put(course, "ada", DETACH, b"raise SystemExit", name="torch.py")
    grade(course, [DETACH], here)
    assert [path.name for path in (course.root / "autograded" / "ada" / DETACH).iterdir()] == [f"{DETACH}.ipynb"]


def test_a_time_of_submission_is_kept_and_a_strange_one_is_told(course, here):
    hand_in(course, "ada", DETACH, timestamp="2027-03-01 12:00:00 UTC")
    hand_in(course, "eve", DETACH, timestamp="half past ten")
    outcomes = grade(course, [DETACH], here)
    with course.gradebook() as gradebook:
        assert str(gradebook.find_submission(DETACH, "ada").timestamp) == "2027-03-01 12:00:00"
        assert gradebook.find_submission(DETACH, "eve").timestamp is None
    (said,) = row(outcomes, "eve").remarks
    assert said.startswith("timestamp.txt holds 'half past ten', and not a time such as 2027-03-01 18:00 +01:00;")


@pytest.mark.parametrize(
    ("text", "time"),
    [
        ("2027-03-01 18:00 +01:00", "2027-03-01 17:00:00"),
        ("2027-03-01 18:00 -05:00", "2027-03-01 23:00:00"),
        ("2027-03-01 18:00 +0100", "2027-03-01 17:00:00"),
        ("2027-03-01T18:00+01:00", "2027-03-01 17:00:00"),
        ("2027-03-01 18:00 UTC", "2027-03-01 18:00:00"),
        ("2027-03-01 18:00", "2027-03-01 18:00:00"),
        ("1.3.2027 18:00 +01:00", None),  # day or month first? nobody knows
        ("01/03/2027", None),
    ],
)
def test_a_time_is_read_with_its_zone_or_not_at_all(text, time, tmp_path):
    (tmp_path / "timestamp.txt").write_text(text)
    found = read_submission(tmp_path, student="ada", assignment=DETACH, marks=())
    assert (str(found.time) if found.time else None, bool(found.aside)) == (time, time is None)


def test_late_work_loses_what_the_courses_own_plugin_says(course):
    with open(course.root / "nbgrader_config.py", "a") as settings:
        settings.write('c.LateSubmissionPlugin.penalty_method = "zero"\n')
    course = ClassFolder(course.root)
    with course.gradebook() as gradebook:
        gradebook.update_or_create_assignment(DETACH, duedate="2027-03-01 12:00:00 UTC")
    hand_in(course, "early", DETACH, {"snapshot": "x"}, timestamp="2027-03-01 11:00:00 UTC")
    hand_in(course, "late", DETACH, {"snapshot": "x"}, timestamp="2027-03-01 13:30:00 UTC")
    outcomes = grade(course, [DETACH], Here())
    assert row(outcomes, "late").remarks == ("1.5 hours late, 1 point less.",)
    assert row(outcomes, "early").remarks == ()
    with course.gradebook() as gradebook:
        assert gradebook.find_submission(DETACH, "late").late_submission_penalty == 1.0
        gradebook.grant_extension(DETACH, "late", hours=2)
    outcomes = grade(course, [DETACH], Here())  # nothing is graded again, and yet the extension counts
    assert row(outcomes, "late").remarks == ()
    with course.gradebook() as gradebook:
        assert not gradebook.find_submission(DETACH, "late").late_submission_penalty


def test_a_mark_that_a_person_gave_outlives_grading_again(course, here):
    hand_in(course, "ada", DETACH, {"stop_gradient_round": "# outcome: review by hand", "written": "Because."})
    grade(course, [DETACH], here)
    with course.gradebook() as gradebook:
        for name, score in (("stop_gradient_round-check", 1.5), ("written", 2.0)):
            found = gradebook.find_grade(f"detach-{name}", DETACH, DETACH, "ada")
            found.manual_score, found.needs_manual_grade = score, False
        gradebook.find_grade("detach-snapshot-check", DETACH, DETACH, "ada").extra_credit = 0.5
        gradebook.db.commit()
    grade(course, [DETACH], here)
    assert marks(course, "ada")["written"] == (None, 2.0, False), "nothing changed, so nothing was entered"
    outcomes = grade(course, [DETACH], here, again=True)
    assert marks(course, "ada")["stop_gradient_round"] == (None, 1.5, False), "the answer is the same"
    assert marks(course, "ada")["written"] == (None, 2.0, False)
    assert "1.5 by hand" in class_table(DETACH, outcomes[0].rows) and row(outcomes, "ada").remarks == ()
    with course.gradebook() as gradebook:
        assert gradebook.find_submission(DETACH, "ada").score == 4.0


def give(course, student, name, score):
    """Marks an answer as the Formgrader does."""
    with course.gradebook() as gradebook:
        found = gradebook.find_grade(f"detach-{name}", DETACH, DETACH, student)
        found.manual_score, found.needs_manual_grade = score, False
        gradebook.db.commit()


def test_a_mark_is_kept_while_the_answer_is_the_same_and_said_where_it_is_not(course, here):
    hand_in(course, "ada", DETACH, {"written": "Because."})
    grade(course, [DETACH], here)
    give(course, "ada", "written", 2.0)
    release = course.notebook("release", DETACH)
    release.write_text(release.read_text().replace("memory", "memmory", 1))  # a typo mended, the other way round
    here.graded.clear()
    grade(course, [DETACH], here)
    assert here.graded and marks(course, "ada")["written"] == (None, 2.0, False)
    hand_in(course, "ada", DETACH, {"written": "Because.", "snapshot": "x = 1"})
    grade(course, [DETACH], here)
    assert marks(course, "ada")["written"] == (None, 2.0, False), "another answer is another answer's business"
    hand_in(course, "ada", DETACH, {"written": "Because of the graph.", "snapshot": "x = 1"})
    outcomes = grade(course, [DETACH], here)
    assert marks(course, "ada")["written"] == (None, 2.0, True)
    (said,) = row(outcomes, "ada").remarks
    assert said.startswith("The answer to written is another than the one that got 2 of 2 points by hand")
    for _ in range(2):
        (line,) = [x for x in class_table(DETACH, outcomes[0].rows).splitlines() if x.startswith("ada")]
        assert line.endswith("2? by hand") and line.split()[1] == "3+?"
        assert "1 marked by hand" in class_table(DETACH, outcomes[0].rows)
        outcomes = grade(course, [DETACH], here, again=True)
    give(course, "ada", "written", 1.0)
    (line,) = [x for x in class_table(DETACH, grade(course, [DETACH], here)[0].rows).splitlines() if x[:3] == "ada"]
    assert line.endswith("1 by hand") and line.split()[1] == "2"


def test_a_folder_of_somebody_elses_is_a_sentence(course, monkeypatch):
    def refused(*arguments):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("filelock.FileLock.acquire", refused)
    with pytest.raises(ValueError, match="belongs to somebody else"), course.only_one():
        pass


def test_the_table_says_why_a_check_is_to_be_reviewed_and_of_many_reasons_ten(course, here):
    hand_in(course, "ada", DETACH, {"snapshot": "# outcome: review by hand"})
    hand_in(course, "bob", DETACH, {"snapshot": "\n".join(f"# look: reason {number}" for number in range(500))})
    ada, *others = grade(course, [DETACH], here)[0].rows
    why = "snapshot: This answer could not be judged: KeyError: 'detached'"
    said = class_table(DETACH, [replace(ada, report=replace(ada.report, reviews=(why,))), *others])
    assert f"ada: {why}" in said
    assert "reason 9" in said and "reason 10" not in said and "... and 490 more" in said


def test_every_command_says_what_is_still_to_mark(course, here, capsys, monkeypatch):
    for student in ("ada", "bob"):
        hand_in(course, student, DETACH, {"written": "Because.", "snapshot": "# outcome: review by hand"})
    monkeypatch.setattr("course_utils.classroom.run.graders.Graders", lambda *options: here)
    give_to = ["still to mark: 4 (detach-snapshot-check 2, detach-written 2)"]
    for command in ("grade", "feedback", "export"):
        assert main([command, "--course", str(course.root), DETACH]) == 0
        assert capsys.readouterr().out.endswith(f"\n{DETACH}: {give_to[0]}\n")
    for student in ("ada", "bob"):
        give(course, student, "written", 2.0)
        give(course, student, "snapshot-check", 0.5)
    assert main(["export", "--course", str(course.root), DETACH]) == 0
    assert "still to mark" not in capsys.readouterr().out


@pytest.mark.parametrize("command", ["grade", "feedback", "export"])
def test_penalties_follow_marks_and_deadlines_at_every_command(command, course, monkeypatch):
    with open(course.root / "nbgrader_config.py", "a") as settings:
        settings.write('c.LateSubmissionPlugin.penalty_method = "zero"\n')
    course = ClassFolder(course.root)
    with course.gradebook() as gradebook:
        gradebook.update_or_create_assignment(DETACH, duedate="2027-03-01 12:00:00 UTC")
    for student in ("ada", "bob"):
        answers = {"snapshot": "x", "written": "Because."}
        hand_in(course, student, DETACH, answers, timestamp="2027-03-01 13:30:00 UTC")
    grade(course, [DETACH], Here())
    give(course, "ada", "written", 2.0)
    with course.gradebook() as gradebook:
        gradebook.grant_extension(DETACH, "bob", hours=2)
    monkeypatch.setattr("course_utils.classroom.run.graders.Graders", lambda *options: Here())
    assert main([command, "--course", str(course.root), DETACH]) == 0
    with course.gradebook() as gradebook:
        assert gradebook.find_submission(DETACH, "ada").late_submission_penalty == 3.0
        assert not gradebook.find_submission(DETACH, "bob").late_submission_penalty


def test_a_gradebook_that_does_not_know_a_graded_cell_is_left_as_it_was(course):
    hand_in(course, "ada", DETACH)
    text = course.notebook("release", DETACH).read_text()
    report = StandIn().grade(text, text.encode(), student="ada", assignment=DETACH)
    strange = replace(report.exercises[0], grade_id="detach-new-check")
    with Records(course) as books, pytest.raises(ValueError, match="knows no graded cell detach-new-check"):
        books.enter(replace(report, exercises=(*report.exercises, strange)), "")
    with course.gradebook() as gradebook, pytest.raises(MissingEntry):
        gradebook.find_submission(DETACH, "ada")


# ------------------------------------------------------------------------------------------------------ what is graded


def test_only_what_changed_is_graded_again(course, here):
    for student in ("ada", "bob", "eve"):
        hand_in(course, student, DETACH)
    grade(course, [DETACH], here)
    here.graded.clear()
    hand_in(course, "bob", DETACH, {"snapshot": "x = 1"})
    outcomes = grade(course, [DETACH], here)
    assert here.graded == [("bob", DETACH)]
    assert [(found.student, found.news) for found in outcomes[0].rows] == [
        ("ada", False),
        ("bob", True),
        ("eve", False),
    ]
    grade(course, [DETACH], here)
    assert here.graded == [("bob", DETACH)]
    grade(course, [DETACH], here, again=True)
    assert len(here.graded) == 4


def test_another_release_grades_everything_again(course, here):
    hand_in(course, "ada", DETACH)
    grade(course, [DETACH], here)
    release = course.notebook("release", DETACH)
    release.write_text(release.read_text().replace("# Your answer here.", "# Your answer, please.", 1))
    grade(course, [DETACH], here)
    assert len(here.graded) == 2


@pytest.mark.parametrize("lost", ["gradebook", "autograded", "timestamp"])
def test_what_was_lost_is_entered_again_without_grading(lost, course, here, released_course):
    hand_in(course, "ada", DETACH, {"snapshot": "x"}, timestamp="2027-03-01 12:00:00 UTC")
    grade(course, [DETACH], here)
    before = marks(course, "ada")
    if lost == "gradebook":
        (course.root / "gradebook.db").write_bytes((released_course / "gradebook.db").read_bytes())
    elif lost == "autograded":
        course.notebook("autograded", DETACH, "ada").unlink()
    else:
        hand_in(course, "ada", DETACH, {"snapshot": "x"}, timestamp="2027-03-02 12:00:00 UTC")
    grade(course, [DETACH], here)
    assert here.graded == [("ada", DETACH)]
    assert marks(course, "ada") == before
    assert course.notebook("autograded", DETACH, "ada").is_file()
    with course.gradebook() as gradebook:
        day = 2 if lost == "timestamp" else 1
        assert gradebook.find_submission(DETACH, "ada").timestamp.day == day


def test_only_the_students_named_are_graded(course, here):
    for student in ("ada", "bob"):
        hand_in(course, student, DETACH)
    outcomes = grade(course, [DETACH], here, students=["bob"])
    assert here.graded == [("bob", DETACH)]
    assert [found.student for found in outcomes[0].rows] == ["bob"]


def test_what_was_odd_about_a_file_is_kept_with_the_result(course, here):
    hand_in(course, "ada", DETACH, name="lesson three.ipynb")
    for _ in range(2):
        outcomes = grade(course, [DETACH], here)
        assert row(outcomes, "ada").report.repairs == (
            f"There is no {DETACH}.ipynb; lesson three.ipynb was read in its place.",
        )


def test_a_submission_without_a_result_is_told_and_tried_again(course):
    class Half(Here):
        def grade(self, work):
            for submission, report in super().grade(work):
                yield submission, OSError("5 died") if submission.student == "bob" else report

    for student in ("ada", "bob"):
        hand_in(course, student, DETACH)
    outcomes = grade(course, [DETACH], Half())
    assert not outcomes[0].complete
    table = class_table(DETACH, outcomes[0].rows)
    assert "Without a result:\n  bob: OSError: 5 died" in table
    outcomes = grade(course, [DETACH], Here())
    assert outcomes[0].complete and row(outcomes, "bob").news and not row(outcomes, "ada").news


# -------------------------------------------------------------------------------------- one never costs another a grade

NAMES = ["=HYPERLINK(1)", '"quoted"', " two  blanks ", "x" * 200, "a,b", "a[b]", "{x}", "-rf", "c: d", "'; DROP --"]


def test_every_name_that_a_folder_may_have_is_graded_or_told(course, here):
    for name in NAMES:
        hand_in(course, name, DETACH, {"snapshot": "x"})
    bad = os.fsdecode(b"M\xfcller")
    hand_in(course, "draft", DETACH)
    (course.root / "submitted" / "draft").rename(course.root / "submitted" / bad)
    for _ in range(2):
        outcomes = grade(course, [DETACH], here)
        assert [found.student for found in outcomes[0].rows if found.report] == sorted(NAMES)
        assert not outcomes[0].complete
        said = "M\\udcfcller: the folder's name cannot be a student's id; rename it"
        assert f"Without a result:\n  {said}" in class_table(DETACH, outcomes[0].rows)
    assert sorted(here.graded) == [(name, DETACH) for name in sorted(NAMES)]
    assert all(marks(course, name)["snapshot"] == (1.0, None, False) for name in NAMES)


class Fault(Exception):
    pass


def fail_for_bob(monkeypatch, where, name, error, student=lambda *values: values[-1]):
    """Makes a function raise where it is about bob, and do its work where not."""
    genuine = getattr(where, name)

    def faulty(*values):
        if "bob" in str(student(*values)):
            raise error
        return genuine(*values)

    monkeypatch.setattr(where, name, faulty)


FULL = OSError(errno.ENOSPC, "No space left on device")


@pytest.mark.parametrize(
    ("where", "name", "error"),
    [
        (ClassFolder, "submission", OSError(errno.EIO, "Input/output error")),
        (grading, "key_of", Fault("no key")),
        (Records, "enter", FULL),
        (Records, "_write", FULL),
    ],
)
def test_what_goes_wrong_with_one_costs_the_others_nothing(where, name, error, course, here, monkeypatch, capsys):
    for student in ("ada", "bob", "eve"):
        hand_in(course, student, DETACH, {"snapshot": "x"})
    with monkeypatch.context() as patched:
        fail_for_bob(patched, where, name, error, lambda *values: values[:-1] if name == "key_of" else values)
        patched.setattr("course_utils.classroom.run.graders.Graders", lambda *options: here)
        assert main(["grade", "--course", str(course.root), DETACH]) == 1
    printed = capsys.readouterr()
    assert (
        re.search(rf"bob: (.*: )?{type(error).__name__}: ", printed.out)
        and "The same command, run again" in printed.err
    )
    assert marks(course, "ada") == marks(course, "eve")
    assert marks(course, "ada")["snapshot"] == (1.0, None, False)
    outcomes = grade(course, [DETACH], here)
    assert outcomes[0].complete
    assert marks(course, "bob") == marks(course, "ada")


def test_a_submission_that_vanishes_before_it_is_graded_costs_the_others_nothing(course, here, monkeypatch):
    for student in ("ada", "bob", "eve"):
        path = hand_in(course, student, DETACH)
        if student == "bob":
            gone = path
    monkeypatch.setattr(Here, "__enter__", lambda self: shutil.rmtree(gone.parent) or self)
    outcomes = grade(course, [DETACH], here)
    assert row(outcomes, "bob").reason.startswith("FileNotFoundError: ") and row(outcomes, "bob").report is None
    assert here.graded == [("ada", DETACH), ("eve", DETACH)]


def test_a_result_that_cannot_be_kept_is_entered_and_made_again(course, here, monkeypatch):
    for student in ("ada", "bob", "eve"):
        hand_in(course, student, DETACH, {"snapshot": "x"})
    with monkeypatch.context() as patched:
        fail_for_bob(patched, stored, "write_whole", FULL)
        outcomes = grade(course, [DETACH], here)
    assert not outcomes[0].complete and row(outcomes, "bob").report.earned == 1
    said = "bob: the result was not kept, and is made again: OSError: [Errno 28] No space left on device"
    assert f"Graded, but not written down everywhere:\n  {said}" in class_table(DETACH, outcomes[0].rows)
    assert marks(course, "bob")["snapshot"] == (1.0, None, False)
    assert not list(course.report(DETACH, "bob").parent.iterdir())
    here.graded.clear()
    assert grade(course, [DETACH], here)[0].complete
    assert here.graded == [("bob", DETACH)]


def test_an_id_that_the_gradebook_refuses_costs_the_others_nothing(course, here):
    for student in ("ada", "bob", "eve"):
        hand_in(course, student, DETACH, {"snapshot": "x"})
    database = sqlite3.connect(course.root / "gradebook.db")
    refusal = "SELECT RAISE(ABORT, 'value too long for type character varying(128)')"
    database.execute(f"CREATE TRIGGER t BEFORE INSERT ON student WHEN NEW.id = 'bob' BEGIN {refusal}; END")
    database.commit()
    outcomes = grade(course, [DETACH], here)
    assert row(outcomes, "bob").reason.startswith("not in the gradebook: ")
    assert row(outcomes, "bob").report.earned == 1 and not outcomes[0].complete
    assert marks(course, "ada") == marks(course, "eve")
    database.execute("DROP TRIGGER t")
    database.commit()
    database.close()
    assert grade(course, [DETACH], here)[0].complete
    assert marks(course, "bob") == marks(course, "ada") and len(here.graded) == 3


def test_a_penalty_that_cannot_be_set_costs_the_others_nothing(course):
    plugin = (
        "from nbgrader.plugins import LateSubmissionPlugin\n"
        "class Plugin(LateSubmissionPlugin):\n"
        "    def late_submission_penalty(self, student_id, score, total_seconds_late):\n"
        "        return {'ada': 1.0, 'c: d': 0.5}[student_id]\n"
    )
    (course.root / "of_the_teachers.py").write_text(plugin)
    with open(course.root / "nbgrader_config.py", "a") as settings:
        settings.write(f"import sys\nsys.path.insert(0, {str(course.root)!r})\nfrom of_the_teachers import Plugin\n")
        settings.write("c.AssignLatePenalties.plugin_class = Plugin\n")
    course = ClassFolder(course.root)
    with course.gradebook() as gradebook:
        gradebook.update_or_create_assignment(DETACH, duedate="2027-03-01 12:00:00 UTC")
    for student in ("ada", "bob", "c: d"):
        hand_in(course, student, DETACH, {"snapshot": "x"}, timestamp="2027-03-01 13:30:00 UTC")
    outcomes = grade(course, [DETACH], Here())
    assert row(outcomes, "ada").remarks == ("1.5 hours late, 1 point less.",)
    assert row(outcomes, "c: d").remarks == ("1.5 hours late, 0.5 points less.",)
    assert row(outcomes, "bob").remarks == ("no late penalty: 'bob'",)


class Strange(Here):
    """Changes what is said of bob, as a worker might send it."""

    def __init__(self, **changes):
        super().__init__()
        self.changes = changes

    def grade(self, work):
        for submission, report in super().grade(work):
            yield submission, replace(report, **self.changes) if submission.student == "bob" else report


def test_half_a_surrogate_pair_in_a_report_reaches_no_file(course):
    for student in ("ada", "bob"):
        hand_in(course, student, DETACH, {"snapshot": "x"})
    half = "print: \ud800"
    text = course.notebook("release", DETACH).read_text()
    first, *others = StandIn().grade(text, text.encode(), student="", assignment=DETACH).exercises
    first = replace(
        first,
        outcome="wrong",
        said=half,
        misconceptions=(half,),
        text=half,
        html=half,
    )
    notebook = text.replace(
        '"cells": [', '"cells": [{"cell_type": "raw", "id": "x", "metadata": {}, "source": "\ud800"},'
    )
    crew = Strange(repairs=(half,), reviews=(half,), notes=(half,), notebook=notebook, exercises=(first, *others))
    outcomes = grade(course, [DETACH], crew)
    assert outcomes[0].complete and row(outcomes, "ada").report.earned == 1
    assert "bob: print: ?" in class_table(DETACH, outcomes[0].rows)
    assert '"source": "?"' in course.notebook("autograded", DETACH, "bob").read_text(encoding="utf-8")
    assert set(feedback(course, DETACH).values()) == {""}
    assert main(["export", "--course", str(course.root), DETACH]) == 0
    assert "print: ?" in (course.root / "export" / "misunderstood.csv").read_text(encoding="utf-8")


def test_a_report_that_is_none_costs_the_others_nothing(course):
    for student in ("ada", "bob", "eve"):
        hand_in(course, student, DETACH)
    outcomes = grade(course, [DETACH], Strange(wall_seconds=float("nan")))
    assert row(outcomes, "bob").reason == "ValueError: Not a report's wall_seconds: nan."
    assert [bool(found.report) for found in outcomes[0].rows] == [True, False, True]


@pytest.mark.parametrize(
    "text", ["x" * 700_000, "99999999999999999999999999999912h", "May", "2027-13-45", "1e9999", "\0"]
)
def test_what_is_no_time_is_told_in_one_line(text, course, here):
    hand_in(course, "ada", DETACH, timestamp=text)
    (remark,) = row(grade(course, [DETACH], here), "ada").remarks
    assert remark.startswith("timestamp.txt holds '") and len(remark) < 200
    with course.gradebook() as gradebook:
        assert gradebook.find_submission(DETACH, "ada").timestamp is None


# --------------------------------------------------------------------------------------------- everything is named


def test_everything_that_was_handed_in_wrongly_is_named_with_what_to_do(course, here, capsys, monkeypatch):
    monkeypatch.setattr("course_utils.classroom.run.graders.Graders", lambda *options: here)
    with course.gradebook() as gradebook:
        for student in ("ada", "bob", "cy", "finn"):
            gradebook.add_student(student)
    hand_in(course, "ada", DETACH)
    hand_in(course, "ada", DETACH, {"snapshot": "x"}, name=f"{DETACH} (1).ipynb")
    hand_in(course, "ann", DETACH)  # who is on no list
    for place in (
        "bob/03_Detach/03_detach.ipynb",
        "cy/03_detach.ipynb",
        "dee/03_detach/answers/03_detach.ipynb",
        "eve/03_detach/03_detach.zip",
        "fay/project/x.txt",
        "gus.zip",
        "hal/.DS_Store",
        "ada/03_detach/utils.py",
        "ira/03_detach/answers.py",
        "handed_in/joe/03_detach/03_detach.ipynb",
        "03_detach/kay/03_detach.ipynb",
    ):
        path = course.root / "submitted" / place
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"{}")
    assert main(["grade", "--course", str(course.root), DETACH]) == 0
    printed = capsys.readouterr().out
    titles = (UNREAD, "Also", "Handed in, and passed over")
    unread, also, passed = (printed.partition(f"\n{title}:\n")[2].split("\n\n")[0] for title in titles)
    assert unread.splitlines() == [
        "  dee: 03_detach.ipynb itself must lie in 03_detach/; there lies answers, not looked into.",
        "  eve: 03_detach.ipynb itself must lie in 03_detach/; there lies 03_detach.zip, not looked into.",
        "  ira: 03_detach.ipynb itself must lie in 03_detach/; there lies answers.py, not looked into.",
    ]
    assert f"  ada: Beside {DETACH}.ipynb lies {DETACH} (1).ipynb, utils.py, which was not graded; if a" in also
    assert "there without a name: ann, dee, eve, ira." in printed and "nbgrader db student remove" in printed
    named, other = f"submitted/STUDENT/{DETACH}/{DETACH}.ipynb.", "submitted/STUDENT/ASSIGNMENT/ASSIGNMENT.ipynb."
    assert passed.splitlines() == [
        f"  03_detach/kay: no released assignment's folder; graded is {other}",
        f"  bob/03_Detach: no released assignment's folder; graded is {named}",
        f"  cy/03_detach.ipynb: no released assignment's folder; graded is {named}",
        f"  fay/project: no released assignment's folder; graded is {other}",
        f"  gus.zip: no released assignment's folder; graded is {other}",
        f"  handed_in/joe: no released assignment's folder; graded is {other}",
    ]
    assert main(["grade", "--course", str(course.root), DETACH]) == 0
    assert "Not on your list" not in capsys.readouterr().out, "nobody on this list has a name, to tell them apart"
    with course.gradebook() as gradebook:
        gradebook.update_or_create_student("ada", first_name="Ada")
    assert main(["grade", "--course", str(course.root), DETACH]) == 0
    assert "there without a name: ann" in capsys.readouterr().out, "as long as they are there without a name"


def test_a_class_without_a_list_has_no_strangers(course, here):
    hand_in(course, "ada", DETACH)
    grade(course, [DETACH], here)
    hand_in(course, "bob", DETACH)
    assert course.strangers() == set()
    assert row(grade(course, [DETACH], here), "bob").remarks == ()


@pytest.mark.parametrize("command", ["grade", "feedback"])
def test_a_student_whom_nobody_knows_is_refused_with_those_who_are_like_it(command, course, here, capsys):
    hand_in(course, "ada", DETACH)
    grade(course, [DETACH], here)
    assert main([command, "--course", str(course.root), "--student", "adda"]) == 1
    said = capsys.readouterr().err
    assert "Nobody is called adda." in said and said.endswith("Try: --student ada\n")


def test_what_cannot_be_read_waits_for_a_person_and_the_student_is_told_why(course, here):
    put(course, "eve", DETACH, b"{")
    outcomes = grade(course, [DETACH], here)
    assert set(marks(course, "eve").values()) == {(None, None, True)}
    with course.gradebook() as gradebook:
        comments = [comment.comment for comment in gradebook.find_submission(DETACH, "eve").notebooks[0].comments]
    (said,) = filter(None, comments)
    assert said.startswith("Your file could not be read. ")
    hand_in(course, "eve", DETACH, {"snapshot": "x"})
    outcomes = grade(course, [DETACH], here)
    assert marks(course, "eve")["snapshot"] == (1.0, None, False) and outcomes[0].complete


# --------------------------------------------------------------------------------------------------------------- table


def test_everybody_is_in_the_table_and_no_nought_stands_alone(course, here):
    with course.gradebook() as gradebook:
        gradebook.add_student("absent")
    for outcome in OUTCOMES:
        hand_in(course, outcome.replace(" ", "-"), DETACH, {"snapshot": f"# outcome: {outcome}"})
    put(course, "broken", DETACH, b"{")
    table = class_table(DETACH, grade(course, [DETACH], here)[0].rows)
    lines = {line.split()[0]: line for line in reversed(table.splitlines()) if line.strip()}
    assert "Without a submission: absent" in table
    assert lines["broken"].count("? unreadable") == 6
    for outcome in OUTCOMES:
        line = lines[outcome.replace(" ", "-")]
        assert {
            "passed": "1 passed",
            "partial": "0.5 partial",
            "review by hand": "? by hand",
            "unreadable": "? unreadable",
        }.get(outcome, f"0 {outcome}") in line
    for line in table.split("\n\nWithout")[0].splitlines():
        assert "0" not in re.split(r"\s{2,}", line)[2:], line
    assert f"{DETACH}: 10 graded (10 now, 0 unchanged), 1 without a submission" in table
    assert "Outcomes: 1 passed, 1 partial, " in table


def test_reviews_and_repairs_stand_below_by_name(course, here):
    hand_in(course, "ada", DETACH, {"snapshot": "# look: cell snapshot walks frames"})
    hand_in(course, "bob", DETACH, name="x.ipynb")
    rows = grade(course, [DETACH], here)[0].rows
    assert "Look at these by hand:\n  ada: cell snapshot walks frames" in class_table(DETACH, rows)
    assert "Put right before grading, harmless: 1 (students: 1); --verbose lists them" in class_table(DETACH, rows)
    said = f"Put right before grading:\n  bob: There is no {DETACH}.ipynb; x.ipynb was read in its place."
    assert said in class_table(DETACH, rows, verbose=True)


def test_notes_are_no_accusation(course):
    hand_in(course, "bob", DETACH)
    table = class_table(DETACH, grade(course, [DETACH], Strange(notes=("The experiments were run.",)))[0].rows)
    assert "experiments" not in table


def test_a_strange_name_cannot_tear_the_table(course, here):
    hand_in(course, "x\x1b[31m" + "y" * 100, DETACH)
    table = class_table(DETACH, grade(course, [DETACH], here)[0].rows)
    assert "\x1b" not in table
    assert len([line for line in table.splitlines() if "not attempted" in line]) == 2  # the line, and the counts


def test_an_assignment_that_nobody_handed_in_takes_one_line():
    rows = [Row(name, reason=NO_SUBMISSION) for name in ("ada", "bob")]
    assert class_table(DETACH, rows) == f"{DETACH}: nobody of 2 handed it in"


def test_rounding_makes_nothing_full_or_empty():
    values = {(2.0, 2): 2, (1.999, 2): 1.99, (24 / 26, 2): 0.92, (11 / 6, 2): 1.83, (0.001, 1): 0.01, (0.0, 1): 0}
    assert {given: rounded(*given) for given in values} == values


def test_withheld_points_are_shown_as_a_question(course, here):
    hand_in(course, "ada", DETACH, {"snapshot": "# outcome: review by hand", "mean_loss": "x"})
    found = row(grade(course, [DETACH], here), "ada")
    assert cell(found.report.exercises[0]) == "? by hand"
    (line,) = [line for line in class_table(DETACH, [found]).splitlines() if line.startswith("ada")]
    assert line.split()[1] == "2+?"


# --------------------------------------------------------------------------------------------------------------- tally


def report_of(course, answers) -> Report:
    path = hand_in(course, "ada", DETACH, answers)
    return StandIn().grade(
        course.notebook("release", DETACH).read_text(), path.read_bytes(), student="ada", assignment=DETACH
    )
