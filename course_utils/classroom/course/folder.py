"""A teacher's course folder, as nbgrader lays it out (``ClassFolder``): settings, assignments, students, submissions.

Every path and setting comes from nbgrader's own configuration, so that a course with another ``directory_structure`` or
``db_url`` works as it does with plain nbgrader.
"""

from __future__ import annotations

import glob
import json
import logging
import os
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from course_utils.base import explain
from course_utils.classroom.course.submissions import NO_ONES, Submission, read_submission

if TYPE_CHECKING:
    from nbgrader.api import Gradebook
    from nbgrader.apps.api import NbGraderAPI

CONFIG = "nbgrader_config.py"
HIDDEN_TESTS = "hidden_tests"  # metadata of a cell on its way to whoever grades
EARLIER = "earlier"  # the folder of releases that are gone; metadata of a notebook on that way: their cells
LOCK = ".classroom.lock"


class ClassFolder:
    """A course folder that ``init`` made, or any nbgrader course whose assignments are the course's lessons.

    Args:
        root: the folder that holds ``nbgrader_config.py``.

    Raises:
        ValueError: there is no such file in the folder.
    """

    def __init__(self, root: Path) -> None:
        self.root = root.resolve()
        if not (self.root / CONFIG).is_file():
            mend = "go to your course's folder, or make one: autograd-control classroom init FOLDER."
            raise ValueError(explain(f"{self.root} holds no {CONFIG}.", "a course folder.", try_this=mend))

    @cached_property
    def api(self) -> NbGraderAPI:
        """nbgrader's own interface to this course."""
        from nbgrader.apps import NbGrader
        from nbgrader.apps.api import NbGraderAPI
        from traitlets.config import PyFileConfigLoader

        from course_utils.classroom.course.shown import harmless

        # nbgrader calls `alembic` as a command when it makes a gradebook; it lies beside this interpreter.
        os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), *os.get_exec_path()])
        sys.path.append(str(self.root))  # where a rule for lateness may lie that the settings name
        logging.getLogger("tornado.application").setLevel(logging.CRITICAL)  # nbgrader's tracebacks of what is told
        app = NbGrader()
        app.log.setLevel(logging.ERROR)  # it warns of a missing configuration in the user's own folders
        app.load_cwd_config = False  # this folder's settings, wherever the command is run
        app.load_config_file()  # what is set for all courses of this user or machine
        app.update_config(PyFileConfigLoader(CONFIG, path=str(self.root)).load_config())
        settings = app.config.CourseDirectory
        # Paths in the settings count from this folder, as for plain nbgrader, which is run inside it.
        settings.root = str(self.root / settings.root) if "root" in settings else str(self.root)
        scheme, slashes, file = settings.get("db_url", "sqlite:///gradebook.db").partition("sqlite:///")
        if slashes and not scheme and file:  # whoever finds it held, by a Formgrader or a colleague, waits a minute
            settings.db_url = f"sqlite:///{self.root / file}{'' if '?' in file else '?timeout=60'}"
        harmless(app.config)
        return NbGraderAPI(config=app.config)

    def gradebook(self) -> Gradebook:
        """The gradebook, open until the end of a ``with`` block."""
        return self.api.gradebook

    def path(self, step: str, assignment: str, student: str) -> Path:
        """The folder of one of nbgrader's steps (``"submitted"``, ``"release"``, ...) for a student's assignment."""
        directory = getattr(self.api.coursedir, f"{step}_directory", step)
        return Path(self.api.coursedir.format_path(directory, student, assignment))

    def notebook(self, step: str, assignment: str, student: str = ".") -> Path:
        """The assignment's notebook in that folder; the notebook is called as the assignment."""
        return self.path(step, assignment, student) / f"{assignment}.ipynb"

    def assignments(self, step: str = "release") -> list[str]:
        """The assignments that have a notebook there, ``"source"`` or ``"release"``, in order."""
        found = self.api.get_source_assignments()
        return sorted(name for name in found if self.notebook(step, name).is_file())

    def choose(self, names: Sequence[str], step: str = "release") -> list[str]:
        """Those of the step's assignments that are named, with or without ``.ipynb``; all where nothing is named.

        Raises:
            ValueError: one is not among them, or there are none at all.
        """
        known = self.assignments(step)
        wanted = [Path(name).stem for name in names] or known
        if unknown := [name for name in wanted or ["at all"] if name not in known]:
            mend = "source/NAME/NAME.ipynb" if step == "source" else "autograd-control classroom release"
            said = f"There is no assignment {', '.join(unknown)} in {step}/."
            raise ValueError(explain(said, f"one of {', '.join(known) or 'none'}.", try_this=mend))
        return [name for name in known if name in wanted]

    def students(self) -> list[str]:
        """Everybody in the gradebook, and everybody who handed in anything, in order."""
        with self.gradebook() as gradebook:
            enrolled = {student.id for student in gradebook.students}
        return sorted(enrolled | self._submitters())

    def refuse_unknown(self, students: Iterable[str]) -> None:
        """Refuses ids that neither the gradebook knows nor anybody handed in under.

        Raises:
            ValueError: there is one; the message names those that are like it.
        """
        known = self.students()
        if name := next((name for name in students if name not in known), ""):
            like = get_close_matches(name, known, n=3, cutoff=0.6)
            wanted = "an id in the gradebook, or of submitted/ID/ASSIGNMENT/; assignments stand before --student."
            mend = f"--student {' or '.join(like)}" if like else "nbgrader db student list"
            raise ValueError(explain(f"Nobody is called {name}.", wanted, try_this=mend))

    def strangers(self) -> set[str]:
        """Who handed something in and is not on the teacher's list of students, where there is one.

        Grading enters who hands something in, without a name. So where the gradebook holds names or addresses, it is
        who has neither; else, where it holds somebody who handed in nothing, who is not entered yet.
        """
        submitters = self._submitters()
        with self.gradebook() as gradebook:
            about = {who.id: (who.first_name, who.last_name, who.email) for who in gradebook.students}
        if named := {name for name, known in about.items() if any(known)}:
            return submitters - named
        return submitters - about.keys() if about.keys() - submitters else set()

    def _submitters(self) -> set[str]:
        """Who handed in any assignment of this course; a folder that holds others is no student's."""
        return {name for assignment in self.assignments() for name in self.submitters(assignment)}

    def submitters(self, assignment: str) -> list[str]:
        """The students who handed in this assignment, in order."""
        return [name for name, trouble in self.handed_in(assignment).items() if not trouble]

    def graded(self, assignment: str) -> list[str]:
        """Those of them whose submission has been graded."""
        return [name for name in self.submitters(assignment) if self.notebook("autograded", assignment, name).is_file()]

    def handed_in(self, assignment: str) -> dict[str, str]:
        """What lies where students' folders for this assignment lie, in order.

        Returns:
            Name -> why it is no student's folder; empty where it is one.
        """
        directory, path = self.api.coursedir.submitted_directory, self.api.coursedir.format_path
        name_in = re.compile(path(directory, "(.*)", re.escape(assignment), escape=True), re.DOTALL)
        folders = sorted(glob.glob(path(directory, "*", assignment)))
        found = {match[1]: folder for folder in folders if (match := name_in.fullmatch(folder))}
        return {name: _trouble(name, folder) for name, folder in found.items()}

    def passed_over(self) -> Iterator[tuple[Path, list[str]]]:
        """What lies in ``submitted/`` where no assignment's grading looks, in order, each with the assignments that may
        be meant; of the usual layout alone, in which a student's folder holds one folder an assignment."""
        if self.path("submitted", "A", "S").parts[-2:] != ("S", "A"):
            return
        root, known = self.path("submitted", "A", "S").parents[1], self.assignments()
        for entry in sorted([*root.glob("*/*"), *filter(Path.is_file, root.glob("*"))]):
            place = entry.relative_to(root)
            if entry.name not in known and not any(name.startswith(NO_ONES) for name in place.parts):
                yield place, get_close_matches(entry.stem.lower(), known, n=1, cutoff=0.75) or known

    def submission(self, assignment: str, student: str) -> Submission:
        """What a student handed in, as it lies on disk."""
        folder = self.path("submitted", assignment, student)
        names = re.findall(r'"grade_id": ("[^"]+")', self.notebook("release", assignment).read_text(encoding="utf-8"))
        return read_submission(folder, student=student, assignment=assignment, marks=tuple(names))

    def to_grade(self, assignment: str) -> str:
        """The released notebook as text, with the hidden tests, which a release leaves to the gradebook alone, and with
        what cells were in earlier releases."""
        notebook = json.loads(self.notebook("release", assignment).read_bytes())
        before = (json.loads(path.read_bytes()) for path in (self.root / EARLIER / assignment).glob("*/*.ipynb"))
        earlier = (cell for one in before for cell in one["cells"] if cell not in notebook["cells"])
        notebook["metadata"][EARLIER] = sorted(earlier, key=json.dumps)
        with self.gradebook() as gradebook:
            found = [book for item in gradebook.assignments if item.name == assignment for book in item.notebooks]
            known = {cell.name: cell.source for book in found if book.name == assignment for cell in book.source_cells}
        for cell in notebook["cells"]:
            full = known.get(cell["metadata"].get("nbgrader", {}).get("grade_id"))
            if full not in (None, "".join(cell["source"])):
                cell["metadata"][HIDDEN_TESTS] = full
        return json.dumps(notebook)

    @contextmanager
    def only_one(self) -> Iterator[None]:
        """Holds the course folder's lock: one command at a time works in it.

        Raises:
            ValueError: another command holds it, or it is not yours to hold.
        """
        from filelock import FileLock, Timeout

        path = self.root / LOCK
        try:
            with FileLock(path, timeout=0, mode=0o644 | (self.root.stat().st_mode & 0o022)):
                yield
        except Timeout:
            said, why = f"Another command works in {self.root}.", "two that grade would enter the same marks twice."
            raise ValueError(explain(said, "one at a time.", why, "wait until it has ended.")) from None
        except PermissionError as error:
            said, wanted = f"{path} belongs to somebody else.", "a folder in which everybody who grades may write."
            mend = f"chgrp -R teachers {self.root}; chmod -R g+rwXs {self.root}; docs/classroom.md says more."
            raise ValueError(explain(said, wanted, try_this=mend)) from error


def _trouble(student: str, folder: str) -> str:
    if os.path.islink(folder) or os.path.islink(os.path.dirname(folder)):
        return "the folder is a link, perhaps to another student's; put the files there themselves"
    if not os.path.isdir(folder):
        return f"{os.path.basename(folder)} is no folder"
    # The gradebook can hold no name that is not in UTF-8. nbgrader passes over one with a line's end, takes * and ? for
    # everybody, and writes < and > into its pages as they are.
    if re.search(r"[\n*?<>\ud800-\udfff]", student):
        return "the folder's name cannot be a student's id; rename it"
    return ""


def last_words(result: dict[str, Any]) -> str:
    """The most telling line of what nbgrader logged."""
    lines = [line.strip() for text in (result.get("log"), result.get("error")) for line in (text or "").splitlines()]
    errors = [line for line in lines if "Error:" in line] or [line for line in lines if "ERROR" in line] or lines
    return errors[0] if errors else "it gave no reason."
