"""What a learner has earned and what is open: kept in one file, read back, shown, begun again."""

import functools
import importlib
import json
import os
import re
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from course_utils import Lesson, drill, progress, reset_progress
from course_utils.base.markup import escape
from course_utils.catalogue import COURSE, LESSONS, find
from course_utils.drills import TOPICS
from course_utils.progress import events
from course_utils.progress.history import (
    STUB,
    Showing,
    location,
    record,
    record_drill,
    record_hint,
    record_prediction,
    stored,
)

ROOT = Path(__file__).parents[1]
ALIAS, COPY = "detach/snapshot/alias", "What has no history is a copy"


def attempts():
    return tuple(stored().attempts.values())


def told():
    return tuple(stored().told.values())


def predictions():
    return tuple(stored().predictions.values())


def attempt(earned, exercise="snapshot", possible=2, lesson="detach", status=None, **more):
    """Stores an attempt and insists that it was stored."""
    status = status or ("passed" if earned == possible else "partial")
    assert record(lesson, exercise, earned=earned, possible=possible, status=status, **more) is None


def line_of_attempt():
    line = record("detach", "snapshot", earned=1, possible=1, status="passed")
    assert line is None or ("\n" not in line and line.startswith("This attempt is not stored: ") and line.endswith("."))
    return line


@pytest.fixture
def home(tmp_path, monkeypatch):
    """A home directory of its own, with nothing chosen by the environment."""
    folder = tmp_path / "home"
    folder.mkdir()
    monkeypatch.delenv(events.VARIABLE)
    monkeypatch.delenv("NBGRADER_EXECUTION", raising=False)
    monkeypatch.setenv("HOME", str(folder))
    monkeypatch.setenv("USERPROFILE", str(folder))  # what Windows calls it
    return folder


# What is kept.


def test_an_attempt_is_kept_with_its_best_and_its_last_result(progress_file):
    assert record("detach", "snapshot", earned=0, possible=2, status="not attempted") is None
    assert not progress_file.exists(), "what was not attempted changes nothing"
    for earned in (1, 2, 0.5):
        attempt(earned)
    attempt(3, lesson="ant", possible=3)
    (row, other) = attempts()
    assert (row.lesson, row.exercise, other.lesson) == ("detach", "snapshot", "ant")
    assert (row.earned, row.best, row.possible, row.status, row.count, row.hints) == (0.5, 2.0, 2.0, "partial", 3, 0)


@pytest.mark.parametrize(
    ("before", "after", "best"),
    [
        ((1, 2), (0, 4), 2.0),
        ((1, 2), (3, 4), 3.0),
        ((3, 3), (0, 1), 1.0),
        ((0.1, 3), (0, 3), 0.1),
        ((0, 0), (1, 2), 1.0),
    ],
)
def test_the_best_keeps_its_share_when_an_exercise_changes_its_points(before, after, best):
    for earned, possible in (before, after):
        attempt(earned, possible=possible, status="partial")
    assert [(row.best, row.possible) for row in attempts()] == [(best, after[1])]


def test_hints_and_first_guesses_are_kept():
    for number in (1, 2, 1):
        assert record_hint("detach", "snapshot", number) is None
    assert [(row.hints, row.count, row.status) for row in attempts()] == [(2, 0, "not attempted")]
    for question, right in (("zebra", False), ("ant", True), ("zebra", True), ("zebra", True)):
        assert record_prediction("detach", question, right) is None
    rows = [(row.question, row.right, row.first_right, row.count) for row in predictions()]
    assert rows == [("zebra", True, False, 3), ("ant", True, True, 1)]


# Where it is kept.


def test_the_file_lies_below_the_home_directory_or_where_the_variable_says(home, monkeypatch):
    assert location() == home / ".autograd-control" / "progress.sqlite3"
    assert attempts() == () and not location().parent.exists(), "reading makes no folder"
    attempt(1)
    assert [path.name for path in location().parent.iterdir()] == ["progress.sqlite3"]
    assert progress().notes == ("Stored in ~/.autograd-control/progress.sqlite3.",)
    assert progress(show_location=False).notes == ()
    monkeypatch.setenv(events.VARIABLE, "~/elsewhere.db")
    attempt(1)
    assert location() == home / "elsewhere.db" and location().is_file()
    assert progress().notes == ("Stored in the file that COURSE_UTILS_PROGRESS names.",)


