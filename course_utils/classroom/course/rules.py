"""What a source must keep so that it can be graded, beside what nbgrader asks (``RULES``): a lesson, a lesson with
exercises of a teacher's own, an assignment of a teacher's own.

Every rule is a function from a ``Notebook`` to problems, as in ``authoring``.
"""

from __future__ import annotations

from collections.abc import Iterator

from course_utils.authoring.lint import solution_regions, unique_ids
from course_utils.authoring.problems import Notebook, Problem
from course_utils.catalogue import LESSONS
from course_utils.classroom.course.source import called_on_lesson, lessons_made


def checks(page: Notebook) -> Iterator[Problem]:
    """A lesson's check stands alone in its cell, and its exercise is known; other tests are tried, see ``tried``."""
    lessons: dict[str, str] = {}
    for cell in page.code:
        lessons |= lessons_made(cell.source)
        if not cell.is_check:
            continue
        match called_on_lesson(cell.source):
            case variable, name, _ if variable in lessons:
                known = next((info.exercises for info in LESSONS if info.name == lessons[variable]), {})
                if name not in known:
                    named = ", ".join(known) or "none; lessons are " + ", ".join(info.name for info in LESSONS)
                    what = f"The lesson {lessons[variable]} has no exercise {name}; it has {named}."
                    yield page.problem("exercise", what, "mend the name, or write tests of your own.", cell)
            case _ if any(f"{variable}.check(" in cell.source for variable in lessons):
                what = "A lesson's check stands together with something else, so that it would not be judged as one."
                mend = "let the cell hold it alone; put tests of your own, hidden ones too, into a check cell after it."
                yield page.problem("check-call", what, mend, cell)


RULES = (unique_ids, solution_regions, checks)
