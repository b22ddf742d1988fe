"""Runs submissions through graders: on this machine (``Graders``), or on the workers of a Dask scheduler (``Cluster``)
for a course that outgrows one machine.

What takes time runs in the sandbox, in processes of its own; a thread for each only waits. A sandbox that ends is
started again by its grader, and costs the submission that was in it and no other. A worker of a cluster needs nothing
but the package: submissions go out and reports come back through the scheduler.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ThreadPoolExecutor, wait
from contextlib import ExitStack, contextmanager
from importlib import metadata
from itertools import islice
from typing import Any

from course_utils.classroom.course.submissions import Submission
from course_utils.classroom.judging.grader import Grader
from course_utils.classroom.judging.results import Report
from course_utils.classroom.sandbox.bubblewrap import SandboxMissing

BYTES_A_GRADER = 3 * 2**30  # the warm Python, and an answer that takes the 2 GiB that it may
CONNECT_SECONDS = 20
Start = Callable[[], Grader]
_here = threading.local()  # a thread keeps its grader


class Graders:
    """Graders on this machine, warm while they grade.

    Args:
        number: how many; None: one for every core that this process may use, and no more than the memory holds.
        make: makes one; for tests.
    """

    def __init__(self, number: int | None = None, make: Callable[[], Any] = Grader) -> None:
        memory_bytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        self.number = number or max(1, min(len(os.sched_getaffinity(0)), memory_bytes // BYTES_A_GRADER))
        self._make = make

    def grade(self, work: Iterable[tuple[Submission, str]]) -> Generator[tuple[Submission, Report | BaseException]]:
        """Grades submissions, in the order in which they are done. Whoever stops early closes the generator.

        Args:
            work: submissions, each with its released notebook's text; taken one by one, as graders come free, so that
                memory does not grow with the class.

        Yields:
            Each submission with its report, or with the error of this machine that it ended in.

        Raises:
            OSError: there can be no sandbox here; the message says why.
        """
        waiting, out = iter(work), dict[Future[Report], Submission]()
        with self._started() as (executor, start):
            while True:
                for submission, released in islice(waiting, 2 * self.number - len(out)):
                    out[executor.submit(grade_one, start, submission, released)] = submission
                if not out:
                    return
                for future in wait(out, return_when=FIRST_COMPLETED).done:
                    if isinstance(error := future.exception(), SandboxMissing):
                        raise error
                    yield out.pop(future), error or future.result()

    @contextmanager
    def _started(self) -> Iterator[tuple[Executor, Start]]:
        with ThreadPoolExecutor(self.number) as threads, ExitStack() as stack:
            try:
                yield threads, lambda: stack.enter_context(self._make())
            finally:
                threads.shutdown(wait=False, cancel_futures=True)


class Cluster(Graders):
    """The workers of a scheduler, ``tcp://host:8786``. A worker that is lost costs time and nothing else.

    ``grade`` raises a ValueError where Dask is not installed, no scheduler answers, it has no workers, or one of them
    has another version of the package or of torch; the message says why.
    """

    def __init__(self, scheduler: str) -> None:
        super().__init__()
        self.scheduler = scheduler

    @contextmanager
    def _started(self) -> Iterator[tuple[Executor, Start]]:
        try:
            from distributed import Client

            client = Client(self.scheduler, timeout=CONNECT_SECONDS)
        except ImportError as error:
            install = "python -m pip install -c constraints.txt -e '.[cluster]'"
            raise self._refused(f"{error.name} is not installed", install) from None
        except (OSError, ValueError) as error:  # TimeoutError is an OSError
            raise self._refused(f"No Dask scheduler answers: {error}", "start it with: dask scheduler") from None
        with client:
            if not (found := client.run(versions)):
                raise self._refused("It has no workers", f"on each machine: dask worker {self.scheduler} --nthreads 1")
            for address, those in found.items():
                if those != versions():  # marks would depend on the machine
                    said = f"The worker {address} has {those}, and this machine {versions()}"
                    raise self._refused(said, "install the same version of the course and of torch on every machine")
            self.number = sum(client.nthreads().values())
            yield client.get_executor(pure=False), lambda: Grader().__enter__()

    def _refused(self, what: str, try_this: str) -> ValueError:
        return ValueError(f"Nothing is graded at {self.scheduler}. {what}.\nTry: {try_this}")


def grade_one(start: Start, submission: Submission, released: str) -> Report:
    """Grades a submission in the thread that runs this, by a grader of its own, which the first one starts."""
    if not hasattr(_here, "grader"):
        _here.grader = start()
    grader: Grader = _here.grader
    return grader.grade(released, submission.content, student=submission.student, assignment=submission.assignment)


def versions() -> str:
    """What decides how an answer is judged; torch's build for one processor or another does not."""
    numbers = {name: metadata.version(name).partition("+")[0] for name in ("autograd-control", "torch")}
    return ", ".join(" ".join(item) for item in numbers.items())
