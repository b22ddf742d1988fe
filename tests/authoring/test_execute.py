"""Running a solution notebook: outputs that depend on the notebook alone, or the file as it was."""

import shutil
from pathlib import Path

import nbformat
import pytest

from course_utils.authoring import cells
from course_utils.authoring.__main__ import main
from course_utils.authoring.execute import executed, run
from course_utils.authoring.files import read

pytestmark = pytest.mark.slow

REPOSITORY = Path(__file__).resolve().parents[2]
CHUNKS = """\
import sys, time
for part in ("one ", "two ", "three\\n"):
    print(part, end="", flush=True)
    time.sleep(0.25)  # longer than the kernel waits before it sends what was printed"""
SURROUNDINGS = """\
import os, pathlib
os.environ["COURSE_UTILS_PROGRESS"], os.environ["OMP_NUM_THREADS"], str(pathlib.Path.cwd())"""


@pytest.fixture
def path(tmp_path):
    folder = tmp_path / "notebooks" / "solutions"
    folder.mkdir(parents=True)
    return folder / "03_detach.ipynb"


def write(path: Path, *sources: str, tags=()) -> Path:
    return cells.write(cells.notebook(cells.code(source, f"cell-{i}", tags) for i, source in enumerate(sources)), path)


def test_a_run_keeps_ids_and_gives_the_same_bytes_each_time(path, cell_of):
    content = [
        cells.markdown("# A title", "title"),
        cells.code(CHUNKS, "chunks"),
        cells.code("", "empty"),
        cells.code("6 * 7", "shows"),
        cells.code("import matplotlib.pyplot as plt\n_ = plt.plot([1, 2])\nplt.show()", "figure"),
    ]
    cells.write(cells.notebook(content), path)

    assert run(path) is True

    first = path.read_bytes()
    notebook = read(path)
    assert [cell.id for cell in notebook.cells] == ["title", "chunks", "empty", "shows", "figure"]
    assert cell_of(notebook, "chunks").outputs == [
        {"output_type": "stream", "name": "stdout", "text": "one two three\n"}
    ]
    assert cell_of(notebook, "shows").outputs == [
        {"output_type": "execute_result", "data": {"text/plain": "42"}, "metadata": {}, "execution_count": 2}
    ]
    assert "image/png" in cell_of(notebook, "figure").outputs[0].data
    assert [cell.get("execution_count") for cell in notebook.cells] == [None, 1, None, 2, 3]
    assert all(not cell.metadata for cell in notebook.cells)  # no times of execution
    nbformat.validate(notebook)

    assert run(path) is False
    assert path.read_bytes() == first


def test_the_kernels_surroundings_are_not_the_callers(path, monkeypatch):
    # What a caller's shell might hold.
    monkeypatch.setenv("COURSE_UTILS_PROGRESS", "/mine.sqlite")
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    write(path, SURROUNDINGS)
    progress, threads, folder = eval(executed(read(path), path.parent).cells[0].outputs[0].data["text/plain"])
    assert (threads, folder) == ("1", str(path.parent.resolve()))
    assert progress != "/mine.sqlite" and not Path(progress).parent.exists()


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("1 / 0", "ZeroDivisionError: division by zero"),
        ("import warnings; warnings.warn('careful')", "wrote to stderr"),
        ("%tiem 1", "`%tiem` not found"),
        pytest.param("import os; os._exit(3)", "Kernel died", marks=pytest.mark.nightly),
        pytest.param("while True: pass", "timed out", marks=pytest.mark.nightly),
    ],
)
def test_a_notebook_that_does_not_run_keeps_its_file(source, said, path):
    write(path, "1", source, "2")
    before = path.read_bytes()
    seconds = 3 if "while" in source else 60
    with pytest.raises(ValueError, match=r"id cell-1\b") as refused:
        run(path, cell_seconds=seconds)
    assert said in str(refused.value)
    assert path.read_bytes() == before
    assert [entry.name for entry in path.parent.iterdir()] == ["03_detach.ipynb"]


def test_an_error_that_is_announced_is_kept(path):
    write(path, "1 / 0", tags=["raises-exception"])
    run(path)
    (output,) = read(path).cells[0].outputs
    assert (output.output_type, output.ename, output.evalue) == (
        "error",
        "ZeroDivisionError",
        "division by zero",
    )


@pytest.mark.nightly
def test_the_command_builds_and_runs_the_named_notebooks_and_goes_on_after_a_failure(path, capsys):
    shutil.copy(REPOSITORY / "nbgrader_config.py", path.parents[2])
    write(path, "6 * 7")
    write(path.with_name("00_start_here.ipynb"), "1 / 0")
    command = ["--course", str(path.parent), "run"]

    assert main([*command, "03_detach"]) == 0
    assert capsys.readouterr().out == "notebooks/solutions/03_detach.ipynb: outputs changed\n"
    assert read(path).cells[0].metadata.nbgrader.grade_id == "detach-setup"
    assert [learner.name for learner in path.parents[1].glob("*.ipynb")] == ["03_detach.ipynb"]

    assert main(command) == 1
    said = capsys.readouterr()
    assert said.out == "notebooks/solutions/03_detach.ipynb: outputs as before\n"
    assert "notebooks/solutions/00_start_here.ipynb: Cell 1 (counted from 1, id cell-0) did not finish" in said.err
