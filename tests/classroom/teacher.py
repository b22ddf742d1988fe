"""A course folder worked in as a teacher does: by commands, by files, and by nbgrader's own gradebook (``Teacher``)."""

import csv
import io
import json
import re
import shutil
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

from course_utils.classroom.__main__ import main
from tests.classroom.handed_in import DETACH, Notebook, place


def new_course(root, *lessons):
    """A course folder with these lessons, frozen where they are, released."""
    teacher = Teacher(root)
    assert main(["init", str(root), "--course-id", "autograd-2027", "--lessons", *lessons]) == 0
    for lesson in lessons:
        shutil.copyfile(place(f"solutions/{lesson}.ipynb"), teacher.notebook("source", lesson))
    teacher.run("release")
    return teacher


class Teacher:
    """A course folder, and what a teacher can do in it."""

    def __init__(self, root):
        self.root = Path(root)

    def copy(self, root):
        """The same course in another folder."""
        shutil.copytree(self.root, root, symlinks=True)
        return Teacher(root)

    def run(self, command, *words, status=0):
        """What a command printed, what it said of errors below it."""
        printed, errors = io.StringIO(), io.StringIO()
        with redirect_stdout(printed), redirect_stderr(errors):
            ended = main([command, *words, "--course", str(self.root)])
        assert ended == status, printed.getvalue() + errors.getvalue()
        return printed.getvalue() + "\n" + errors.getvalue()

    def notebook(self, step, assignment=DETACH, student=""):
        """Where one of nbgrader's steps has a notebook."""
        return self.root / step / student / assignment / f"{assignment}.ipynb"

    def cells(self, student, assignment=DETACH, step="autograded"):
        """The cells of a notebook, by id."""
        text = self.notebook(step, assignment, student).read_text(encoding="utf-8")
        return {cell.get("id"): cell for cell in json.loads(text)["cells"]}

    def set(self, line):
        """Adds a line to the course's settings."""
        with (self.root / "nbgrader_config.py").open("a") as settings:
            settings.write(f"{line}\n")

    def change_source(self, change, assignment=DETACH):
        """Edits a source as JupyterLab does; ``change`` gets its cells by id, and the list of them."""
        path = self.notebook("source", assignment)
        notebook = json.loads(path.read_text(encoding="utf-8"))
        for cell in notebook["cells"]:
            cell["source"] = "".join(cell["source"])
        change({cell["id"]: cell for cell in notebook["cells"]}, notebook["cells"])
        path.write_text(json.dumps(notebook), encoding="utf-8")

    def put(self, student, content, assignment=DETACH, name="", timestamp=""):
        """Hands in these bytes."""
        path = self.notebook("submitted", assignment, student).with_name(name or f"{assignment}.ipynb")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        if timestamp:
            path.with_name("timestamp.txt").write_text(timestamp + "\n")
        return path

    def hand_in(self, student, assignment=DETACH, name="", timestamp="", **answers):
        """Hands in the released notebook with these answers."""
        notebook = Notebook()
        notebook.data = json.loads(self.notebook("release", assignment).read_text(encoding="utf-8"))
        return self.put(student, notebook.write(**answers).bytes(), assignment, name, timestamp)

    def gradebook(self):
        """nbgrader's gradebook, for a ``with`` block."""
        from nbgrader.api import Gradebook  # not at the top: every process that collects tests would load it

        return Gradebook(f"sqlite:///{self.root / 'gradebook.db'}")

    def marks(self, student, assignment=DETACH):
        """What the gradebook holds: cell -> (automatic, by hand, whether a person has to look)."""
        with self.gradebook() as gradebook:
            grades = gradebook.find_submission(assignment, student).notebooks[0].grades
            found = {grade.name: (grade.auto_score, grade.manual_score, grade.needs_manual_grade) for grade in grades}
        topic = assignment.partition("_")[2]
        return {name.removeprefix(f"{topic}-").removesuffix("-check"): marks for name, marks in found.items()}

    def mark(self, student, cell, points, comment=None, assignment=DETACH):
        """Marks an answer as the Formgrader does."""
        name = f"{assignment.partition('_')[2]}-{cell}"
        with self.gradebook() as gradebook:
            found = gradebook.find_grade(name, assignment, assignment, student)
            found.manual_score, found.needs_manual_grade = points, False
            if comment:
                gradebook.find_comment(name, assignment, assignment, student).manual_comment = comment
            gradebook.db.commit()

    def submission(self, student, assignment=DETACH):
        """The time and the late penalty of what was handed in."""
        with self.gradebook() as gradebook:
            found = gradebook.find_submission(assignment, student)
            return str(found.timestamp), found.late_submission_penalty or 0.0

    def exported(self, name, folder=None):
        """The rows of an exported table."""
        with ((folder or self.root / "export") / f"{name}.csv").open(newline="", encoding="utf-8") as file:
            return list(csv.DictReader(file))

    def page(self, student, assignment=DETACH):
        """A student's feedback as HTML."""
        return self.notebook("feedback", assignment, student).with_suffix(".html").read_text(encoding="utf-8")


def said_of(printed, student):
    """What stands below the tables of a student: sentences, each with the title above it."""
    return [f"{title} {text}" for title, name, text in paragraphs(printed) if name == student]


def paragraphs(printed):
    """(title, name, text) of every line below a title."""
    for title, block in re.findall(r"^(\S[^\n]*:)\n((?:  .*(?:\n|$))+)", printed, re.MULTILINE):
        for line in block.splitlines():
            name, _, text = line.strip().partition(": ")
            yield title, name, text


def row(printed, student):
    """A student's line in the first table that has one; a long name is cut there."""
    starts = f"{student} " if len(student) < 25 else student[:24]
    return next(line for line in printed.splitlines() if line.startswith(starts))
