"""Runs submissions through the workers of a Dask cluster (``Cluster``), for a course that outgrows one machine.

Submissions go out and reports come back through the scheduler, so a worker needs nothing but the package.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from threading import Lock
from typing import Any, cast

import dask
from distributed import Client, KilledWorker, Worker, WorkerPlugin, get_worker

from course_utils.base.errors import explain
from course_utils.classroom.books.stored import package_version
from course_utils.classroom.course.folder import without_log
from course_utils.classroom.course.submissions import Submission
from course_utils.classroom.judging.grader import Grader
from course_utils.classroom.judging.results import Report
from course_utils.classroom.run.graders import Graders

WORKER_DEATHS = 3  # of workers that a submission may see before it waits for a worker of its own; machines do go away
CONNECT_SECONDS = 20
PLUGIN = "course_utils.classroom"


class Cluster(Graders):
    """A cluster's workers in place of graders here; the threads here wait for them.

    Args:
        scheduler: the address of a Dask scheduler, ``tcp://host:8786``.
        make: makes a grader; for tests.

    Raises:
        ValueError: (when the ``with`` block begins) no scheduler answers, it has no workers, or a worker cannot grade;
            the message says why.
    """

    def __init__(self, scheduler: str, make: Callable[[], Any] = Grader) -> None:
        super().__init__(None, make)
        self.scheduler, self._one_suspect = scheduler, Lock()

    def expect(self, submissions: int) -> None:
        """Nothing: the workers are there already."""

    def _start(self, stack: ExitStack) -> None:
        # What goes wrong is said in the table at the end; a worker's log would tear the bar apart.
        stack.enter_context(without_log("distributed"))
        settings = {
            "distributed.scheduler.allowed-failures": WORKER_DEATHS,
            "distributed.admin.large-graph-warning-threshold": "1GiB",  # a submission of 30 MB is large, and is one
        }
        stack.enter_context(dask.config.set(settings))
        try:
            self._client = stack.enter_context(Client(self.scheduler, timeout=CONNECT_SECONDS))
        except (OSError, ValueError) as error:  # TimeoutError is an OSError
            raise ValueError(
                explain(
                    f"No Dask scheduler answers at {self.scheduler}: {error}",
                    "the address that `dask scheduler` prints when it starts, such as tcp://10.0.0.5:8786.",
                    try_this="start it, or leave --scheduler out to grade on this machine.",
                )
            ) from None
        self._client.register_plugin(WarmGraders(self.make))
        stack.callback(self._remove_graders)
        self._check_workers()
        # As many again wait in the workers' queues, so that none of them waits for the network.
        self.number = 2 * sum(self._client.nthreads().values())
        self._threads = ThreadPoolExecutor(self.number)

    def _remove_graders(self) -> None:
        if self._client.status == "running":  # else the scheduler is lost
            self._client.unregister_worker_plugin(PLUGIN)

    def _check_workers(self) -> None:
        found = self._client.run(prepare)
        if not found:
            raise ValueError(
                explain(
                    f"The scheduler at {self.scheduler} has no workers.",
                    "at least one.",
                    try_this=f"on each machine: dask worker {self.scheduler}",
                )
            )
        for address, (version, trouble, remarks) in sorted(found.items()):
            self.remarks = tuple(dict.fromkeys((*self.remarks, *remarks)))
            if trouble:
                raise ValueError(f"The worker {address} cannot grade.\n{trouble}")
            if version != package_version():
                raise ValueError(
                    explain(
                        f"The worker {address} has another version: {version}.",
                        package_version(),
                        "marks would depend on the machine.",
                        "install the same version of the course and of torch on every machine.",
                    )
                )

    def grade_one(self, submission: Submission, released: str) -> Report:
        """Grades a submission on whichever worker comes free first."""
        try:
            return self._client.submit(grade_one, submission, released, pure=False).result()
        except KilledWorker:
            # It was on a worker that went away, perhaps because of its neighbour: one by one they are tried once more.
            with self._one_suspect:
                return self._client.submit(grade_one, submission, released, pure=False).result()


class WarmGraders(WorkerPlugin):
    """A worker's graders, as many as it has threads, started when they are first needed."""

    name = PLUGIN

    def __init__(self, make: Callable[[], Any]) -> None:
        self.make = make

    def setup(self, worker: Worker) -> None:
        self._lock, self._open, self._are_started = Lock(), ExitStack(), False
        self._graders = Graders(worker.state.nthreads, self.make)

    def teardown(self, worker: Worker) -> None:
        self._open.close()

    def started(self) -> Graders:
        with self._lock:
            if not self._are_started:
                self._open.enter_context(self._graders)
                self._are_started = True
        return self._graders


def grade_one(submission: Submission, released: str) -> Report:
    """Grades a submission with one of the graders of the worker that runs this."""
    return cast(WarmGraders, get_worker().plugins[PLUGIN]).started().grade_one(submission, released)


def prepare(dask_worker: Worker) -> tuple[str, str, tuple[str, ...]]:
    """Starts a worker's graders. Returns its version of the package, why it cannot grade, and their remarks.

    ``Client.run`` hands the worker over by the parameter's name.
    """
    try:
        return package_version(), "", cast(WarmGraders, dask_worker.plugins[PLUGIN]).started().remarks
    except (ValueError, OSError) as error:
        return package_version(), str(error), ()
