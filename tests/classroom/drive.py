"""Grades a course folder with the real grader and short limits: ``python -m tests.classroom.drive FOLDER``.

A process of its own, so that it can be killed.
"""

import sys
from pathlib import Path

from course_utils.classroom.course.folder import ClassFolder
from course_utils.classroom.judging.grader import Grader
from course_utils.classroom.judging.limits import Limits
from course_utils.classroom.run.command import GradedAssignment, grade
from course_utils.classroom.run.graders import Graders
from course_utils.classroom.run.table import class_table

LIMITS = Limits(wall_seconds=60.0, check_seconds=6.0)


def run(root: Path) -> list[GradedAssignment]:
    course = ClassFolder(root)
    return grade(course, course.released(), Graders(2, lambda: Grader(LIMITS)))


if __name__ == "__main__":
    for outcome in run(Path(sys.argv[1])):
        print(class_table(outcome.assignment, outcome.rows))
