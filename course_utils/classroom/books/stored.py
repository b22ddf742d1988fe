"""Results on disk, one JSON file a submission (``save``, ``load``), and the key that says when one is still good
(``stands``).

A file is written whole or not at all and before anything else is done with a result, so that whatever is killed, what
was graded stays graded.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Collection, Iterable
from dataclasses import asdict, dataclass, replace
from functools import cache
from importlib import metadata
from itertools import count
from pathlib import Path

from course_utils.base.files import write_whole
from course_utils.base.words import points, points_of, rounded, shown
from course_utils.catalogue import LESSONS
from course_utils.classroom.course.closed import closed
from course_utils.classroom.course.folder import ClassFolder
from course_utils.classroom.course.submissions import Submission
from course_utils.classroom.judging.results import ExerciseResult, Report
from course_utils.classroom.rebuild.released import read_released

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
_LESSON = re.compile(r"Lesson\(\\*[\"'](\w+)")
_POINTS = re.compile(rb"^points = .*$", re.MULTILINE)
# The first edition's, which wrote no digest that is the report's.
_EARLIER = ("course_utils 145de8434a14 with torch 2.13.0",)
MAY_CHANGE = {"killed", "timed out", "unreadable"}


@dataclass(frozen=True)
class EarlierFile:
    """The best of the files that a student handed in before the last one: its points, lateness and a person's marks
    reckoned in; when it came; and the notebook that is kept of it, beside the report."""

    earned: float
    possible: float
    timestamp: str
    notebook: str

    def beats(self, earned: float, possible: float) -> bool:
        """Whether it had the larger share of the points."""
        return self.earned * possible > earned * self.possible + 1e-6


@dataclass(frozen=True)
class StoredResult:
    """A result on disk.

    Attributes:
        key: what was graded, against what, by which edition of its lessons.
        timestamp: when it was handed in, as the student's ``timestamp.txt`` said.
        report: the result.
        judged_by: the editions, as ``editions`` writes them; of results from before there were any, the version.
        digest: of what was handed in; empty where an earlier version did not note it.
        earlier: a file that was judged before this one took its place; None where there was none.
    """

    key: str
    timestamp: str
    report: Report
    judged_by: str = ""
    digest: str = ""
    earlier: EarlierFile | None = None


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


def editions(released: str) -> str:
    """The lessons that a released notebook's checks belong to, each with the edition that judges now: "detach 3"."""
    names = set(_LESSON.findall(released))
    return ", ".join(f"{lesson.name} {lesson.edition}" for lesson in LESSONS if lesson.name in names)


def key_of(submission: Submission, released: str, judged_by: str | None = None) -> str:
    """A text that stays the same as long as the same is graded against the same, by the same editions."""
    judged_by = editions(released) if judged_by is None else judged_by
    return _digest("\n".join((submission.digest, _digest(released), judged_by)))


def stands(result: StoredResult, submission: Submission, released: str) -> bool:
    """Whether the result that is kept is one of this submission, this release and these editions.

    A result from before there were editions stands, too; but what was stopped then, or set aside for the teacher, may
    come out better now and is graded again.
    """
    if result.key != key_of(submission, released, result.judged_by):
        return False
    if not result.judged_by.startswith("course_utils "):
        return result.judged_by == editions(released)
    return not (result.report.reviews or MAY_CHANGE & {exercise.outcome for exercise in result.report.exercises})


def differences(before: StoredResult, submission: Submission, after: Report) -> dict[str, str]:
    """What judging the same submission anew would change, as "snapshot 1 -> 0.6", by graded cell; nothing where the
    student handed in anew, where the result was one that may change (``MAY_CHANGE``), or where only the release gives
    other points now."""
    same = before.digest == submission.digest if before.digest else before.timestamp == submission.timestamp
    was = {result.grade_id: result for result in before.report.exercises if same}
    found = {}
    for result in after.exercises:
        old = was.get(result.grade_id)
        if old is None or old.outcome in {*MAY_CHANGE, "review by hand"}:
            continue
        now = in_points(old, result.possible)
        most = 0.0051 * (1 + result.possible / (old.possible or 1))  # both are, to 0.01
        if abs(now.earned - result.earned) > most:
            found[result.grade_id] = f"{result.exercise} {shown(now.earned)} -> {shown(result.earned)}"
    return found


