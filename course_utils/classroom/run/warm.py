"""What a worker does: keep graders warm (``WarmGraders``) and run submissions through them (``grade_one``)."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from queue import Empty, SimpleQueue
from typing import Any, cast

from distributed import Worker, WorkerPlugin, get_worker

from course_utils.classroom.books.kept import package_version
from course_utils.classroom.course.submissions import Submission
from course_utils.classroom.judging.results import Report

PLUGIN = "course_utils.classroom"
MakeGrader = Callable[..., Any]  # whose keyword ``sandbox`` says whether it holds students' code in one


class WarmGraders(WorkerPlugin):
    """A worker's graders: as many as it has threads, each made by ``make(sandbox=...)`` once and kept warm."""

    name = PLUGIN

    def __init__(self, make: MakeGrader, sandbox: bool) -> None:
        self.make, self.sandbox = make, sandbox

    def setup(self, worker: Worker) -> None:
        self._open = ExitStack()
        self._idle: SimpleQueue[Any] = SimpleQueue()

    def teardown(self, worker: Worker) -> None:
        self._open.close()

    @contextmanager
    def borrowed(self) -> Iterator[Any]:
        """A grader for this thread alone."""
        try:
            grader = self._idle.get_nowait()
        except Empty:
            grader = self._open.enter_context(self.make(sandbox=self.sandbox))
        try:
            yield grader
        finally:
            self._idle.put(grader)


def grade_one(submission: Submission, released: str) -> Report:
    """Grades a submission with one of the graders of the worker that runs this."""
    with cast(WarmGraders, get_worker().plugins[PLUGIN]).borrowed() as grader:
        return grader.grade(released, submission.content, student=submission.student, assignment=submission.assignment)


def prepare(dask_worker: Worker) -> tuple[str, str, tuple[str, ...]]:
    """Starts a worker's first grader. Returns its version of the package, why it cannot grade, and what it warns of.

    ``Client.run`` hands the worker over by the parameter's name.
    """
    trouble = ""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            with cast(WarmGraders, dask_worker.plugins[PLUGIN]).borrowed():
                pass
        except (ValueError, OSError) as error:
            trouble = str(error)
    said = tuple(str(warning.message) for warning in caught if issubclass(warning.category, UserWarning))
    return package_version(), trouble, said
