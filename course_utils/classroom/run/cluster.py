"""Grades through a Dask cluster in place of graders here (``Cluster``), for a course that outgrows one machine.

Submissions go out and reports come back through the scheduler, so a worker needs nothing but the package.
"""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

from distributed import Client

from course_utils.base.errors import explain
from course_utils.classroom.books.stored import package_version
from course_utils.classroom.course.submissions import Submission
from course_utils.classroom.judging.grader import Grader
from course_utils.classroom.judging.results import Report
from course_utils.classroom.run.graders import Graders

CONNECT_SECONDS = 20
_here = threading.local()  # a worker's thread keeps its grader, whose sandbox ends with the worker


class Cluster(Graders):
    """The workers of a scheduler; the threads here wait for them. A worker that is lost costs time and nothing else.

    Args:
        scheduler: the address of a Dask scheduler, ``tcp://host:8786``.

    Raises:
        ValueError: (when the ``with`` block begins) no scheduler answers, it has no workers, or one of them has another
            version of the package or of torch; the message says why.
    """

    def __init__(self, scheduler: str) -> None:
        super().__init__()
        self.scheduler = scheduler

    def expect(self, submissions: int) -> None:
        """Nothing: the workers are there already."""

    def _start(self, stack: ExitStack) -> None:
        try:
            self._client = stack.enter_context(Client(self.scheduler, timeout=CONNECT_SECONDS))
        except (OSError, ValueError) as error:  # TimeoutError is an OSError
            raise self._refused(f"No Dask scheduler answers: {error}", "start it with: dask scheduler") from None
        versions = self._client.run(package_version)
        if not versions:
            raise self._refused("It has no workers", f"on each machine: dask worker {self.scheduler} --nthreads 1")
        for address, version in versions.items():
            if version != package_version():  # marks would depend on the machine
                said = f"The worker {address} has {version}, and this machine {package_version()}"
                raise self._refused(said, "install the same version of the course and of torch on every machine")
        # As many again wait in the workers' queues, so that none of them waits for the network.
        self.number = 2 * sum(self._client.nthreads().values())
        self._threads = ThreadPoolExecutor(self.number)

    def _refused(self, what: str, try_this: str) -> ValueError:
        return ValueError(explain(f"Nothing is graded at {self.scheduler}. {what}.", "workers.", try_this=try_this))

    def grade_one(self, submission: Submission, released: str) -> Report:
        """Grades a submission on whichever worker comes free first."""
        return self._client.submit(grade_one, submission, released, pure=False).result()


def grade_one(submission: Submission, released: str) -> Report:
    """Grades a submission in the worker that runs this."""
    if not hasattr(_here, "grader"):
        _here.grader = Grader().__enter__()
    return _here.grader.grade(
        released, submission.content, student=submission.student, assignment=submission.assignment
    )
