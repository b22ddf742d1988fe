"""Graders on this machine and workers of a cluster: started, checked, lost. The grader is a stand-in."""

import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from distributed import LocalCluster

from course_utils.classroom.__main__ import main
from course_utils.classroom.course.submissions import Submission
from course_utils.classroom.judging.grader import SandboxMissing
from course_utils.classroom.judging.results import Report
from course_utils.classroom.run import cluster as remote
from course_utils.classroom.run.cluster import PLUGIN, Cluster
from course_utils.classroom.run.graders import Graders, NotGraded
from tests.classroom.hand_in import hand_in
from tests.classroom.stand_in import StandIn, Unwilling

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
        submission.student: str(report) if isinstance(report, NotGraded) else report.exercises[0].outcome
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
            "bob": "OSError: the sandbox ended",
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
    graders.expect(9)
    with graders:
        answers = {f"student{number:02d}": "# right" for number in range(9)}
        assert results(graders, course, answers) == dict.fromkeys(answers, "passed")
        assert results(graders, course, {}) == {}
    assert len(made) == 2 and set(ended) == set(made)
    graders.expect(3)
    assert graders.number == 1


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
            graders._threads.submit(graders.grade_one, *item)
            if number:
                raise KeyboardInterrupt
    assert time.monotonic() - begun < 60


def test_a_machine_without_a_sandbox_is_refused(monkeypatch):
    monkeypatch.setattr("course_utils.classroom.judging.grader.missing", lambda: "bubblewrap was not found.")
    with pytest.raises(SandboxMissing, match="bubblewrap was not found"):
        Graders(2).__enter__()


# A cluster.


@pytest.fixture(scope="module")
def cluster():
    """A scheduler with two workers, as on other machines: reached over TCP alone."""
    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=LOCAL_PAGE) as cluster:
        assert cluster.scheduler_address.startswith("tcp://")
        yield cluster


def test_a_scheduler_without_dask_is_told_what_to_install(course, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "course_utils.classroom.run.cluster", None)
    hand_in(course, "ada", DETACH)
    assert main(["grade", "--course", str(course.root), "--scheduler", "tcp://127.0.0.1:9"]) == 1
    assert ".[cluster]" in capsys.readouterr().err


@pytest.mark.nightly
def test_a_lost_worker_costs_time_alone(course, tmp_path, cluster):
    answers = {f"student{number}": "# right" for number in range(6)}
    answers["student2"] = f"# die once: {tmp_path / 'died'}"
    with Cluster(cluster.scheduler_address, StandIn) as graders:
        assert results(graders, course, answers) == dict.fromkeys(answers, "passed")
    assert (tmp_path / "died").exists()


@pytest.mark.nightly
def test_a_submission_that_ends_every_worker_is_given_up_and_the_others_are_not(course, monkeypatch):
    monkeypatch.setattr(remote, "WORKER_DEATHS", 0)
    settings = {"distributed.scheduler.allowed-failures": 0}
    with (
        remote.dask.config.set(settings),
        LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=LOCAL_PAGE) as one,
        Cluster(one.scheduler_address, StandIn) as graders,
    ):
        found = results(graders, course, {"ada": "# right", "bob": "# die", "eve": "# right"})
    assert found["ada"] == found["eve"] == "passed"
    assert found["bob"].startswith("KilledWorker: ")


def test_a_cluster_grades_for_one_class_after_the_other(cluster, course):
    for outcome in ("passed", "wrong"):
        with Cluster(cluster.scheduler_address, StandIn) as graders:
            answers = {f"student{number:02d}": f"# outcome: {outcome}" for number in range(9)}
            assert results(graders, course, answers) == dict.fromkeys(answers, outcome)
            plugins = graders._client.run(lambda dask_worker: list(dask_worker.plugins))
            assert all(PLUGIN in names for names in plugins.values()) and len(plugins) == 2
            client = graders._client
        assert client.status == "closed"


def test_half_a_surrogate_pair_crosses_from_a_worker(cluster, course):
    with Cluster(cluster.scheduler_address, StandIn) as graders:
        ((_, report),) = graders.grade(work(course, {"ada": "# outcome: wrong\n# misconception: \ud800"}))
    assert report.exercises[0].misconceptions == ("\ud800",)
    assert Report.from_json(report.to_json()).exercises[0].misconceptions == ("?",)


@pytest.mark.nightly
def test_a_scheduler_that_is_lost_ends_the_grading_and_no_more(course):
    program = (
        "import time; from distributed import LocalCluster\n"
        "with LocalCluster(n_workers=1, threads_per_worker=1, processes=False, dashboard_address='127.0.0.1:0',"
        " protocol='tcp') as cluster:\n"
        "    print(cluster.scheduler_address, flush=True); time.sleep(600)\n"
    )
    elsewhere = subprocess.Popen([sys.executable, "-c", program], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    answers = {"ada": "# right"} | {f"student{number}": "# sleep: 600" for number in range(4)}
    found = {}
    with elsewhere, Cluster(elsewhere.stdout.readline().strip(), StandIn) as graders:
        for submission, report in graders.grade(work(course, answers)):
            found[submission.student] = report
            elsewhere.kill()
    assert found.pop("ada").exercises[0].outcome == "passed"
    assert all(isinstance(reason, NotGraded) for reason in found.values())


def test_a_worker_that_cannot_grade_or_has_another_version_is_refused(cluster, monkeypatch):
    with pytest.raises(ValueError, match=r"The worker tcp://.* cannot grade.\nbubblewrap was not found"):
        Cluster(cluster.scheduler_address, Unwilling).__enter__()
    monkeypatch.setattr(remote, "package_version", lambda: "0.1")
    with pytest.raises(ValueError, match=r"The worker tcp://.* has another version: .*\n.*0\.1"):
        Cluster(cluster.scheduler_address, StandIn).__enter__()


def test_a_scheduler_that_does_not_answer_is_told(monkeypatch):
    monkeypatch.setattr(remote, "CONNECT_SECONDS", 0.5)
    with pytest.raises(ValueError, match=r"No Dask scheduler answers at tcp://127\.0\.0\.1:9"):
        Cluster("tcp://127.0.0.1:9").__enter__()


@pytest.mark.nightly
def test_a_scheduler_without_workers_is_told():
    with (
        LocalCluster(n_workers=0, dashboard_address=LOCAL_PAGE) as empty,
        pytest.raises(ValueError, match="has no workers"),
    ):
        Cluster(empty.scheduler_address, StandIn).__enter__()