@pytest.mark.parametrize(("name", "value"), [(events.VARIABLE, "OFF"), ("NBGRADER_EXECUTION", "autograde")])
def test_nothing_is_kept_or_read_where_it_is_off_or_nbgrader_grades(home, monkeypatch, name, value):
    attempt(1)
    monkeypatch.setenv(name, value)
    attempt(2)
    assert record_prediction("detach", "q", True) is None and record_hint("detach", "snapshot", 1) is None
    assert location() is None and attempts() == () and predictions() == ()
    assert repr(reset_progress()).startswith("Nothing to reset. Nothing is stored")
    monkeypatch.delenv(name)
    assert [(row.best, row.count) for row in attempts()] == [(1.0, 1)]


def test_what_the_disk_does_not_allow_is_one_line_and_changes_nothing(home, monkeypatch, tmp_path):
    home.rmdir()
    assert "cannot be used (No such file or directory)" in line_of_attempt() and not home.exists()
    (tmp_path / "two\nlines").mkdir()
    monkeypatch.setenv(events.VARIABLE, str(tmp_path / "two\nlines"))
    assert "two lines cannot be used (unable to open database file); mend that, or name another" in line_of_attempt()
    assert "unable to open" in progress().notes[0] and "Nothing was reset. What was stored" in repr(reset_progress())
    made = drill("flags", seed=7)
    assert "This drill is not stored" in repr(
        made.check({question.key: question.answer for question in made.questions})
    )
    (tmp_path / "thesis").write_text("my thesis, named by mistake " * 100)
    monkeypatch.setenv(events.VARIABLE, str(tmp_path / "thesis"))
    assert "file is not a database" in line_of_attempt()
    assert (tmp_path / "thesis").read_text() == "my thesis, named by mistake " * 100
    monkeypatch.setenv(events.VARIABLE, "")
    monkeypatch.setattr(Path, "home", lambda: (_ for _ in ()).throw(RuntimeError("no home")))
    assert line_of_attempt() is None and attempts() == ()
    assert progress().notes == (f"Nothing is stored, because your home directory cannot be found; {events.ELSEWHERE}.",)


def test_a_file_of_a_newer_version_or_of_another_program_is_left_alone(progress_file):
    with closing(sqlite3.connect(progress_file)) as other:
        other.execute("CREATE TABLE bookmarks (url TEXT)")
    before = progress_file.read_bytes()
    assert "is another program's; name another file" in line_of_attempt()
    assert progress_file.read_bytes() == before
    progress_file.unlink()
    attempt(1)
    with closing(sqlite3.connect(progress_file)) as newer:
        newer.execute(f"PRAGMA user_version = {events.SCHEMA_VERSION + 1}")
    before = progress_file.read_bytes()
    assert "was written by a newer version of the course; update it" in line_of_attempt()
    assert attempts() == () and "newer version" in progress().notes[0] and "newer version" in repr(reset_progress())
    assert progress_file.read_bytes() == before


