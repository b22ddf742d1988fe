"""Runs submissions through graders in parallel (``Crew``): processes on this machine, or workers of a Dask cluster.

Submissions go out and reports come back through the scheduler, so a worker needs nothing but the package. Only so many
are out at a time that every worker always has its next one; memory stays flat however large the class is.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from itertools import islice

import dask
from dask.system import CPU_COUNT
from distributed import Client, KilledWorker, LocalCluster, Security, as_completed

from course_utils.base.errors import explain
from course_utils.classroom.books.kept import package_version
from course_utils.classroom.course.folder import quiet
from course_utils.classroom.course.submissions import Submission
from course_utils.classroom.judging.grader import Grader
from course_utils.classroom.judging.results import Report
from course_utils.classroom.run.warm import PLUGIN, MakeGrader, WarmGraders, grade_one, prepare

AHEAD = 2  # submissions a worker has beyond the one it is at, so that it never waits for the network
WORKER_DEATHS = 3  # of workers that a submission may see before it waits for a worker of its own; machines do go away
WORTH_A_PROCESS = 8  # submissions that take as long as starting one more process, with torch and its warm Python
CONNECT_SECONDS = 20
LOCAL_PAGE = "127.0.0.1:0"  # Dask's status page cannot be left out; here only this machine can ask for it


class NotGraded(Exception):
    """Why a submission has no report: the machines failed, not the student."""


class Crew:
    """Workers with warm graders, for the length of a ``with`` block.

    Args:
        scheduler: the address of a Dask scheduler, ``tcp://host:8786``; None starts processes on this machine.
        workers: how many processes to start on this machine; None: one for every core.
        sandbox: whether graders hold the students' code in a sandbox.
        make: makes a grader; for tests.

    Attributes:
        remarks: what workers warned of when they started, one sentence each.

    Raises:
        ValueError: no scheduler answers, it has no workers, or a worker cannot grade; the message says why.
    """

    def __init__(
        self, scheduler: str | None = None, workers: int | None = None, sandbox: bool = True, make: MakeGrader = Grader
    ) -> None:
        self.scheduler, self.workers, self.sandbox, self.make = scheduler, workers or CPU_COUNT, sandbox, make
        self.remarks: tuple[str, ...] = ()
        self._client: Client
        self._open = ExitStack()

    def expect(self, submissions: int) -> None:
        """Starts no more processes than so many submissions are worth; to be said before the ``with`` block."""
        self.workers = min(self.workers, math.ceil(submissions / WORTH_A_PROCESS) or 1)

    def __enter__(self) -> Crew:
        with ExitStack() as stack:
            self._client = self._connect(stack)
            self._client.register_plugin(WarmGraders(self.make, self.sandbox))
            stack.callback(self._send_home)
            self._check_workers()
            self._open = stack.pop_all()
        return self

    def _send_home(self) -> None:
        if self._client.status == "running":  # else the scheduler is lost
            self._client.unregister_worker_plugin(PLUGIN)

    def __exit__(self, *error: object) -> None:
        self._open.close()

    def _connect(self, stack: ExitStack) -> Client:
        # What goes wrong is said in the table at the end; a lost worker is no news. Its log would tear the bar apart.
        stack.enter_context(quiet("distributed"))
        settings = {
            "distributed.scheduler.allowed-failures": WORKER_DEATHS,
            "distributed.admin.large-graph-warning-threshold": "1GiB",  # a submission of 30 MB is large, and is one
        }
        stack.enter_context(dask.config.set(settings))
        if self.scheduler is None:
            cluster = stack.enter_context(
                LocalCluster(
                    n_workers=self.workers,
                    threads_per_worker=1,
                    processes=True,
                    memory_limit=None,  # a submission's memory is the sandbox's to limit
                    dashboard_address=LOCAL_PAGE,
                    silence_logs=logging.CRITICAL,
                    # Whoever reaches a scheduler can run code as its owner. On a server where students have accounts,
                    # that would be all of them; with keys made for this run, it is this process alone.
                    security=Security.temporary(),
                )
            )
            return stack.enter_context(Client(cluster))
        try:
            return stack.enter_context(Client(self.scheduler, timeout=CONNECT_SECONDS))
        except (OSError, ValueError) as error:  # TimeoutError is an OSError
            raise ValueError(
                explain(
                    f"No Dask scheduler answers at {self.scheduler}: {error}",
                    "the address that `dask scheduler` prints when it starts, such as tcp://10.0.0.5:8786.",
                    try_this="start it, or leave --scheduler out to grade on this machine.",
                )
            ) from None

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
        for address, (version, trouble, warned) in sorted(found.items()):
            self.remarks = tuple(dict.fromkeys((*self.remarks, *warned)))
            if trouble:
                raise ValueError(f"The worker {address} cannot grade.\n{trouble}" if self.scheduler else trouble)
            if version != package_version():
                raise ValueError(
                    explain(
                        f"The worker {address} has another version: {version}.",
                        package_version(),
                        "marks would depend on the machine.",
                        "install the same version of the course and of torch on every machine.",
                    )
                )

    def grade(self, work: Iterable[tuple[Submission, str]]) -> Iterator[tuple[Submission, Report | NotGraded]]:
        """Grades submissions, in the order in which they are done.

        Args:
            work: submissions, each with its released notebook's text; taken one by one, as workers come free.

        Yields:
            Each submission with its report, or with why there is none; not all of them, where the scheduler is lost.
        """
        waiting = iter(work)
        suspects: list[tuple[Submission, str]] = []
        out: dict[object, tuple[Submission, str]] = {}
        done = as_completed()

        def send(items: Iterable[tuple[Submission, str]]) -> None:
            for item in items:
                future = self._client.submit(grade_one, *item, pure=False)
                out[future.key] = item
                done.add(future)

        send(islice(waiting, (1 + AHEAD) * (sum(self._client.nthreads().values()) or 1)))
        for future in done:
            item = out.pop(future.key)
            try:
                report = future.result()
            except KilledWorker:
                # It was on a worker that went away, perhaps because of its neighbour: it is tried alone below.
                suspects.append(item)
            except Exception as error:  # whatever happened out there: it costs this one a report, not the others
                yield item[0], NotGraded(one_line(error))
            else:
                yield item[0], report
            future.release()
            send(islice(waiting, 1))
        for item in suspects:
            try:
                yield item[0], self._client.submit(grade_one, *item, pure=False).result()
            except Exception as error:
                yield item[0], NotGraded(one_line(error))


def one_line(error: Exception) -> str:
    """What went wrong, as a reason that a table can hold."""
    return " ".join(f"{type(error).__name__}: {error}".split())[:300]
