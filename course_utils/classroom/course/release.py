"""Releases assignments: nbgrader's own generate_assignment, between two lints (``release``)."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

from course_utils.authoring.files import read, topic_of
from course_utils.authoring.lint import lint_learner, report
from course_utils.authoring.problems import Notebook, Problem
from course_utils.base.errors import explain
from course_utils.classroom.course.folder import ClassFolder
from course_utils.classroom.course.rules import RULES

TryOut = Callable[[Notebook, Notebook], list[Problem]]


def release(course: ClassFolder, assignment: str, try_out: TryOut | None = None) -> float:
    """Writes ``release/ASSIGNMENT`` from ``source/ASSIGNMENT`` and enters the assignment in the gradebook.

    Releasing again after a change is safe: marks stay. Once there are submissions, nbgrader refuses to add or leave out
    a graded cell, and says so: set the points of an exercise to 0 instead.

    Args:
        try_out: finds what is wrong with tests of the teacher's own, from the source and the release made of it.

    Returns:
        The points that all its graded cells can earn.

    Raises:
        ValueError: the source breaks a rule that grading stands on, a released cell shows a solution, or nbgrader
            refuses; the message lists what to mend. Then the release that was there, and the gradebook, are as before.
    """
    source, target = course.notebook("source", assignment), course.notebook("release", assignment)
    page = Notebook(f"source/{assignment}/{source.name}", topic_of(source), read(source))
    _refuse(assignment, [problem for rule in RULES for problem in rule(page)])
    with TemporaryDirectory(prefix="release-", dir=course.root) as folder:  # the old one stays till the end
        made = _generate(course, assignment, Path(folder).name, enter=False)
        _refuse(assignment, lint_learner(made, source, name=f"release/{assignment}/{target.name}"))
        if try_out:
            _refuse(assignment, try_out(page, Notebook(page.name, page.topic, read(made))))
        made = _generate(course, assignment, Path(folder).name, enter=True)
        if target.parent.exists():
            shutil.move(target.parent, Path(folder) / "before")
        shutil.move(made.parent, target.parent)
    cells = [cell.metadata.get("nbgrader", {}) for cell in read(target).cells]
    return sum(cell.get("points", 0) for cell in cells if cell.get("grade") or cell.get("task"))


def _generate(course: ClassFolder, assignment: str, folder: str, *, enter: bool) -> Path:
    """Has nbgrader make the students' notebook in a folder of the course, and enter it in the gradebook where asked.

    Raises:
        ValueError: nbgrader refuses.
    """
    from nbgrader.converters import GenerateAssignment
    from nbgrader.utils import capture_log, temp_attrs

    with temp_attrs(course.api.coursedir, assignment_id=assignment, release_directory=folder):
        app = GenerateAssignment(coursedir=course.api.coursedir, parent=course.api)
        app.force, app.create_assignment, app.no_database = True, True, not enter
        app.config.SaveCells.enabled = enter
        result = capture_log(app)
        made = course.notebook("release", assignment)
    if not result["success"]:
        raise ValueError(
            explain(
                f"nbgrader could not release {assignment}: {last_words(result)}",
                "that nbgrader can read the source and open its gradebook.",
                "the release that is there is as it was.",
                "mend what it names, and release again.",
            )
        )
    return made


def _refuse(assignment: str, problems: list[Problem]) -> None:
    if problems:
        raise ValueError(f"{assignment} is not released, because grading would go wrong.\n\n{report(problems)}")


def last_words(result: dict) -> str:
    """The most telling line of nbgrader's log."""
    lines = [line.strip() for text in (result.get("log"), result.get("error")) for line in (text or "").splitlines()]
    errors = [line for line in lines if "Error:" in line] or [line for line in lines if "ERROR" in line] or lines
    return errors[0] if errors else "it gave no reason."
