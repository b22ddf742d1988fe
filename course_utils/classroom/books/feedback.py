"""Feedback for students, a page each, looked through before it goes out (``feedback``)."""

from __future__ import annotations

import html
import io
import json
import os
import re
import sys
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from multiprocessing import get_context
from pathlib import Path

from nbformat import NotebookNode

from course_utils.authoring.files import read
from course_utils.authoring.rules_outputs import visible_text
from course_utils.base.files import write_whole
from course_utils.checks.card import PROGRAM
from course_utils.classroom.books.marks import comments_in, marks_in
from course_utils.classroom.books.page import Sheet, page
from course_utils.classroom.books.stored import load, refuse_outdated
from course_utils.classroom.course.create import CHECKOUT
from course_utils.classroom.course.folder import HIDDEN_TESTS, ClassFolder
from course_utils.classroom.course.lock import only_one

TELLTALE = 12  # characters without blanks; shorter lines of a solution, such as "returnx", give nothing away
WORTH_A_PROCESS = 200  # pages that take as long as starting one more process


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
    line of a solution or of a hidden test, which neither its student nor its teacher wrote into it and which was not
    given, is not written but named.

    Args:
        course: the course folder.
        assignment: a released one.
        students: for them alone; for everybody where it is empty.

    Raises:
        ValueError: nothing of the assignment is graded yet, or not since its points were changed.
    """
    with only_one(course.root):
        graded = [
            name
            for name in course.submitters(assignment)
            if course.notebook("autograded", assignment, name).is_file() and (not students or name in students)
        ]
        if not graded:
            raise ValueError(
                f"Nothing of {assignment} is graded yet.\nTry: autograd-control classroom grade {assignment}"
            )
        sheets = list(_sheets(course, assignment, graded))
        refuse_outdated(course, assignment, (sheet.report for _, sheet in sheets if isinstance(sheet, Sheet)))
        released = read(course.notebook("release", assignment))
        given = _squeezed(" ".join(cell.source for cell in released.cells))
        secret = [*solution_lines(read(course.notebook("source", assignment))), *_hidden_lines(course, assignment)]
        secrets = {_squeezed(line): line for line in secret if _squeezed(line) not in given}
        names = [name for name in course.students() if _squeezed(name) not in given]
        shown = places(course)
        jobs = [
            _Job(student, _page(course, assignment, student), sheet, secrets, names, shown) for student, sheet in sheets
        ]
        workers = min(os.cpu_count() or 1, len(jobs) // WORTH_A_PROCESS)
        if workers < 2:
            return [_write(job) for job in jobs]
        with ProcessPoolExecutor(workers, get_context("spawn")) as pool:
            return list(pool.map(_write, jobs, chunksize=max(1, WORTH_A_PROCESS // 8)))


@dataclass(frozen=True)
class _Job:
    """One page to write: everything that it is made of, and what must not stand in it."""

    student: str
    path: Path
    sheet: Sheet | str
    secrets: Mapping[str, str]
    names: Sequence[str]
    places: Mapping[str, str]


def _sheets(course: ClassFolder, assignment: str, students: Sequence[str]) -> Iterator[tuple[str, Sheet | str]]:
    """Each student with what the page is made of; or with why there is none."""
    with course.gradebook() as gradebook:
        marks, comments = marks_in(gradebook.db, assignment), comments_in(gradebook.db, assignment)
        late = {
            found.student_id: (found.late_submission_penalty or 0.0, found.total_seconds_late / 3600)
            for found in gradebook.assignment_submissions(assignment)
        }
    for student in students:
        result = load(course.report(assignment, student))
        notebook = course.notebook("autograded", assignment, student).read_text(encoding="utf-8")
        try:
            json.loads(notebook)["cells"]
        except (ValueError, KeyError, TypeError):
            yield student, f"{assignment}.ipynb in autograded/ is no notebook; grade it again."
            continue
        if result is None:
            yield student, "it was not graded by this command, which keeps what a page is made of; grade it here."
            continue
        report = replace(result.report, notebook=notebook)
        judged_by = "" if result.judged_by.startswith("course_utils") else result.judged_by
        found = marks.get(student, {}), comments.get(student, {})
        yield student, Sheet(report, *found, *late.get(student, (0.0, 0.0)), judged_by, result.earlier)


def _write(job: _Job) -> Feedback:
    """Looks a page through, and writes it."""
    job.path.unlink(missing_ok=True)  # what lies there afterwards is new
    if isinstance(job.sheet, str):
        return Feedback(job.student, job.path, job.sheet)
    text = without_places(page(job.sheet), job.places)
    own = " ".join("".join(cell["source"]) for cell in json.loads(job.sheet.report.notebook)["cells"])
    own += " ".join(job.sheet.comments.values())
    shown = looked_through(text)
    squeezed_own = _squeezed(own)
    for squeezed, line in job.secrets.items():
        if squeezed in shown and squeezed not in squeezed_own:
            return Feedback(job.student, job.path, f"it shows a line of the solution, or of a hidden test: {line}")
    job.path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(job.path, text)
    words = set(re.findall(r"[\w.@-]+", visible_text(text))) - set(re.findall(r"[\w.@-]+", own))
    return Feedback(
        job.student, job.path, names=tuple(name for name in job.names if name != job.student and name in words)
    )


def looked_through(text: str) -> str:
    """What a page shows, without blanks, and without the programs on cards: they are the course's own, and may have a
    line of a solution such as ``with torch.no_grad():``, too."""
    programs = rf"<details>\s*<summary>{PROGRAM}</summary>.*?</details>"
    plain = re.sub(rf"<(style|script)\b.*?</\1>|{programs}", "", text, flags=re.DOTALL)
    return _squeezed(re.sub(r"<[^<>]*>", "", plain))


def _hidden_lines(course: ClassFolder, assignment: str) -> Iterator[str]:
    for cell in json.loads(course.to_grade(assignment))["cells"]:
        for line in cell["metadata"].get(HIDDEN_TESTS, "").splitlines():
            if len(_squeezed(line)) >= TELLTALE and "HIDDEN TESTS" not in line:
                yield line.strip()


def hand_out(course: ClassFolder, assignments: Sequence[str], folder: Path, as_zips: bool) -> str:
    """Copies the pages that are there into a folder: ``ASSIGNMENT/STUDENT.html``, or one ``STUDENT.zip`` with a page an
    assignment. Returns what it wrote, in words."""
    pages: dict[str, dict[str, Path]] = {}
    for assignment in assignments:
        for student in course.submitters(assignment):
            if (path := _page(course, assignment, student)).is_file():
                pages.setdefault(student, {})[assignment] = path
    for student, found in pages.items():
        if as_zips:
            content = io.BytesIO()
            with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as file:
                for assignment, path in found.items():
                    file.write(path, f"{assignment}.html")
            folder.mkdir(parents=True, exist_ok=True)
            write_whole(folder / f"{student}.zip", content.getvalue())
            continue
        for assignment, path in found.items():
            (folder / assignment).mkdir(parents=True, exist_ok=True)
            write_whole(folder / assignment / f"{student}.html", path.read_bytes())
    return f"{len(pages)} zips" if as_zips else f"{sum(map(len, pages.values()))} files"


def _page(course: ClassFolder, assignment: str, student: str) -> Path:
    return course.notebook("feedback", assignment, student).with_suffix(".html")


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


def without_places(text: str, names: Mapping[str, str]) -> str:
    """The HTML with every such place, as a whole part of a path, replaced by its name."""
    for place, name in names.items():
        for form in {place, html.escape(place)}:
            text = re.sub(rf"(?<![\w/.-]){re.escape(form)}(?![\w.-])", name, text)
    return text


def _squeezed(text: str) -> str:
    """The text without blanks, HTML's entities and Markdown's signs, so that layout and colours do not matter."""
    return re.sub(r"[\s`*_\\]+", "", html.unescape(text))
