"""Tries a teacher's own tests before anybody gets them (``tried``): on the source's own answers, and on answers that
give None. Tests that refuse the first would cost the whole class its points, tests that pass the second give them away.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator

from course_utils.authoring.problems import Notebook, Problem
from course_utils.classroom.course.folder import HIDDEN_TESTS
from course_utils.classroom.judging.grader import Grader
from course_utils.classroom.rebuild.released import read_released


def tried(page: Notebook, made: Notebook) -> list[Problem]:
    """What is wrong with tests of the teacher's own; nothing is run where there are none.

    Args:
        page: the source.
        made: the release that was made of it.

    Raises:
        SandboxMissing: (an ``OSError``) there can be no sandbox here.
    """
    full = {cell.grade_id: cell.source for cell in page.code if cell.is_check}
    for cell in made.cells:
        if cell.grade_id in full:
            cell.node.metadata[HIDDEN_TESTS] = full[cell.grade_id]
    released = json.dumps(made.node)
    own = {cell.grade_id for cell in read_released(released).graded if cell.role == "check" and not cell.lesson}
    return list(_problems(page, released, own)) if own else []


def _problems(page: Notebook, released: str, own: set[str]) -> Iterator[Problem]:
    places = {cell.grade_id: cell for cell in page.cells}
    with Grader() as grader:
        for is_right in (True, False):
            submitted = json.loads(released)
            for cell in submitted["cells"]:
                grading = cell["metadata"].get("nbgrader", {})
                if grading.get("solution") and cell["cell_type"] == "code":
                    solved = places[grading["grade_id"]].plain_code
                    cell["source"] = solved if is_right else _gives_none(solved)
            content = json.dumps(submitted).encode()
            report = grader.grade(released, content, student="teacher", assignment=page.name)
            for result in (result for result in report.exercises if result.grade_id in own):
                earns = f"earns {result.earned:g} of {result.possible:g} points"
                if is_right and result.earned < result.possible:
                    why = "; ".join(why for why, _ in result.lost) or result.outcome
                    what, mend = f"The source's own answer {earns}: {why}.", "mend the answer or the test."
                elif not is_right and result.earned > 0:
                    what = f"An answer that gives None {earns}."
                    mend = "let every test call the answer, and compare what it gives in an assert without brackets."
                else:
                    continue
                yield page.problem("own-tests", what, mend, places[result.grade_id])


def _gives_none(source: str) -> str:
    """The answer with functions that return None, and values that are None; empty where it is not plain Python."""
    try:
        tree = ast.parse(source)
    except SyntaxError:
        return ""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            node.body = [ast.Pass()]
        elif isinstance(node, ast.Assign | ast.AnnAssign) and node in tree.body:
            node.value = ast.Constant(None)
    return ast.unparse(tree)
