import importlib
import json
import re
import sqlite3
import threading
from contextlib import closing
from pathlib import Path

import pytest

from course_utils.base.markup import escape
from course_utils.catalogue import COURSE, LESSONS, find
from course_utils.drills import drill
from course_utils.progress import place, store
from course_utils.progress.events import Drilled, History
from course_utils.progress.history import (
    attempts,
    location,
    predictions,
    progress,
    record,
    record_drill,
    record_hint,
    record_prediction,
    reset_progress,
)
from course_utils.progress.written import STUB, is_answered


def attempt(earned, exercise="snapshot", possible=2, lesson="detach", status=None):
    """Stores an attempt and insists that it was stored."""
    status = status or ("passed" if earned == possible else "partial")
    assert record(lesson, exercise, earned=earned, possible=possible, status=status) is None


@pytest.fixture
def home(tmp_path, monkeypatch):
    """A home directory of its own, with nothing chosen by the environment."""
    folder = tmp_path / "home"
    folder.mkdir()
    monkeypatch.delenv(place.VARIABLE)
    monkeypatch.delenv("NBGRADER_EXECUTION", raising=False)
    monkeypatch.setenv("HOME", str(folder))
    monkeypatch.setenv("USERPROFILE", str(folder))  # what Windows calls it
    return folder


# What is kept


def test_an_attempt_is_kept_with_its_best_and_its_last_result():
    attempt(1)
    attempt(2)
    attempt(0.5)
    (row,) = attempts("detach")
    assert (row.lesson, row.exercise) == ("detach", "snapshot")
    assert (row.earned, row.best, row.possible, row.status, row.count, row.hints) == (0.5, 2.0, 2.0, "partial", 3, 0)


def test_exercises_of_the_same_name_in_two_lessons_are_two():
    attempt(1, lesson="zebra")
    attempt(2, lesson="detach")
    attempt(3, lesson="ant", possible=3)
    # The lessons of the course in its order, then any others by name.
    assert [(row.lesson, row.best) for row in attempts()] == [("detach", 2.0), ("ant", 3.0), ("zebra", 1.0)]
    assert [row.best for row in attempts("zebra")] == [1.0]


def test_what_was_not_attempted_changes_nothing(progress_file):
    assert record("detach", "snapshot", earned=0, possible=2, status="not attempted") is None
    assert not progress_file.exists()
    attempt(2)
    assert record("detach", "snapshot", earned=0, possible=2, status="not attempted") is None
    (row,) = attempts()
    assert (row.status, row.count) == ("passed", 1)


@pytest.mark.parametrize(
    ("before", "after", "best"),
    [
        ((1, 2), (0, 4), 2.0),  # half of the points stays half of the points
        ((1, 2), (3, 4), 3.0),
        ((3, 3), (0, 1), 1.0),
        ((0.1, 3), (0, 3), 0.1),  # exactly, not 0.1 * 3 / 3
        ((0, 0), (1, 2), 1.0),
    ],
)
def test_the_best_keeps_its_share_when_an_exercise_changes_its_points(before, after, best):
    for earned, possible in (before, after):
        attempt(earned, possible=possible, status="partial")
    (row,) = attempts()
    assert (row.best, row.possible) == (best, after[1])


@pytest.mark.parametrize("earned", [-0.1, 2.1, float("nan"), float("inf")])
def test_impossible_points_are_refused_and_not_stored(earned):
    with pytest.raises(ValueError, match="0 <= earned <= possible"):
        record("detach", "snapshot", earned=earned, possible=2, status="partial")
    assert attempts() == ()


def test_an_unknown_status_is_refused():
    with pytest.raises(ValueError, match="passed, partial, not attempted or error"):
        record("detach", "snapshot", earned=1, possible=2, status="done")


def test_hints_count_how_many_were_seen_not_how_often():
    for number in (1, 2, 1):
        assert record_hint("detach", "snapshot", number) is None
    (row,) = attempts()
    assert (row.hints, row.count, row.status) == (2, 0, "not attempted")
    attempt(1)
    (row,) = attempts()
    assert (row.hints, row.count, row.best, row.status) == (2, 1, 1.0, "partial")


def test_a_prediction_keeps_its_first_and_its_last_guess():
    for right in (False, True, True):
        assert record_prediction("detach", "which flags are up?", right) is None
    (row,) = predictions("detach")
    assert (row.question, row.right, row.first_right, row.count) == ("which flags are up?", True, False, 3)


