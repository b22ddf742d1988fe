"""The course remembers which misconceptions a learner was told of, and which are cleared up."""

from dataclasses import replace

import pytest
import torch

from course_utils import Lesson, drill, progress, reset_progress
from course_utils.progress.history import Showing, attempts, record, told
from course_utils.progress.tables import Remembered

ALIAS, COPY = "detach/snapshot/alias", "What has no history is a copy"


def showing(home, claim):
    return Showing(home, claim, "detach() makes a copy", "03_detach", "A heading")


def told_by_home():
    return {row.home: row for row in told()}


def names(is_open):
    return [one.name for one in progress().misconceptions if one.is_open == is_open]


def test_a_wrong_answer_opens_what_a_right_one_clears(progress_file):
    lesson = Lesson("detach")
    lesson.check("snapshot", lambda x: x.detach())
    lesson.check("snapshot", lambda x: x.detach())
    assert told_by_home()[ALIAS].count == 2 and told_by_home()[ALIAS].cleared_at is None
    assert names(is_open=True) == [COPY] and names(is_open=False) == []
    lesson.check("snapshot", lambda x: x.detach().clone())
    row = told_by_home()[ALIAS]
    assert row.first_at < row.last_at < row.cleared_at
    assert names(is_open=True) == [] and names(is_open=False) == [COPY]
    lesson.check("snapshot", lambda x: x.detach())
    assert names(is_open=True) == [COPY]


def test_an_answer_in_which_the_claim_was_never_reached_clears_nothing(progress_file):
    lesson = Lesson("detach")
    lesson.check("snapshot", lambda x: x.detach())
    lesson.check("snapshot", lambda x: torch.zeros(0))
    assert ALIAS in {row.home for row in told() if row.cleared_at is None}
    lesson.check("snapshot", lambda x: (_ for _ in ()).throw(ValueError("x")))
    assert ALIAS in {row.home for row in told() if row.cleared_at is None}


def test_what_passes_clears_all_of_its_exercise_whatever_the_claim_is_called_now(progress_file):
    claim = {"told": [showing(ALIAS, "in other words")], "held": ()}
    record("detach", "snapshot", earned=0, possible=1, status="partial", **claim)
    record("detach", "mean_loss", earned=0, possible=1, status="partial", **claim)
    record("detach", "snapshot", earned=1, possible=1, status="passed", held=["shares no memory with x"])
    cleared = {row.exercise: row.cleared_at is not None for row in told()}
    assert cleared == {"snapshot": True, "mean_loss": False}
    assert names(is_open=True) == ["detach() makes a copy"]  # once, and open while one exercise is


def test_progress_shows_both_with_a_link_to_where_they_are_explained(progress_file):
    lesson = Lesson("detach")
    lesson.check("snapshot", lambda x: x.detach())
    assert "Still open (1)" in repr(progress()) and "Cleared up" not in repr(progress())
    lesson.check("snapshot", lambda x: x.detach().clone())
    shown, html = repr(progress()), progress()._repr_html_()
    assert "Cleared up (1)" in shown and "03_detach" in shown
    assert 'href="03_detach.ipynb#' in html and COPY in html


def test_a_long_list_says_how_many_more_there_are():
    many = tuple(Remembered(f"mistake {n}", "03_detach", "A heading", True) for n in range(15))
    shown = repr(replace(progress(), misconceptions=many))
    assert "Still open (15)" in shown and "mistake 11" in shown and "mistake 12" not in shown and "and 3 told" in shown


def test_reset_clears_it_too(progress_file):
    lesson = Lesson("detach")
    lesson.check("snapshot", lambda x: x.detach())
    assert reset_progress("detach", "snapshot").backup is not None
    assert told() == () and attempts() == ()


@pytest.mark.parametrize("status", ["not attempted"])
def test_no_attempt_stores_nothing(progress_file, status):
    assert record("detach", "snapshot", earned=0, possible=1, status=status, told=[showing(ALIAS, "x")]) is None
    assert told() == ()


def test_a_drill_asks_about_what_is_open_then_about_what_was_cleared_longest_ago(progress_file):
    assert drill().because == ""
    Lesson("detach").check("snapshot", lambda x: x.detach())
    Lesson("leaf_tensors").check("make_weight", lambda rows, columns: torch.zeros(rows, columns))
    opened = {row.home.partition("/")[0] for row in told()}
    assert {"detach"} < opened <= {"detach", "leaf_tensors", "requires_grad"}
    made = drill()
    assert made.topic in {"edits", "leaves", "flags"}
    assert "is still open" in repr(made) and "is still open" in made._repr_html_()
    record("leaf_tensors", "make_weight", earned=2, possible=2, status="passed", held=["all"])
    assert {drill().topic for _ in range(5)} == {"edits"}
    record("detach", "snapshot", earned=1, possible=1, status="passed", held=["all"])
    assert {drill().topic for _ in range(5)} <= {"leaves", "flags"} and "longest ago" in drill().because
    assert drill("hooks").because == ""
