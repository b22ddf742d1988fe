"""A small solution notebook that breaks no rule, with outputs as a run would leave them, and a course around it."""

import shutil
from pathlib import Path

import nbformat
import pytest

from course_utils.authoring import cells
from course_utils.authoring.files import Course

REPOSITORY = Path(__file__).resolve().parents[2]
SNAPSHOT = '''\
def snapshot(x):
    """The values of x now."""
    ### BEGIN SOLUTION
    return x.detach().clone()
    ### END SOLUTION'''
PREDICTED = """\
predicted_edit = {"detach_edit": ..., "data_edit": ...}
### BEGIN SOLUTION
predicted_edit = {"detach_edit": "error", "data_edit": "wrong gradient"}
### END SOLUTION"""
EXERCISES = (("snapshot", 4, 3), ("predicted_edit", 6, 5))  # with their points and minutes
QUESTION = """\
### Written question · 2 points by hand, 5 minutes

Why does the log grow? Afterwards, `lesson.solution("written")` opens a model answer."""
END = "Read on: [Autograd mechanics](https://docs.pytorch.org/docs/stable/notes/autograd.html)."


def result(text: str, html: str | None = None):
    data = {"text/plain": text} | ({"text/html": html} if html else {})
    return nbformat.v4.new_output("execute_result", data=data)


@pytest.fixture
def solution():
    """A solved, executed notebook of lesson ``detach``, named ``03_detach.ipynb`` in the tests."""
    figure = nbformat.v4.new_output(
        "display_data",
        data={"image/png": "iVBORw0KGgo=", "text/plain": "<Figure size 640x480 with 1 Axes>"},
        metadata={"image/png": {"alt": "Bytes over time: a line that climbs."}},
    )
    outputs = {
        "case": [nbformat.v4.new_output("stream", name="stdout", text="4 batches, 16 bytes each\n")],
        "figure": [figure],
        "snapshot-check": [result("4.0", "<style>p { transition: 0.2s }</style><p>4 of 4 points</p>")],
        "predicted_edit-check": [result("6.0", "<p>6 of 6 points</p>")],
    }
    notebook = cells.notebook(
        [
            cells.markdown("# 03 detach\n\nIt takes 15 minutes.", "title"),
            cells.setup("detach"),
            cells.code('print("4 batches, 16 bytes each")', "case"),
            cells.code("%time draw()", "timing", tags=["nbval-ignore-output"]),
            cells.code("draw()", "figure"),
            cells.markdown("### Exercise 3.1 · snapshot · 4 points, 3 minutes\n\nKeep the values.", "snapshot-text"),
            cells.answer(SNAPSHOT, "detach", "snapshot"),
            cells.check("detach", "snapshot", 4),
            cells.markdown(
                "So much for that.\n\n### Exercise 3.2 · predicted_edit · 6 points, 5 minutes", "predicted_edit-text"
            ),
            cells.answer(PREDICTED, "detach", "predicted_edit"),
            cells.check("detach", "predicted_edit", 6),
            cells.markdown(QUESTION, "question"),
            cells.written(
                "Because `total` holds every batch's graph.\n\n**Marking scheme**\n\n- 2 points: says so.", "detach"
            ),
            cells.markdown(END, "end"),
        ]
    )
    for count, cell in enumerate((cell for cell in notebook.cells if cell.cell_type == "code"), start=1):
        cell.execution_count = count
        cell.outputs = outputs.get(cell.id, [])
        for output in cell.outputs:
            if output.output_type == "execute_result":
                output.execution_count = count
    return notebook


@pytest.fixture
def course(tmp_path, solution) -> Course:
    """A course with the repository's own nbgrader settings, one solution notebook and its exercises' text files."""
    folder = tmp_path / "course"
    for number, (exercise, points, minutes) in enumerate(EXERCISES, start=1):
        text = f"number = {number}\npoints = {points}\nminutes = {minutes}\n"
        path = folder / "course_utils" / "lessons" / "detach" / f"{exercise}.toml"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    (folder / "notebooks" / "solutions").mkdir(parents=True)
    shutil.copy(REPOSITORY / "nbgrader_config.py", folder)
    cells.write(solution, folder / "notebooks" / "solutions" / "03_detach.ipynb")
    return Course(folder)


@pytest.fixture
def cell_of():
    """Finds a notebook's cell by its id."""
    return lambda notebook, id: next(cell for cell in notebook.cells if cell.id == id)
