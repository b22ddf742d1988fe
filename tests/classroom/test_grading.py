"""``grade`` with everything but a grader: what is graded when, what reaches the gradebook, what the teacher is told."""

import os
import shutil
import signal
import sqlite3
import stat
import subprocess
import sys

import pytest

from tests.classroom.handed_in import DETACH, MODES, ROOT, Notebook
from tests.classroom.teacher import row, said_of

pytestmark = pytest.mark.slow

NOON = "2027-03-01 12:00:00 UTC"
PARTLY = "# outcome: partial"
BY_HAND = "# outcome: review by hand"


def grade(teacher, *words, status=0):
    return teacher.run("grade", DETACH, *words, status=status)


# --------------------------------------------------------------------------------------------------- what reaches where


def test_marks_reach_the_gradebook_as_nbgrader_would_enter_them(teacher, here):
    answers = {"snapshot": "# right", "mean_loss": PARTLY, "truncated_bptt": "# outcome: raised"}
    teacher.hand_in("ada", **answers, stop_gradient_round=BY_HAND, written="Because of the graph.")
    teacher.hand_in("bob")
    grade(teacher)
    assert teacher.marks("ada") == {
        "snapshot": (1.0, None, False),
        "predicted_edit": (0.0, None, False),
        "mean_loss": (1.0, None, False),
        "truncated_bptt": (0.0, None, False),
        "stop_gradient_round": (None, None, True),  # withheld until a person has looked
        "written": (None, None, True),
    }
    assert teacher.marks("bob")["written"] == (0.0, None, False), "an untouched question needs nobody"
    with teacher.gradebook() as gradebook:
        assert gradebook.find_submission(DETACH, "ada").score == 2.0
        assert gradebook.find_comment("detach-written", DETACH, DETACH, "bob").comment == "No response."


def test_the_graded_notebook_lies_where_nbgrader_looks_for_it_and_nothing_else_does(teacher, here):
    teacher.hand_in("ada", snapshot="x = 1", timestamp=NOON)
    teacher.put("ada", b"raise SystemExit", name="torch.py")
    grade(teacher)
    path, cells = teacher.notebook("autograded", student="ada"), teacher.cells("ada")
    assert cells["snapshot"]["source"] == "x = 1"
    assert "snapshot: 1 of 1 points" in cells["snapshot-check"]["outputs"][0]["data"]["text/html"]
    assert path.stat().st_mode & 0o777 == 0o444
    assert {one.name for one in path.parent.iterdir()} == {path.name, "timestamp.txt"}
    assert path.with_name("timestamp.txt").read_text() == f"{NOON}\n"


TIMES = {
    "2027-03-01 18:00 +01:00": "2027-03-01 17:00:00",
    "2027-03-01 18:00 -05:00": "2027-03-01 23:00:00",
    "2027-03-01 18:00 +0100": "2027-03-01 17:00:00",
    "2027-03-01T18:00+01:00": "2027-03-01 17:00:00",
    "2027-03-01 18:00 UTC": "2027-03-01 18:00:00",
    "2027-03-01 18:00": "2027-03-01 18:00:00",
    "1.3.2027 18:00 +01:00": None,  # day or month first? nobody knows
    **dict.fromkeys(["01/03/2027", "half past ten", "May", "2027-13-45", "1e9999", "9" * 30 + "h", "\0"]),
    "x" * 700_000: None,
}


def test_a_time_is_read_with_its_zone_or_told_in_one_line(teacher, here):
    students = {f"student{number:02}": text for number, text in enumerate(TIMES)}
    for student, text in students.items():
        teacher.hand_in(student, timestamp=text)
    printed = grade(teacher)
    for student, text in students.items():
        said = said_of(printed, student)
        assert teacher.submission(student)[0] == str(TIMES[text]) and len(said) == (TIMES[text] is None)
        assert not said or (said[0].startswith("Also: timestamp.txt holds '") and len(said[0]) < 170)
    assert any("and not a time such as 2027-03-01T18:00+01:00" in said for said in said_of(printed, "student08"))
    assert "2 feedback files" in teacher.run("feedback", "--student", "student00", "student08")  # nobody waits


