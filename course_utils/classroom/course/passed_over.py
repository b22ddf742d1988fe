"""What was handed in and lies where nothing is graded (``passed_over``): each thing in one line, with what to do."""

from __future__ import annotations

import os
from collections.abc import Iterator
from difflib import get_close_matches
from pathlib import Path

from course_utils.base.errors import explain
from course_utils.base.markup import clean
from course_utils.classroom.course.folder import ClassFolder
from course_utils.classroom.course.submissions import ARCHIVES, NO_ONES


def passed_over(course: ClassFolder) -> list[str]:
    """A line for everything in ``submitted/`` that no assignment's grading looks at, in order.

    Only the usual layout is looked through, in which a student's folder holds one folder an assignment.
    """
    if course.path("submitted", "S", "A").parts[-2:] != ("S", "A"):
        return []
    root, known = course.path("submitted", "S", "A").parents[1], course.sources()
    return [f"{clean(str(path.relative_to(root)), 120)}: {what}" for path, what in _found(root, known)]


def _found(root: Path, known: list[str]) -> Iterator[tuple[Path, str]]:
    for student in _entries(root):
        if not student.is_dir():
            yield student, f"a file where students' folders lie; {_move(student, 'STUDENT/', known)}"
            continue
        for entry in (path for path in _entries(student) if path.name not in known):
            if not entry.is_dir():
                yield entry, f"a file beside the assignments' folders; {_move(entry, '', known)}"
            elif student.name in known:
                yield entry, f"the folders are the wrong way round; move it to {entry.name}/{student.name}/."
            elif any(below.name in known for below in _entries(entry)):
                yield entry, f"one folder too deep; move what is in {clean(student.name, 80)}/ one folder up."
            elif likely := _likely(entry.name, known):
                yield entry, f"no assignment is called so; rename the folder to {likely}."
            else:
                yield entry, "no assignment is called so; nothing in it is graded."


def _move(path: Path, above: str, known: list[str]) -> str:
    name = _likely(path.stem, known) or "ASSIGNMENT"
    if path.suffix.lower() in ARCHIVES:
        return f"an archive is not opened; unpack it to {above}{name}/, or use nbgrader zip_collect."
    return f"move it to {above}{name}/." if path.suffix.lower() == ".ipynb" else "nothing in it is graded."


def _likely(name: str, known: list[str]) -> str:
    by_lower = {assignment.lower(): assignment for assignment in known}
    close = get_close_matches(name.lower(), by_lower, n=1, cutoff=0.75)
    return by_lower[close[0]] if close else ""


def _entries(folder: Path) -> list[Path]:
    try:
        names = sorted(os.listdir(folder))
    except OSError:  # there is none, or it cannot be read, which grading says
        return []
    return [folder / name for name in names if not name.startswith(NO_ONES)]


def refuse_unknown(course: ClassFolder, students: list[str]) -> None:
    """Refuses ids that neither the gradebook knows nor anybody handed in under.

    Raises:
        ValueError: there is one; the message names those that are like it.
    """
    known = sorted({*course.students(), *course.handed_in("*")}) if students else []
    for name in students:
        if name not in known:
            if name.removesuffix(".ipynb") in course.sources():
                said = "what follows it is a student's id."
                raise ValueError(explain(f"{name} stands behind --student.", said, try_this=f"{name} --student ID"))
            like = get_close_matches(name, known, n=3, cutoff=0.6)
            raise ValueError(
                explain(
                    f"Nobody is called {name}.",
                    "an id that is in the gradebook, or a folder in submitted/.",
                    try_this=("--student " + " or ".join(like)) if like else "nbgrader db student list",
                )
            )
