"""Grades a course folder with the real grader and short limits: ``python -m tests.classroom.drive FOLDER``.

A process of its own, so that it can be killed.
"""

import sys
from pathlib import Path

from course_utils.classroom.course.folder import ClassFolder
from course_utils.classroom.judging.grader import Grader
from course_utils.classroom.judging.limits import Limits
from course_utils.classroom.run.command import Outcome, grade
from course_utils.classroom.run.schedule import Crew
from course_utils.classroom.run.table import class_table

LIMITS = Limits(wall_seconds=60.0, check_seconds=6.0)


def quick_grader(sandbox):
    return Grader(LIMITS, sandbox)


def run(root: Path) -> list[Outcome]:
    course = ClassFolder(root)
    return grade(course, course.released(), Crew(workers=2, make=quick_grader))


if __name__ == "__main__":
    for outcome in run(Path(sys.argv[1])):
        print(class_table(outcome.assignment, outcome.rows))