@pytest.mark.parametrize("command", ["grade", "feedback", "export"])
def test_penalties_follow_marks_and_deadlines_at_every_command(command, teacher, here):
    teacher.set('c.LateSubmissionPlugin.penalty_method = "zero"')
    with teacher.gradebook() as gradebook:
        gradebook.update_or_create_assignment(DETACH, duedate=NOON)
    for student, hour in (("ada", 13), ("bob", 13), ("cy", 11)):
        teacher.hand_in(student, timestamp=f"2027-03-01 {hour}:30 UTC", snapshot="x", written="Because.")
    printed = grade(teacher)
    assert "Also: 1.5 hours late, 1 point less." in said_of(printed, "ada") and said_of(printed, "cy") == []
    assert "  0+? late  1 passed  " in row(printed, "ada") and "  1+?  " in row(printed, "cy")
    teacher.mark("ada", "written", 2.0)
    with teacher.gradebook() as gradebook:
        gradebook.grant_extension(DETACH, "bob", hours=2)
    teacher.run(command, DETACH)
    assert [teacher.submission(student)[1] for student in ("ada", "bob", "cy")] == [3.0, 0.0, 0.0]


# ------------------------------------------------------------------------------------------------------ marks by people


def test_a_mark_that_a_person_gave_outlives_grading_again(teacher, here):
    teacher.hand_in("ada", stop_gradient_round=BY_HAND, written="Because.")
    grade(teacher)
    teacher.mark("ada", "stop_gradient_round-check", 1.5)
    teacher.mark("ada", "written", 2.0)
    with teacher.gradebook() as gradebook:
        gradebook.find_grade("detach-snapshot-check", DETACH, DETACH, "ada").extra_credit = 0.5
        gradebook.db.commit()
    for words in ((), ("--again",)):
        printed = grade(teacher, *words)
        assert teacher.marks("ada")["stop_gradient_round"] == (None, 1.5, False)
        assert teacher.marks("ada")["written"] == (None, 2.0, False)
        assert "1.5 by hand" in row(printed, "ada") and said_of(printed, "ada") == []
    with teacher.gradebook() as gradebook:
        assert gradebook.find_submission(DETACH, "ada").score == 4.0


def test_a_mark_is_kept_while_the_answer_is_the_same_and_said_where_it_is_not(teacher, here):
    teacher.hand_in("ada", written="Because.")
    grade(teacher)
    teacher.mark("ada", "written", 2.0)
    release = teacher.notebook("release")
    release.write_text(release.read_text().replace("memory", "memmory", 1))  # a typo mended, the other way round
    here.graded.clear()
    grade(teacher)
    assert here.graded == ["ada"] and teacher.marks("ada")["written"] == (None, 2.0, False)
    teacher.hand_in("ada", written="Because.", snapshot="x = 1")
    grade(teacher)
    assert teacher.marks("ada")["written"] == (None, 2.0, False), "another answer is another answer's business"
    teacher.hand_in("ada", written="Because of the graph.", snapshot="x = 1")
    for words in ((), (), ("--again",), ("a new release",)):
        if "a new release" in words:
            release.write_text(release.read_text().replace("memmory", "memory", 1))
        printed = grade(teacher, *({*words} & {"--again"}))
        assert teacher.marks("ada")["written"] == (None, 2.0, True)
        (told,) = said_of(printed, "ada")
        assert told.startswith("Answered anew since you marked it") and told.endswith(": detach-written")
        assert row(printed, "ada").endswith("2? by hand") and row(printed, "ada").split()[1] == "3+?"
    teacher.mark("ada", "written", 1.0)
    line = row(grade(teacher), "ada")
    assert line.endswith("1 by hand") and line.split()[1] == "2"


