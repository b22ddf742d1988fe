"""Lint notebooks without a kernel: all of a course with ``lint_course``, what learners get with ``lint_learner``."""

import importlib
import importlib.util
import re
from collections.abc import Sequence
from pathlib import Path

from course_utils.authoring.cells import solution_lines
from course_utils.authoring.files import Course, read, topic_of
from course_utils.authoring.problems import Notebook, Problem
from course_utils.authoring.problems import report as report
from course_utils.authoring.rules import RULES
from course_utils.catalogue import LESSONS
from course_utils.checks.misconceptions import thoughts

MARKERS = re.compile(r"(BEGIN|END) (SOLUTION|HIDDEN TESTS|MARK SCHEME)")
MIN_TELLTALE = 8  # shorter lines of a solution, such as "else:", give nothing away


def lint_course(course: Course, names: Sequence[str] = ()) -> list[Problem]:
    """Everything that is wrong with a course's notebooks: solutions, then learners', then those that go further.

    Args:
        course: the course.
        names: only these notebooks (``03_detach``); all where it is empty.

    Raises:
        ValueError: there is no notebook of such a name, or a file is no notebook.
    """
    minutes = {lesson.notebook: lesson.minutes for lesson in LESSONS}
    problems: list[Problem] = []
    solutions = course.solution_paths(names)
    for path in solutions:
        topic = topic_of(path)
        said = thoughts(course.exercises(topic)).keys()
        times = minutes.get(path.stem, ())
        problems += _broken(Notebook(course.name(path), topic, read(path), course.learners, said, times))
    for path in solutions:
        learner = course.learners / path.name
        if learner.exists():
            problems += lint_learner(learner, path, name=course.name(learner))
    for path in course.further_paths(names):
        problems += _broken(Notebook(course.name(path), topic_of(path), read(path), course.further))
    return problems


def _broken(notebook: Notebook) -> list[Problem]:
    return [problem for rule in RULES for problem in rule(notebook)]


def lint_learner(path: Path, solution: Path, *, name: str) -> list[Problem]:
    """What a notebook shows to learners and may not, and code that is not Python without its solution.

    Args:
        path: the learner notebook.
        solution: the solution notebook it was made from.
        name: what messages call it.

    Raises:
        ValueError: a file is no notebook.
    """
    notebook, problems = Notebook(name, topic_of(path), read(path)), []
    solved: set[str] = set()
    others: set[str] = set()
    for node in read(solution).cells:
        inside = solution_lines(node)
        solved.update(line.strip() for line in inside)
        others.update(line.strip() for line in node.source.splitlines() if line not in inside)
    secrets = {line for line in solved - others if len(line) >= MIN_TELLTALE}
    for cell in notebook.cells:
        shown = secrets.intersection(line.strip() for line in cell.source.splitlines())
        if shown or MARKERS.search(cell.source):
            what = f"The learner notebook shows a line of the solution: {min(shown, default=cell.first_line)}"
            mend = "let it stand between the markers alone, or say it in other words."
            problems.append(notebook.problem("solution-shown", what, mend, cell))
        if cell.outputs:
            problems.append(notebook.problem("learner-output", "The cell holds an output.", "make lessons.", cell))
    for cell in notebook.code:
        if cell.tree is None:
            what = "Without its solution the cell is not Python."
            mend = "move the solution's markers, so that the stub stands where a statement may."
            problems.append(notebook.problem("syntax", what, mend, cell))
    return problems


def exercises_of(topic: str) -> dict[str, float] | None:
    """The exercises of a lesson's module with their points; None where there is no such module."""
    name = f"course_utils.lessons.{topic}"
    if importlib.util.find_spec(name) is None:
        return None
    return {exercise.name: float(exercise.points) for exercise in importlib.import_module(name).EXERCISES}
