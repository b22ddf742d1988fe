"""Feedback for students: nbgrader's HTML of the graded notebooks, looked through before it goes out (``feedback``)."""

from __future__ import annotations

import html
import os
import re
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from nbformat import NotebookNode

from course_utils.authoring.files import read
from course_utils.authoring.rules_outputs import visible_text
from course_utils.base.files import write_whole
from course_utils.classroom.course.create import CHECKOUT
from course_utils.classroom.course.folder import ClassFolder
from course_utils.classroom.course.lock import only_one
from course_utils.classroom.course.release import last_words

TELLTALE = 12  # characters without blanks; shorter lines of a solution, such as "returnx", give nothing away


@dataclass(frozen=True)
class Feedback:
    """One student's feedback file, as HTML.

    Attributes:
        withheld: why there is none, in one sentence; empty where there is.
        names: other students whose id stands in it.
    """

    student: str
    path: Path
    withheld: str = ""
    names: tuple[str, ...] = ()


def feedback(course: ClassFolder, assignment: str, students: Sequence[str] = ()) -> list[Feedback]:
    """Writes ``feedback/STUDENT/ASSIGNMENT/ASSIGNMENT.html`` anew for everybody who was graded.

    Each file is then looked through. Places on the teacher's machine are taken out of tracebacks. A file that holds a
    line of a solution, which the student did not write and was not given, is deleted and named. One that nbgrader could
    not write is named, too. Where ``students`` are named, it is for them alone.

    Raises:
        ValueError: nothing of the assignment is graded yet.
    """
    with only_one(course.root):
        graded = [
            name
            for name in course.submitters(assignment)
            if course.notebook("autograded", assignment, name).is_file() and (not students or name in students)
        ]
        if not graded:
            raise ValueError(
                f"Nothing of {assignment} is graded yet.\nTry: python -m course_utils.classroom grade {assignment}"
            )
        for student in graded:
            _page(course, assignment, student).unlink(missing_ok=True)  # what lies there afterwards is new
        for pattern in map(_pattern, graded) if students else ["*"]:
            course.api.generate_feedback(assignment, pattern)
        given = _squeezed(" ".join(cell.source for cell in read(course.notebook("release", assignment)).cells))
        solution = solution_lines(read(course.notebook("source", assignment)))
        secrets = {_squeezed(line): line for line in solution if _squeezed(line) not in given}
        names = [name for name in course.students() if _squeezed(name) not in given]
        return [_look_through(course, assignment, student, secrets, names) for student in graded]


def _look_through(
    course: ClassFolder, assignment: str, student: str, secrets: dict[str, str], names: Iterable[str]
) -> Feedback:
    path = _page(course, assignment, student)
    if not path.is_file():  # once more, for its own log alone
        result = course.api.generate_feedback(assignment, _pattern(student))
        if not result["success"]:
            return Feedback(student, path, f"nbgrader could not write it: {last_words(result)}")
    text = path.read_text(encoding="utf-8")
    clean = without_places(text, places(course))
    if clean != text:
        write_whole(path, clean)
    own = " ".join(cell.source for cell in read(course.notebook("autograded", assignment, student)).cells)
    shown = _squeezed(re.sub(r"<[^<>]*>", "", re.sub(r"<(style|script)\b.*?</\1>", "", clean, flags=re.DOTALL)))
    for squeezed, line in secrets.items():
        if squeezed in shown and squeezed not in _squeezed(own):
            path.unlink()
            return Feedback(student, path, f"it shows a line of the solution: {line}")
    words = set(re.findall(r"[\w.@-]+", visible_text(clean))) - set(re.findall(r"[\w.@-]+", own))
    return Feedback(student, path, names=tuple(name for name in names if name != student and name in words))


def _page(course: ClassFolder, assignment: str, student: str) -> Path:
    return course.notebook("feedback", assignment, student).with_suffix(".html")


def _pattern(student: str) -> str:
    """What nbgrader, which takes a name for a pattern and strips it of blanks, finds this student by."""
    return re.sub(r"\s", r"[\g<0>]", student)


def solution_lines(source: NotebookNode) -> list[str]:
    """The lines that a release takes out of a source: what is between solution markers, and model answers."""
    lines = []
    for cell in source.cells:
        if not cell.metadata.get("nbgrader", {}).get("solution"):
            continue
        inside = "BEGIN SOLUTION" not in cell.source
        for line in cell.source.splitlines():
            if "BEGIN SOLUTION" in line or "END SOLUTION" in line:
                inside = "BEGIN SOLUTION" in line
            elif inside and len(_squeezed(line)) >= TELLTALE:
                lines.append(line.strip())
    return lines


def places(course: ClassFolder) -> dict[str, str]:
    """Places on this machine that no student needs to know, with what stands for each; longer ones first."""
    found = {
        str(course.root): "course",
        str(CHECKOUT): "autograd-control",
        sys.prefix: "python",
        sys.base_prefix: "python",
        os.path.expanduser("~"): "home",
    }
    return {place: found[place] for place in sorted(found, key=len, reverse=True) if len(place) > 1}


def without_places(text: str, names: dict[str, str]) -> str:
    """The HTML with every such place, as a whole part of a path, replaced by its name."""
    for place, name in names.items():
        for form in {place, html.escape(place)}:
            text = re.sub(rf"(?<![\w/.-]){re.escape(form)}(?![\w.-])", name, text)
    return text


def _squeezed(text: str) -> str:
    """The text without blanks, HTML's entities and Markdown's signs, so that layout and colours do not matter."""
    return re.sub(r"[\s`*_\\]+", "", html.unescape(text))