def test_every_command_says_what_is_still_to_mark(teacher, here):
    for student in ("ada", "bob"):
        teacher.hand_in(student, written="Because.", snapshot=BY_HAND)
    for command in ("grade", "feedback", "export"):
        printed = teacher.run(command, DETACH)
        assert f"\n{DETACH}: still to mark: 4 (detach-snapshot-check 2, detach-written 2)\n" in printed
    for student in ("ada", "bob"):
        teacher.mark(student, "written", 2.0)
        teacher.mark(student, "snapshot-check", 0.5)
    assert "still to mark" not in teacher.run("export", DETACH)


# ------------------------------------------------------------------------------------------------------ what is graded


def test_only_what_is_new_or_has_changed_is_graded(teacher, here):
    for student in ("ada", "bob", "eve"):
        teacher.hand_in(student)
    assert "Not on your list" not in grade(teacher), "where there is no list, nobody is a stranger"
    teacher.hand_in("bob", snapshot="x = 1")
    assert f"{DETACH}: 3 graded (1 now, 2 unchanged)" in grade(teacher)
    assert here.graded[3:] == ["bob"]
    grade(teacher)
    grade(teacher, "--again", "--student", "eve")
    assert here.graded[4:] == ["eve"]
    release = teacher.notebook("release")
    release.write_text(release.read_text().replace("# Your answer here.", "# Your answer, please.", 1))
    grade(teacher)
    assert sorted(here.graded[5:]) == ["ada", "bob", "eve"]


@pytest.mark.parametrize("lost", ["gradebook", "autograded", "one mark", "timestamp", "half of it"])
def test_what_was_lost_is_made_again_and_no_more_than_that(lost, teacher, here, released_course):
    teacher.hand_in("ada", snapshot="x", timestamp=NOON)
    grade(teacher)
    before, graded = teacher.marks("ada"), teacher.notebook("autograded", student="ada")
    if lost == "gradebook":
        shutil.copyfile(released_course.root / "gradebook.db", teacher.root / "gradebook.db")
    elif lost == "autograded":
        graded.unlink()
    elif lost == "one mark":
        with teacher.gradebook() as gradebook:
            gradebook.find_grade("detach-snapshot-check", DETACH, DETACH, "ada").auto_score = None
            gradebook.db.commit()
    elif lost == "half of it":
        graded.chmod(0o644)
        graded.write_bytes(graded.read_bytes()[:-100])
    else:
        teacher.hand_in("ada", snapshot="x", timestamp=NOON.replace("03-01", "03-02"))
    grade(teacher, *["--again"] * (lost == "one mark"))
    assert here.graded == ["ada"] * (1 + (lost not in ("gradebook", "timestamp")))
    assert teacher.marks("ada") == before and graded.is_file()
    assert teacher.submission("ada")[0].split()[0] == f"2027-03-0{1 + (lost == 'timestamp')}"


# -------------------------------------------------------------------------------------- one never costs another a grade


def refused_by_the_gradebook(teacher):
    database = sqlite3.connect(teacher.root / "gradebook.db")
    refusal = "SELECT RAISE(ABORT, 'value too long for type character varying(128)')"
    database.execute(f"CREATE TRIGGER t BEFORE INSERT ON student WHEN NEW.id = 'bob' BEGIN {refusal}; END")
    database.commit()
    database.close()
    return "Not in the gradebook"


def a_file_where_its_notebook_belongs(teacher):
    (teacher.root / "autograded").mkdir()
    (teacher.root / "autograded" / "bob").write_text("mine")
    return "Not in the gradebook"


def a_machine_that_fails(teacher):
    teacher.hand_in("bob", snapshot="# fail")
    return "OSError: the sandbox ended"


def a_file_where_its_folder_belongs(teacher):
    shutil.rmtree(teacher.root / "submitted" / "bob" / DETACH)
    (teacher.root / "submitted" / "bob" / DETACH).write_text("{}")
    return f"{DETACH} is no folder"


