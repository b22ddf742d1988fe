"""Makes a course folder from a checkout of the course (``create``)."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from course_utils.authoring.files import Course, topic_of
from course_utils.base.errors import explain
from course_utils.base.files import write_whole
from course_utils.classroom.course.folder import CONFIG

CHECKOUT = Path(__file__).resolve().parents[3]

# Only what plain nbgrader needs to treat the lessons right; everything else is nbgrader's default, for you to set.
CONFIG_TEXT = '''\
"""nbgrader's settings for this course; https://nbgrader.readthedocs.io/en/stable/configuration/config_options.html
lists them all. Both `nbgrader` and `autograd-control classroom` read this file.
"""

from course_utils.authoring.stubs import preprocessors

c = get_config()  # noqa: F821  traitlets puts get_config in this file's namespace before it runs it

c.CourseDirectory.course_id = "{course_id}"

# A gradebook on a server that several people use, in place of gradebook.db in this folder:
# c.CourseDirectory.db_url = "postgresql+psycopg://user:password@host/{course_id}"

# What stands in place of a solution. `pass` is right wherever a statement is, so that Run All on an untouched notebook
# reaches the last cell.
c.ClearSolutions.code_stub = {{"python": "# Your answer here.\\npass"}}
c.ClearSolutions.text_stub = "*Your answer here.*"
c.GenerateAssignment.preprocessors = preprocessors()  # a dict of `...` is its own place for the answer

# Students' texts on nbgrader's pages, feedback and Formgrader: without HTML that acts, and none that takes minutes.
c.HTMLExporter.filters = {{
    "markdown2html": "course_utils.classroom.books.shown.markdown",
    "highlight_code": "course_utils.classroom.books.shown.code",
    "strip_files_prefix": "course_utils.classroom.books.shown.unchanged",
}}

# For plain `nbgrader autograde`: a kernel that is stopped at once saves half a second a submission, and a check cell
# that a student deleted costs them nothing.
c.ExecutePreprocessor.shutdown_kernel = "immediate"
c.OverwriteCells.add_missing_cells = True
'''


@dataclass(frozen=True)
class Created:
    """What ``create`` did: files written, and files left alone because they are there already, with other content."""

    written: tuple[Path, ...]
    kept: tuple[Path, ...]


def create(root: Path, lessons: Iterable[str] = (), course_id: str = "", checkout: Path = CHECKOUT) -> Created:
    """Makes a course folder, or adds what is missing to one. What a teacher has changed stays as it is.

    Args:
        root: the course folder; made where it does not exist.
        lessons: such as ``03_detach`` or ``detach``; all where it is empty.
        course_id: nbgrader's name of the course: letters, digits, ``-``, ``_`` and ``.``; the folder's name where it is
            empty.
        checkout: the folder that holds ``notebooks/solutions``.

    Raises:
        ValueError: the checkout is none, there is no such lesson, or the course id has other characters.
    """
    root = root.resolve()
    course_id = course_id or root.name
    if not re.fullmatch(r"[\w.-]+", course_id):
        raise ValueError(
            explain(
                f"The course id would be {course_id!r}.",
                "letters, digits, - _ and . alone.",
                "it is part of paths and of every student's drill seeds.",
                "autograd-control classroom init FOLDER --course-id autograd-2027",
            )
        )
    if not (checkout / "notebooks" / "solutions").is_dir():
        raise ValueError(
            explain(
                f"{checkout} has no notebooks/solutions.",
                "a checkout of the course: assignments are made from its solution notebooks.",
                try_this="git clone the course, and run the command with the Python of its virtual environment.",
            )
        )
    texts = {root / CONFIG: CONFIG_TEXT.format(course_id=course_id)}
    course = Course(checkout)
    # "detach" means "03_detach": teachers and learners call a lesson by its name.
    full = {topic_of(path): path.stem for path in course.solution_paths()}
    for path in course.solution_paths([full.get(Path(name).stem, name) for name in lessons]):
        texts[root / "source" / path.stem / path.name] = path.read_text(encoding="utf-8")
    written, kept = [], []
    for path, text in texts.items():
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            written.append(write_whole(path, text))
        elif path.read_text(encoding="utf-8") != text:
            kept.append(path)
    return Created(tuple(written), tuple(kept))
