"""What a source must keep so that it can be graded (``RULES``), whoever wrote it: a lesson, a lesson with exercises of
a teacher's own, an assignment of a teacher's own.

Every rule is a function from a ``Notebook`` to problems, as in ``authoring``; what only a lesson must keep is not
asked.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping

from course_utils.authoring.cells import SCHEMA_VERSION
from course_utils.authoring.lint import exercises_of
from course_utils.authoring.problems import Cell, Notebook, Problem
from course_utils.authoring.rules import solution_regions, unique_ids
from course_utils.catalogue import LESSONS
from course_utils.classroom.course.source import lessons_made

REQUIRED_KEYS = ("grade", "grade_id", "locked", "schema_version", "solution")
HIDDEN = "BEGIN HIDDEN TESTS"
_HEADED_POINTS = re.compile(r"(#+) .*?(\d+(?:\.\d+)?) points?\b")


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
    """A check cell is a lesson's check alone, or tests that can fail; what is hidden stands in the latter."""
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
            case _ if never := _never_fails(tree):
                what = f"`assert {ast.unparse(never)[:60]}` cannot fail: a tuple is always true."
                yield page.problem("check-call", what, "take the brackets away: assert test, message.", cell)
            case _ if not _can_fail(tree):
                what = "Nothing in the check cell can fail, so that everybody would get its points."
                yield page.problem("check-call", what, "write an assert, or end in an expression: the points.", cell)


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


def points(page: Notebook) -> Iterator[Problem]:
    """A heading that names points names those of the check below it, and there is one; a heading of a higher level may
    name the sum of those below it."""
    said: re.Match[str] | None = None
    place: Cell | None = None
    for cell in (*page.cells, None):
        headings = cell.source.splitlines() if cell and cell.kind == "markdown" and not cell.is_written else []
        found = [match for line in headings if (match := _HEADED_POINTS.match(line))]
        if said and (cell is None or (found and len(found[0][1]) <= len(said[1]))):
            what = f"The heading says {_of(said)}, and nothing below it earns any: {said.string[:60]}"
            yield page.problem("points", what, "leave the heading out too, or its points.", place)
        if found:
            said, place = found[-1], cell
        elif cell and (cell.is_written or cell.grading.get("grade")):
            if said and cell.is_check and cell.points != float(said[2]):
                what = f"The heading says {_of(said)}, and the check earns {cell.points:g}: {said.string[:60]}"
                yield page.problem("points", what, "let both say the same.", cell)
            said = None


def _of(said: re.Match[str]) -> str:
    return f"{said[2]} point{'' if float(said[2]) == 1 else 's'}"


def _never_fails(tree: ast.Module) -> ast.expr | None:
    """What an assert tests where that is always true: a tuple, or a text."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Assert) and (
            (isinstance(node.test, ast.Tuple) and node.test.elts)
            or (isinstance(node.test, ast.Constant) and node.test.value)
        ):
            return node.test
    return None


def _can_fail(tree: ast.Module) -> bool:
    for node in ast.walk(tree):
        name = ast.unparse(node.func).rpartition(".")[2] if isinstance(node, ast.Call) else ""
        if isinstance(node, (ast.Assert, ast.Raise)) or name.lower().startswith("assert"):
            return True
    match tree.body:
        case [*_, ast.Expr(ast.Call(ast.Name("print" | "display")))]:
            return False
        case [*_, ast.Expr(value)]:
            return not isinstance(value, ast.Constant)
    return False


RULES = (unique_ids, solution_regions, metadata, checks, points)