FAULTS = (refused_by_the_gradebook, a_file_where_its_notebook_belongs, a_machine_that_fails)
FAULTS += (a_file_where_its_folder_belongs,)


@pytest.mark.parametrize("fault", FAULTS)
def test_what_goes_wrong_with_one_costs_the_others_nothing(fault, teacher, here):
    for student in ("ada", "bob", "eve"):
        teacher.hand_in(student, snapshot="x")
    why = fault(teacher)
    printed = grade(teacher, status=1)
    assert why in " ".join(said_of(printed, "bob")) and "the same command does the rest." in printed
    assert teacher.marks("ada") == teacher.marks("eve") and teacher.marks("ada")["snapshot"] == (1.0, None, False)
    for place in ("autograded/bob", f"submitted/bob/{DETACH}"):
        if (teacher.root / place).is_file():
            (teacher.root / place).unlink()
    with sqlite3.connect(teacher.root / "gradebook.db") as database:
        database.execute("DROP TRIGGER IF EXISTS t")
    teacher.hand_in("bob", snapshot="x")
    grade(teacher)
    assert teacher.marks("bob") == teacher.marks("ada")


def test_a_penalty_that_cannot_be_set_costs_the_others_nothing(teacher, here):
    plugin = "from nbgrader.plugins import LateSubmissionPlugin\nclass Plugin(LateSubmissionPlugin):\n"
    plugin += "    def late_submission_penalty(self, student_id, score, total_seconds_late):\n"
    (teacher.root / "rule.py").write_text(plugin + "        return {'ada': 1.0, 'c: d': 0.5}[student_id]\n")
    teacher.set("c.AssignLatePenalties.plugin_class = 'rule.Plugin'")
    with teacher.gradebook() as gradebook:
        gradebook.update_or_create_assignment(DETACH, duedate=NOON)
    for student in ("ada", "bob", "c: d"):
        teacher.hand_in(student, snapshot="x", timestamp="2027-03-01 13:30:00 UTC")
    printed = grade(teacher)
    assert "ada: 1.5 hours late, 1 point less." in printed and "c: d: 1.5 hours late, 0.5 points less." in printed
    assert "bob: no late penalty: 'bob'" in printed
    del sys.modules["rule"]


NAMES = ["=HYPERLINK(1)", '"quoted"', " two  blanks ", "x" * 200, "a,b", "a[b]", "{x}", "-rf", "c: d", "'; DROP --"]


def test_every_name_that_a_folder_may_have_is_graded_or_told(teacher, here):
    for name in [*NAMES, "x\x1b[31m" + "y" * 100]:
        teacher.hand_in(name, snapshot="x")
    teacher.hand_in("draft")
    (teacher.root / "submitted" / "draft").rename(teacher.root / "submitted" / os.fsdecode(b"M\xfcller"))
    for _ in range(2):
        printed = grade(teacher, status=1)
        assert "fcller: the folder's name cannot be a student's id; rename it" in printed
        assert "\x1b" not in printed and f"{len(NAMES) + 1} graded" in printed
    assert len(here.graded) == len(NAMES) + 1
    assert all(teacher.marks(name)["snapshot"] == (1.0, None, False) for name in NAMES)


# ------------------------------------------------------------------------------------ what lies in a student's folder


@pytest.mark.parametrize("kind", ["link", "loop", "pipe", "socket", "folder"])
def test_what_is_no_file_of_the_students_is_not_opened(kind, teacher, here):
    teacher.hand_in("bob", snapshot="x")
    path = teacher.notebook("submitted", student="ada")
    path.parent.mkdir(parents=True)
    other = teacher.notebook("submitted", student="bob")
    make = {"link": lambda: path.symlink_to(other), "loop": lambda: path.symlink_to(path), "folder": path.mkdir}
    make |= {"pipe": lambda: os.mkfifo(path), "socket": lambda: os.mknod(path, stat.S_IFSOCK | 0o644)}
    make[kind]()
    printed = grade(teacher)
    assert "so it was not opened" in " ".join(said_of(printed, "ada")) and "? unreadable" in row(printed, "ada")
    assert "1 passed" in row(printed, "bob")


