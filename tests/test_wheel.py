"""The wheel: what is in it, and that a learner who has nothing else gets the whole course from it."""

import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest
import yaml

from course_utils import Lesson
from course_utils.catalogue import LESSONS

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[1]
# As pip's script does it; PYTHONPATH stands before whatever is installed here.
COMMAND = """
import sys
from importlib.metadata import entry_points
(command,) = entry_points(group="console_scripts", name="autograd-control")
sys.exit(command.load()())
"""
SOLVED = [line for line in Lesson("detach").exercises["snapshot"].source.split("\n") if line and "###" not in line]
ASK = """
import course_utils
from course_utils import Lesson
lesson = Lesson("detach")
print(course_utils.__file__)
print(float(lesson.check("snapshot", lambda x: x.detach().clone())))
print(lesson.solution("snapshot").source)
"""
# A learner's evening: one exercise answered, the notebook run from the first cell to the last, a solution opened.
WORK = """
from pathlib import Path
import nbformat
from course_utils.authoring.execute import executed
path = Path("my_notebooks/03_detach.ipynb")
notebook = nbformat.read(path, 4)
(answer,) = [cell for cell in notebook.cells if cell.metadata.get("nbgrader", {}).get("grade_id") == "detach-snapshot"]
answer.source = "def snapshot(x):\\n    return x.detach().clone()"
notebook.cells.append(nbformat.v4.new_code_cell("print(lesson.solution('snapshot').source)"))
cells = executed(notebook, path.parent).cells
(check,) = [cell for cell in cells if cell.cell_type == "code" and 'check("snapshot"' in cell.source]
print(check.outputs[-1].data["text/plain"])
print(cells[-1].outputs[0].text, end="")
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", folder]
    built = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert built.returncode == 0, built.stderr
    return next(folder.iterdir())


@pytest.fixture(scope="module")
def site(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with what pip would put into site-packages."""
    folder = tmp_path_factory.mktemp("site")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
    return folder


def run(site: Path, home: Path, program: str, *arguments: str) -> str:
    """What a program prints that has the unpacked wheel and no checkout."""
    environment = os.environ | {"PYTHONPATH": str(site), "COURSE_UTILS_PROGRESS": "off"}
    command = [sys.executable, "-c", program, *arguments]
    result = subprocess.run(command, cwd=home, env=environment, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    return result.stdout


def contents(folder: Path, below: str = ".") -> dict[str, bytes]:
    files = [path for path in (folder / below).rglob("*") if path.is_file()]
    hidden = ("__pycache__", ".ipynb_checkpoints")
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files if not {*path.parts} & {*hidden}}


def test_it_holds_the_package_and_the_notebooks_and_nothing_else(site: Path) -> None:
    notebooks = {f"course_utils/{name}": content for name, content in contents(ROOT, "notebooks").items()}
    expected = contents(ROOT, "course_utils") | notebooks
    found = {name: content for name, content in contents(site).items() if ".dist-info/" not in name}
    assert sorted(found) == sorted(expected)
    assert [name for name in found if found[name] != expected[name]] == []


def test_a_learner_gets_the_lessons_without_solutions_and_nothing_is_ever_overwritten(site: Path, tmp_path) -> None:
    lessons = {f"{lesson.notebook}.ipynb" for lesson in LESSONS}
    assert "00_start_here" in run(site, tmp_path, COMMAND, "update")
    further = contents(ROOT / "notebooks", "further")
    lessons = {name: (ROOT / "notebooks" / name).read_bytes() for name in lessons}
    copies = contents(tmp_path / "my_notebooks")
    assert further.keys() <= {f"further/{name}" for name in lessons}
    assert copies.pop(".versions.json") and copies == lessons | further
    mine = tmp_path / "my_notebooks/03_detach.ipynb"
    mine.write_text("my work", encoding="utf-8")
    (tmp_path / "my_notebooks/04_volatile_history.ipynb").unlink()
    assert "Copied to my_notebooks/: 04_volatile_history." in run(site, mine.parent, COMMAND, "update")  # from inside
    assert mine.read_text(encoding="utf-8") == "my work" and not (mine.parent / "my_notebooks").exists()