def test_predictions_come_in_the_order_in_which_they_were_made():
    for question in ("zebra", "ant", "mole", "zebra"):
        record_prediction("detach", question, True)
    assert [row.question for row in predictions()] == ["zebra", "ant", "mole"]


def test_names_with_quotes_and_newlines_are_kept_as_they_are():
    name = 'it\'s "x"; DROP TABLE event; --\n\x00é漢\ud800'
    attempt(1, exercise=name)
    assert [row.exercise for row in attempts()] == [name]


def test_threads_of_one_kernel_lose_no_attempt():
    def work(name):
        for _ in range(20):
            attempt(1, exercise=name)

    threads = [threading.Thread(target=work, args=(name,)) for name in ("a", "b", "a")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [(row.exercise, row.count) for row in attempts()] == [("a", 40), ("b", 20)]


# Where it is kept


def test_the_file_lies_below_the_home_directory(home):
    assert location() == home / ".autograd-control" / "progress.sqlite3"
    assert attempts() == () and not location().parent.exists(), "reading makes no folder"
    attempt(1)
    assert location().is_file()
    assert [path.name for path in location().parent.iterdir()] == ["progress.sqlite3"], "and nothing beside it"


def test_the_variable_names_another_file(home, monkeypatch):
    monkeypatch.setenv(place.VARIABLE, "~/elsewhere.db")
    attempt(1)
    assert location() == home / "elsewhere.db"
    assert location().is_file() and not (home / ".autograd-control").exists()


@pytest.mark.parametrize(
    ("name", "value"), [(place.VARIABLE, "off"), (place.VARIABLE, "OFF"), ("NBGRADER_EXECUTION", "autograde")]
)
def test_nothing_is_kept_or_read_where_it_is_off_or_nbgrader_grades(home, monkeypatch, name, value):
    attempt(1)
    monkeypatch.setenv(name, value)
    assert location() is None
    attempt(2)
    assert record_prediction("detach", "q", True) is None and record_hint("detach", "snapshot", 1) is None
    assert attempts() == () and predictions() == ()
    assert all(not row.begun for row in progress().rows)
    assert repr(reset_progress()).startswith("Nothing to reset. Nothing is stored")
    monkeypatch.delenv(name)
    assert [(row.best, row.count) for row in attempts()] == [(1.0, 1)]


def test_without_a_home_directory_the_line_says_so(monkeypatch):
    monkeypatch.delenv(place.VARIABLE)

    def no_home():
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", no_home)
    line = record("detach", "snapshot", earned=1, possible=1, status="passed")
    assert line == f"This attempt is not stored: your home directory cannot be found; {place.ELSEWHERE}."
    assert location() is None and attempts() == ()
    assert "cannot be found" in progress().notes[0]


def test_a_missing_home_directory_is_not_made(home):
    home.rmdir()
    line = record("detach", "snapshot", earned=1, possible=1, status="passed")
    assert line.startswith("This attempt is not stored: the folder of ~/.autograd-control/progress.sqlite3 cannot be")
    assert not home.exists()


def test_a_python_without_sqlite_says_so(monkeypatch):
    monkeypatch.setitem(importlib.sys.modules, "sqlite3", None)  # the import statement then raises ImportError
    line = record("detach", "snapshot", earned=1, possible=1, status="passed")
    assert "needs the module sqlite3" in line and "\n" not in line
    assert attempts() == ()


# The whole course


def test_progress_has_a_row_for_every_lesson_of_the_course():
    rows = progress().rows
    assert [row.name for row in rows] == [info.name for info in LESSONS]
    assert all((row.earned, row.state) == (0.0, "not begun") for row in rows)


def test_progress_adds_up_the_best_attempts_and_counts_predictions():
    attempt(1, "snapshot", 1)
    attempt(1.5, "predicted_edit", 2)
    attempt(0.5, "predicted_edit", 2)
    for question, right in (("first", True), ("first", False), ("second", False), ("second", True)):
        record_prediction("detach", question, right)
    (row,) = [row for row in progress().rows if row.name == "detach"]
    assert (row.earned, row.possible, row.state) == (2.5, find("detach").points, "begun")
    assert row.share == 2.5 / find("detach").points
    assert (row.predictions_right, row.predictions_asked) == (1, 2)
    assert progress().earned == 2.5


def test_full_marks_are_called_so_and_never_exceed_the_lesson():
    attempt(10, "a", 10)
    attempt(3, "of an older version", 3)
    (row,) = [row for row in progress().rows if row.name == "detach"]
    assert (row.earned, row.share, row.state) == (10.0, 1.0, "full marks")


def test_an_attempt_without_points_has_begun_the_lesson_and_a_hint_has_not():
    record_hint("detach", "snapshot", 1)
    assert {row.state for row in progress().rows} == {"not begun"}
    attempt(0, status="error")
    assert {row.name for row in progress().rows if row.state == "begun"} == {"detach"}


def test_where_it_is_stored_reads_the_same_for_everybody(home, monkeypatch, tmp_path):
    assert progress().notes == ("Stored in ~/.autograd-control/progress.sqlite3.",)
    assert progress(show_location=False).notes == ()
    monkeypatch.setenv(place.VARIABLE, str(tmp_path / "mine.sqlite3"))
    assert progress().notes == ("Stored in the file that COURSE_UTILS_PROGRESS names.",)
    monkeypatch.setenv(place.VARIABLE, "off")
    assert progress().notes == ("Nothing is stored, because COURSE_UTILS_PROGRESS is off.",)
    monkeypatch.setenv("NBGRADER_EXECUTION", "autograde")
    assert progress().notes == ("Nothing is stored while nbgrader runs a notebook.",)


def test_progress_shows_itself_as_text_and_as_html():
    attempt(1, "snapshot", 1)
    total = sum(info.points for info in LESSONS)
    assert f"Your progress: 1 of {total} points, 1 of" in repr(progress())
    html = progress()._repr_html_()
    assert f"Your progress: 1 of {total} points, 1 of" in html
    assert all(escape(info.question) in html for info in LESSONS), "the map names the question of each lesson"


# What is open


def solve(*lessons):
    for lesson in lessons:
        for exercise, points in find(lesson).exercises.items():
            attempt(points, exercise, points, lesson, "passed")


def test_the_exercises_of_the_map_are_those_of_the_lessons():
    for info in LESSONS:
        exercises = importlib.import_module(f"course_utils.lessons.{info.name}").EXERCISES
        assert list(info.exercises.items()) == [(one.name, one.points) for one in exercises]
        assert sum(info.exercises.values()) == info.points


def test_next_is_the_nearest_open_exercise_from_where_the_learner_is():
    assert progress().next == ("start_here", "double")
    attempt(0, "double", 0, "start_here", "partial")
    assert progress().next == ("start_here", "double"), "an exercise without points is open until it passes"
    attempt(0, "double", 0, "start_here", "passed")
    attempt(0, "double", 0, "start_here", "partial")  # a wrong answer, tried afterwards to see its card
    assert progress().next == ("requires_grad", next(iter(find("requires_grad").exercises)))
    attempt(1, "snapshot", 1)
    assert progress().next == ("detach", "predicted_edit")
    record_hint("clinic", "run_clinic", 1)
    assert progress().next == ("clinic", "diagnosis"), "a hint says where the learner is"
    solve(*(info.name for info in LESSONS[find("clinic").number :]))
    assert progress().next[0] == "requires_grad", "and after the last lesson the first one that is open"
    reset_progress("detach", "snapshot")
    assert progress().next == ("detach", "snapshot")
    solve(*(info.name for info in LESSONS))
    assert progress().next is None and "next  every exercise is solved" in repr(progress())
    reset_progress()
    assert progress().next == ("start_here", "double")


def test_the_open_exercises_of_lessons_that_are_begun_are_named():
    attempt(1, "snapshot", 1)
    attempt(1.5, "mean_loss", 2)
    shown = " ".join(repr(progress()).split())
    assert "next predicted_edit, in lesson 03" in shown
    assert "lesson 03 open: predicted_edit, mean_loss, truncated_bptt, stop_gradient_round" in shown
    assert "lesson 02" not in shown
    assert "open: predicted_edit, mean_loss" in progress()._repr_html_()


@pytest.mark.parametrize(("written", "said"), [(None, "open"), ("  \n", "open"), ("It shares memory.", "answered")])
def test_the_written_question_is_read_from_the_notebook_beside_the_kernel(tmp_path, monkeypatch, written, said):
    monkeypatch.chdir(tmp_path)
    attempt(1, "snapshot", 1)
    assert "written" not in repr(progress()), "without a notebook nothing is known"
    notebook = json.loads((COURSE / "notebooks" / "03_detach.ipynb").read_text("utf-8"))
    (cell,) = (cell for cell in notebook["cells"] if cell["id"] == "written")
    if written is not None:
        cell["source"] = written
    (tmp_path / "03_detach.ipynb").write_text(json.dumps(notebook))
    assert f"written question {said}" in " ".join(repr(progress()).split())
    solve("detach")
    assert f"lesson 03 written question {said}" in " ".join(repr(progress()).split())


@pytest.mark.parametrize("content", ["", "[]", '{"cells": 3}', '{"cells": [{"cell_type": "markdown"}]}', "\xff"])
def test_a_notebook_that_is_none_says_nothing_of_the_written_question(tmp_path, monkeypatch, content):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "03_detach.ipynb").write_text(content, encoding="latin-1")
    assert is_answered("03_detach") is None


