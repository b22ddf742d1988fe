"""What earlier editions stored on a learner's disk is read by this one, and goes on from there."""

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from course_utils import Lesson, progress, reset_progress
from course_utils.progress import store
from course_utils.progress.history import Showing, attempts, predictions, record, told

STORED = Path(__file__).parent / "stored"
FIRST, SECOND = STORED / "progress_of_the_first_edition.sqlite3", STORED / "progress_of_the_second_edition.sqlite3"
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
    return rows, guesses, [(row.home.split("/")[-1], row.cleared_at is None) for row in told()]


def tables(path):
    with closing(sqlite3.connect(path)) as file:
        names = [name for (name,) in file.execute("SELECT name FROM sqlite_master WHERE name != 'event'")]
        return {name: file.execute(f"SELECT * FROM {name}").fetchall() for name in names}


@pytest.mark.parametrize("stored", [FIRST, SECOND], ids=["first", "second"])
def test_a_progress_file_of_an_earlier_edition_opens_with_everything_in_it(progress_file, stored):
    shutil.copy(stored, progress_file)
    assert held() == (HELD[stored], GUESSES[stored], TOLD[stored])
    assert progress().next == ("clinic", "diagnosis"), "which was worked on last"
    assert progress_file.read_bytes() == stored.read_bytes(), "reading changes nothing"
    record("no_grad", "evaluate", earned=1, possible=2, status="partial")
    rows, *others = held()
    assert sorted(rows) == sorted(
        [*HELD[stored], ("no_grad", "evaluate", 1.0, 1.0, 2.0, "partial", 1, 0)]
    ) and others == [GUESSES[stored], TOLD[stored]], "nor does what is stored next"
    assert tables(progress_file) == tables(stored), "and its own rows stay in it"


def test_an_earlier_edition_that_still_runs_writes_no_more_where_nobody_reads(progress_file):
    shutil.copy(SECOND, progress_file)
    record("detach", "snapshot", earned=1, possible=1, status="passed")
    with closing(sqlite3.connect(progress_file)) as file:
        assert file.execute("PRAGMA user_version").fetchone() == (store.SCHEMA_VERSION,) > (1,)


def test_it_goes_on_from_there(progress_file):
    shutil.copy(FIRST, progress_file)
    lesson = Lesson("detach")
    lesson.check("snapshot", lambda x: x.detach())
    assert [attempt.count for attempt in attempts("detach")] == [0, 3]
    assert [row.earned for row in lesson.scorecard().rows][:2] == [1.0, 0.0]
    reset_progress("detach")
    assert [attempt.lesson for attempt in attempts()] == ["clinic"]


def test_what_an_earlier_edition_told_is_cleared_up_by_this_one(progress_file):
    shutil.copy(SECOND, progress_file)
    record("detach", "snapshot", earned=1, possible=1, status="passed")
    assert [row.name for row in told() if row.cleared_at is None] == ["A weight has the shape (fan_in, fan_out)"]


def test_points_of_an_exercise_that_was_worth_more_are_the_same_share_of_what_it_is_worth_now(progress_file):
    record("clinic", "run_clinic", earned=5, possible=10, status="partial")
    assert Lesson("clinic").scorecard().rows[1].earned == 3.5
    record("clinic", "run_clinic", earned=10, possible=10, status="passed")
    record("clinic", "run_clinic", earned=0, possible=7, status="partial")
    card = Lesson("clinic").scorecard()
    assert (card.rows[1].earned, card.rows[1].status, card.possible) == (7.0, "passed", 10.0)


def test_exercises_and_misconceptions_that_the_course_has_no_longer_are_shown_as_they_were(progress_file):
    shutil.copy(SECOND, progress_file)
    old = Showing("detach/cut/gone", "is cut", "Nobody is told this now", "03_detach", "A heading that is gone")
    record("detach", "cut", earned=1, possible=2, status="partial", told=[old])
    homes = {f"detach/snapshot/{key}" for key in Lesson("detach").exercises["snapshot"].misconceptions}
    assert not {"detach/snapshot/x itself", "detach/cut/gone"} & homes
    shown = " ".join(repr(progress()).split())
    assert "Still open (3)" in shown and "What I return is a new tensor: 03_detach" in shown
    assert "Nobody is told this now: 03_detach, “A heading that is gone”" in shown
    assert ("detach", "cut", 1.0) in [(row.lesson, row.exercise, row.best) for row in attempts()]
    assert [row.exercise for row in Lesson("detach").scorecard().rows] == list(Lesson("detach").exercises)
    reset_progress("detach", "cut")
    assert "Nobody is told" not in repr(progress())


def test_an_event_that_is_damaged_costs_itself_alone_and_is_told(progress_file):
    for earned in (1, 2):
        record("detach", "snapshot", earned=earned, possible=2, status="partial")
    with closing(sqlite3.connect(progress_file)) as file, file:
        file.execute("UPDATE event SET fields = replace(fields, '}', '') WHERE number = 1")
    assert [(row.best, row.count) for row in attempts()] == [(2.0, 1)]
    assert progress().notes[-1] == "Left out, because the file is damaged there: 1 event."
