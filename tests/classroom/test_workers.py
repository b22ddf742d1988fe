"""Graders on this machine and workers of a cluster: started, checked, lost. The grader is a stand-in."""

import os
import shutil
import signal
import sys
import threading
import time
from pathlib import Path

import pytest
from distributed import LocalCluster

from course_utils.classroom.__main__ import main
from course_utils.classroom.course.submissions import Submission
from course_utils.classroom.judging.grader import SandboxMissing
from course_utils.classroom.run import cluster as remote
from course_utils.classroom.run.cluster import Cluster
from course_utils.classroom.run.graders import Graders
from tests.classroom.hand_in import hand_in
from tests.classroom.stand_in import StandIn

pytestmark = pytest.mark.slow

DETACH = "03_detach"
ROOT = Path(__file__).resolve().parents[2]
LOCAL_PAGE = "127.0.0.1:0"


def work(course, answers):
    """Submissions of several students, each with the released notebook."""
    released = course.notebook("release", DETACH).read_text()
    for student, answer in answers.items():
        path = hand_in(course, student, DETACH, {"snapshot": answer})
        yield Submission(student, DETACH, path.read_bytes()), released


def results(graders, course, answers):
    """Each student's outcome in the first exercise, or why there is none."""
    return {
        submission.student: repr(report) if isinstance(report, Exception) else report.exercises[0].outcome
        for submission, report in graders.grade(work(course, answers))
    }


class Faulty(StandIn):
    """A grader that fails at bob's."""

    def grade(self, released, submitted, *, student, assignment):
        if student == "bob":
            raise OSError("the sandbox ended")
        return super().grade(released, submitted, student=student, assignment=assignment)


def test_a_grader_that_fails_costs_its_submission_alone(course):
    answers = dict.fromkeys(("ada", "bob", "eve"), "# right")
    with Graders(2, Faulty) as graders:
        assert results(graders, course, answers) == {
            "ada": "passed",
            "bob": "OSError('the sandbox ended')",
            "eve": "passed",
        }


def test_graders_are_made_once_and_ended(course):
    made, ended = [], []

    class Counted(StandIn):
        def __enter__(self):
            made.append(self)
            return self

        def __exit__(self, *error):
            ended.append(self)

    graders = Graders(2, Counted)
    with graders:
        answers = {f"student{number:02d}": "# right" for number in range(9)}
        assert results(graders, course, answers) == dict.fromkeys(answers, "passed")
        assert results(graders, course, {}) == {}
    assert len(made) == 2 and set(ended) == set(made)


def test_only_so_many_submissions_are_out_at_a_time(course):
    taken = []

    def watched():
        for submission, released in work(course, {f"student{number:02d}": "# right" for number in range(25)}):
            taken.append(submission.student)
            yield submission, released

    with Graders(2, StandIn) as graders:
        for back, _ in enumerate(graders.grade(watched())):
            assert len(taken) - back <= 2 * 2
    assert len(taken) == 25


def test_an_interrupted_run_does_not_wait_for_what_is_out(course):
    ended = threading.Event()

    class Slow(StandIn):
        def grade(self, *values, **about):
            ended.wait(600)
            return super().grade(*values, **about)

        def __exit__(self, kind, *error):
            assert kind is KeyboardInterrupt
            ended.set()

    begun = time.monotonic()
    with pytest.raises(KeyboardInterrupt), Graders(1, Slow) as graders:
        for number, item in enumerate(work(course, {"ada": "", "bob": ""})):
            graders._executor.submit(graders._grade_one, *item)
            if number:
                raise KeyboardInterrupt
    assert time.monotonic() - begun < 60


def test_a_machine_without_a_sandbox_is_refused(monkeypatch):
    monkeypatch.setattr("course_utils.classroom.judging.grader.missing", lambda: "bubblewrap was not found.")
    with pytest.raises(SandboxMissing, match="bubblewrap was not found"):
        Graders(2).__enter__()


# A cluster.


def test_a_scheduler_without_dask_is_told_what_to_install(course, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "distributed", None)
    hand_in(course, "ada", DETACH)
    assert main(["grade", "--course", str(course.root), "--scheduler", "tcp://127.0.0.1:9"]) == 1
    assert ".[cluster]" in capsys.readouterr().err


def test_a_scheduler_that_does_not_answer_is_told(monkeypatch):
    monkeypatch.setattr(remote, "CONNECT_SECONDS", 0.5)
    with pytest.raises(ValueError, match=r"Nothing is graded at tcp://127\.0\.0\.1:9\. No Dask scheduler answers"):
        Cluster("tcp://127.0.0.1:9").__enter__()


@pytest.mark.nightly
def test_a_scheduler_without_workers_is_told():
    with (
        LocalCluster(n_workers=0, dashboard_address=LOCAL_PAGE) as empty,
        pytest.raises(ValueError, match="has no workers"),
    ):
        Cluster(empty.scheduler_address).__enter__()


@pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is missing")
def test_a_lost_worker_costs_time_alone(course):
    answers = {name: "def snapshot(x):\n    return x.detach().clone()" for name in ("ada", "bob", "cy", "eve")}
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=LOCAL_PAGE) as machines,
        Cluster(machines.scheduler_address) as graders,
    ):
        found = {}
        for submission, report in graders.grade(work(course, answers)):
            if not found:  # one of the two is lost while the others are graded
                os.kill(next(iter(machines.workers.values())).pid, signal.SIGKILL)
            found[submission.student] = report.exercises[0].outcome
    assert found == dict.fromkeys(answers, "passed")
