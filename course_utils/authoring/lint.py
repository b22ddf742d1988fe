"""Lint notebooks without a kernel: ``lint_solution``, ``lint_learner``, ``lint_further``, all of a course with
``lint_course``; ``report`` prints what was found.

It finds what the tools that run notebooks let pass in silence: nbval compares nothing where an execution count is
missing, an unknown magic fails no test, one copied cell stops the grading of a whole class, one line on stderr costs
a student an exercise's points.
"""

import importlib.util
import re
from collections.abc import Iterable, Set
from pathlib import Path

from course_utils.authoring import (
    rules_code,
    rules_further,
    rules_numbers,
    rules_outputs,
    rules_prose,
    rules_structure,
    rules_time,
)
from course_utils.authoring.files import Course, read, topic_of
from course_utils.authoring.problems import Notebook, Problem
from course_utils.base.words import count_of
from course_utils.catalogue import LESSONS
from course_utils.checks.thoughts import thoughts

MARKERS = re.compile(r"(BEGIN|END) (SOLUTION|HIDDEN TESTS|MARK SCHEME)")
MIN_TELLTALE = 8  # shorter lines of a solution, such as "else:", give nothing away


def lint_solution(
    path: Path,
    *,
    name: str | None = None,
    questions: Set[str] | None = None,
    minutes: tuple[int, ...] = (),
    further: Set[str] = frozenset(),
) -> list[Problem]:
    """Everything that is wrong with a solution notebook in which all is as ``build`` writes it.

    Args:
        path: the notebook; its file name gives the topic (``03_detach.ipynb``: ``detach``).
        name: what messages call it; the path where it is not given.
        questions: the predictions that have a word for who guesses wrong; where it is None, what learners read is not
            looked at, only what grading needs.
        minutes: how long each sitting takes a learner; where it is empty, that is not looked at.
        further: the file names of the notebooks in ``further/``; this lesson links to its own where there is one.
    """
    name = name or str(path)
    try:
        node = read(path)
    except ValueError as error:
        return [_unreadable(name, error)]
    beside = {f"{lesson.notebook}.ipynb" for lesson in LESSONS} | {f"further/{file}" for file in further}
    notebook = Notebook(name, topic_of(path), node, path.stat().st_size, questions or frozenset(), minutes, beside)
    prose = (
        ()
        if questions is None
        else (
            *(*rules_prose.RULES, *rules_time.RULES),
            *(rules_further.is_linked, rules_numbers.numbers),
        )
    )
    rules = (*rules_structure.RULES, *rules_code.RULES, *rules_outputs.RULES, *prose)
    return _in_order(problem for rule in rules for problem in rule(notebook))


def lint_learner(path: Path, solution: Path | None = None, *, name: str | None = None) -> list[Problem]:
    """Everything that is wrong with a learner notebook by itself: outputs, solution text, code that is not Python.

    Args:
        path: the learner notebook.
        solution: the solution notebook it was made from; without it, only the solution markers are looked for.
        name: what messages call it; the path where it is not given.
    """
    name = name or str(path)
    try:
        notebook = Notebook(name, topic_of(path), read(path))
        secrets = _solution_lines(Notebook("", "", read(solution))) if solution else frozenset()
    except ValueError as error:
        return [_unreadable(name, error)]
    problems = []
    mend = "make lessons writes it anew."
    for cell in notebook.cells:
        if cell.outputs or cell.node.get("execution_count") is not None:
            problems.append(notebook.problem("learner-output", "The learner notebook holds an output.", mend, cell))
        lines = {line.strip() for line in cell.source.splitlines()}
        if MARKERS.search(cell.source):
            problems.append(notebook.problem("solution-shown", "A solution marker is left.", mend, cell))
        elif lines & secrets:
            what = f"The learner notebook shows a line of the solution: {min(lines & secrets)}"
            problems.append(notebook.problem("solution-shown", what, mend, cell))
    for cell in notebook.code:
        if cell.tree is None:
            what = "Without its solution the cell is not Python."
            fix = "move the solution's markers, so that the stub stands where a statement may."
            problems.append(notebook.problem("syntax", what, fix, cell))
    return _in_order(problems)


def lint_further(path: Path, *, name: str | None = None, further: Set[str] = frozenset()) -> list[Problem]:
    """Everything that is wrong with a notebook that goes on from a lesson.

    Args:
        path: the notebook; its file is called as the lesson's.
        name: what messages call it; the path where it is not given.
        further: the file names of all notebooks beside it.
    """
    name = name or str(path)
    try:
        node = read(path)
    except ValueError as error:
        return [_unreadable(name, error)]
    beside = {f"../{lesson.notebook}.ipynb" for lesson in LESSONS} | further
    notebook = Notebook(name, topic_of(path), node, path.stat().st_size, beside=beside)
    return _in_order(problem for rule in rules_further.RULES for problem in rule(notebook))


def lint_course(course: Course, names: list[str] | tuple[str, ...] = ()) -> list[Problem]:
    """Everything that is wrong with a course's notebooks: solutions, then learners' and those that go further.

    Args:
        course: the course.
        names: only these notebooks (``03_detach``); all where it is empty.

    Raises:
        ValueError: there is no notebook of such a name.
    """
    minutes = {lesson.notebook: lesson.minutes for lesson in LESSONS}
    problems = []
    paths, further = course.solution_paths(names), {path.name for path in course.further_paths()}
    for path in paths:
        name = course.name(path)
        if path.stem not in minutes:
            mend = f"enter it in course_utils/catalogue.py: {', '.join(minutes)}."
            problems.append(Problem(name, "catalogue", "The course's catalogue has no such lesson.", mend))
        questions = thoughts(course.exercises(topic_of(path))).keys()
        problems += lint_solution(
            path, name=name, questions=questions, minutes=minutes.get(path.stem, ()), further=further
        )
    for path in paths:
        learner = course.learners / path.name
        if learner.exists():
            problems += lint_learner(learner, path, name=course.name(learner))
    for path in course.further_paths(names):
        problems += lint_further(path, name=course.name(path), further=further)
    return problems


def exercises_of(topic: str) -> dict[str, float] | None:
    """The exercises of a lesson's module with their points; None where there is no such module."""
    name = f"course_utils.lessons.{topic}"
    if importlib.util.find_spec(name) is None:
        return None
    return {exercise.name: float(exercise.points) for exercise in importlib.import_module(name).EXERCISES}


def report(problems: list[Problem]) -> str:
    """The problems as text, one paragraph each, and how many there are."""
    return "\n".join([*(f"{problem}\n" for problem in problems), f"{count_of(len(problems), 'problem')}."])


def _solution_lines(solution: Notebook) -> frozenset[str]:
    inside: set[str] = set()
    outside: set[str] = set()
    for cell in solution.cells:
        in_region = cell.is_written and "BEGIN SOLUTION" not in cell.source
        for line in cell.source.splitlines():
            if "BEGIN SOLUTION" in line or "END SOLUTION" in line:
                in_region = "BEGIN SOLUTION" in line
            else:
                (inside if in_region else outside).add(line.strip())
    return frozenset(line for line in inside - outside if len(line) >= MIN_TELLTALE)


def _in_order(problems: Iterable[Problem]) -> list[Problem]:
    return sorted(problems, key=lambda problem: problem.cell_number or 0)


def _unreadable(name: str, error: ValueError) -> Problem:
    return Problem(name, "unreadable", str(error).splitlines()[0], "take the last good version from git.")
