"""Workers: started, checked, lost, and on another machine's scheduler. The grader is a stand-in; processes are real."""

import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from distributed import LocalCluster

from course_utils.classroom.course.submissions import Submission
from course_utils.classroom.judging.results import Report
from course_utils.classroom.run import schedule
from course_utils.classroom.run.schedule import Crew, NotGraded
from course_utils.classroom.run.warm import PLUGIN, WarmGraders
from tests.classroom.hand_in import hand_in
from tests.classroom.stand_in import StandIn, Unwilling

pytestmark = pytest.mark.slow

DETACH = "03_detach"
ROOT = Path(__file__).resolve().parents[2]


def work(course, answers):
    """Submissions of several students, each with the released notebook."""
    released = course.notebook("release", DETACH).read_text()
    for student, answer in answers.items():
        path = hand_in(course, student, DETACH, {"snapshot": answer})
        yield Submission(student, DETACH, path.read_bytes()), released


def results(crew, course, answers):
    """Each student's outcome in the first exercise, or why there is none."""
    return {
        submission.student: str(report) if isinstance(report, NotGraded) else report.exercises[0].outcome
        for submission, report in crew.grade(work(course, answers))
    }


@pytest.fixture(scope="module")
def cluster():
    """A scheduler with two workers, as on other machines: reached over TCP alone."""
    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=schedule.LOCAL_PAGE) as cluster:
        assert cluster.scheduler_address.startswith("tcp://")
        yield cluster


@pytest.mark.nightly
def test_a_lost_worker_costs_time_alone(course, tmp_path):
    answers = {f"student{number}": "# right" for number in range(6)}
    answers["student2"] = f"# die once: {tmp_path / 'died'}"
    with Crew(workers=2, make=StandIn) as crew:
        found = results(crew, course, answers)
        children = psutil.Process().children(recursive=True)
    assert found == dict.fromkeys(answers, "passed")
    assert (tmp_path / "died").exists()
    assert len(children) >= 2
    _, alive = psutil.wait_procs([child for child in children if "spawn_main" in " ".join(command(child))], timeout=20)
    assert alive == []


def command(process):
    try:
        return process.cmdline()
    except psutil.NoSuchProcess:
        return []


def test_a_submission_that_ends_every_worker_is_given_up_and_the_others_are_not(course, monkeypatch):
    monkeypatch.setattr(schedule, "WORKER_DEATHS", 0)
    with Crew(workers=1, make=StandIn) as crew:
        found = results(crew, course, {"ada": "# right", "bob": "# die", "eve": "# right"})
    assert found["ada"] == found["eve"] == "passed"
    assert found["bob"].startswith("KilledWorker: ")


def test_half_a_surrogate_pair_crosses_from_a_worker(cluster, course):
    with Crew(cluster.scheduler_address, make=StandIn) as crew:
        ((_, report),) = crew.grade(work(course, {"ada": "# outcome: wrong\n# misconception: \ud800"}))
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
    with elsewhere, Crew(elsewhere.stdout.readline().strip(), make=StandIn) as crew:
        for submission, report in crew.grade(work(course, answers)):
            found[submission.student] = report
            elsewhere.kill()
    assert found.pop("ada").exercises[0].outcome == "passed"
    assert all(isinstance(reason, NotGraded) for reason in found.values())


def test_a_cluster_grades_for_one_class_after_the_other(cluster, course):
    for outcome in ("passed", "wrong"):
        with Crew(cluster.scheduler_address, make=StandIn) as crew:
            found = results(crew, course, dict.fromkeys(("ada", "bob", "eve"), f"# outcome: {outcome}"))
            assert found == dict.fromkeys(("ada", "bob", "eve"), outcome)
            plugins = crew._client.run(lambda dask_worker: list(dask_worker.plugins))
            assert all(PLUGIN in names for names in plugins.values()) and len(plugins) == 2
            client = crew._client
        assert client.status == "closed"


def test_more_submissions_than_workers_can_hold_all_come_back(cluster, course):
    answers = {f"student{number:02d}": "# right" for number in range(25)}
    with Crew(cluster.scheduler_address, make=StandIn) as crew:
        assert results(crew, course, answers) == dict.fromkeys(answers, "passed")
        assert results(crew, course, {}) == {}


def test_only_so_many_submissions_are_out_at_a_time(cluster, course):
    taken = []

    def watched():
        for submission, released in work(course, {f"student{number:02d}": "# right" for number in range(25)}):
            taken.append(submission.student)
            yield submission, released

    with Crew(cluster.scheduler_address, make=StandIn) as crew:
        for back, _ in enumerate(crew.grade(watched())):
            assert len(taken) - back <= 2 * (1 + schedule.AHEAD)
    assert len(taken) == 25


def test_a_machine_that_cannot_grade_is_refused_before_anything_is_sent(cluster):
    with pytest.raises(ValueError, match=r"The worker tcp://.* cannot grade.\nbubblewrap was not found"):
        Crew(cluster.scheduler_address, make=Unwilling).__enter__()


def test_a_machine_with_another_version_is_refused(cluster, monkeypatch):
    monkeypatch.setattr(schedule, "package_version", lambda: "0.1")
    with pytest.raises(ValueError, match=r"The worker tcp://.* has another version: .*\n.*0\.1"):
        Crew(cluster.scheduler_address, make=StandIn).__enter__()


def test_a_scheduler_that_does_not_answer_is_told(monkeypatch):
    monkeypatch.setattr(schedule, "CONNECT_SECONDS", 0.5)
    with pytest.raises(ValueError, match=r"No Dask scheduler answers at tcp://127\.0\.0\.1:9"):
        Crew("tcp://127.0.0.1:9").__enter__()


def test_a_scheduler_without_workers_is_told():
    with (
        LocalCluster(n_workers=0, dashboard_address=schedule.LOCAL_PAGE) as empty,
        pytest.raises(ValueError, match="has no workers"),
    ):
        Crew(empty.scheduler_address, make=StandIn).__enter__()


def test_a_worker_keeps_its_graders_warm():
    made = []

    class Counted(StandIn):
        def __enter__(self):
            made.append(self)
            return self

        def __exit__(self, *error):
            made.remove(self)

    graders = WarmGraders(Counted, True)
    graders.setup(None)
    with graders.borrowed() as first:
        pass
    with graders.borrowed() as again, graders.borrowed() as second:
        assert again is first and second is not first
    assert made == [first, second]
    graders.teardown(None)
    assert made == []
