"""Results on disk, one JSON file a submission (``save``, ``load``), and the key that says when one is still good
(``stands``).

A file is written whole or not at all and before anything else is done with a result, so that whatever is killed, what
was graded stays graded.
"""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass, replace
from functools import cache
from importlib import metadata
from pathlib import Path

from course_utils.base.files import write_whole
from course_utils.classroom.course.submissions import Submission
from course_utils.classroom.judging.results import Report

FORMAT = 1
PACKAGE = Path(__file__).resolve().parents[2]
# What these hold decides no mark: a new figure or another word on a card must not grade a class again.
_NO_MARKS: tuple[str, ...] = (
    "authoring",
    "draw",
    "drills",
    "progress",
    "workspace",
    "checks/card",
    "base/markup",
    "base/document",
)
_NO_MARKS += ("classroom/books", "classroom/course", "classroom/run", "checks/asides", "checks/thoughts", "leaks")
_POINTS = re.compile(rb"^points = .*$", re.MULTILINE)
# The first edition's. Its verdicts are today's, so they stand; but an answer that it stopped, for example after a
# timeout on a busy machine, or had set aside for the teacher, may come out better now and is graded again.
_EARLIER = ("course_utils 145de8434a14 with torch 2.13.0",)
_MAY_CHANGE = {"killed", "timed out", "unreadable"}


@dataclass(frozen=True)
class StoredResult:
    """A result on disk.

    Attributes:
        key: what was graded, against what, by which version of the package.
        timestamp: when it was handed in, as the student's ``timestamp.txt`` said.
        report: the result.
    """

    key: str
    timestamp: str
    report: Report


@cache
def package_version() -> str:
    """The version of what decides marks: a hash of the package's source files and of the exercises' points, and
    torch's version."""
    digest = hashlib.sha256()
    for path in sorted((*PACKAGE.rglob("*.py"), *PACKAGE.rglob("*.toml"))):
        place, content = path.relative_to(PACKAGE).as_posix(), path.read_bytes()
        if not place.startswith(_NO_MARKS):
            points = b"".join(_POINTS.findall(content))  # of an exercise's text file; the rest of it is words
            digest.update(place.encode() + b"\0" + (content if path.suffix == ".py" else points) + b"\0")
    release = metadata.version("torch").partition("+")[0]  # the same one built for another processor judges the same
    return f"course_utils {digest.hexdigest()[:12]} with torch {release}"


def key_of(submission: Submission, released: str, version: str = "") -> str:
    """A text that stays the same as long as grading again would give the same result."""
    return _digest("\n".join((submission.digest, _digest(released), version or package_version())))


def stands(result: StoredResult, submission: Submission, released: str) -> bool:
    """Whether grading the submission again would give the result that is kept."""
    if result.key == key_of(submission, released):
        return True
    if result.report.reviews or _MAY_CHANGE & {exercise.outcome for exercise in result.report.exercises}:
        return False
    return any(result.key == key_of(submission, released, version) for version in _EARLIER)


def save(path: Path, result: StoredResult) -> None:
    """Writes a result to its file, in place of an older one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    report = result.report.to_json()
    values = {"format": FORMAT, "key": result.key, "graded_with": package_version(), "timestamp": result.timestamp}
    values |= {"digest": _digest(report), "report": json.loads(report)}
    write_whole(path, json.dumps(values, ensure_ascii=False, indent=1) + "\n")


def load(path: Path) -> StoredResult | None:
    """The result in a file; None where there is none, or not as ``save`` wrote it: it is graded again."""
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
        report = json.dumps(values["report"], ensure_ascii=False)
        if values["format"] != FORMAT or values["report"].get("sandbox") == "none":  # as earlier versions could
            return None
        if values["graded_with"] not in _EARLIER and values["digest"] != _digest(report):
            return None
        return StoredResult(values["key"], values["timestamp"], Report.from_json(report))
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None


def without_texts(report: Report) -> Report:
    """The report without its notebook and cards, which are on disk: a class of thousands fits into memory."""
    exercises = tuple(replace(result, text="", html="") for result in report.exercises)
    return replace(report, notebook="", exercises=exercises)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
