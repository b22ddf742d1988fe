"""Submissions for tests: a released lesson, the course's own answers, and what a student can do to a notebook."""

import copy
import json
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from course_utils.authoring.lint import exercises_of
from course_utils.classroom.course import release
from course_utils.classroom.sandbox import bubblewrap

_WHY = bubblewrap.missing()
NEEDS_SANDBOX = (
    pytest.mark.slow,
    pytest.mark.skipif(_WHY is not None, reason=f"no sandbox on this machine: {(_WHY or '').splitlines()[:1]}"),
)
# Three lessons as they once were: a later exercise, cell or word changes no test of the classroom. What judges them is
# today's checks, so an exercise that goes, or is judged otherwise, is a change here, too.
FROZEN = Path(__file__).resolve().parents[1] / "frozen"
_PLACES = (FROZEN / "notebooks", Path(__file__).resolve().parents[2] / "notebooks")


def _read(name, today):
    return next(text for place in _PLACES[today:] if (text := place / name).is_file()).read_text(encoding="utf-8")


def released_points(topic):
    """A frozen lesson's own exercises and points; of any other lesson, today's."""
    for path in (FROZEN / "notebooks").glob(f"*_{topic}.ipynb"):
        graded = [
            cell["metadata"].get("nbgrader", {}) for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]
        ]
        checks = {cell["grade_id"]: cell["points"] for cell in graded if cell.get("grade") and not cell["solution"]}
        return {name.removeprefix(f"{topic}-").removesuffix("-check"): points for name, points in checks.items()}
    return exercises_of(topic)


release.exercises_of = released_points  # a frozen lesson is released although today's has more exercises


@cache
def released(assignment="03_detach", today=False):
    """The released notebook as text: the learner's copy, frozen or as it is today."""
    return _read(f"{assignment}.ipynb", today)


@cache
def solutions(assignment="03_detach", today=False):
    """The course's own answers as source, by exercise."""
    notebook = json.loads(_read(f"solutions/{assignment}.ipynb", today))
    topic = assignment.partition("_")[2]
    return {
        cell["metadata"]["nbgrader"]["grade_id"].removeprefix(f"{topic}-"): "".join(cell["source"])
        for cell in notebook["cells"]
        if cell["cell_type"] == "code" and cell["metadata"].get("nbgrader", {}).get("solution")
    }


@contextmanager
def impatient(grader, seconds=1.0):
    """The grader waits only so long for a check or a cell while this lasts."""
    before = grader.limits
    grader.limits = replace(before, check_seconds=seconds)
    try:
        yield
    finally:
        grader.limits = before


def points(report):
    """What each exercise earned."""
    return {result.exercise: result.earned for result in report.exercises}


def outcomes(report):
    """How each exercise came out."""
    return {result.exercise: result.outcome for result in report.exercises}


class Notebook:
    """A copy of a released notebook that a student works in: of a frozen one, or of today's."""

    def __init__(self, assignment="03_detach", today=False):
        self.assignment, self.today = assignment, today
        self.topic = assignment.partition("_")[2]
        self.data = json.loads(released(assignment, today))
        for cell in self.cells:
            cell["source"] = "".join(cell["source"])

    @property
    def cells(self):
        return self.data["cells"]

    def index(self, name):
        return [cell.get("id") for cell in self.cells].index(name)

    def cell(self, name):
        return self.cells[self.index(name)]

    def write(self, **answers):
        """Puts sources into answer cells, by exercise."""
        for name, source in answers.items():
            self.cell(name)["source"] = source
        return self

    def solve(self, *names):
        """Writes the course's own answers; all of them where none is named."""
        own = solutions(self.assignment, self.today)
        return self.write(**{name: own[name] for name in names or own})

    def add(self, source, after, kind="code", **fields):
        """Adds a cell of the student's own after another."""
        cell = {"cell_type": kind, "id": f"new-{len(self.cells)}", "metadata": {}, "source": source, **fields}
        if kind == "code":
            cell |= {"outputs": [], "execution_count": None}
        self.cells.insert(self.index(after) + 1, cell)
        return self

    def remove(self, name):
        del self.cells[self.index(name)]
        return self

    def move(self, name, after):
        cell = self.cells.pop(self.index(name))
        self.cells.insert(self.index(after) + 1, cell)
        return self

    def paste(self, name, after, source=None, id="pasted"):
        """A copy as JupyterLab makes one: the same metadata, a new id."""
        cell = copy.deepcopy(self.cell(name)) | {"id": id}
        cell["metadata"].pop("deletable", None)
        if source is not None:
            cell["source"] = source
        self.cells.insert(self.index(after) + 1, cell)
        return self

    def split(self, name, at, id="first-part"):
        """A split as JupyterLab makes one: the metadata in both parts, the id in the last."""
        cell = self.cell(name)
        head, tail = cell["source"][: cell["source"].index(at)], cell["source"][cell["source"].index(at) :]
        first = copy.deepcopy(cell) | {"id": id, "source": head.strip("\n")}
        cell["source"] = tail.strip("\n")
        self.cells.insert(self.index(name), first)
        return self

    def merge(self, *names, active, id="merged"):
        """A merge as JupyterLab makes one: a new id, the metadata and type of the active cell."""
        parts = [self.cell(name) for name in names]
        merged = copy.deepcopy(self.cell(active)) | {"id": id, "source": "\n\n".join(part["source"] for part in parts)}
        place = self.index(names[0])
        for name in names:
            self.remove(name)
        self.cells.insert(place, merged)
        return self

    def bytes(self):
        return json.dumps(self.data).encode()