def test_the_stub_of_a_written_question_is_what_nbgrader_leaves():
    settings = (COURSE / "nbgrader_config.py").read_text("utf-8")
    assert re.search(r"text_stub = \"(.*)\"", settings)[1] == STUB


# Drills


def test_drills_count_the_first_answer_to_each_key_by_topic_and_level():
    record_drill("flags", 1, 7, {"a": True})
    record_drill("flags", 1, "7", {"a": False, "b": False})  # the same program
    record_drill("flags", 1, 8, {"a": True})
    record_drill("flags", 2, 7, {"a": False})
    assert progress().drills == (Drilled("flags", 1, 2, 3), Drilled("flags", 2, 0, 1))
    shown = repr(progress())
    assert "drill flags, level 1  2 of 3 right" in shown and "drill flags, level 2  0 of 1 right" in shown
    assert "2 of 3 right" in progress()._repr_html_()
    assert progress().next == ("start_here", "double")
    store.append(location(), "drill", {"topic": "flags", "level": 1, "seed": "9", "held": 3})
    assert len(progress().drills) == 2 and progress().notes[-1].endswith("damaged there: 1 event.")


def test_a_drill_that_is_checked_leaves_a_trace_and_a_stub_none(progress_file):
    made = drill("flags", seed=7)
    found = {question.key: question.answer for question in made.program.questions}
    made.check(dict.fromkeys(found, ...))
    assert not progress_file.exists()
    key, *others = found
    made.check({key: not found[key]})
    made.check(found)
    assert progress().drills == (Drilled("flags", 1, len(others), len(found)),)