@pytest.mark.nightly
def test_a_folder_can_be_named(site: Path, tmp_path: Path) -> None:
    run(site, tmp_path, COMMAND, "update", "--folder", "this autumn")
    mine = tmp_path / "this autumn/my_notebooks/03_detach.ipynb"
    mine.write_text("my work", encoding="utf-8")
    said = run(site, tmp_path, COMMAND, "fresh", "detach", "--folder", "this autumn")
    (kept,) = mine.parent.glob("03_detach.kept-*.ipynb")
    assert kept.name in said and kept.read_text(encoding="utf-8") == "my work"


@pytest.mark.nightly
def test_lab_starts_jupyterlab(site: Path, tmp_path: Path) -> None:
    import jupyterlab

    # JupyterLab, asked for its version, says it and ends.
    assert run(site, tmp_path, COMMAND, "lab", "--version").splitlines()[-1] == jupyterlab.__version__
    assert (tmp_path / "my_notebooks/00_start_here.ipynb").is_file()


def test_answers_are_checked_and_solutions_open(site: Path, tmp_path: Path) -> None:
    place, points, *source = run(site, tmp_path, ASK).splitlines()
    assert Path(place) == site / "course_utils/__init__.py"
    assert float(points) == Lesson("detach").exercises["snapshot"].points
    assert source == SOLVED


def test_a_copy_without_answers_judges_nothing_and_says_where_that_is_done(site: Path, tmp_path: Path) -> None:
    bare = tmp_path / "bare"  # as `zip -d` leaves the wheel, see docs/classroom.md
    shutil.copytree(site, bare, ignore=shutil.ignore_patterns("solutions"))
    for path in (bare / "course_utils/lessons").glob("*/*.toml"):
        path.unlink()
    asked = "print(lesson.hint('snapshot'), lesson.solution('snapshot'))"
    said = run(bare, tmp_path, ASK.replace("print(float(", f"{asked}\nprint(str("))
    assert " ".join(said.split()).count("your teacher's copy judges it") == 2 and "clone" not in said
    assert "not attempted" not in said and "Ask again" not in said and "holds no solutions" in said


@pytest.mark.nightly
def test_installed_by_pip_a_lesson_runs_from_an_empty_folder(wheel: Path, tmp_path: Path) -> None:
    venv, home = tmp_path / "venv", tmp_path / "home"
    home.mkdir()
    subprocess.run([sys.executable, "-m", "venv", venv], check=True)
    scripts = venv / ("Scripts" if os.name == "nt" else "bin")
    (site,) = venv.rglob("site-packages")
    # What the course needs is here already, and would take minutes to install again.
    here = [path for path in sys.path if path.endswith("site-packages")]
    (site / "needed.pth").write_text("\n".join(here), encoding="utf-8")
    subprocess.run([scripts / "python", "-m", "pip", "install", "--quiet", "--no-deps", wheel], check=True)
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    printed = []
    for command in ([scripts / "autograd-control", "update"], [scripts / "python", "-c", WORK]):
        result = subprocess.run(command, cwd=home, env=environment, capture_output=True, text=True)
        assert result.returncode == 0, result.stderr
        printed.append(result.stdout.splitlines())
    points, *source = printed[1]
    assert float(points) == Lesson("detach").exercises["snapshot"].points
    assert source == SOLVED


def test_one_version_everywhere(wheel: Path) -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    changes = re.findall(r"^## (\S+)$", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), flags=re.MULTILINE)
    assert changes[0] in (version, "Unreleased") and version in changes
    assert yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))["version"] == version
    assert wheel.name == f"autograd_control-{version}-py3-none-any.whl"
