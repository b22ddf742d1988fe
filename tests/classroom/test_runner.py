"""From a submission to a report: what is run, what counts, and what one broken cell costs."""

import json

import nbformat
import pytest

from course_utils.classroom.judging.limits import Limits
from course_utils.classroom.judging.results import OUTCOMES, Report
from course_utils.classroom.sandbox.shell import Outputs
from course_utils.classroom.sandbox.supervisor import Supervisor
from tests.classroom.handed_in import NEEDS_SANDBOX, Notebook, impatient, outcomes, points, released, solutions

pytestmark = [*NEEDS_SANDBOX]
LIMITS = Limits(check_seconds=30.0)
FULL = {"snapshot": 1, "predicted_edit": 2, "mean_loss": 2, "truncated_bptt": 3, "stop_gradient_round": 2}
SNAPSHOT = "def snapshot(x):\n    return x.detach().clone()"


def grade(grader, notebook, assignment="03_detach", text=None):
    content = notebook if notebook is None or isinstance(notebook, bytes) else notebook.bytes()
    return grader.grade(text or released(assignment), content, student="ada", assignment=assignment)


def cells(report):
    return {cell["id"]: cell for cell in json.loads(report.notebook)["cells"]}


def test_the_course_s_own_answers_get_all_points(grader):
    notebook = Notebook().solve()
    notebook.cell("written")["source"] = "Because nobody looked at the counter."
    report = grade(grader, notebook)
    assert points(report) == FULL | {"detach-written": 0}
    assert outcomes(report) == dict.fromkeys(FULL, "passed") | {"detach-written": "review by hand"}
    assert (report.repairs, report.reviews, report.notes) == ((), (), ())
    assert (report.student, report.assignment) == ("ada", "03_detach")
    assert (report.earned, report.possible) == (10, 12)
    assert [result.grade_id for result in report.exercises][:2] == [
        "detach-snapshot-check",
        "detach-predicted_edit-check",
    ]
    assert all(0 < result.wall_seconds < report.wall_seconds for result in report.exercises[:5])


def test_an_untouched_notebook_was_not_attempted_and_runs_nothing(grader):
    report = grade(grader, Notebook())
    assert set(outcomes(report).values()) == {"not attempted"} and report.earned == 0
    assert "not attempted, 0 of 1 point" in report.exercises[0].text


def test_the_notebook_comes_back_valid_with_the_cards_in_its_check_cells(grader):
    report = grade(grader, Notebook().solve("snapshot").add("print('hello')\n3", after="setup"))
    notebook = nbformat.reads(report.notebook, as_version=4)
    nbformat.validate(notebook)
    (output,) = cells(report)["snapshot-check"]["outputs"]
    assert output["data"] == {"text/html": report.exercises[0].html, "text/plain": "1.0"}
    assert "Every claim held" in output["data"]["text/html"]
    hello, three = next(cell for name, cell in cells(report).items() if name.startswith("added"))["outputs"]
    assert hello["text"] == "hello\n" and three["data"] == {"text/plain": "3"}
    assert cells(report)["case-run"]["outputs"] == []


def test_every_way_to_come_out_has_its_name(grader):
    notebook = Notebook().write(
        snapshot="def snapshot(x):\n    return x.detach()",
        predicted_edit=solutions()["predicted_edit"].replace('"error"', '"right gradient"'),
        mean_loss="def mean_loss(model, loss_fn, batches):\n    raise ValueError('too bad')",
        truncated_bptt="def truncated_bptt(cell, inputs, state, window):\n    import os\n    os._exit(1)",
        stop_gradient_round="def stop_gradient_round(x):\n    while True:\n        pass",
    )
    with impatient(grader):
        report = grade(grader, notebook)
    assert outcomes(report) == {
        "snapshot": "partial",
        "predicted_edit": "partial",
        "mean_loss": "raised",
        "truncated_bptt": "killed",
        "stop_gradient_round": "timed out",
        "detach-written": "not attempted",
    }
    assert points(report)["predicted_edit"] == 1.5
    by_name = {result.exercise: result for result in report.exercises}
    assert by_name["snapshot"].misconceptions[0] == "What has no history is a copy"
    assert "too bad" in by_name["mean_loss"].text
    assert "its process ended in the middle of the check" in by_name["truncated_bptt"].text
    assert "it ran for more than 1 s" in by_name["stop_gradient_round"].text
    assert {*outcomes(report).values()} <= {*OUTCOMES}


@pytest.mark.parametrize(
    "content", [None, b"", b"{}", b"[" * 10_000, released().encode()[:3000]], ids=["none", "empty", "{}", "deep", "cut"]
)
def test_a_file_that_is_no_notebook_is_a_report_with_the_reason(grader, content):
    report = grade(grader, content)
    assert set(outcomes(report).values()) == {"unreadable"} and report.earned == 0
    assert report.repairs[0].startswith("Nothing was graded. ")
    assert list(cells(report)) == [cell["id"] for cell in json.loads(released())["cells"]]


