"""What a source must keep so that it can be graded (``RULES``), whoever wrote it: a lesson, a lesson with exercises of
a teacher's own, an assignment of a teacher's own.

Every rule is a function from a ``Notebook`` to problems, as in ``authoring``; what only a lesson must keep is not
asked.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping

from course_utils.authoring.cells import SCHEMA_VERSION
from course_utils.authoring.lint import exercises_of
from course_utils.authoring.problems import Cell, Notebook, Problem
from course_utils.authoring.rules_structure import REQUIRED_KEYS, solution_regions, unique_ids
from course_utils.catalogue import LESSONS
from course_utils.classroom.course.source import lessons_made

HIDDEN = "BEGIN HIDDEN TESTS"


def metadata(page: Notebook) -> Iterator[Problem]:
    """nbgrader's metadata is of the schema that it reads, and a cell's flags say one thing."""
    for cell in page.cells:
        if not cell.grading:
            continue
        missing = [key for key in REQUIRED_KEYS if key not in cell.grading]
        if missing or cell.grading["schema_version"] != SCHEMA_VERSION:
            what = f"nbgrader's metadata is not of schema {SCHEMA_VERSION}, or lacks {', '.join(missing) or 'nothing'}."
            yield page.problem("schema", what, "run nbgrader update on the file, or set the cell's type again.", cell)
        elif cell.is_check and not cell.grading["locked"]:
            yield page.problem("role", "The check cell is not locked.", "set locked in nbgrader's metadata.", cell)
        elif cell.is_answer and cell.grading["locked"]:
            what = "The answer cell is locked, so no student could fill it in."
            yield page.problem("role", what, "clear locked in nbgrader's metadata.", cell)
        points = cell.grading.get("points", 0)
        if isinstance(points, bool) or not isinstance(points, (int, float)) or not 0 <= points < 1e6:
            yield page.problem("points", f"The cell's points are {points!r}.", "give it a number, 0 or more.", cell)


def checks(page: Notebook) -> Iterator[Problem]:
    """A check cell is a lesson's check alone, or tests; what is hidden stands in the latter."""
    lessons: dict[str, str] = {}
    for cell in page.code:
        lessons |= lessons_made(cell.source)
        if not cell.is_check:
            if HIDDEN in cell.source:
                what = "Hidden tests stand in a cell that is no check: they would be cut out and never run."
                yield page.problem("hidden-tests", what, "set its type to Autograder tests.", cell)
            continue
        try:
            tree = ast.parse(cell.source)
        except SyntaxError as error:
            what = f"The check cell is not plain Python (line {error.lineno}: {error.msg})."
            yield page.problem("syntax", what, "mend it; magics and shell commands are for other cells.", cell)
            continue
        calls = [node for node in ast.walk(tree) if _is_lesson_check(node, lessons)]
        match tree.body, calls:
            case [ast.Expr(ast.Call(_, [ast.Constant(str(name)), _], []) as call)], [one] if one is call:
                yield from _known(page, cell, lessons[ast.unparse(call.func).partition(".")[0]], name)
            case _, [_, *_]:
                what = "A lesson's check stands together with something else, so that it would not be judged as one."
                mend = "let the cell hold it alone; put tests of your own, hidden ones too, into a check cell after it."
                yield page.problem("check-call", what, mend, cell)


def _known(page: Notebook, cell: Cell, lesson: str, name: str) -> Iterator[Problem]:
    exercises: Mapping[str, float] = exercises_of(lesson) or {}
    if name not in exercises:
        known = ", ".join(exercises) or "none; lessons are " + ", ".join(info.name for info in LESSONS)
        what = f"The lesson {lesson} has no exercise {name}; it has {known}."
        yield page.problem("exercise", what, "mend the name, or write tests of your own.", cell)


def _is_lesson_check(node: ast.AST, lessons: Mapping[str, str]) -> bool:
    match node:
        case ast.Call(ast.Attribute(ast.Name(name), "check")):
            return name in lessons
    return False


RULES = (unique_ids, solution_regions, metadata, checks)
