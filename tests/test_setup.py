"""The newcomer's door: one list of requirements for everybody, commands that exist, a workflow that is valid."""

import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from importlib import metadata
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from course_utils.base.versions import RELEASES

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[1]
PYTHONS = ("3.11", "3.12", "3.13")
# Part of PyTorch's GPU build, which pins them itself; the CPU build has none of them.
GPU_LIBRARIES = re.compile(r"nvidia-|cuda-|triton")


def read(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def pins() -> list[Requirement]:
    lines = [line.strip() for line in read("constraints.txt").splitlines()]
    return [Requirement(line) for line in lines if line and not line.startswith("#")]


def pins_for(python: str, platform: str = "linux") -> dict[str, str]:
    """The version pinned for each package under a Python."""
    found: dict[str, str] = {}
    machine = {"python_version": python, "python_full_version": f"{python}.9", "sys_platform": platform}
    for pin in pins():
        if pin.marker is None or pin.marker.evaluate(machine):
            assert canonicalize_name(pin.name) not in found, f"{pin.name} has two versions for Python {python}"
            (specifier,) = pin.specifier
            assert specifier.operator == "==" and "*" not in specifier.version, f"{pin} is not one version"
            found[canonicalize_name(pin.name)] = specifier.version
    return found


def project() -> dict:
    return tomllib.loads(read("pyproject.toml"))["project"]


def asked_for() -> list[Requirement]:
    """Everything that pyproject.toml asks for, extras included."""
    lists = [project()["dependencies"], *project()["optional-dependencies"].values()]
    requirements = [Requirement(line) for lines in lists for line in lines]
    return [requirement for requirement in requirements if requirement.name != project()["name"]]


def needed_here() -> set[str]:
    """Names of all packages that the course needs under this Python, theirs included, from what is installed."""
    needed, waiting = set(), [(requirement, "") for requirement in asked_for()]
    while waiting:
        requirement, extra = waiting.pop()
        name = canonicalize_name(requirement.name)
        if (requirement.marker and not requirement.marker.evaluate({"extra": extra})) or GPU_LIBRARIES.match(name):
            continue
        for wanted in {"", *requirement.extras}:
            if f"{name}[{wanted}]" not in needed:
                needed.add(f"{name}[{wanted}]")
                waiting += [(Requirement(line), wanted) for line in metadata.requires(name) or []]
    return {name.partition("[")[0] for name in needed}


@pytest.mark.parametrize("platform", ["linux", "darwin", "win32"])
@pytest.mark.parametrize("python", PYTHONS)
def test_every_python_has_one_exact_version_of_everything_asked_for(python: str, platform: str) -> None:
    versions = pins_for(python, platform)
    for requirement in asked_for():
        name = canonicalize_name(requirement.name)
        assert name in versions, f"{name} is in pyproject.toml and not in constraints.txt"
        assert Version(versions[name]) in requirement.specifier, f"{name} {versions[name]} is not {requirement}"


def test_what_the_requirements_bring_with_them_is_pinned_too() -> None:
    versions = pins_for(f"{sys.version_info.major}.{sys.version_info.minor}", sys.platform)
    assert sorted(needed_here() - set(versions)) == []


def test_torch_is_pinned_and_its_gpu_libraries_are_not() -> None:
    assert pins_for("3.11")["torch"] == "2.13.0"
    assert pins_for("3.11", "darwin")["torch"] == pins_for("3.11", "win32")["torch"] == RELEASES[-1]
    assert [pin.name for pin in pins() if GPU_LIBRARIES.match(canonicalize_name(pin.name))] == []


def test_the_oldest_pytorch_asked_for_is_the_oldest_that_the_course_is_run_on() -> None:
    (torch,) = (requirement for requirement in asked_for() if requirement.name == "torch")
    assert str(torch.specifier) == f">={RELEASES[0].removesuffix('.0')}"
    assert list(RELEASES) == sorted(RELEASES, key=Version)
    assert project()["classifiers"] == [f"Programming Language :: Python :: {python}" for python in PYTHONS]


@pytest.mark.parametrize("task", ["lab", "lessons", "book"])
def test_make_hands_the_pytorch_that_is_named_on(task: str) -> None:
    assert '--torch "2.11.0"' in make("--dry-run", task, "TORCH=2.11.0").stdout
    assert "--torch" not in make("--dry-run", task).stdout


def test_requirements_stand_before_the_settings_of_tools() -> None:
    # tools/bootstrap.py reads pyproject.toml down to the first tool table, before any Python is chosen.
    first = tomllib.loads(read("pyproject.toml").partition("\n[tool.")[0])
    assert (first["project"], "build-system" in first) == (project(), True)


def conda() -> tuple[list[str], list[str]]:
    """What environment.yml takes from conda, and what from pip."""
    dependencies = yaml.safe_load(read("environment.yml"))["dependencies"]
    (from_pip,) = [entry["pip"] for entry in dependencies if isinstance(entry, dict)]
    return [entry for entry in dependencies if isinstance(entry, str)], from_pip


def test_conda_brings_python_and_pip_alone() -> None:
    from_conda, _ = conda()
    assert [re.split("[=<>]", entry)[0] for entry in from_conda] == ["python", "pip"]
    assert from_conda[0].removeprefix("python=") in PYTHONS


def test_conda_users_get_what_everybody_gets() -> None:
    # The very arguments of the pip command in docs/setup.md.
    assert f"python -m pip install {' '.join(conda()[1])}" in read("docs/setup.md")


@pytest.mark.nightly
def test_pip_part_of_environment_yml_installs_into_a_fresh_environment() -> None:
    # Not pytest's tmp_path: that is kept after the run, and this takes 1.5 GB.
    with tempfile.TemporaryDirectory(prefix="course-conda-") as folder:
        clone, venv = Path(folder) / "clone", Path(folder) / "venv"
        clone.mkdir()
        for name in ("pyproject.toml", "constraints.txt", "README.md", "LICENSE"):
            shutil.copy(ROOT / name, clone)
        shutil.copytree(ROOT / "course_utils", clone / "course_utils", ignore=shutil.ignore_patterns("__pycache__"))
        (clone / "requirements.txt").write_text("\n".join(conda()[1]), encoding="utf-8")
        subprocess.run([sys.executable, "-m", "venv", venv], check=True)
        python = venv / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
        # As conda does it: a requirements file beside environment.yml. Not compiled, which would take as long again.
        command = [python, "-m", "pip", "install", "--quiet", "--no-compile", "--no-input", "-r", "requirements.txt"]
        installed = subprocess.run(command, cwd=clone, capture_output=True, text=True)
        if "NewConnectionError" in installed.stderr and not os.environ.get("CI"):
            pytest.skip("no package index can be reached from this machine")
        assert installed.returncode == 0, installed.stderr
        program = "import course_utils, torch, jupyterlab, matplotlib, nbval, pytest, sklearn; print(torch.__version__)"
        printed = subprocess.run([python, "-c", program], cwd=folder, capture_output=True, text=True)
        assert printed.returncode == 0, printed.stderr
        assert printed.stdout.partition("+")[0].strip() == pins_for("3.11", sys.platform)["torch"]
        checked = subprocess.run([python, "-m", "pip", "check"], capture_output=True, text=True)
        assert checked.returncode == 0, checked.stdout


def targets() -> dict[str, str]:
    """The Makefile's tasks and what they run."""
    return dict(re.findall(r"^([a-z]+):.*\n\t@(.*)$", read("Makefile"), flags=re.MULTILINE))


def make(*arguments: str, **environment: str) -> subprocess.CompletedProcess:
    """Runs make as a person would: what the make that runs these tests tells its children is left out."""
    program = shutil.which("make")
    assert program is not None
    kept = {name: value for name, value in os.environ.items() if not name.startswith("MAKE") and name != "MFLAGS"}
    return subprocess.run([program, *arguments], cwd=ROOT, env=kept | environment, capture_output=True, text=True)


def test_make_without_a_task_lists_every_task() -> None:
    printed = make().stdout
    listed = {line.split()[1] for line in printed.splitlines()}
    assert listed == set(targets()) - {"environment", "tools"}
    assert listed == {"help", "lab", "fresh", "check", "test", "nightly", "lessons", "book"}
    for line in printed.splitlines():
        assert len(line.split(maxsplit=2)) == 3, f"{line} says nothing of the task"


@pytest.mark.parametrize("task", sorted(targets()))
def test_every_task_runs_something_that_exists(task: str) -> None:
    for module in re.findall(r"-m ([\w.]+)", targets()[task]):
        specification = importlib.util.find_spec(module)
        assert specification is not None, f"make {task} runs {module}, which there is not"
        if specification.submodule_search_locations is not None:
            assert importlib.util.find_spec(f"{module}.__main__"), f"make {task} runs {module}, which has no __main__"
    for script in re.findall(r"[\w/]+\.py", targets()[task]):
        assert (ROOT / script).is_file()


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md", "docs/setup.md"])
def test_pages_name_tasks_that_exist(page: str) -> None:
    named = set(re.findall(r"(?:^|`)make ([a-z]+)", read(page), flags=re.MULTILINE))
    assert named and named <= set(targets())


def test_a_missing_python_is_told_by_make() -> None:
    # The shell by its full path, so that PATH can be empty: no Python is found then.
    result = make("--dry-run", "lab", f"SHELL={shutil.which('sh')}", PATH="/nowhere")
    assert result.returncode != 0
    assert "No Python was found. Install Python 3.11 or newer" in result.stderr


def test_a_lesson_that_is_not_there_is_told_by_make() -> None:
    result = make("--dry-run", "check", "LESSON=03_detach")
    assert result.returncode != 0
    assert 'There is no lesson "03_detach". Say it without its number: LESSON=detach' in result.stderr


def lint_workflow(path: Path) -> subprocess.CompletedProcess:
    actionlint = shutil.which("actionlint", path=str(Path(sys.executable).parent))
    assert actionlint is not None, "actionlint is missing: pip install -c constraints.txt -e .[dev]"
    return subprocess.run([actionlint, "-no-color", str(path)], cwd=ROOT, capture_output=True, text=True)


@pytest.mark.parametrize("workflow", sorted((ROOT / ".github/workflows").iterdir()), ids=lambda path: path.name)
def test_workflow_is_valid(workflow: Path) -> None:
    result = lint_workflow(workflow)
    assert result.returncode == 0, result.stdout + result.stderr


def test_the_workflow_lint_can_fail(tmp_path: Path) -> None:
    broken = tmp_path / "broken.yml"
    broken.write_text(read(".github/workflows/test.yml").replace("runs-on:", "runs_on:"), encoding="utf-8")
    result = lint_workflow(broken)
    assert result.returncode != 0 and "runs_on" in result.stdout


def test_forks_and_ci_run_the_readmes_test_command() -> None:
    steps = yaml.safe_load(read(".github/workflows/test.yml"))["jobs"]["test"]["steps"]
    assert "make test" in [step.get("run") for step in steps]
    assert re.search(r"^env .* make test ", read(".ci/run"), flags=re.MULTILINE)
    assert re.search(r"^make test\b", read("README.md"), flags=re.MULTILINE)


# In the place of make: opens what tests open in a home, and tells which of it there is.
MAKE = """
import json, os, sys
begins_empty = not [*os.listdir(os.environ["HOME"]), *os.listdir(os.environ.get("TMPDIR", "/"))]
variables, opened = sorted({*os.environ} - {"LC_CTYPE"}), set()  # which Python itself sets
sys.addaudithook(lambda event, values: event == "open" and opened.add(str(values[0])))
import IPython, jupyter_core.application, matplotlib.pyplot
jupyter_core.application.JupyterApp().initialize([])
IPython.start_ipython(["-c", "pass"])
print(json.dumps([sys.argv[1], begins_empty, sorted(opened.intersection(KEPT)), variables]))
"""


@pytest.mark.skipif(os.name == "nt", reason="a bash script")
def test_ci_reads_nothing_from_the_home_of_whoever_runs_it(tmp_path: Path) -> None:
    names = (".config/matplotlib/matplotlibrc", ".ipython/profile_default/startup/0.py", ".jupyter/jupyter_config.py")
    kept = [tmp_path / "home" / name for name in names]
    for path in kept:
        path.parent.mkdir(parents=True)
        path.touch()
    for name in ("chromium", "bwrap", "python3"):  # they are there: nothing is to be installed for this
        (tmp_path / name).symlink_to(str(shutil.which("true")))
    (tmp_path / "make").write_text(f"#!{sys.executable}\nKEPT = {[*map(str, kept)]}\n{MAKE}", encoding="utf-8")
    (tmp_path / "make").chmod(0o755)
    surroundings = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "HOME": str(tmp_path / "home"), "TORCH_HOME": "/"}
    ran = subprocess.run([ROOT / ".ci/run"], env=surroundings, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    assert json.loads(ran.stdout.splitlines()[0])[:3] == ["tools", False, [*map(str, kept)]]
    assert json.loads(ran.stdout.splitlines()[1]) == ["test", True, [], ["CI", "HOME", "PATH", "TMPDIR"]]


def test_pushes_run_the_oldest_and_newest_and_nights_run_all() -> None:
    pushes, nights = (
        yaml.safe_load(read(f".github/workflows/{name}.yml"))["jobs"][job]["strategy"]["matrix"]
        for name, job in (("test", "test"), ("nightly", "versions"))
    )
    newest = RELEASES[-1]
    assert pushes["python"] == [PYTHONS[0], PYTHONS[-1]]
    assert pushes["torch"] == [".".join(release.split(".")[:2]) for release in (RELEASES[0], newest)]
    assert (nights["python"], nights["torch"]) == ([PYTHONS[0]], list(RELEASES))
    assert nights["include"] == [{"python": python, "torch": newest} for python in PYTHONS[1:]]


def test_learners_copies_are_never_committed() -> None:
    if not (ROOT / ".git").exists():
        pytest.skip("not a git clone")
    ignored = subprocess.run(["git", "check-ignore", "my_notebooks/03_detach.ipynb"], cwd=ROOT, capture_output=True)
    assert ignored.returncode == 0


def test_licence_holds_what_the_package_says() -> None:
    for identifier in project()["license"].split(" AND "):
        assert identifier in read("LICENSE")