def test_a_released_notebook_that_is_none_is_the_teacher_s_mistake(grader):
    with pytest.raises(ValueError, match="released notebook"):
        grader.grade("{}", Notebook().bytes(), student="ada", assignment="03_detach")


# What one cell costs.


def test_a_cell_that_ends_its_process_costs_itself_alone(grader):
    notebook = Notebook().solve().add("import os\nos.abort()", after="case")
    notebook.write(mean_loss="import os\nos._exit(3)").add("quit()\nexit()\nraise SystemExit", after="edits")
    report = grade(grader, notebook)
    assert points(report) == FULL | {"mean_loss": 0, "detach-written": 0}
    assert outcomes(report)["mean_loss"] == "killed"
    assert "it ended its process with exit status 3" in report.exercises[2].text
    assert any("was left out: its process was ended by SIG" in note for note in report.notes)


def test_an_endless_cell_is_interrupted_and_costs_itself_alone(grader):
    with impatient(grader):
        report = grade(grader, Notebook().solve().write(mean_loss="while True:\n    pass"))
    assert points(report) == FULL | {"mean_loss": 0, "detach-written": 0}
    assert outcomes(report)["mean_loss"] == "timed out"


def test_an_answer_that_cannot_be_compiled_is_told_where(grader):
    report = grade(grader, Notebook().solve("mean_loss").write(snapshot="def snapshot(x)\n    return x"))
    assert outcomes(report)["snapshot"] == "raised" and outcomes(report)["mean_loss"] == "passed"
    assert "SyntaxError" in report.exercises[0].text


def test_an_answer_under_another_name_is_told_so(grader):
    report = grade(grader, Notebook().write(snapshot=SNAPSHOT.replace("snapshot", "my_snapshot")))
    assert outcomes(report)["snapshot"] == "raised"
    assert "name 'snapshot' is not defined" in report.exercises[0].text


def test_input_is_refused_at_once(grader):
    notebook = Notebook().solve().add("input()", after="case").write(snapshot="def snapshot(x):\n    input()")
    report = grade(grader, notebook)
    assert outcomes(report)["snapshot"] == "raised" and outcomes(report)["mean_loss"] == "passed"
    assert report.notes == ()


# What an answer breaks for those after it.


def test_settings_and_names_that_a_cell_changes_cost_no_later_question(grader):
    breaking = "torch.set_default_dtype(torch.float64)\ntorch.set_grad_enabled(False)\ntorch.set_num_threads(7)\n"
    breaking += "torch.inference_mode().__enter__()\nimport sys\nsys.setrecursionlimit(60)\ntorch = nn = F = 3"
    report = grade(grader, Notebook().solve().add(breaking, after="case"))
    assert points(report) == FULL | {"detach-written": 0}
    assert report.reviews == report.notes == ()


def test_a_name_that_means_something_else_to_the_student_keeps_its_meaning(grader):
    own = "F = 5\ndef snapshot(x):\n    assert F == 5\n    return x.detach().clone()"
    assert outcomes(grade(grader, Notebook().write(snapshot=own)))["snapshot"] == "passed"


def test_a_background_thread_that_writes_costs_nothing(grader):
    noise = "import sys, threading, time\ndef run():\n    while True:\n        print('noise', file=sys.stderr)\n"
    noise += "        time.sleep(0.001)\nthreading.Thread(target=run, daemon=True).start()"
    assert grade(grader, Notebook().solve().add(noise, after="setup")).earned == 10


def test_a_thread_that_holds_a_lock_costs_nothing(grader):
    held = "import threading, logging\nlogging._lock.acquire()\nlesson_lock = threading.Lock()\nlesson_lock.acquire()"
    assert grade(grader, Notebook().solve().add(held, after="setup")).earned == 10


@pytest.mark.nightly
def test_an_answer_that_waits_for_a_thread_of_an_earlier_cell_is_for_a_person_to_judge(grader):
    pool = "from concurrent.futures import ThreadPoolExecutor\npool = ThreadPoolExecutor(1)\n"
    pool += "pool.submit(max, 1, 2).result()"
    answer = "def snapshot(x):\n    return pool.submit(lambda: x.detach().clone()).result()"
    with impatient(grader):
        report = grade(grader, Notebook().write(snapshot=answer).add(pool, after="setup"))
    assert outcomes(report)["snapshot"] == "review by hand" and report.reviews == ()
    assert "cells had left 1 threads running" in report.exercises[0].text


