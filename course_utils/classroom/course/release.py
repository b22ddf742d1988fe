"""Releases assignments: nbgrader's own generate_assignment, between two lints (``release``)."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from course_utils.authoring.build import learner_text
from course_utils.authoring.files import read, topic_of
from course_utils.authoring.lint import lint_learner, report
from course_utils.authoring.problems import Notebook, Problem
from course_utils.base.errors import explain
from course_utils.base.files import write_whole
from course_utils.classroom.course.create import CHECKOUT
from course_utils.classroom.course.folder import CONFIG, ClassFolder
from course_utils.classroom.course.rules import RULES


@dataclass(frozen=True)
class ReleaseSummary:
    """One released assignment.

    Attributes:
        points: what all its graded cells can earn.
        as_the_course: whether it is, byte for byte, the course's own learner notebook.
    """

    points: float
    as_the_course: bool


def release(course: ClassFolder, assignment: str) -> ReleaseSummary:
    """Writes ``release/ASSIGNMENT`` from ``source/ASSIGNMENT`` and enters the assignment in the gradebook.

    Releasing again after a change is safe: marks stay, what was released before is kept, so that those who have it are
    graded as the others are, and nbgrader refuses a change of the graded cells once there are submissions.

    Raises:
        ValueError: the source breaks a rule that grading stands on, a released cell shows a solution, or nbgrader
            refuses; the message lists what to mend. Then no new release is written.
    """
    source, target = course.notebook("source", assignment), course.notebook("release", assignment)
    page = Notebook(f"source/{assignment}/{source.name}", topic_of(source), read(source))
    _refuse(assignment, [problem for rule in RULES for problem in rule(page)])
    before = target.read_bytes() if target.is_file() else b""
    result = course.api.generate_assignment(assignment)
    if not result["success"]:
        raise ValueError(
            explain(
                f"nbgrader could not release {assignment}: {last_words(result)}",
                "that nbgrader can open its gradebook, and, once there are submissions, that the graded cells of the "
                "source are the same as before.",
                try_this=f"mend what it names; or put {source} back as it was, or make an assignment of another name "
                "from the new one.",
            )
        )
    if before and before != target.read_bytes():
        course.earlier(assignment).mkdir(parents=True, exist_ok=True)
        write_whole(course.earlier(assignment) / f"{hashlib.sha256(before).hexdigest()[:16]}.ipynb", before)
    try:
        _refuse(assignment, lint_learner(target, source, name=f"release/{assignment}/{target.name}"))
    except ValueError:
        target.unlink()  # a file that shows solutions must not lie where one might hand it out
        raise
    points = sum(cell.metadata.get("nbgrader", {}).get("points", 0) for cell in read(target).cells)
    original = CHECKOUT / "notebooks" / "solutions" / target.name
    own = original.is_file() and target.read_text(encoding="utf-8") == learner_text(read(original), CHECKOUT / CONFIG)
    return ReleaseSummary(points, own)


def _refuse(assignment: str, problems: list[Problem]) -> None:
    if problems:
        raise ValueError(f"{assignment} is not released, because grading would go wrong.\n\n{report(problems)}")


def last_words(result: dict) -> str:
    """The most telling line of nbgrader's log."""
    lines = [line.strip() for text in (result.get("log"), result.get("error")) for line in (text or "").splitlines()]
    errors = [line for line in lines if "Error:" in line] or [line for line in lines if "ERROR" in line] or lines
    return errors[0] if errors else "it gave no reason."
