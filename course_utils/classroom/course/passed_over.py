"""What was handed in and lies where nothing is graded (``passed_over``); ids that nobody has (``refuse_unknown``)."""

from __future__ import annotations

from collections.abc import Iterator
from difflib import get_close_matches

from course_utils.base.errors import explain
from course_utils.base.markup import clean
from course_utils.classroom.course.folder import ClassFolder
from course_utils.classroom.course.submissions import NO_ONES


def passed_over(course: ClassFolder) -> Iterator[str]:
    """A line for everything in ``submitted/`` that no assignment's grading looks at, in order.

    Only the usual layout is looked through, in which a student's folder holds one folder an assignment.
    """
    if course.path("submitted", "S", "A").parts[-2:] != ("S", "A"):
        return
    root, known = course.path("submitted", "S", "A").parents[1], course.released()
    students = [path for path in sorted(root.glob("*")) if not path.name.startswith(NO_ONES)]
    entries = [entry for path in students for entry in (sorted(path.glob("*")) if path.is_dir() else [path])]
    for entry in entries:
        if entry.name in known or entry.name.startswith(NO_ONES):
            continue
        like = get_close_matches(entry.stem.lower(), known, n=1, cutoff=0.75)
        name, place = (like or ["ASSIGNMENT"])[0], clean(str(entry.relative_to(root)), 120)
        yield f"{place}: no released assignment's folder; graded is submitted/STUDENT/{name}/{name}.ipynb."


def refuse_unknown(course: ClassFolder, students: list[str]) -> None:
    """Refuses ids that neither the gradebook knows nor anybody handed in under.

    Raises:
        ValueError: there is one; the message names those that are like it.
    """
    known = sorted({*course.students(), *course.handed_in("*")}) if students else []
    for name in students:
        if name not in known:
            like = get_close_matches(name, known, n=3, cutoff=0.6)
            raise ValueError(
                explain(
                    f"Nobody is called {name}.",
                    "an id that is in the gradebook, or a folder in submitted/; assignments stand before --student.",
                    try_this=("--student " + " or ".join(like)) if like else "nbgrader db student list",
                )
            )
