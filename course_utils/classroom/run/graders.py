"""Runs submissions through graders on this machine (``Graders``): a thread for each, with a warm Python of its own.

What takes time runs in the sandbox, in processes of its own; the threads only wait. A sandbox that ends is started
again by its grader, and costs the submission that was in it and no other.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import ExitStack
from itertools import islice
from queue import SimpleQueue
from typing import Any, Self

from course_utils.classroom.course.submissions import Submission
from course_utils.classroom.judging.grader import Grader
from course_utils.classroom.judging.results import Report

WORTH_A_GRADER = 8  # submissions that take as long as starting one more warm Python


BYTES_A_GRADER = 3 * 2**30  # the warm Python, and an answer that takes the 2 GiB that it may


class NotGraded(Exception):
    """Why a submission has no report: the machine failed, not the student."""


class Graders:
    """Graders that are warm for the length of a ``with`` block.

    Args:
        number: how many; None: one for every core that this process may use, and no more than the memory holds.
        make: makes one; for tests.

    Attributes:
        remarks: what they had to say when they started, one sentence each.

    Raises:
        OSError: (when the ``with`` block begins) there can be no sandbox here; the message says why.
    """

    def __init__(self, number: int | None = None, make: Callable[[], Any] = Grader) -> None:
        self.number, self.make = number or _fitting(), make
        self.remarks: tuple[str, ...] = ()
        self._idle: SimpleQueue[Any] = SimpleQueue()

    def expect(self, submissions: int) -> None:
        """Starts no more graders than so many submissions are worth; to be said before the ``with`` block."""
        self.number = min(self.number, math.ceil(submissions / WORTH_A_GRADER) or 1)

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            self._start(stack)
            self._open = stack.pop_all()
        return self

    def _start(self, stack: ExitStack) -> None:
        self._threads = stack.enter_context(ThreadPoolExecutor(self.number))
        for grader in self._threads.map(lambda _: self.make().__enter__(), range(self.number)):
            stack.push(grader)
            self._idle.put(grader)
            self.remarks = tuple(dict.fromkeys((*self.remarks, *grader.remarks)))

    def __exit__(self, *error: Any) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)
        self._open.__exit__(*error)

    def grade_one(self, submission: Submission, released: str) -> Report:
        """Grades a submission with whichever grader comes free first."""
        grader = self._idle.get()
        try:
            about = {"student": submission.student, "assignment": submission.assignment}
            return grader.grade(released, submission.content, **about)
        finally:
            self._idle.put(grader)

    def grade(self, work: Iterable[tuple[Submission, str]]) -> Iterator[tuple[Submission, Report | NotGraded]]:
        """Grades submissions, in the order in which they are done.

        Args:
            work: submissions, each with its released notebook's text; taken one by one, as graders come free, so that
                memory does not grow with the class.

        Yields:
            Each submission with its report, or with why there is none.
        """
        waiting, out = iter(work), dict[Future[Report], Submission]()
        while True:
            for submission, released in islice(waiting, 2 * self.number - len(out)):
                out[self._threads.submit(self.grade_one, submission, released)] = submission
            if not out:
                return
            for future in wait(out, return_when=FIRST_COMPLETED).done:
                error = future.exception()
                yield out.pop(future), NotGraded(one_line(error)) if error else future.result()


def one_line(error: BaseException) -> str:
    """What went wrong, as a reason that a table can hold."""
    return " ".join(f"{type(error).__name__}: {error}".split())[:300]


def _fitting() -> int:
    memory_bytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return max(1, min(len(os.sched_getaffinity(0)), memory_bytes // BYTES_A_GRADER))
