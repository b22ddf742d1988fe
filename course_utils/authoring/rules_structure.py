"""Rules about a notebook's parts: its form, ids, nbgrader's metadata, exercise blocks, points (``RULES``)."""

import re
from collections import Counter
from collections.abc import Iterator

import nbformat

from course_utils.authoring.cells import CHECK_SUFFIX, SCHEMA_VERSION
from course_utils.authoring.files import NOTEBOOK_METADATA, RELEASE_KEYS, kept_metadata
from course_utils.authoring.problems import Cell, Page, Problem

BEGIN, END = "### BEGIN SOLUTION", "### END SOLUTION"
REQUIRED_KEYS = ("grade", "grade_id", "locked", "schema_version", "solution")
ALLOWED_KEYS = (*REQUIRED_KEYS, "points", "task")
RUN = "python -m course_utils.authoring run"


def kept_form(page: Page) -> Iterator[Problem]:
    """The file has the form that ``files.normalised`` gives, so that nbgrader's release of it is the learner's file."""
    mend = f"{RUN} writes the file anew."
    if (page.notebook.nbformat, page.notebook.nbformat_minor) != (4, 5):
        yield page.problem("format", "The notebook is not of format 4.5, the first in which cells keep ids.", mend)
    if page.notebook.metadata != NOTEBOOK_METADATA:
        yield page.problem("metadata", "The notebook's metadata is that of one author's Jupyter.", mend)
    for cell in page.cells:
        if set(cell.grading) & set(RELEASE_KEYS):
            what = "nbgrader's checksum or cell type is stored; the release adds its own, and this one grows stale."
            yield page.problem("metadata", what, mend, cell)
        elif kept_metadata(cell.node.metadata) != cell.node.metadata:
            extra = sorted(set(cell.node.metadata) - {"nbgrader", "tags"}) or ["an empty field"]
            what = f"The cell's metadata holds what a front end left there: {', '.join(extra)}."
            yield page.problem("metadata", what, mend, cell)


def valid_format(page: Page) -> Iterator[Problem]:
    """The file obeys the notebook format's own schema."""
    if page.notebook.nbformat_minor >= 5 and all(cell.id for cell in page.cells):
        for error in nbformat.validator.iter_validate(page.notebook, relax_add_props=True):
            what = f"The file breaks the notebook format: {error}".splitlines()[0]
            yield page.problem("format", what, "open and save it in JupyterLab, or write the cell anew.")


def unique_ids(page: Page) -> Iterator[Problem]:
    """Cell ids and grade ids are there and are unique."""
    ids = Counter(cell.id for cell in page.cells)
    grade_ids = Counter(cell.grade_id for cell in page.cells if cell.grade_id)
    for cell in page.cells:
        if not cell.id:
            yield page.problem("cell-id", "The cell has no id.", "give it one: letters, digits, - and _.", cell)
        elif ids[cell.id] > 1:
            what = f"{ids[cell.id]} cells have the id {cell.id}; a copied cell often does."
            yield page.problem("cell-id", what, "give this cell an id of its own.", cell)
        if grade_ids[cell.grade_id] > 1:
            what = (
                f"{grade_ids[cell.grade_id]} cells have the grade id {cell.grade_id}. nbgrader stops at such a "
                "notebook, and grades no student after it."
            )
            yield page.problem("grade-id", what, "give this cell a grade id of its own.", cell)


def grading_metadata(page: Page) -> Iterator[Problem]:
    """nbgrader's metadata is of schema 3 and says something that the course uses."""
    for cell in page.cells:
        if not cell.grading:
            continue
        missing = [key for key in REQUIRED_KEYS if key not in cell.grading]
        unknown = sorted(set(cell.grading) - set(ALLOWED_KEYS) - set(RELEASE_KEYS))
        if cell.grading.get("schema_version") != SCHEMA_VERSION:
            what = (
                f"nbgrader's schema_version is {cell.grading.get('schema_version')!r}. Another than {SCHEMA_VERSION} "
                "stops the grading of a whole class."
            )
            yield page.problem("schema", what, f"set it to {SCHEMA_VERSION}.", cell)
        if missing or unknown:
            parts = [f"lacks {', '.join(missing)}"] * bool(missing) + [f"has {', '.join(unknown)}"] * bool(unknown)
            what = f"nbgrader's metadata {' and '.join(parts)}."
            yield page.problem("schema", what, f"keys are {', '.join(ALLOWED_KEYS)}.", cell)
        if not re.fullmatch(rf"{re.escape(page.topic)}-[A-Za-z0-9_-]+", cell.grade_id):
            what = f"The grade id {cell.grade_id!r} is not {page.topic}-exercise."
            yield page.problem("grade-id", what, f"begin it with {page.topic}-, then letters, digits, - and _.", cell)
        wrong = _wrong_role(cell)
        if wrong:
            yield page.problem("role", *wrong, cell)


def _wrong_role(cell: Cell) -> tuple[str, str] | None:
    grading = cell.grading
    if grading.get("task"):
        return "The course has no nbgrader tasks.", "make it a written question: grade and solution in Markdown."
    if cell.is_written and not (grading.get("grade") and grading.get("solution")):
        return "A graded Markdown cell needs both grade and solution.", "set both: it is a written question."
    if cell.kind == "code" and grading.get("grade") and grading.get("solution"):
        return "The code cell is answer and check at once.", "split it: an answer cell, then a check cell."
    if cell.is_check and not grading.get("locked"):
        return "The check cell is not locked.", "set locked in nbgrader's metadata."
    if cell.is_answer and grading.get("locked"):
        return "The answer cell is locked, so no learner could fill it in.", "clear locked in nbgrader's metadata."
    return None


