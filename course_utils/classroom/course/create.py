"""Makes a course folder from the lessons (``create``)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from course_utils.authoring.files import Course
from course_utils.base.errors import explain
from course_utils.base.files import write_whole
from course_utils.catalogue import COURSE
from course_utils.classroom.course.folder import CONFIG

# Only what plain nbgrader needs to treat the lessons right; everything else is nbgrader's default, for you to set.
CONFIG_TEXT = '''\
"""nbgrader's settings for this course; https://nbgrader.readthedocs.io/en/stable/configuration/config_options.html
lists them all. Both `nbgrader` and `autograd-control classroom` read this file.
"""

from course_utils.authoring.stubs import preprocessors
from course_utils.classroom.course.shown import harmless

c = get_config()  # noqa: F821  traitlets puts get_config in this file's namespace before it runs it

c.CourseDirectory.course_id = "{course_id}"

# A gradebook on a server that several people use, in place of gradebook.db in this folder:
# c.CourseDirectory.db_url = "postgresql+psycopg://user:password@host/{course_id}"

# What stands in place of a solution. `pass` is right wherever a statement is, so that Run All on an untouched notebook
# reaches the last cell.
c.ClearSolutions.code_stub = {{"python": "# Your answer here.\\npass"}}
c.ClearSolutions.text_stub = "*Your answer here.*"
c.GenerateAssignment.preprocessors = preprocessors()  # a dict of `...` is its own place for the answer

# Students' texts on nbgrader's pages, feedback and Formgrader: without HTML that acts, and no page that takes minutes.
harmless(c)

# For plain `nbgrader autograde`: a kernel that is stopped at once saves half a second a submission, and a check cell
# that a student deleted costs them nothing.
c.ExecutePreprocessor.shutdown_kernel = "immediate"
c.OverwriteCells.add_missing_cells = True
'''


def create(root: Path, lessons: Sequence[str] = (), course_id: str = "") -> list[str]:
    """Makes a course folder, or adds what is missing to one. What a teacher has changed stays as it is.

    Args:
        root: the course folder; made where it does not exist.
        lessons: such as ``03_detach`` or ``detach``; all where it is empty.
        course_id: nbgrader's name of the course: letters, digits, ``-``, ``_`` and ``.``; the folder's name where it is
            empty.

    Returns:
        A line for each file that was written, or is there already with other content.

    Raises:
        ValueError: there is no such lesson, or the course id has other characters.
    """
    root = root.resolve()
    course_id = course_id or root.name
    if not re.fullmatch(r"[\w.-]+", course_id):
        why, try_this = "it is part of paths.", "autograd-control classroom init FOLDER --course-id autograd-2027"
        said = f"The course id would be {course_id!r}."
        raise ValueError(explain(said, "letters, digits, - _ and . alone.", why, try_this))
    texts = {root / CONFIG: CONFIG_TEXT.format(course_id=course_id)}
    for path in Course(COURSE).solution_paths(lessons):
        texts[root / "source" / path.stem / path.name] = path.read_text(encoding="utf-8")
    done = []
    for path, text in texts.items():
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            done.append(f"wrote {write_whole(path, text)}")
        elif path.read_text(encoding="utf-8") != text:
            done.append(f"kept {path}: it is there already, and is not what this command would write")
    return sorted(done, key=lambda line: line.startswith("kept"))