def test_a_drill_that_cannot_be_stored_says_so_on_its_card(progress_file):
    progress_file.mkdir()
    made = drill("flags", seed=7)
    score = made.check({question.key: question.answer for question in made.program.questions})
    assert score.status == "passed" and "This drill is not stored" in repr(score)


def test_drills_stay_when_a_lesson_is_reset_and_go_with_the_course():
    record_drill("edits", 1, 7, {"a": True})
    assert "Nothing to reset" in repr(reset_progress("detach"))
    attempt(1, "snapshot", 1)
    reset_progress("detach")
    assert progress().drills == (Drilled("edits", 1, 1, 1),)
    assert reset_progress().backup is not None and progress().drills == ()


# Beginning again


def rows_of(path):
    return History(store.read(path)).attempts() + History(store.read(path)).predictions()


@pytest.fixture
def begun(progress_file):
    attempt(1, "snapshot", 1)
    attempt(2, "mean_loss", 2)
    attempt(2, "freeze", 2, lesson="requires_grad")
    record_prediction("detach", "which?", True)
    return rows_of(progress_file)


@pytest.mark.parametrize(
    ("asked", "said", "left"),
    [
        (("detach", "snapshot"), "detach snapshot", ["mean_loss", "freeze", "which?"]),
        (("detach",), "detach", ["freeze"]),
        ((), "the course", []),
    ],
)
def test_a_reset_takes_what_was_asked_and_keeps_a_copy_of_everything(begun, progress_file, asked, said, left):
    done = reset_progress(*asked)
    assert repr(done) == f"Reset: {said} begins again. What was there is kept in a dated copy beside the file."
    assert sorted([row.exercise for row in attempts()] + [row.question for row in predictions()]) == sorted(left)
    assert done.backup.parent == progress_file.parent
    assert rows_of(done.backup) == begun


