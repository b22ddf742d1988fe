"""Graders on this machine and workers of a cluster: started, checked, lost."""

import os
import signal
import sys

import pytest

from course_utils.classroom.run import graders
from tests.classroom.handed_in import DETACH, NEEDS_SANDBOX, solutions
from tests.classroom.teacher import row

pytestmark = pytest.mark.slow


def cluster(**options):
    """A scheduler with workers on this machine."""
    from distributed import LocalCluster  # not at the top: it is needed at night alone

    return LocalCluster(dashboard_address="127.0.0.1:0", **options)


def test_a_scheduler_without_dask_is_told_what_to_install(teacher, monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    teacher.hand_in("ada")
    assert ".[cluster]" in teacher.run("grade", "--scheduler", "tcp://127.0.0.1:9", status=1)


def test_a_scheduler_that_does_not_answer_is_told(teacher, monkeypatch):
    monkeypatch.setattr(graders, "CONNECT_SECONDS", 0.5)
    teacher.hand_in("ada")
    said = teacher.run("grade", "--scheduler", "tcp://127.0.0.1:9", status=1)
    assert "Nothing is graded at tcp://127.0.0.1:9. No Dask scheduler answers" in said


@pytest.mark.nightly
def test_a_scheduler_without_workers_is_told(teacher):
    teacher.hand_in("ada")
    with cluster(n_workers=0) as empty:
        assert "has no workers" in teacher.run("grade", "--scheduler", empty.scheduler_address, status=1)


@pytest.mark.nightly
@NEEDS_SANDBOX[1]
def test_a_lost_worker_costs_time_alone(teacher, monkeypatch):
    students = ("ada", "bob", "cy", "eve")
    for student in students:
        teacher.hand_in(student, snapshot=solutions()["snapshot"])
    with cluster(n_workers=2, threads_per_worker=1) as machines:
        lost = []

        def track(results, *given, **options):
            for result in results:  # one of the two is lost while the others are graded
                if not lost:
                    lost.append(next(iter(machines.workers.values())).pid)
                    os.kill(lost[0], signal.SIGKILL)
                yield result

        monkeypatch.setattr("rich.progress.track", track)
        printed = teacher.run("grade", DETACH, "--scheduler", machines.scheduler_address)
    assert lost and ["1 passed" in row(printed, student) for student in students] == [True] * len(students)
