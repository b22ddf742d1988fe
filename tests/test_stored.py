"""What the first edition stored on a learner's disk is read by this one."""

import shutil
from pathlib import Path

from course_utils import Lesson, progress, reset_progress
from course_utils.progress.history import attempts, predictions, record

STORED = Path(__file__).parent / "stored" / "progress_of_the_first_edition.sqlite3"


def test_a_progress_file_of_the_first_edition_opens_with_everything_in_it(progress_file):
    shutil.copy(STORED, progress_file)
    mean_loss, snapshot, clinic = attempts()
    assert (snapshot.lesson, snapshot.exercise, snapshot.best, snapshot.status) == (
        "detach",
        "snapshot",
        1.0,
        "partial",
    )
    assert (snapshot.earned, snapshot.count, mean_loss.exercise, mean_loss.hints) == (0.6, 2, "mean_loss", 2)
    assert (clinic.lesson, clinic.exercise, clinic.hints, clinic.status) == ("clinic", "run_clinic", 1, "not attempted")
    assert {guess.question: guess.right for guess in predictions()} == {
        "how many bytes?": True,
        "how many nodes?": False,
    }
    assert (progress().earned, progress().notes[0]) == (1.0, "Stored in the file that COURSE_UTILS_PROGRESS names.")


def test_it_goes_on_from_there(progress_file):
    shutil.copy(STORED, progress_file)
    lesson = Lesson("detach")
    lesson.check("snapshot", lambda x: x.detach())
    assert [attempt.count for attempt in attempts("detach")] == [0, 3]
    assert [row.earned for row in lesson.scorecard().rows][:2] == [1.0, 0.0]
    reset_progress("detach")
    assert [attempt.lesson for attempt in attempts()] == ["clinic"]


def test_points_of_an_exercise_that_was_worth_more_are_the_same_share_of_what_it_is_worth_now(progress_file):
    record("clinic", "run_clinic", earned=5, possible=10, status="partial")
    assert Lesson("clinic").scorecard().rows[1].earned == 3.5
    record("clinic", "run_clinic", earned=10, possible=10, status="passed")
    record("clinic", "run_clinic", earned=0, possible=7, status="partial")
    card = Lesson("clinic").scorecard()
    assert (card.rows[1].earned, card.rows[1].status, card.possible) == (7.0, "passed", 10.0)
