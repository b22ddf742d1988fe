"""Runs submissions through graders on this machine (``Graders``): a thread for each, with a warm Python of its own.

What takes time runs in the sandbox, in processes of its own; the threads only wait. A sandbox that ends is started
again by its grader, and costs the submission that was in it and no other.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ThreadPoolExecutor, wait
from contextlib import ExitStack
from itertools import islice
from queue import SimpleQueue
from typing import Any, Self

from course_utils.classroom.course.submissions import Submission
from course_utils.classroom.judging.grader import Grader
from course_utils.classroom.judging.results import Report

BYTES_A_GRADER = 3 * 2**30  # the warm Python, and an answer that takes the 2 GiB that it may
GradeOne = Callable[[Submission, str], Report]


class Graders:
    """Graders that are warm for the length of a ``with`` block.

    Args:
        number: how many; None: one for every core that this process may use, and no more than the memory holds.
        make: makes one; for tests.

    Raises:
        OSError: (when the ``with`` block begins) there can be no sandbox here; the message says why.
    """

    def __init__(self, number: int | None = None, make: Callable[[], Any] = Grader) -> None:
        self.number, self._make = number or _fitting(), make
        self._idle: SimpleQueue[Any] = SimpleQueue()

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            self._executor, self._grade_one = self._start(stack)
            self._open = stack.pop_all()
        return self

    def _start(self, stack: ExitStack) -> tuple[Executor, GradeOne]:
        threads = stack.enter_context(ThreadPoolExecutor(self.number))
        for grader in threads.map(lambda _: self._make().__enter__(), range(self.number)):
            stack.push(grader)
            self._idle.put(grader)
        stack.callback(threads.shutdown, wait=False, cancel_futures=True)
        return threads, self._with_an_idle_one

    def __exit__(self, *error: Any) -> None:
        self._open.__exit__(*error)

    def _with_an_idle_one(self, submission: Submission, released: str) -> Report:
        grader = self._idle.get()
        try:
            return graded(grader, submission, released)
        finally:
            self._idle.put(grader)

    def grade(self, work: Iterable[tuple[Submission, str]]) -> Iterator[tuple[Submission, Report | BaseException]]:
        """Grades submissions, in the order in which they are done.

        Args:
            work: submissions, each with its released notebook's text; taken one by one, as graders come free, so that
                memory does not grow with the class.

        Yields:
            Each submission with its report, or with the error of this machine that it ended in.
        """
        waiting, out = iter(work), dict[Future[Report], Submission]()
        while True:
            for submission, released in islice(waiting, 2 * self.number - len(out)):
                out[self._executor.submit(self._grade_one, submission, released)] = submission
            if not out:
                return
            for future in wait(out, return_when=FIRST_COMPLETED).done:
                yield out.pop(future), future.exception() or future.result()


def graded(grader: Grader, submission: Submission, released: str) -> Report:
    """A submission's report."""
    about = {"student": submission.student, "assignment": submission.assignment}
    return grader.grade(released, submission.content, **about)


def _fitting() -> int:
    memory_bytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return max(1, min(len(os.sched_getaffinity(0)), memory_bytes // BYTES_A_GRADER))