def test_a_folder_that_is_a_link_is_refused_and_named(teacher, here):
    teacher.hand_in("bob", snapshot="x")
    with teacher.gradebook() as gradebook:
        gradebook.add_student("sam")
    (teacher.root / "submitted" / "sam").mkdir()
    (teacher.root / "submitted" / "sam" / DETACH).symlink_to(f"../bob/{DETACH}")
    printed = grade(teacher, status=1)
    assert "link" in " ".join(said_of(printed, "sam")) and "1 passed" not in row(printed, "sam")
    teacher.run("export")
    (sam,) = [row for row in teacher.exported("students") if row["student"] == "sam"]
    assert [sam[name] for name in (DETACH, MODES, "total", "to_mark")] == ["not graded", "missing", "0+?", "1"]


def test_a_timestamp_that_is_a_link_is_not_followed_and_named(teacher, here):
    teacher.hand_in("ada", snapshot="x")
    teacher.notebook("submitted", student="ada").with_name("timestamp.txt").symlink_to("/dev/zero")
    printed = grade(teacher)
    assert teacher.submission("ada")[0] == "None" and "timestamp.txt" in " ".join(said_of(printed, "ada"))


def test_of_several_renamed_notebooks_the_newest_of_this_assignment_counts(teacher, here):
    teacher.put("ada", Notebook(MODES).solve().bytes(), name="scratch.ipynb")
    for age, name in enumerate(("b.ipynb", "a.ipynb", "c.ipynb")):
        path = teacher.hand_in("ada", snapshot=f"# {name}", name=name)
        os.utime(path, (1_000_000 - age, 1_000_000 - age))
    for _ in range(2):
        said = f"There is no {DETACH}.ipynb; b.ipynb was read in its place, the newest of 3."
        assert said in " ".join(said_of(grade(teacher), "ada"))
    assert teacher.cells("ada")["snapshot"]["source"] == "# b.ipynb"


def test_a_file_beyond_all_measure_is_not_read_whole(teacher, here):
    path = teacher.hand_in("ada")
    with path.open("wb") as file:
        file.truncate(2**37)  # a sparse file: takes no room, and no memory could hold it
    assert "? unreadable" in row(grade(teacher), "ada")


def test_everything_that_was_handed_in_wrongly_is_named_with_what_to_do(teacher, here):
    with teacher.gradebook() as gradebook:
        for student in ("ada", "bob", "cy", "finn"):
            gradebook.add_student(student)
    teacher.hand_in("ada")
    teacher.hand_in("ada", snapshot="x", name=f"{DETACH} (1).ipynb")
    teacher.hand_in("ann")  # who is on no list
    for place in (
        *("bob/03_Detach/03_detach.ipynb", "cy/03_detach.ipynb", "dee/03_detach/answers/03_detach.ipynb"),
        *("eve/03_detach/03_detach.zip", "fay/project/x.txt", "gus.zip", "hal/.DS_Store", "ada/03_detach/utils.py"),
        *("ira/03_detach/answers.py", "handed_in/joe/03_detach/03_detach.ipynb", "03_detach/kay/03_detach.ipynb"),
    ):
        path = teacher.root / "submitted" / place
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"{}")
    printed = grade(teacher)
    for student, found in {"dee": "answers", "eve": "03_detach.zip", "ira": "answers.py"}.items():
        why = f"There is no 03_detach.ipynb, but {found}, not looked into: hand in the notebook itself."
        assert why in " ".join(said_of(printed, student)) and "? unreadable" in row(printed, student)
    aside = " ".join(said_of(printed, "ada"))
    assert "Beside 03_detach.ipynb lies 03_detach (1).ipynb, utils.py, which was not graded" in aside
    assert "there without a name: ann, dee, eve, ira." in printed and "nbgrader db student remove" in printed
    named, other = f"submitted/STUDENT/{DETACH}/{DETACH}.ipynb.", "submitted/STUDENT/ASSIGNMENT/ASSIGNMENT.ipynb."
    places = dict.fromkeys(["bob/03_Detach", "cy/03_detach.ipynb"], named)
    places |= dict.fromkeys(["03_detach/kay", "fay/project", "gus.zip", "handed_in/joe"], other)
    for place, where in places.items():
        assert f"  {place}: no released assignment's folder; graded is {where}\n" in printed
    teacher.run("export")
    found = {row["student"]: (row[DETACH], row[MODES]) for row in teacher.exported("students")}
    assert [found[name] for name in ("bob", "cy", "finn")] == [("not graded", "missing")] * 2 + [("missing", "missing")]
    assert "hal" not in printed and "Not on your list" not in grade(teacher), "nobody on this list has a name"
    with teacher.gradebook() as gradebook:
        gradebook.update_or_create_student("ada", first_name="Ada")
    assert "there without a name: ann" in grade(teacher)


