"""Grades through a Dask cluster in place of graders here (``Cluster``), for a course that outgrows one machine.

Submissions go out and reports come back through the scheduler, so a worker needs nothing but the package.
"""

from __future__ import annotations

import threading
from concurrent.futures import Executor
from contextlib import ExitStack
from importlib import metadata

from course_utils.base.errors import explain
from course_utils.classroom.course.submissions import Submission
from course_utils.classroom.judging.grader import Grader
from course_utils.classroom.judging.results import Report
from course_utils.classroom.run.graders import GradeOne, Graders, graded

CONNECT_SECONDS = 20
_here = threading.local()  # a worker's thread keeps its grader, whose sandbox ends with the worker


class Cluster(Graders):
    """The workers of a scheduler. A worker that is lost costs time and nothing else.

    Args:
        scheduler: the address of a Dask scheduler, ``tcp://host:8786``.

    Raises:
        ValueError: (when the ``with`` block begins) Dask is not installed, no scheduler answers, it has no workers, or
            one of them has another version of the package or of torch; the message says why.
    """

    def __init__(self, scheduler: str) -> None:
        super().__init__()
        self.scheduler = scheduler

    def _start(self, stack: ExitStack) -> tuple[Executor, GradeOne]:
        try:
            from distributed import Client

            client = stack.enter_context(Client(self.scheduler, timeout=CONNECT_SECONDS))
        except ImportError as error:
            install = "python -m pip install -c constraints.txt -e '.[cluster]'"
            raise self._refused(f"{error.name} is not installed", install) from None
        except (OSError, ValueError) as error:  # TimeoutError is an OSError
            raise self._refused(f"No Dask scheduler answers: {error}", "start it with: dask scheduler") from None
        if not (found := client.run(versions)):
            raise self._refused("It has no workers", f"on each machine: dask worker {self.scheduler} --nthreads 1")
        for address, those in found.items():
            if those != versions():  # marks would depend on the machine
                said = f"The worker {address} has {those}, and this machine {versions()}"
                raise self._refused(said, "install the same version of the course and of torch on every machine")
        self.number = sum(client.nthreads().values())
        return client.get_executor(pure=False), grade_one

    def _refused(self, what: str, try_this: str) -> ValueError:
        return ValueError(explain(f"Nothing is graded at {self.scheduler}. {what}.", "workers.", try_this=try_this))


def grade_one(submission: Submission, released: str) -> Report:
    """Grades a submission in the worker that runs this."""
    if not hasattr(_here, "grader"):
        _here.grader = Grader().__enter__()
    return graded(_here.grader, submission, released)


def versions() -> str:
    """What decides how an answer is judged; torch's build for one processor or another does not."""
    numbers = {name: metadata.version(name).partition("+")[0] for name in ("autograd-control", "torch")}
    return ", ".join(" ".join(item) for item in numbers.items())