def test_a_copy_can_be_put_back(begun, progress_file):
    reset_progress().backup.replace(progress_file)
    assert rows_of(progress_file) == begun
    attempt(1)
    assert progress().earned > 0


def test_resets_in_one_second_keep_a_copy_each(progress_file):
    copies = set()
    for best in (1, 2, 0.5):
        attempt(best)
        copies.add(reset_progress().backup)
    assert sorted(row.best for copy in copies for row in rows_of(copy)) == [0.5, 1, 2]


def test_a_reset_of_nothing_leaves_no_copy_behind(begun, progress_file):
    for asked in (("detach", "no such exercise"), ("start_here",)):
        done = reset_progress(*asked)
        assert repr(done) == f"Nothing to reset: nothing is stored for {' '.join(asked)}." and done.backup is None
    assert list(progress_file.parent.glob("progress*")) == [progress_file]
    assert rows_of(progress_file) == begun


def test_a_reset_that_fails_changes_nothing_and_leaves_no_copy(begun, progress_file, monkeypatch):
    monkeypatch.setattr(store, "WAIT_SECONDS", 0.05)
    with closing(sqlite3.connect(progress_file, isolation_level=None)) as other:
        other.execute("BEGIN")
        other.execute("SELECT * FROM event").fetchone()  # a reader keeps writers out for as long as it reads
        done = reset_progress()
    assert done.text.startswith("Nothing was reset: another program is holding") and done.backup is None
    assert list(progress_file.parent.glob("progress*")) == [progress_file]
    assert rows_of(progress_file) == begun


def test_an_exercise_without_its_lesson_is_refused():
    with pytest.raises(ValueError, match=r'Try: reset_progress\("detach", \'snapshot\'\)'):
        reset_progress(exercise="snapshot")


def test_a_lesson_that_does_not_exist_is_refused_with_those_that_do():
    with pytest.raises(ValueError, match=r"start_here, .*detach"):
        reset_progress("detatch")


def test_a_lesson_of_another_version_of_the_course_can_be_reset():
    attempt(1, lesson="no longer taught")
    assert reset_progress("no longer taught").backup is not None
    assert attempts() == ()


# Files that cannot be used


def line_of_attempt():
    line = record("detach", "snapshot", earned=1, possible=1, status="passed")
    assert line is None or ("\n" not in line and line.startswith("This attempt is not stored: ") and line.endswith("."))
    return line


def test_a_folder_in_its_place_is_left_alone(progress_file):
    progress_file.mkdir()
    assert "is a folder or a device; name another file" in line_of_attempt()
    assert "is a folder or a device" in progress().notes[0]
    assert "is a folder or a device" in repr(reset_progress())
    assert list(progress_file.iterdir()) == []


def test_a_file_where_the_folder_should_be_is_left_alone(tmp_path, monkeypatch):
    (tmp_path / "folder").write_text("mine")
    monkeypatch.setenv(place.VARIABLE, str(tmp_path / "folder" / "progress.sqlite3"))
    assert "the folder of" in line_of_attempt() and "cannot be used (" in line_of_attempt()
    assert (tmp_path / "folder").read_text() == "mine"


def test_the_line_stays_one_line_whatever_the_path(tmp_path, monkeypatch):
    (tmp_path / "two\nlines").mkdir()
    monkeypatch.setenv(place.VARIABLE, str(tmp_path / "two\nlines"))
    assert "two lines is a folder" in line_of_attempt()


def test_a_file_of_a_newer_version_is_neither_written_nor_destroyed(progress_file):
    attempt(1)
    with closing(sqlite3.connect(progress_file)) as newer:
        newer.execute("ALTER TABLE event ADD COLUMN seconds REAL")
        newer.execute(f"PRAGMA user_version = {store.SCHEMA_VERSION + 1}")
    before = progress_file.read_bytes()
    assert "was written by a newer version of the course; update the course, or name another file" in line_of_attempt()
    assert attempts() == () and "newer version" in progress().notes[0]
    assert "newer version" in repr(reset_progress()) and "newer version" in repr(reset_progress("detach"))
    assert progress_file.read_bytes() == before
    assert list(progress_file.parent.glob("progress*")) == [progress_file]


