"""Results on disk, one JSON file a submission (``save``, ``load``), and the key that says what one is a result of.

A file is written whole or not at all and before anything else is done with a result, so that whatever is killed, what
was graded stays graded.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from course_utils.base.files import write_whole
from course_utils.classroom.course.folder import ClassFolder
from course_utils.classroom.course.submissions import Submission
from course_utils.classroom.judging.results import Report
from course_utils.classroom.rebuild.released import read_released


@dataclass(frozen=True)
class StoredResult:
    """A result on disk.

    Attributes:
        key: what was graded, against what.
        report: the result.
    """

    key: str
    report: Report


def key_of(submission: Submission, released: str) -> str:
    """A text that stays the same as long as the same is graded against the same."""
    return hashlib.sha256(f"{submission.digest}\n{released}".encode()).hexdigest()


def refuse_outdated(course: ClassFolder, assignment: str, reports: Iterable[Report]) -> None:
    """Refuses results whose exercises or points are no longer those of the release.

    Raises:
        ValueError: there are some; ``grade`` brings them up to date.
    """
    released = read_released(course.notebook("release", assignment).read_text(encoding="utf-8"))
    wanted = {cell.grade_id: cell.points for cell in released.graded}
    old = [r.student for r in reports if {e.grade_id: e.possible for e in r.exercises} != wanted]
    if old:
        named = ", ".join(old[:5]) + f" and {len(old) - 5} more" * (len(old) > 5)
        raise ValueError(
            f"{assignment} was released with other exercises or points after these were graded: {named}.\n"
            f"Try: autograd-control classroom grade {assignment}"
        )


def save(path: Path, result: StoredResult) -> None:
    """Writes a result to its file, in place of an older one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    values = {"key": result.key, "report": json.loads(result.report.to_json())}
    write_whole(path, json.dumps(values, ensure_ascii=False, indent=1) + "\n")


def load(path: Path) -> StoredResult | None:
    """The result in a file; None where there is none, or not as ``save`` wrote it: it is graded again."""
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
        return StoredResult(str(values["key"]), Report.from_json(json.dumps(values["report"])))
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None


def without_texts(report: Report) -> Report:
    """The report without its notebook and cards, which are on disk: a class of thousands fits into memory."""
    exercises = tuple(replace(result, text="", html="") for result in report.exercises)
    return replace(report, notebook="", exercises=exercises)