def test_of_a_large_class_the_first_are_named_and_the_others_counted(teacher, here):
    with teacher.gradebook() as gradebook:
        for number in range(300):
            gradebook.add_student(f"s{number:03}")
    teacher.hand_in("ada")
    said = grade(teacher)
    assert "\nWithout a submission: s000, s001, s002, s003, s004, s005, s006, s007, s008, s009, 290 more\n" in said


@pytest.mark.parametrize("command", ["grade", "feedback"])
def test_a_student_whom_nobody_knows_is_refused_with_those_who_are_like_it(command, teacher, here):
    teacher.hand_in("ada")
    grade(teacher)
    said = teacher.run(command, "--student", "adda", status=1)
    assert "Nobody is called adda." in said and said.endswith("Try: --student ada\n")


def test_what_cannot_be_read_waits_for_a_person_and_the_student_is_told_why(teacher, here):
    teacher.put("eve", b"{")
    grade(teacher)
    assert set(teacher.marks("eve").values()) == {(None, None, True)}
    with teacher.gradebook() as gradebook:
        comments = [comment.comment for comment in gradebook.find_submission(DETACH, "eve").notebooks[0].comments]
    (said,) = filter(None, comments)
    assert said == "Your file could not be read. The file is broken. Ask your teacher to look at it."
    teacher.hand_in("eve", snapshot="x")
    grade(teacher)
    assert teacher.marks("eve")["snapshot"] == (1.0, None, False)


# ---------------------------------------------------------------------------------------------------------------- lock

HOLDS = """
import os, signal, sys, filelock
with filelock.FileLock(sys.argv[1] + "/.classroom.lock"):
    print("held", flush=True)
    sys.stdin.read()
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_two_commands_do_not_work_in_one_course_and_a_killed_one_leaves_no_lock(teacher, here):
    teacher.hand_in("ada")
    command = [sys.executable, "-c", HOLDS, str(teacher.root)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout.readline() == b"held\n"
        assert "one at a time" in grade(teacher, status=1)
    assert other.returncode == -signal.SIGKILL and "1 graded" in grade(teacher)


def test_a_folder_of_somebody_elses_is_a_sentence(teacher, here, monkeypatch):
    def refused(*arguments, **options):
        raise PermissionError(13, "Permission denied")

    teacher.hand_in("ada")
    monkeypatch.setattr("filelock.FileLock.acquire", refused)
    assert "belongs to somebody else" in grade(teacher, status=1)


def test_the_command_runs_as_a_program(teacher):
    command = [sys.executable, "-m", "course_utils", "classroom", "grade", "--course", str(teacher.root)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0 and done.stdout.startswith("01_requires_grad: nobody of 0 handed it in\n")