@pytest.mark.nightly
def test_a_loader_whose_workers_persist_is_for_a_person_to_judge(grader):
    loader = """
import torch
from torch.utils.data import DataLoader, TensorDataset
loader = DataLoader(TensorDataset(torch.arange(8.0)), batch_size=4, num_workers=1, persistent_workers=True)
total = sum(batch.sum() for (batch,) in loader)
"""
    answer = "def snapshot(x):\n    for (batch,) in loader:\n        pass\n    return x.detach().clone()"
    with impatient(grader):
        report = grade(grader, Notebook().write(snapshot=answer).add(loader, after="setup"))
    assert outcomes(report)["snapshot"] == "review by hand", "never 0 beside a card that says the answer is wrong"


def test_a_helper_that_begins_by_deleting_a_name_costs_nothing(grader):
    helper = "del scratch\nscratch = 1\ndef copy_of(x):\n    return x.detach().clone()"
    report = grade(
        grader, Notebook().write(snapshot="def snapshot(x):\n    return copy_of(x)").add(helper, after="setup")
    )
    assert outcomes(report)["snapshot"] == "passed" and report.notes == ()


# Added cells, experiments, magics.


def test_added_cells_and_magics_are_run(grader):
    helper = "%matplotlib inline\n%time import math\n\ndef copy_of(x):\n    return x.detach().clone()\n!true"
    answer = "def snapshot(x):\n    return copy_of(x)"
    report = grade(grader, Notebook().write(snapshot=answer).add(helper, after="setup"))
    assert outcomes(report)["snapshot"] == "passed" and report.notes == ()


def test_experiments_are_run_only_where_an_answer_needs_them(grader):
    scribble = "print(weight)"  # a name of the experiments, but no answer needs this cell
    report = grade(grader, Notebook().solve("snapshot").add(scribble, after="snapshot"))
    assert cells(report)["gives-ways"]["outputs"] == [] and report.notes == ()
    needs = "template = weight\ndef snapshot(x):\n    template\n    return x.detach().clone()"
    report = grade(grader, Notebook().write(snapshot=needs))
    assert outcomes(report)["snapshot"] == "passed"
    assert report.notes == ("The lesson's experiments were run, because the answer `snapshot` uses `weight`.",)
    assert cells(report)["gives-ways"]["outputs"][0]["text"].startswith("detach()  ")


def test_experiments_are_run_where_a_check_turns_out_to_need_them(grader):
    hidden = "def snapshot(x):\n    eval('weight')\n    return x.detach().clone()"
    report = grade(grader, Notebook().solve("mean_loss").write(snapshot=hidden))
    assert outcomes(report)["snapshot"] == "passed" and outcomes(report)["mean_loss"] == "passed"
    assert report.notes == ("The lesson's experiments were run, because the check of `snapshot` uses `weight`.",)


def test_an_answer_that_needs_a_cell_below_it_is_judged_with_it(grader):
    answer = "def snapshot(x):\n    return copy_of(x)"
    notebook = Notebook().write(snapshot=answer).add("def copy_of(x):\n    return x.detach().clone()", after="written")
    report = grade(grader, notebook)
    assert outcomes(report)["snapshot"] == "passed" and report.notes == ()


def test_of_several_copies_the_best_counts(grader):
    wrong = "def snapshot(x):\n    return x"
    for first, second in ((wrong, SNAPSHOT), (SNAPSHOT, wrong)):
        report = grade(grader, Notebook().write(snapshot=first).paste("snapshot", after="case", source=second))
        assert outcomes(report)["snapshot"] == "passed"
        assert "stands in 2 cells" in report.repairs[0]


@pytest.mark.parametrize(
    "change",
    [
        lambda notebook: notebook.merge("mean_loss", "truncated_bptt", active="truncated_bptt"),
        lambda notebook: notebook.merge("snapshot-text", "snapshot", "snapshot-check", active="snapshot"),
        lambda notebook: notebook.move("stop_gradient_round", after="title").move("snapshot", after="scorecard"),
        lambda notebook: notebook.split("truncated_bptt", at="    return"),
        lambda notebook: (
            [cell.pop("id") for cell in notebook.cells] and [c["metadata"].clear() for c in notebook.cells]
        ),
        lambda notebook: notebook.cell("snapshot").update(cell_type="markdown"),
        lambda notebook: notebook.cell("setup").update(source="raise ValueError"),
        lambda notebook: notebook.data["metadata"].update(kernelspec={"name": "julia"}),
    ],
    ids=["merged", "merged with its check", "moved", "split", "no metadata", "retyped", "broken set-up", "kernelspec"],
)
def test_what_honest_students_do_to_cells_costs_nothing(grader, change):
    notebook = Notebook().solve()
    change(notebook)
    report = grade(grader, notebook)
    assert points(report) == FULL | {"detach-written": 0}, report.repairs
    assert report.reviews == ()