def in_points(result: ExerciseResult, possible: float) -> ExerciseResult:
    """A result in the points that a release gives now."""
    if result.possible == possible:
        return result
    factor = possible / result.possible if result.possible else 0.0
    earned = rounded(result.earned * factor, possible)
    old, new = re.escape(points_of(result.earned, result.possible)), points(earned, possible)
    lost = tuple((why, cost * factor) for why, cost in result.lost)
    text, html = (re.sub(rf"\b{old} points?\b", new, said) for said in (result.text, result.html))
    return replace(result, earned=earned, possible=possible, lost=lost, said=None, text=text, html=html)


def with_marks_of(before: Report, after: Report, cells: Collection[str]) -> Report:
    """A new result in which these graded cells are as they were judged before, in today's points."""
    was = {result.grade_id: result for result in before.exercises}
    exercises = [in_points(was[r.grade_id], r.possible) if r.grade_id in cells else r for r in after.exercises]
    kept, notebook = {result.grade_id: result for result in exercises}, json.loads(after.notebook)
    for cell in notebook["cells"]:
        name = cell["metadata"].get("nbgrader", {}).get("grade_id")
        if name in cells and cell["cell_type"] == "code":
            for output in cell["outputs"]:
                output["data"] = {"text/html": kept[name].html, "text/plain": repr(float(kept[name].earned))}
    text = json.dumps(notebook, ensure_ascii=False, indent=1) + "\n"
    return replace(after, exercises=tuple(exercises), notebook=text)


def released_anew(before: Report, after: Report) -> str:
    """What a release changed since a result was made, in words: exercises and points; empty where that is nothing."""
    was, now = ({result.grade_id: result for result in report.exercises} for report in (before, after))
    said = [f"{r.exercise} left out ({_of(r)})" for name, r in was.items() if name not in now]
    for name, result in now.items():
        if name not in was:
            said.append(f"{result.exercise} new ({_of(result)})")
        elif was[name].possible != result.possible:
            said.append(f"{result.exercise} {_of(was[name])} -> {_of(result)}")
    return ", ".join(said)


def _of(result: ExerciseResult) -> str:
    return f"{'?' if result.waits else shown(result.earned)} of {shown(result.possible)}"


def not_graded(course: ClassFolder, assignment: str) -> list[str]:
    """The students of whom a file lies there that is another than the one that was graded."""
    return [
        name
        for name in course.submitters(assignment)
        if (found := load(course.report(assignment, name))) is None
        or (found.digest and found.digest != course.submission(assignment, name).digest)
    ]


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
        reopen = f"reopen {assignment}, and then " if assignment in closed(course) else ""
        raise ValueError(
            f"{assignment} was released with other exercises or points after these were graded: {named}.\n"
            f"Try: autograd-control classroom {reopen}grade {assignment}"
        )


def keep(path: Path, notebook: str = "") -> str:
    """Keeps an older result beside the one that takes its place: ``report.1.json``, ``report.2.json``, ...

    Args:
        notebook: the student's, where another file took its place; kept as ``report.1.ipynb``, which can be handed in.

    Returns:
        What the notebook is called.
    """
    number = next(n for n in count(1) if not path.with_name(f"report.{n}.json").exists())
    write_whole(path.with_name(f"report.{number}.json"), path.read_bytes())
    if notebook:
        write_whole(path.with_name(f"report.{number}.ipynb"), notebook)
    return f"report.{number}.ipynb"


def save(path: Path, result: StoredResult) -> None:
    """Writes a result to its file, in place of an older one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    report = result.report.to_json()
    values = {"format": FORMAT, "key": result.key, "graded_with": package_version(), "timestamp": result.timestamp}
    values |= {"judged_by": result.judged_by, "submission": result.digest}
    values |= {"earlier": asdict(result.earlier)} if result.earlier else {}
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
        judged_by = values.get("judged_by", values["graded_with"])
        read = Report.from_json(report)
        earlier = EarlierFile(**values["earlier"]) if "earlier" in values else None
        return StoredResult(values["key"], values["timestamp"], read, judged_by, values.get("submission", ""), earlier)
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None


def without_texts(report: Report) -> Report:
    """The report without its notebook and cards, which are on disk: a class of thousands fits into memory."""
    exercises = tuple(replace(result, text="", html="") for result in report.exercises)
    return replace(report, notebook="", exercises=exercises)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
