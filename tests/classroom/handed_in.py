"""Notebooks as students hand them in: a released lesson, the course's own answers, and what JupyterLab does to cells.

Three lessons are as they once were (``tests/frozen``), so that a later exercise, cell or word changes no test of the
classroom; any other is today's. What judges them is today's checks.
"""

import copy
import json
import shutil
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FROZEN = ROOT / "tests" / "frozen"
DETACH, FLAGS, MODES, ENGINE = "03_detach", "01_requires_grad", "05_no_grad", "12_own_engine"
WRITTEN = "Because the log keeps every graph alive."
NEEDS_SANDBOX = (
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is missing: apt install bubblewrap"),
)


def place(name, today=False):
    """Where a notebook lies: frozen, or as it is today."""
    places = (FROZEN / "notebooks" / name, ROOT / "notebooks" / name)[today:]
    return next(path for path in places if path.is_file())


@cache
def released(assignment=DETACH, today=False):
    """The released notebook as text: the learner's copy."""
    return place(f"{assignment}.ipynb", today).read_text(encoding="utf-8")


@cache
def exercises(assignment=DETACH, today=False):
    """A lesson's exercises that a check judges, with their points."""
    cells = json.loads(released(assignment, today))["cells"]
    graded = {cell["id"]: cell["metadata"].get("nbgrader", {}) for cell in cells}
    return {
        name.removesuffix("-check"): float(cell["points"])
        for name, cell in graded.items()
        if cell.get("grade") and not cell["solution"]
    }


@cache
def solutions(assignment=DETACH, today=False):
    """The course's own answers as source, by exercise."""
    notebook = json.loads(place(f"solutions/{assignment}.ipynb", today).read_text(encoding="utf-8"))
    sources = {cell["id"]: "".join(cell["source"]) for cell in notebook["cells"]}
    return {
        name: "\n".join(line for line in sources[name].split("\n") if "### " not in line)
        for name in exercises(assignment, today)
    }


class Notebook:
    """A copy of a released notebook that a student works in."""

    def __init__(self, assignment=DETACH, today=False):
        self.assignment, self.today = assignment, today
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
        """Puts sources into cells, by name."""
        for name, source in answers.items():
            self.cell(name)["source"] = source
        return self

    def solve(self, *names):
        """Writes the course's own answers, and something to the question; all of them where none is named."""
        own = solutions(self.assignment, self.today)
        self.write(**{name: own[name] for name in names or own})
        written = {} if names or "written" not in {cell.get("id") for cell in self.cells} else {"written": WRITTEN}
        return self.write(**written)

    def add(self, source, after="setup", kind="code", **fields):
        """Adds a cell of the student's own after another."""
        cell = {"cell_type": kind, "id": f"new-{len(self.cells)}", "metadata": {}, "source": source, **fields}
        if kind == "code":
            cell |= {"outputs": [], "execution_count": None}
        self.cells.insert(self.index(after) + 1, cell)
        return self

    def remove(self, *names):
        for name in names:
            del self.cells[self.index(name)]
        return self

    def move(self, name, after):
        cell = self.cells.pop(self.index(name))
        self.cells.insert(self.index(after) + 1, cell)
        return self

    def paste(self, name, after, source=None, id="pasted"):
        """A copy as JupyterLab makes one: the same metadata, a new id."""
        cell = copy.deepcopy(self.cell(name)) | {"id": id}
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
        self.remove(*names)
        self.cells.insert(place, merged)
        return self

    def retype(self, name, kind):
        """Turns a cell into one of text, or of code."""
        cell = self.cell(name)
        cell["cell_type"] = kind
        cell.pop("outputs", None), cell.pop("execution_count", None)
        if kind == "code":
            cell |= {"outputs": [], "execution_count": None}
        return self

    def bytes(self):
        return json.dumps(self.data).encode()
