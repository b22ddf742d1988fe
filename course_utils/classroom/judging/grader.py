"""Grades one submission at a time, in the sandbox (``Grader``, ``Limits``).

The notebook is rebuilt here, from data alone; its code runs in a fork of one warm Python behind bubblewrap; scores come
back through the supervisor and become cards here.
"""

from __future__ import annotations

import json
from functools import lru_cache

from course_utils.classroom.judging import outcomes
from course_utils.classroom.judging.director import Director
from course_utils.classroom.judging.outcomes import Verdict
from course_utils.classroom.judging.results import ExerciseResult, Report
from course_utils.classroom.rebuild.reading import ReleasedNotebook, Unreadable, read_released
from course_utils.classroom.rebuild.rebuild import Rebuilt, rebuild, untouched
from course_utils.classroom.sandbox.bubblewrap import SandboxMissing as SandboxMissing
from course_utils.classroom.sandbox.bubblewrap import missing
from course_utils.classroom.sandbox.warm_python import Limits as Limits
from course_utils.classroom.sandbox.warm_python import WarmPython

_released = lru_cache(maxsize=32)(read_released)


class Grader:
    """Turns submissions into reports. Use it in a ``with`` block, which holds one warm Python.

    Args:
        limits: of every submission.

    Raises:
        SandboxMissing: (an ``OSError``, when the ``with`` block begins) there can be no sandbox here; the message says
            what to install or to allow.
    """

    def __init__(self, limits: Limits = Limits()) -> None:  # noqa: B008  frozen: one serves all
        self.limits = limits
        self._python = WarmPython()

    def __enter__(self) -> Grader:
        if reason := missing():
            raise SandboxMissing(reason)
        self._python.open()
        return self

    def __exit__(self, *error: object) -> None:
        self._python.end()

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
        notebook = _released(released)
        notes, listed = list[str](), list[str]()
        try:
            rebuilt = rebuild(notebook, submitted, self.limits.notebook_bytes)
        except Unreadable as reason:
            rebuilt = untouched(notebook)
            rebuilt.repairs = [f"Nothing was graded. {reason}"]
            results = {cell.id: Verdict(0.0, "unreadable", text=str(reason)) for cell in notebook.graded}
        else:
            director = Director(rebuilt, self._python, self.limits)
            results = director.run()
            notes, listed = director.notes, [*rebuilt.listed, *director.listed]
        exercises = tuple(outcomes.result_of(cell, results[cell.id]) for cell in notebook.graded)
        waiting = [result for result in exercises if result.outcome == "review by hand" and not result.by_hand]
        reviews = [said for cell in notebook.graded for said in results[cell.id].reviews]
        reviews += [result.text for result in waiting if result.said is None]
        return Report(
            student=student,
            assignment=assignment,
            exercises=exercises,
            repairs=tuple(rebuilt.repairs),
            reviews=tuple(dict.fromkeys(reviews)),
            notes=tuple(dict.fromkeys(notes)),
            listed=tuple(listed),
            notebook=_with_cards(notebook, rebuilt, exercises),
        )


def _with_cards(released: ReleasedNotebook, rebuilt: Rebuilt, exercises: tuple[ExerciseResult, ...]) -> str:
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
        cell["outputs"] = [{"output_type": "execute_result", "execution_count": count, "data": data, "metadata": {}}]
    return json.dumps(rebuilt.notebook, ensure_ascii=False, indent=1) + "\n"