def test_another_programs_database_is_left_alone(progress_file):
    with closing(sqlite3.connect(progress_file)) as other:
        other.execute("CREATE TABLE bookmarks (url TEXT)")
    before = progress_file.read_bytes()
    assert "is another program's database; name another file" in line_of_attempt()
    assert "Nothing was reset." in repr(reset_progress())
    assert progress_file.read_bytes() == before


def test_a_file_that_is_no_database_is_left_alone(progress_file):
    progress_file.write_text("my thesis, named by mistake " * 100)
    before = progress_file.read_bytes()
    assert "is no progress file and is left as it is; name another file" in line_of_attempt()
    assert "Nothing was reset." in repr(reset_progress())
    assert progress_file.read_bytes() == before
    assert list(progress_file.parent.glob("progress*")) == [progress_file]


def test_an_empty_file_is_a_new_one(progress_file):
    progress_file.touch()
    assert attempts() == () and progress(show_location=False).notes == ()
    attempt(1)
    assert len(attempts()) == 1


def damage_the_end(content):
    return content[: len(content) // 2]


def damage_the_middle(content):
    return content[:100] + b"\xff" * (len(content) - 100)


@pytest.mark.parametrize("damage", [damage_the_end, damage_the_middle])
def test_a_damaged_file_is_kept_until_the_learner_asks_for_a_new_one(progress_file, damage):
    attempt(1)
    progress_file.write_bytes(damage(progress_file.read_bytes()))
    before = progress_file.read_bytes()
    line = line_of_attempt()
    assert "is damaged; course_utils.reset_progress() keeps it under another name and begins a new file" in line
    assert attempts() == () and "is damaged" in progress().notes[0]
    assert "is damaged" in repr(reset_progress("detach")), "one lesson's reset must not put the others aside"
    assert progress_file.read_bytes() == before

    done = reset_progress()
    assert repr(done) == ("Reset: the course begins again. The damaged file is kept under a dated name beside it.")
    assert done.backup.read_bytes() == before and not progress_file.exists()
    attempt(2)
    assert [row.best for row in attempts()] == [2.0]


def test_a_damaged_file_that_cannot_be_renamed_stays_and_is_said_so(home, monkeypatch):
    location().parent.mkdir()
    location().write_bytes(b"\xff" * 5000)

    def refuse(source, target):
        raise PermissionError(13, "in use by another program")  # as Windows does for an open file

    monkeypatch.setattr(store.os, "replace", refuse)
    assert reset_progress().text.startswith(
        "Nothing was reset: ~/.autograd-control/progress.sqlite3 may not be written"
    )
    assert list(location().parent.iterdir()) == [location()]


def test_garbage_in_our_own_folder_counts_as_damage(home):
    location().parent.mkdir()
    location().write_bytes(bytes(range(256)) * 8)
    assert "~/.autograd-control/progress.sqlite3 is damaged" in line_of_attempt()
    assert reset_progress().backup.read_bytes() == bytes(range(256)) * 8
    attempt(1)


def test_no_journal_of_a_damaged_file_is_left_for_the_new_one(home):
    location().parent.mkdir()
    location().write_bytes(b"\xff" * 5000)
    Path(f"{location()}-journal").write_bytes(b"half a journal")
    done = reset_progress()
    assert [path.name for path in location().parent.iterdir()] == [done.backup.name]


def test_a_file_held_by_another_program_delays_a_check_by_less_than_two_seconds(progress_file, monkeypatch):
    assert store.WAIT_SECONDS < 2
    monkeypatch.setattr(store, "WAIT_SECONDS", 0.05)
    attempt(1)
    with closing(sqlite3.connect(progress_file, isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        assert "another program is holding" in line_of_attempt()
        assert "another program is holding" in progress().notes[0]
    attempt(2)
    assert [row.best for row in attempts()] == [2.0]


def test_a_reader_keeps_a_writer_out_once_and_not_twice(progress_file, monkeypatch):
    # Under BEGIN IMMEDIATE the wait would come again at COMMIT, after the row had seemed to be written.
    monkeypatch.setattr(store, "WAIT_SECONDS", 0.05)
    attempt(1)
    with closing(sqlite3.connect(progress_file, isolation_level=None)) as other:
        other.execute("BEGIN")
        other.execute("SELECT * FROM event").fetchone()
        with pytest.raises(place.Unusable, match="holding"), store._transaction(progress_file, writing=True):
            pytest.fail("the transaction began while a reader could still stop its end")