def test_a_file_that_is_held_is_waited_for_and_then_said_so(progress_file, monkeypatch):
    monkeypatch.setattr(events, "WAIT_SECONDS", 0.05)
    attempt(1)
    with closing(sqlite3.connect(progress_file, isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        assert "database is locked" in line_of_attempt() and "database is locked" in progress().notes[0]
        assert "Nothing was reset." in repr(reset_progress())
    attempt(2)
    assert [row.best for row in attempts()] == [2.0]


@pytest.mark.parametrize("number", [1, 2, 3])
def test_a_file_that_another_kernel_makes_meanwhile_is_no_other_program_s(progress_file, monkeypatch, number):
    class Interrupted(sqlite3.Connection):
        """Before its so-and-so-many-th statement somebody else has stored something."""

        statements = 0

        def execute(self, statement, *more):
            self.statements += 1
            if self.statements == number:
                with monkeypatch.context() as another:
                    another.setattr(sqlite3, "connect", genuine)
                    attempt(1)
            return super().execute(statement, *more)

    genuine = sqlite3.connect
    with monkeypatch.context() as here:
        here.setattr(sqlite3, "connect", functools.partial(genuine, factory=Interrupted))
        attempt(2)
    assert attempts()[0].count == 2


# Kernels beside one another, and killed. Without the package's __init__, which may import torch: a second for each.
KERNEL = f"""
import sys, types
package = types.ModuleType("course_utils")
package.__path__ = [{str(ROOT / "course_utils")!r}]
sys.modules["course_utils"] = package
from course_utils.progress.history import record
def store():
    return record("detach", "a", earned=1, possible=2, status="partial")
"""


def kernel(code, path):
    environment = {**os.environ, events.VARIABLE: str(path)}
    return subprocess.Popen([sys.executable, "-c", KERNEL + code], env=environment, text=True, stdout=subprocess.PIPE)


def is_sound(path):
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


@pytest.mark.slow
def test_kernels_that_write_at_once_lose_nothing(progress_file):
    # All begin together with a file that does not exist yet.
    writers = [kernel("print(sum(store() is None for _ in range(20)))", progress_file) for _ in range(3)]
    assert [writer.communicate(timeout=120)[0] for writer in writers] == ["20\n"] * 3
    assert attempts()[0].count == 60 and is_sound(progress_file)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="a kill there is another thing")
def test_a_kernel_killed_at_any_moment_loses_nothing_it_acknowledged(progress_file):
    acknowledged = 0
    for lines in (0, 1, 3, 10):
        writer = kernel('while True:\n    assert store() is None\n    print("stored", flush=True)', progress_file)
        seen = [writer.stdout.readline() for _ in range(lines)]
        writer.kill()
        seen += writer.stdout.readlines()  # `communicate` would miss what `readline` has buffered
        writer.communicate(timeout=60)
        acknowledged += seen.count("stored\n")
        stored = sum(row.count for row in attempts())
        assert acknowledged <= stored <= acknowledged + 1 and is_sound(progress_file)
        acknowledged = stored  # it may have been killed between storing and saying so
    assert acknowledged >= 14


# What earlier editions stored.

FIRST, SECOND = (ROOT / "tests" / "stored" / f"progress_of_the_{one}_edition.sqlite3" for one in ("first", "second"))
# lesson, exercise, last, best, possible, status, attempts, hints
HELD = {
    FIRST: [
        ("detach", "mean_loss", 0.0, 0.0, 0.0, "not attempted", 0, 2),
        ("detach", "snapshot", 0.6, 1.0, 1.0, "partial", 2, 0),
        ("clinic", "run_clinic", 0.0, 0.0, 0.0, "not attempted", 0, 1),
    ],
    SECOND: [
        ("leaf_tensors", "make_weight", 0.0, 0.0, 2.0, "partial", 1, 0),
        ("detach", "mean_loss", 0.0, 0.0, 0.0, "not attempted", 0, 1),
        ("detach", "snapshot", 0.0, 1.0, 1.0, "partial", 4, 0),
        ("clinic", "run_clinic", 5.0, 5.0, 10.0, "partial", 1, 0),
    ],
}
GUESSES = {
    FIRST: {("how many bytes?", True, True, 1), ("how many nodes?", False, False, 1)},
    SECOND: {("how many bytes?", True, False, 2)},
}
TOLD = {FIRST: [], SECOND: [("alias", False), ("x itself", True), ("swapped", True)]}  # and whether it is open


def held():
    rows = [(a.lesson, a.exercise, a.earned, a.best, a.possible, a.status, a.count, a.hints) for a in attempts()]
    guesses = {(row.question, row.right, row.first_right, row.count) for row in predictions()}
    return sorted(rows), guesses, [(row.home.split("/")[-1], row.cleared_at is None) for row in told()]


@pytest.mark.parametrize("stored", [FIRST, SECOND], ids=["first", "second"])
def test_a_progress_file_of_an_earlier_edition_opens_with_everything_in_it_and_goes_on(progress_file, stored):
    shutil.copy(stored, progress_file)
    assert held() == (sorted(HELD[stored]), GUESSES[stored], TOLD[stored])
    assert progress().next == ("clinic", "diagnosis"), "which was worked on last"
    assert progress_file.read_bytes() == stored.read_bytes(), "reading changes nothing"
    attempt(1, "evaluate", 2, "no_grad")
    rows, *others = held()
    new = ("no_grad", "evaluate", 1.0, 1.0, 2.0, "partial", 1, 0)
    assert rows == sorted([*HELD[stored], new]) and others == [GUESSES[stored], TOLD[stored]]
    with closing(sqlite3.connect(progress_file)) as file:  # an edition that still runs refuses it as newer
        assert file.execute("PRAGMA user_version").fetchone() == (events.SCHEMA_VERSION,) > (1,)
    attempt(1, "snapshot", 1)
    assert not any(row.cleared_at is None for row in told() if row.exercise == "snapshot"), "it clears what was told"
    reset_progress("detach")
    assert "detach" not in {row.lesson for row in attempts()}


# The whole course.


def test_progress_adds_up_the_best_attempts_and_first_guesses():
    assert [(row.name, row.earned, row.state) for row in progress().rows] == [
        (i.name, 0.0, "not begun") for i in LESSONS
    ]
    record_hint("clinic", "run_clinic", 1)
    attempt(0, "freeze", 2, "requires_grad", "error")
    for earned, exercise, possible in ((1, "snapshot", 1), (1.5, "predicted_edit", 2), (0.5, "predicted_edit", 2)):
        attempt(earned, exercise, possible)
    for question, right in (("first", True), ("first", False), ("second", False), ("second", True)):
        record_prediction("detach", question, right)
    assert {row.name for row in progress().rows if row.begun} == {"detach", "requires_grad"}, "a hint begins nothing"
    (row,) = [row for row in progress().rows if row.name == "detach"]
    assert (row.earned, row.possible) == (2.5, find("detach").points)
    assert (row.predictions_right, row.predictions_asked) == (1, 2)
    assert f"Your progress: 2.5 of {sum(info.points for info in LESSONS)} points, 2 of" in repr(progress())
    attempt(30, "of an older version", 30)
    attempt(3, "truncated_bptt", 6)  # an earlier edition gave 6 points, this one 3
    (row,) = [row for row in progress().rows if row.name == "detach"]
    assert row.earned == Lesson("detach").scorecard().earned == 4, "a share stays, and what is gone counts no more"
    for name, points in find("detach").exercises.items():
        attempt(points, name, points)
    assert next(row.state for row in progress().rows if row.name == "detach") == "full marks"
    assert all(escape(info.question) in progress()._repr_html_() for info in LESSONS)


def test_next_is_the_nearest_open_exercise_from_where_the_learner_is():
    for info in LESSONS:
        exercises = importlib.import_module(f"course_utils.lessons.{info.name}").EXERCISES
        assert list(info.exercises.items()) == [(one.name, one.points) for one in exercises]
    attempt(0, "double", 0, "start_here", "partial")
    assert progress().next == ("start_here", "double"), "an exercise without points is open until it passes"
    attempt(0, "double", 0, "start_here", "passed")
    assert progress().next == ("requires_grad", next(iter(find("requires_grad").exercises)))
    attempt(1, "snapshot", 1)
    attempt(1.5, "mean_loss", 2)
    shown = " ".join(repr(progress()).split())
    assert "next predicted_edit, in lesson 03" in shown and "lesson 02" not in shown
    assert f"lesson 03 open: {', '.join(find('detach').exercises)}".replace("snapshot, ", "") in shown
    record_hint("clinic", "run_clinic", 1)
    assert progress().next == ("clinic", "diagnosis"), "a hint says where the learner is"
    for info in LESSONS:
        for exercise, points in info.exercises.items():
            attempt(points, exercise, points, info.name, "passed")
    assert progress().next is None and "next  every exercise is solved" in repr(progress())
    reset_progress()
    assert progress().next == ("start_here", "double")


@pytest.mark.parametrize(
    ("written", "said"), [(STUB, "open"), ("  \n", "open"), ("It shares memory.", "answered"), (None, "")]
)
def test_the_written_question_is_read_from_the_notebook_beside_the_kernel(tmp_path, monkeypatch, written, said):
    assert re.search(r"text_stub = \"(.*)\"", (COURSE / "nbgrader_config.py").read_text("utf-8"))[1] == STUB
    monkeypatch.chdir(tmp_path)
    attempt(1, "snapshot", 1)
    assert "written" not in repr(progress()), "without a notebook nothing is known"
    notebook = json.loads((COURSE / "notebooks" / "03_detach.ipynb").read_text("utf-8"))
    (cell,) = (cell for cell in notebook["cells"] if cell["id"] == "written")
    cell["source"] = written
    (tmp_path / "03_detach.ipynb").write_text(json.dumps(notebook) if said else '{"cells": 3}')
    assert ("written question" in repr(progress())) == bool(said)
    assert not said or f"written question {said}" in " ".join(repr(progress()).split())


def test_drills_count_the_first_answer_to_each_key_and_go_with_the_course_alone():
    for level, seed, held in ((1, 7, {"a": True}), (1, "7", {"a": False, "b": False}), (2, 7, {"a": False})):
        record_drill("flags", level, seed, held)
    shown = repr(progress())
    assert "drill flags, level 1  1 of 2 right" in shown and "drill flags, level 2  0 of 1 right" in shown
    attempt(1, "snapshot", 1)
    reset_progress("detach")
    assert len(progress().drills) == 2
    assert reset_progress().backup is not None and progress().drills == {}


# Beginning again.


@pytest.mark.parametrize(
    ("asked", "said", "left"),
    [
        (("detach", "snapshot"), "detach snapshot", ["freeze", "mean_loss", "which?"]),
        (("detach",), "detach", ["freeze"]),
        ((), "the course", []),
    ],
)
def test_a_reset_takes_what_was_asked_and_keeps_a_copy_of_everything(progress_file, asked, said, left):
    attempt(1, "snapshot", 1)
    attempt(2, "mean_loss", 2)
    attempt(2, "freeze", 2, lesson="requires_grad")
    record_prediction("detach", "which?", True)
    before = events.read(progress_file)
    nothing = reset_progress("start_here")
    assert repr(nothing) == "Nothing to reset: nothing is stored for start_here." and nothing.backup is None
    done = reset_progress(*asked)
    assert repr(done) == f"Reset: {said} begins again. What was there is kept in a dated copy beside the file."
    assert sorted([row.exercise for row in attempts()] + [row.question for row in predictions()]) == left
    assert done.backup.parent == progress_file.parent and events.read(done.backup) == before
    again = reset_progress(*asked)
    assert again.backup is None, "nothing is left to take"
    done.backup.replace(progress_file)
    assert events.read(progress_file) == before, "a copy can be put back"


def test_what_cannot_be_reset_is_refused_with_what_can():
    with pytest.raises(ValueError, match=r'Try: reset_progress\("detach", \'snapshot\'\)'):
        reset_progress(exercise="snapshot")
    with pytest.raises(ValueError, match=r"start_here, .*detach"):
        reset_progress("detatch")
    attempt(1, lesson="no longer taught")
    assert reset_progress("no longer taught").backup is not None and attempts() == ()


# Misconceptions.


def names(is_open):
    return [one.name for one in progress().misconceptions if one.is_open == is_open]


def test_a_wrong_answer_opens_what_a_right_one_clears():
    lesson = Lesson("detach")
    lesson.check("snapshot", lambda x: x.detach())
    lesson.check("snapshot", lambda x: x.detach())
    assert names(is_open=True) == [COPY] and "Cleared up" not in repr(progress())
    lesson.check("snapshot", lambda x: torch.zeros(0))
    assert ALIAS in {row.home for row in told() if row.cleared_at is None}, "in which the claim was never reached"
    lesson.check("snapshot", lambda x: x.detach().clone())
    row = next(row for row in told() if row.home == ALIAS)
    assert row.count == 2 and row.first_at < row.last_at < row.cleared_at and COPY in names(is_open=False)
    shown, html = repr(progress()), progress()._repr_html_()
    assert "Cleared up (" in shown and "03_detach" in shown and 'href="03_detach.ipynb#' in html and COPY in html
    lesson.check("snapshot", lambda x: x.detach())
    assert names(is_open=True) == [COPY]
    reset_progress("detach", "snapshot")
    assert told() == ()


def test_what_passes_clears_all_of_its_exercise_whatever_the_claim_is_called_now():
    claim = {"told": [Showing(ALIAS, "in other words", COPY, "03_detach", "A heading")], "held": ()}
    attempt(0, "snapshot", 1, **claim)
    attempt(0, "mean_loss", 1, **claim)
    attempt(1, "snapshot", 1, held=["shares no memory with x"])
    assert {row.exercise: row.cleared_at is not None for row in told()} == {"snapshot": True, "mean_loss": False}
    assert names(is_open=True) == [COPY], "once, and open while one exercise is"
    (row,) = progress().misconceptions
    shown = repr(replace(progress(), misconceptions=tuple(replace(row, name=f"mistake {n}") for n in range(15))))
    assert "Still open (15)" in shown and "mistake 11" in shown and "mistake 12" not in shown and "and 3 told" in shown


def topics_of(*lessons):
    return {name for name, table in TOPICS.items() if not {*table.lessons}.isdisjoint(lessons)}


def test_a_drill_asks_about_what_is_open_then_about_what_was_cleared_longest_ago():
    assert drill().because == ""
    Lesson("detach").check("snapshot", lambda x: x.detach())
    Lesson("leaf_tensors").check("make_weight", lambda rows, columns: torch.zeros(rows, columns))
    made = drill()
    assert made.topic in topics_of("detach", "leaf_tensors", "requires_grad") and "is still open" in repr(made)
    attempt(2, "make_weight", 2, "leaf_tensors", held=["all"])
    assert {drill().topic for _ in range(3)} <= topics_of("detach")
    attempt(1, "snapshot", 1, held=["all"])
    assert {drill().topic for _ in range(3)} <= topics_of("leaf_tensors", "requires_grad")
    assert "longest ago" in drill().because
    assert drill("hooks").because == ""
