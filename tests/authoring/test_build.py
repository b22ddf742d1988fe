"""Learner notebooks: what nbgrader itself would release, the same to the byte every time, whole or not at all."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest

from course_utils.authoring import cells
from course_utils.authoring.__main__ import main
from course_utils.authoring.build import build
from course_utils.authoring.files import dumps, normalised, read
from course_utils.base.files import write_whole

pytestmark = pytest.mark.slow

REPOSITORY = Path(__file__).resolve().parents[2]
SIMPLE = cells.notebook([cells.markdown("# 00", "title"), cells.setup("start_here")])
STUB = "# Your answer here.\npass"


@pytest.fixture
def learner(course):
    (path,) = build(course)
    return read(path)


def test_stubs_take_the_place_of_solutions_and_of_nothing_else(solution, learner, cell_of):
    assert cell_of(learner, "snapshot").source == (
        'def snapshot(x):\n    """The values of x now."""\n    # Your answer here.\n    pass'
    )
    assert cell_of(learner, "predicted_edit").source == (
        'predicted_edit = {"detach_edit": ..., "data_edit": ...}\n' + STUB
    )
    assert cell_of(learner, "written").source == "*Your answer here.*"
    changed = [new.id for old, new in zip(solution.cells, learner.cells, strict=True) if old.source != new.source]
    assert changed == ["snapshot", "predicted_edit", "written"]


@pytest.mark.parametrize(
    "around",
    [
        "{}",
        "def f():\n    {}",
        "class A:\n    {}",
        "class A:\n    def f(self):\n        {}",
        "for _ in range(2):\n    {}",
    ],
)
def test_the_stub_stands_wherever_a_statement_may(around, course, solution, cell_of):
    indent = around.splitlines()[-1].replace("{}", "")
    region = f"\n{indent}".join(["### BEGIN SOLUTION", "x = 1", "### END SOLUTION"])
    cell_of(solution, "snapshot").source = around.format(region)
    cells.write(solution, course.solutions / "03_detach.ipynb")
    build(course)
    source = cell_of(read(course.learners / "03_detach.ipynb"), "snapshot").source
    assert "x = 1" not in source
    exec(compile(source, "stub", "exec"), {})


def test_two_builds_give_the_same_bytes(course):
    (path,) = build(course)
    first = path.read_bytes()
    path.unlink()
    build(course)
    assert path.read_bytes() == first
    assert b"\r" not in first and first.endswith(b"}\n")


def test_a_front_ends_traces_change_nothing(course, solution):
    (path,) = build(course)
    clean = path.read_bytes()
    solution.metadata.kernelspec.display_name = "ada's python"
    solution.metadata.language_info.version = "3.12.1"
    for cell in solution.cells:
        cell.metadata.update(collapsed=True, execution={"iopub.status.busy": "2024-02-29T12:00:00Z"})
    source = course.solutions / "03_detach.ipynb"
    kept = source.read_bytes()
    write_whole(source, dumps(solution))
    assert build(course) == [source]
    assert path.read_bytes() == clean and source.read_bytes() == kept


def test_an_unchanged_notebook_is_not_written_again(course):
    (path,) = build(course)
    before = path.stat()
    assert build(course) == []
    after = path.stat()
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


@pytest.mark.nightly
def test_nbgrader_generate_assignment_gives_the_same_bytes(course, tmp_path):
    (built,) = build(course)
    teachers = tmp_path / "teacher"
    (teachers / "source" / "detach").mkdir(parents=True)
    shutil.copy(course.solutions / "03_detach.ipynb", teachers / "source" / "detach")
    shutil.copy(REPOSITORY / "nbgrader_config.py", teachers)
    # nbgrader calls alembic as a command.
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    subprocess.run(
        [sys.executable, "-m", "nbgrader", "generate_assignment", "detach", "--create"],
        cwd=teachers,
        env={**os.environ, "PATH": path, "JUPYTER_CONFIG_DIR": str(tmp_path / "no_settings")},
        check=True,
        capture_output=True,
        timeout=120,
    )
    released = teachers / "release" / "detach" / "03_detach.ipynb"
    assert released.read_bytes() == built.read_bytes()


@pytest.mark.parametrize(
    ("id", "break_it", "said"),
    [
        ("snapshot", lambda cell: cell.update(source="### BEGIN SOLUTION\nx = 1"), "no end solution statement found"),
        ("case", lambda cell: cell.update(source="### BEGIN SOLUTION\n### END SOLUTION"), "non-solution cell"),
        ("case", lambda cell: cell.pop("id"), "cell 3 (id missing)"),
        ("case", lambda cell: cell.update(id="title"), "2 cells have the id title."),
    ],
)
def test_a_notebook_that_nbgrader_refuses_is_named_and_nothing_is_written(
    id, break_it, said, course, solution, cell_of
):
    cells.write(SIMPLE, course.solutions / "00_start_here.ipynb")  # would come before it, and is fine
    break_it(cell_of(solution, id))
    write_whole(course.solutions / "03_detach.ipynb", dumps(solution))
    with pytest.raises(ValueError, match=r"notebooks/solutions/03_detach\.ipynb: ") as refused:
        build(course)
    assert said in str(refused.value)
    assert list(course.learners.glob("*.ipynb")) == []


def test_a_missing_configuration_is_named(course):
    course.config.unlink()
    with pytest.raises(ValueError, match=r"nbgrader_config\.py does not exist"):
        build(course)


def test_the_command_builds_the_named_notebooks(course, capsys):
    cells.write(SIMPLE, course.solutions / "00_start_here.ipynb")
    command = ["--course", str(course.learners), "build"]
    assert main([*command, "03_detach"]) == 0
    assert capsys.readouterr().out == "wrote notebooks/03_detach.ipynb\n"
    assert main([*command, "notebooks/solutions/00_start_here.ipynb"]) == 0
    assert capsys.readouterr().out == "wrote notebooks/00_start_here.ipynb\n"
    assert main(command) == 0
    assert capsys.readouterr().out == "everything that is made is up to date\n"


@pytest.mark.parametrize("command", ["build", "lint", "run"])
def test_an_unknown_name_is_refused_with_those_there_are(command, course, capsys):
    assert main(["--course", str(course.root), command, "04_volatile"]) == 1
    said = capsys.readouterr().err
    assert "no solution notebook called 04_volatile" in said and "one of 03_detach." in said


@pytest.mark.parametrize("command", ["build", "lint", "run"])
def test_a_course_without_solutions_is_refused(command, tmp_path, capsys):
    assert main(["--course", str(tmp_path), command]) == 1
    assert "notebooks/solutions" in capsys.readouterr().err


def test_normalised_twice_is_normalised_once(solution):
    solution.cells[2].execution_count = 40
    solution.cells[0].source += "\r\nmore\r\n\n"
    once = normalised(nbformat.v4.to_notebook(json.loads(dumps(solution))))
    assert normalised(once) == once
    assert once.cells[0].source == "# 03 detach\n\nIt takes 15 minutes.\nmore"
    counts = [cell.execution_count for cell in once.cells if cell.cell_type == "code"]
    assert counts == list(range(1, len(counts) + 1))
