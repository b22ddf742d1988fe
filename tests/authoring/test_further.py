"""Notebooks that go on from a lesson: what the lint asks of them, and that they are kept and run like lessons."""

import nbformat
import pytest

from course_utils.authoring import cells
from course_utils.authoring.__main__ import main
from course_utils.authoring.build import build, stale
from course_utils.authoring.files import dumps, read
from course_utils.authoring.lint import lint_course, lint_further, report
from course_utils.base.files import write_whole

TITLE = "# Going further: detach\n\nThis goes on from [lesson 03](../03_detach.ipynb)."


@pytest.fixture
def notebook():
    """A notebook that goes on from lesson ``detach`` and breaks no rule."""
    notebook = cells.notebook(
        [
            cells.markdown(TITLE, "title"),
            cells.code('import torch\n\nlesson = Lesson("detach")\ntorch.manual_seed(0)', "setup"),
            cells.markdown("## Copies across devices\n\nSee [lesson 05](../05_no_grad.ipynb).", "copies"),
            cells.code('print("1 copy")', "count"),
        ]
    )
    notebook.cells[1].execution_count, notebook.cells[3].execution_count = 1, 2
    notebook.cells[3].outputs = [nbformat.v4.new_output("stream", name="stdout", text="1 copy\n")]
    return notebook


@pytest.fixture
def course(course, solution, notebook, cell_of):
    """The small course, with a notebook that goes on from its lesson."""
    cell_of(solution, "title").source += "\n\nMore: [Going further](further/03_detach.ipynb)."
    cells.write(solution, course.solutions / "03_detach.ipynb")
    course.further.mkdir()
    cells.write(notebook, course.further / "03_detach.ipynb")
    build(course)
    return course


@pytest.mark.parametrize(
    ("rule", "id", "change"),
    [
        ("opening", "title", {"source": TITLE.replace("further:", "further -")}),
        ("opening", "title", {"source": TITLE.replace("../", "")}),
        ("setup", "setup", {"source": "import torch\nx = torch.ones(3)"}),
        ("setup", "setup", {"source": 'lesson = Lesson("no_grad")'}),
        ("ungraded", "count", {"source": 'lesson.predict("How many?", ..., 1)'}),
        ("ungraded", "count", {"source": 'lesson.check("snapshot", 1)'}),
        ("ungraded", "count", {"metadata": {"nbgrader": {"solution": True}}}),
        ("link", "copies", {"source": "[lesson 05](05_no_grad.ipynb)"}),
        ("not-executed", "count", {"execution_count": None}),
        ("syntax", "count", {"source": "def f("}),
        ("not-comparable", "count", {"outputs": [nbformat.v4.new_output("stream", text="took 3 ms")]}),
    ],
)
def test_a_broken_cell_is_named(rule, id, change, notebook, cell_of, tmp_path):
    path = write_whole(tmp_path / "03_detach.ipynb", dumps(notebook))
    assert lint_further(path) == []
    cell_of(notebook, id).update(nbformat.from_dict(change))
    write_whole(path, dumps(notebook))
    assert (rule, id) in [(problem.rule, problem.cell_id) for problem in lint_further(path)]


def test_a_notebook_of_no_lesson_and_a_file_that_is_none_are_named(notebook, tmp_path):
    stray, broken = write_whole(tmp_path / "03_detatch.ipynb", dumps(notebook)), write_whole(tmp_path / "a.ipynb", "{")
    assert lint_further(stray)[0].rule == "catalogue"
    assert [problem.rule for problem in lint_further(broken)] == ["unreadable"]


def test_lesson_and_notebook_lead_to_each_other(course, solution, cell_of):
    assert lint_course(course) == [], report(lint_course(course))
    cell_of(solution, "title").source = "# 03 detach\n\nIt takes 15 minutes."
    cells.write(solution, course.solutions / "03_detach.ipynb")
    build(course)
    (problem,) = lint_course(course, ["detach"])
    assert (problem.notebook, problem.rule) == ("notebooks/solutions/03_detach.ipynb", "link")
    assert "[Going further](further/03_detach.ipynb)" in problem.mend
    (course.further / "03_detach.ipynb").unlink()
    assert lint_course(course) == []


def test_a_link_to_a_notebook_that_is_not_there_is_named(course):
    (course.further / "03_detach.ipynb").unlink()
    assert "'further/03_detach.ipynb'" in report(lint_course(course))


def test_it_is_kept_in_the_repositorys_form(course, notebook):
    path = course.further / "03_detach.ipynb"
    kept = path.read_bytes()
    notebook.metadata.kernelspec.display_name = "ada's python"
    write_whole(path, dumps(notebook))
    assert stale(course, ["detach"]) == {path: "is not what make lessons writes"}
    assert build(course) == [path]
    assert path.read_bytes() == kept and stale(course) == {}


def test_its_problems_are_listed_with_the_course_s(course, notebook, cell_of, capsys):
    cell_of(notebook, "copies").source = "See #3627."
    cells.write(notebook, course.further / "03_detach.ipynb")
    assert main(["--course", str(course.root), "lint", "detach"]) == 1
    assert "notebooks/further/03_detach.ipynb, cell 3 (id copies): See #3627." in capsys.readouterr().err


@pytest.mark.slow
def test_it_is_run_with_its_lesson(course, notebook, cell_of, capsys):
    lesson = cells.notebook([cells.markdown("# 05", "title"), cells.code("print(5)", "case")])
    cells.write(lesson, course.solutions / "05_no_grad.ipynb")
    cell_of(notebook, "setup").source = "import math"
    cell_of(notebook, "count").source = 'print("2 copies")'
    write_whole(course.further / "05_no_grad.ipynb", dumps(notebook))
    assert main(["--course", str(course.root), "run", "no_grad"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines == [f"notebooks/{folder}/05_no_grad.ipynb: outputs changed" for folder in ("solutions", "further")]
    assert cell_of(read(course.further / "05_no_grad.ipynb"), "count").outputs[0].text == "2 copies\n"