# A teacher's own notebook.


def test_points_are_those_of_the_release(grader):
    text = json.loads(released())
    check = next(cell for cell in text["cells"] if cell["id"] == "mean_loss-check")
    check["metadata"]["nbgrader"]["points"] = 10
    half = (
        solutions()["mean_loss"]
        + "\nright = mean_loss\ndef mean_loss(*args):\n    args[0].eval()\n    return right(*args)"
    )
    report = grade(grader, Notebook().solve().write(mean_loss=half), text=json.dumps(text))
    result = report.exercises[2]
    assert result.possible == 10 and result.outcome == "partial"
    assert 0 < result.earned < 10 and f"{result.earned:g} of 10 points" in result.text


def test_a_check_of_the_teacher_s_own_is_run_as_it_stands(grader):
    text = json.loads(released())
    sources = {
        "snapshot-check": "assert snapshot(torch.ones(2)).sum() == 2",
        "mean_loss-check": "assert False, 'no'",
        "truncated_bptt-check": "1.5",
    }
    for cell in text["cells"]:
        cell["source"] = sources.get(cell["id"], cell["source"])
    report = grade(grader, Notebook().solve(), text=json.dumps(text))
    assert [(result.outcome, result.earned) for result in report.exercises[:4]] == [
        ("passed", 1),
        ("passed", 2),
        ("wrong", 0),
        ("partial", 1.5),
    ]
    assert "said  no" in report.exercises[2].text and report.exercises[2].lost == (("`assert False, 'no'`", 2.0),)


SUM = "def mean_loss(model, loss_fn, batches):\n    return sum(loss_fn(model(x), y).detach() for x, y in batches)"


def test_an_answer_that_earns_nothing_still_shows_its_misunderstanding(grader):
    report = grade(grader, Notebook().write(mean_loss=SUM))
    result = report.exercises[2]
    assert result.earned == 0 and result.misconceptions
    assert sum(cost for _, cost in result.lost) == pytest.approx(result.possible)


def test_the_lesson_is_there_for_cells_that_use_it(grader):
    right = solutions()["snapshot"]
    report = grade(grader, Notebook().write(snapshot=f"lesson.device\n{right}"))
    assert outcomes(report)["snapshot"] == "passed"
    assert not [output for output in cells(report)["setup"]["outputs"] if output["output_type"] == "error"]


def test_a_timeout_is_not_said_to_have_raised(grader):
    with impatient(grader):
        report = grade(grader, Notebook().write(snapshot="def snapshot(x):\n    while True:\n        pass"))
    result = report.exercises[0]
    assert result.outcome == "timed out" and "raised" not in result.text and "yet" not in result.text


# Plain data.


def test_a_report_survives_json(grader):
    report = grade(grader, Notebook().write(mean_loss=SUM))
    assert Report.from_json(report.to_json()) == report
    for broken in ("[]", "{}", report.to_json().replace('"wrong"', '"odd"'), report.to_json().replace("repairs", "r")):
        with pytest.raises(ValueError):
            Report.from_json(broken)


def test_only_pictures_and_text_are_kept_of_what_is_displayed():
    outputs = Outputs(1000)
    outputs.show(
        {"text/html": "<script>", "text/plain": "x", "image/png": b"1", "application/javascript": "x"}, count=2
    )
    outputs.write("stdout", "a" * 2000)
    outputs.fail("ValueError", "no", ["\x1b[31mred\x1b[0m"])
    result, stream, error, rest = outputs.items()
    assert result["data"] == {"text/plain": "x", "image/png": "MQ=="}
    assert len(stream["text"]) < 1000 and error["traceback"] == [""] and "not kept" in rest["text"]


@pytest.mark.nightly
def test_a_sandbox_that_ends_by_itself_is_started_again_and_blames_nobody(grader):
    class Once:
        def __init__(self, python):
            self.python, self.left = python, 1
            self.nested = python.nested

        def session(self, *given):
            if self.left:
                self.left -= 1
                self.python._process.kill()
                self.python._process.wait()
            return self.python.session(*given)

        def close(self):
            self.python.close()

    grader._python = Once(grader._python)
    try:
        report = grade(grader, Notebook().solve())
    finally:
        grader._python = grader._python.python
    assert report.earned == 10


def test_a_check_and_its_parent_may_speak_in_any_order():
    guard = Supervisor.__new__(Supervisor)
    guard._inbox = [{"ready": True}, {"forked": 7}]
    assert guard._take("result") is None
    assert guard._take("forked") == {"forked": 7}
    assert guard._take("ready") == {"ready": True}