def exercise_blocks(page: Page) -> Iterator[Problem]:
    """An answer is directly followed by its check, and a check directly follows its answer."""
    for position, cell in enumerate(page.cells):
        following = page.cells[position + 1] if position + 1 < len(page.cells) else None
        previous = page.cells[position - 1] if position else None
        if cell.is_answer and not _is_prediction(cell, following):
            wanted = cell.grade_id + CHECK_SUFFIX
            if following is None or not following.is_check or following.grade_id != wanted:
                what = "The answer cell is not directly followed by its check cell."
                mend = f"let a check cell with the grade id {wanted} come next."
                yield page.problem("answer-without-check", what, mend, cell)
        if cell.is_check:
            wanted = cell.grade_id.removesuffix(CHECK_SUFFIX)
            if not cell.grade_id.endswith(CHECK_SUFFIX):
                what = f"The check cell's grade id does not end in {CHECK_SUFFIX}."
                yield page.problem("grade-id", what, f"call it topic-exercise{CHECK_SUFFIX}.", cell)
            elif previous is None or not previous.is_answer or previous.grade_id != wanted:
                what = "The check cell does not directly follow its answer cell."
                yield page.problem("check-without-answer", what, f"put the answer {wanted} before it.", cell)


def _is_prediction(cell: Cell, following: Cell | None) -> bool:
    return any("lesson.predict(" in part.source for part in (cell, following) if part and part.kind == "code")


def check_calls(page: Page) -> Iterator[Problem]:
    """A check cell holds the check call and nothing else."""
    for cell in page.code:
        if cell.is_check:
            exercise = cell.grade_id.removeprefix(page.topic + "-").removesuffix(CHECK_SUFFIX)
            call = f'lesson.check("{exercise}", {exercise})'
            if cell.source.strip() != call:
                what = "The check cell holds something else than its check call; nbgrader reads the cell's last value."
                yield page.problem("check-call", what, f"let it be {call}", cell)
        elif "lesson.check(" in cell.source and not cell.grading.get("grade"):
            what = "lesson.check is called in a cell that is not graded."
            yield page.problem("check-call", what, "mark it as a check cell with points, or take the call out.", cell)


def solution_regions(page: Page) -> Iterator[Problem]:
    """Solutions stand between the markers, in answer cells alone."""
    for cell in page.cells:
        lines = [line.strip() for line in cell.source.splitlines()]
        markers = [line for line in lines if "BEGIN SOLUTION" in line or "END SOLUTION" in line]
        if markers and cell.kind == "code":
            if not cell.is_answer:
                what = "A solution region stands in a cell that is not an answer: a learner would see it."
                yield page.problem(
                    "solution-region", what, "copy the metadata of another answer cell, and mend its grade id.", cell
                )
            if markers != [BEGIN, END] * (len(markers) // 2) or len(markers) % 2:
                what = "The solution markers do not come in pairs."
                yield page.problem("solution-region", what, f"use {BEGIN} and {END}, each on a line of its own.", cell)
        elif cell.is_answer:
            what = "The answer cell has no solution region, so the learner's copy would lose its signature too."
            yield page.problem("solution-region", what, f"put {BEGIN} and {END} around the solution.", cell)


def points(page: Page) -> Iterator[Problem]:
    """The points add up, and every check and written question has some."""
    checks = [cell for cell in page.cells if cell.is_check]
    written = [cell for cell in page.cells if cell.is_written]
    for cells, expected, name in (
        (checks, page.points, "checks"),
        (written, page.written_points, "written questions"),
    ):
        total = sum(cell.points for cell in cells)
        if total != expected:
            what = f"The points of the {name} add up to {total:g}, not {expected:g}."
            yield page.problem("points", what, f"mend the points in nbgrader's metadata of the {name}.")
        for cell in cells:
            given = cell.grading.get("points")
            if isinstance(given, bool) or not isinstance(given, (int, float)) or given < 0 or (expected and not given):
                yield page.problem("points", f"The cell's points are {given!r}.", "give it a number above 0.", cell)


def exercises_match(page: Page) -> Iterator[Problem]:
    """The notebook and the lesson's module have the same exercises, worth the same."""
    if page.exercises is None:
        return
    checks = {}
    for cell in page.cells:
        if cell.is_check:
            checks[cell.grade_id.removeprefix(page.topic + "-").removesuffix(CHECK_SUFFIX)] = cell
    for exercise, cell in checks.items():
        if exercise not in page.exercises:
            what = f"The lesson's module has no exercise {exercise}; it has {', '.join(page.exercises) or 'none'}."
            folder = f"course_utils/lessons/{page.topic}"
            mend = f"write it in {folder}/{exercise}.py, and name it in EXERCISES of {folder}/__init__.py."
            yield page.problem("exercise", what, mend, cell)
        elif cell.points != page.exercises[exercise]:
            what = f"The cell's points are {cell.points:g}, the exercise's {page.exercises[exercise]:g}."
            mend = f"make two agree: points in {exercise}.toml, and in nbgrader's metadata of this cell."
            yield page.problem("exercise", what, mend, cell)
    for exercise in page.exercises:
        if exercise not in checks:
            what = f"The lesson's module has an exercise {exercise} that the notebook does not check."
            yield page.problem("exercise", what, "add its answer and check cells, or take it out of the module.")


RULES = (
    kept_form,
    valid_format,
    unique_ids,
    grading_metadata,
    exercise_blocks,
    check_calls,
    solution_regions,
    points,
    exercises_match,
)
