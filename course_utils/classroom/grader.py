"""Grades one submission at a time, in the sandbox (``Grader``, ``Limits``).

The notebook is rebuilt here, from data alone; its code runs in a fork of one warm Python behind bubblewrap; scores come
back through the guard and become cards here. Imports the modules beside it; no nbgrader.
"""

from __future__ import annotations

import json
import math
import sys
import time
import warnings
from dataclasses import dataclass
from functools import lru_cache
from types import TracebackType

from course_utils.classroom import outcomes
from course_utils.classroom.director import Director
from course_utils.classroom.jail import Bounds
from course_utils.classroom.reading import LARGEST_BYTES, Unreadable
from course_utils.classroom.rebuild import Rebuilt, rebuild, untouched
from course_utils.classroom.released import Released, read_released
from course_utils.classroom.results import ExerciseResult, Report
from course_utils.classroom.sandbox import SandboxMissing as SandboxMissing
from course_utils.classroom.sandbox import missing
from course_utils.classroom.warm_python import WarmPython


@dataclass(frozen=True)
class Limits:
    """What a submission may take.

    Seconds are those that it uses: CPU time, and time in which it waits for something. Time in which the machine was
    busy with other work does not count, so that a submission comes out the same on any machine.

    Attributes:
        wall_seconds: the whole submission, from the first cell to the last check.
        check_seconds: one check, or one cell.
        cpu_seconds: CPU time of one process.
        memory_bytes: of one process, beyond the warm interpreter's own.
        processes: at once, threads not counted.
        file_bytes: the largest file, and the size of each folder that can be written in.
        output_bytes: what is kept of all that its cells print and display.
        notebook_bytes: of the file that was handed in.
    """

    wall_seconds: float = 180.0
    check_seconds: float = 20.0
    cpu_seconds: float = 120.0
    memory_bytes: int = 2 * 2**30
    processes: int = 64
    file_bytes: int = 64 * 2**20
    output_bytes: int = 2**20
    notebook_bytes: int = LARGEST_BYTES


class Grader:
    """Turns submissions into reports. Use it in a ``with`` block, which holds one warm Python.

    Args:
        limits: of every submission.
        sandbox: whether students' code is held by bubblewrap; without it, it runs with all your rights, which is warned
            of and recorded in every report.

    Raises:
        SandboxMissing: (an ``OSError``, when the ``with`` block begins) there can be no sandbox here; the message says
            what to install or to allow.
    """

    def __init__(self, limits: Limits = Limits(), sandbox: bool = True) -> None:
        self.limits, self.sandbox = limits, sandbox
        self._python = WarmPython(sandbox)

    def __enter__(self) -> Grader:
        reason = missing() if self.sandbox or sys.platform != "linux" else None
        if reason is not None:
            raise SandboxMissing(reason)
        if not self.sandbox:
            warnings.warn(
                "Students' code is graded without a sandbox: it can read and change whatever you can.", stacklevel=2
            )
        self._python.open()
        if self.sandbox and not self._python.nested:
            warnings.warn(
                "This system lets the sandbox make no further namespaces, so that every submission gets a Python of "
                "its own: safe, and some seconds slower each.",
                stacklevel=2,
            )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._python.close()

    def grade(self, released: str, submitted: bytes | None, *, student: str, assignment: str) -> Report:
        """Grades a submission. Nothing in it makes this raise.

        Args:
            released: the released notebook as text.
            submitted: what was handed in; None where nothing was.
            student: nbgrader's student id, for the report.
            assignment: the assignment's name, for the report.

        Raises:
            ValueError: the released notebook is none.
            OSError: the warm Python ended and could not be started again.
        """
        started = time.perf_counter()
        notebook = _released(released)
        reviews: list[str] = []
        notes: list[str] = []
        try:
            rebuilt = rebuild(notebook, submitted, self.limits.notebook_bytes)
        except Unreadable as reason:
            rebuilt = untouched(notebook)
            rebuilt.repairs = [f"Nothing was graded. {reason}"]
            results = {cell.id: outcomes.unreadable(cell, str(reason)) for cell in notebook.graded}
        else:
            director = Director(notebook, rebuilt, self._python, self._bounds(), self.limits)
            results = director.run()
            reviews, notes = director.reviews, director.notes
        exercises = tuple(outcomes.result_of(cell, results[cell.id]) for cell in notebook.graded)
        return Report(
            student=student,
            assignment=assignment,
            exercises=exercises,
            repairs=tuple(rebuilt.repairs),
            reviews=tuple(dict.fromkeys(reviews)),
            notes=tuple(dict.fromkeys(notes)),
            notebook=_with_cards(notebook, rebuilt, exercises),
            sandbox="bubblewrap" if self.sandbox else "none",
            wall_seconds=round(time.perf_counter() - started, 4),
        )

    def _bounds(self) -> Bounds:
        limits = self.limits
        return Bounds(math.ceil(limits.cpu_seconds), limits.memory_bytes, limits.processes, limits.file_bytes)


@lru_cache(maxsize=32)
def _released(text: str) -> Released:
    return read_released(text)


def _with_cards(released: Released, rebuilt: Rebuilt, exercises: tuple[ExerciseResult, ...]) -> str:
    """The rebuilt notebook as text, each check cell with its card, as a kernel would have shown it."""
    cards = {cell.id: result for cell, result in zip(released.graded, exercises, strict=True)}
    for step in rebuilt.steps:
        result = cards.get(step.released.id) if step.released else None
        cell = rebuilt.notebook["cells"][step.index]
        if result is None or cell["cell_type"] != "code":
            continue
        count = cell.get("execution_count") or step.index + 1
        cell["execution_count"] = count
        data = {"text/html": result.html, "text/plain": repr(float(result.earned))}
        cell["outputs"] = [
            {"output_type": "execute_result", "execution_count": count, "data": data, "metadata": {}},
        ]
    return json.dumps(rebuilt.notebook, ensure_ascii=False, indent=1) + "\n"
