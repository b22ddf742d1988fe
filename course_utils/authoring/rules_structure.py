"""Rules about a notebook's parts that nobody derives: the format, ids, solution regions (``RULES``)."""

from collections import Counter
from collections.abc import Iterator

import nbformat

from course_utils.authoring.derive import BEGIN, END
from course_utils.authoring.problems import Notebook, Problem

REQUIRED_KEYS = ("grade", "grade_id", "locked", "schema_version", "solution")
RUN = "python -m course_utils.authoring run"


def valid_format(notebook: Notebook) -> Iterator[Problem]:
    """The file obeys the notebook format's own schema."""
    if notebook.node.nbformat_minor >= 5 and all(cell.id for cell in notebook.cells):
        for error in nbformat.validator.iter_validate(notebook.node, relax_add_props=True):
            what = f"The file breaks the notebook format: {error}".splitlines()[0]
            yield notebook.problem("format", what, "open and save it in JupyterLab, or write the cell anew.")


def unique_ids(notebook: Notebook) -> Iterator[Problem]:
    """Cell ids and grade ids are there and are unique."""
    ids = Counter(cell.id for cell in notebook.cells)
    grade_ids = Counter(cell.grade_id for cell in notebook.cells if cell.grade_id)
    for cell in notebook.cells:
        if not cell.id:
            yield notebook.problem("cell-id", "The cell has no id.", "give it one: letters, digits, - and _.", cell)
        elif ids[cell.id] > 1:
            what = f"{ids[cell.id]} cells have the id {cell.id}; a copied cell often does."
            yield notebook.problem("cell-id", what, "give this cell an id of its own.", cell)
        if grade_ids[cell.grade_id] > 1:
            what = (
                f"{grade_ids[cell.grade_id]} cells have the grade id {cell.grade_id}. nbgrader stops at such a "
                "notebook, and grades no student after it."
            )
            yield notebook.problem("grade-id", what, "give this cell a grade id of its own.", cell)


def stray_checks(notebook: Notebook) -> Iterator[Problem]:
    """An exercise is checked in its check cell alone."""
    for cell in notebook.code:
        if "lesson.check(" in cell.source and not cell.is_check:
            what = "lesson.check is called in a cell that is not graded."
            yield notebook.problem(
                "check-call", what, "take the call out; make lessons writes one for each exercise.", cell
            )


def solution_regions(notebook: Notebook) -> Iterator[Problem]:
    """Solutions stand between the markers, in answer cells alone."""
    for cell in notebook.cells:
        lines = [line.strip() for line in cell.source.splitlines()]
        markers = [line for line in lines if "BEGIN SOLUTION" in line or "END SOLUTION" in line]
        if markers and cell.kind == "code":
            if not cell.is_answer:
                what = "A solution region stands in a cell that is not an answer: a learner would see it."
                yield notebook.problem("solution-region", what, "put the cell below its exercise's heading.", cell)
            if markers != [BEGIN, END] * (len(markers) // 2) or len(markers) % 2:
                what = "The solution markers do not come in pairs."
                yield notebook.problem(
                    "solution-region", what, f"use {BEGIN} and {END}, each on a line of its own.", cell
                )
        elif cell.is_answer:
            what = "The answer cell has no solution region, so the learner's copy would lose its signature too."
            yield notebook.problem("solution-region", what, f"put {BEGIN} and {END} around the solution.", cell)


RULES = (valid_format, unique_ids, stray_checks, solution_regions)
