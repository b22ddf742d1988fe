"""The virtual environment: made once, kept in step, mended after anything; pip itself is played by a stand-in."""

import contextlib
import json
import os
import subprocess
import sys
import venv as standard_venv
from pathlib import Path

import pytest

from tools import environment

pytestmark = pytest.mark.slow

PYPROJECT = '[project]\nname = "course"\ndependencies = ["torch>=2.9"]\n\n[tool.ruff]\nline-length = 120\n'


class Pip:
    """In the place of ``environment.install``: notes what it was asked, and finishes or fails as told."""

    def __init__(self) -> None:
        self.calls: list[list[str]] = []
        self.constraints = ""
        self.log: str | None = None  # what a failing pip would log

    def __call__(self, venv: Path, extras: list[str], log: Path, constraints: Path) -> bool:
        assert json.loads((venv / environment.STAMP).read_text(encoding="utf-8"))["installing"]
        self.calls.append(extras)
        self.constraints = constraints.read_text(encoding="utf-8")
        if self.log is not None:
            log.write_text(self.log, encoding="utf-8")
        return self.log is None


@pytest.fixture
def pip(monkeypatch) -> Pip:
    pip = Pip()
    monkeypatch.setattr(environment, "install", pip)
    return pip


@pytest.fixture
def course(tmp_path: Path, monkeypatch) -> Path:
    (tmp_path / "pyproject.toml").write_text(PYPROJECT, encoding="utf-8")
    (tmp_path / "constraints.txt").write_text("setuptools==84.2.1\ntorch==2.13.0\n", encoding="utf-8")
    versions = tmp_path / "course_utils" / "base" / "versions.py"
    versions.parent.mkdir(parents=True)
    versions.write_text('RELEASES = ("2.10.0", "2.13.0", "2.15.0")  # tried\n', encoding="utf-8")
    monkeypatch.setattr(environment, "ROOT", tmp_path)
    return tmp_path


@pytest.fixture
def venv(course: Path, pip: Pip) -> Path:
    """An environment that one run has finished. Its pip is an empty package, which takes no time to install."""
    folder = course / ".venv"
    standard_venv.create(folder, symlinks=os.name != "nt")
    purelib = subprocess.check_output(
        [environment.python_of(folder), "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"], text=True
    )
    (Path(purelib.strip()) / "pip").mkdir()
    (Path(purelib.strip()) / "pip/__init__.py").touch()
    assert run(folder) == 0
    pip.calls.clear()
    return folder


def run(folder: Path, *extras: str) -> int:
    return environment.main(["--venv", str(folder), *(part for extra in extras for part in ("--extra", extra))])


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("  Downloading torch-2.13.0-cp312-cp312-manylinux_2_28_x86_64.whl (899.7 MB)", ("torch", "899.7 MB")),
        ("  Downloading https://example.org/whl/torch-2.13.0%2Bcpu-cp312.whl (1.2 GB)", ("torch", "1.2 GB")),
        ("  Downloading attrs-25.3.0-py3-none-any.whl (63 kB)", None),
        ("  Downloading mypy-1.15.0-cp312.whl (9.9 MB)", None),
        ("Collecting torch>=2.13", None),
    ],
)
def test_of_pip_s_words_large_downloads_are_told(line: str, told: tuple[str, str] | None) -> None:
    found = environment.LARGE.search(line)
    assert (found.groups() if found else None) == told


def test_second_run_does_and_says_nothing(venv: Path, pip: Pip, capsys) -> None:
    capsys.readouterr()
    assert run(venv) == 0
    assert pip.calls == [] and capsys.readouterr().out == ""


@pytest.mark.parametrize("file", ["constraints.txt", "pyproject.toml"])
def test_changed_requirements_are_installed_once(venv: Path, pip: Pip, course: Path, file: str) -> None:
    path = course / file
    path.write_text(path.read_text(encoding="utf-8").replace("torch", "torch>0,"), encoding="utf-8")
    assert (run(venv), run(venv), len(pip.calls)) == (0, 0, 1)


def test_settings_of_tools_are_no_requirements(venv: Path, pip: Pip, course: Path) -> None:
    (course / "pyproject.toml").write_text(PYPROJECT.replace("120", "100"), encoding="utf-8")
    assert (run(venv), pip.calls) == (0, [])


def test_what_the_tests_need_is_added_once_and_stays(venv: Path, pip: Pip, course: Path) -> None:
    assert (run(venv, "dev"), run(venv), run(venv, "dev")) == (0, 0, 0)
    assert pip.calls == [["dev"]]
    (course / "constraints.txt").write_text("torch==2.14.0\n", encoding="utf-8")
    run(venv)
    assert pip.calls == [["dev"], ["dev"]]


@pytest.mark.parametrize(
    ("log", "told"),
    [
        ("Retrying after connection broken by 'NewConnectionError(...)'", "does not reach the package index"),
        ("NameResolutionError ... ERROR: No matching distribution found for torch", "does not reach the package index"),
        ("ERROR: No matching distribution found for torch==2.13.0", "PyTorch has no package for this Python"),
        ("    The user requested (constraint) torch==2.13.0", "PyTorch has no package for this Python"),
    ],
)
def test_failure_before_anything_was_installed_goes_on_from_there(
    venv: Path, pip: Pip, capsys, course, log, told
) -> None:
    (course / "constraints.txt").write_text("torch==2.14.0\n", encoding="utf-8")
    pip.log = log
    assert run(venv) == 1
    out = capsys.readouterr().out
    assert told in out and "What was installed before still starts" in out
    pip.log = None
    assert run(venv) == 0
    assert "made anew" not in capsys.readouterr().out


def test_a_python_without_pytorch_is_not_kept(venv: Path, pip: Pip, capsys) -> None:
    (venv / environment.STAMP).unlink()  # a new environment: nothing was ever installed
    pip.log = "No matching distribution found for torch"
    assert run(venv) == 1
    assert "Try: make lab PYTHON=python3.12" in capsys.readouterr().out
    assert environment.reason_to_start_over(venv, environment.read_stamp(venv))


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("log", "told"),
    [
        ("Could not install packages due to an OSError: [Errno 28] No space left on device", "The disk is full."),
        ("", "pip stopped before everything was installed"),
    ],
)
def test_failure_that_may_leave_half_a_package_starts_over(venv: Path, pip: Pip, capsys, course, log, told) -> None:
    (course / "constraints.txt").write_text("torch==2.14.0\n", encoding="utf-8")
    pip.log = log
    assert run(venv) == 1
    assert told in capsys.readouterr().out
    pip.log = None
    assert run(venv) == 0
    assert "is made anew: the last installation did not finish" in capsys.readouterr().out
    assert run(venv) == 0 and capsys.readouterr().out == ""


def test_ctrl_c_is_told_and_starts_over(venv: Path, pip: Pip, capsys, course: Path, monkeypatch) -> None:
    (course / "constraints.txt").write_text("torch==2.14.0\n", encoding="utf-8")

    def interrupted(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(environment, "install", interrupted)
        assert run(venv) == 130
    assert "Run the same command again" in capsys.readouterr().out
    stamp = environment.read_stamp(venv)
    assert environment.reason_to_start_over(venv, stamp) == "the last installation did not finish"


def test_reasons_to_start_over(venv: Path) -> None:
    stamp = environment.read_stamp(venv)
    assert environment.reason_to_start_over(venv, stamp) == ""
    assert environment.reason_to_start_over(venv, {}) == ""  # somebody else's environment is used as it is
    assert "moved" in environment.reason_to_start_over(venv, stamp | {"folder": "/elsewhere/.venv"})
    assert "another version" in environment.reason_to_start_over(venv, stamp | {"python": "3.1"})
    environment.python_of(venv).unlink()
    assert "does not start" in environment.reason_to_start_over(venv, stamp)


def knows(monkeypatch, *, there: str = "", index: str = "", system: str = "Linux") -> None:
    """What the environment has of PyTorch, and what pip finds of it."""
    monkeypatch.setattr(environment.platform, "system", lambda: system)
    said = {"-c": there, "-m": f"torch (2.15.0)\nAvailable versions: {index}\n"}
    monkeypatch.setattr(environment, "output_of", lambda python, how, *_: said[how])


def again(folder: Path, *arguments: str) -> int:
    """Installs anew, as after a change of the requirements."""
    (folder / environment.STAMP).unlink()
    return environment.main(["--venv", str(folder), *arguments])


@pytest.mark.parametrize(
    ("known", "constrained"),
    [
        ({"index": "2.15.0, 2.13.0+cpu, 2.13.0"}, "setuptools==84.2.1\ntorch==2.13.0\n"),
        ({"index": "2.16.0+cpu, 2.15.0+cpu, 2.13.0+cpu, 2.10.0+cpu"}, "torch==2.15.0\n"),  # 2.16 was not tried
        ({"index": "2.15.0, 2.14.1"}, "setuptools==84.2.1\ntorch==2.13.0\n"),  # all of them bring GPU libraries
        ({"index": "2.15.0+cpu", "system": "Darwin"}, "setuptools==84.2.1\ntorch==2.13.0\n"),  # as constraints say
        ({"there": "2.15.0+cu132", "index": "2.13.0+cpu"}, "torch==2.15.0\n"),
        ({"there": "2.16.1", "index": "2.13.0+cpu"}, "torch==2.16.1\n"),
        ({"there": "2.9.1", "index": "2.15.0+cpu"}, "torch==2.15.0\n"),
    ],
)
def test_pytorch_that_is_there_is_kept_and_else_the_newest_small_one_is_installed(
    venv: Path, pip: Pip, monkeypatch, known: dict, constrained: str
) -> None:
    knows(monkeypatch, **known)
    assert (again(venv), pip.constraints) == (0, constrained)


def test_pytorch_that_is_asked_for_replaces_another_and_stays(venv: Path, pip: Pip, monkeypatch, capsys) -> None:
    knows(monkeypatch, there="2.13.0", index="2.13.0+cpu")
    assert (again(venv), len(pip.calls)) == (0, 1)
    asked = ["--venv", str(venv), "--torch", "2.11"]
    assert (environment.main(asked), pip.constraints) == (0, "torch==2.11.*\n")
    capsys.readouterr()
    assert (environment.main(asked), run(venv), len(pip.calls)) == (0, 0, 2)
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    ("asked", "status", "told"),
    [
        ("2.9.1", 1, "The course needs PyTorch 2.10 or newer, and TORCH=2.9.1 is older."),
        ("newest", 1, "TORCH=newest is no release of PyTorch. Try: make lab TORCH=2.15.0"),
        ("2.16.0", 0, "The course was tried on PyTorch 2.10 to 2.15, and not yet on 2.16.0."),
    ],
)
def test_pytorch_that_the_course_was_not_tried_on(venv: Path, pip: Pip, capsys, asked, status, told) -> None:
    assert (again(venv, "--torch", asked), len(pip.calls)) == (status, 1 - status)
    assert told in capsys.readouterr().out


def test_a_pytorch_that_there_is_not_is_named(venv: Path, pip: Pip, capsys) -> None:
    pip.log = "ERROR: No matching distribution found for torch==2.99.0"
    assert again(venv, "--torch", "2.99.0") == 1
    assert "PyTorch 2.99.0 has no package for this Python and machine" in capsys.readouterr().out


@pytest.mark.parametrize("content", ["", "{", "[]", '"x"'])
def test_unreadable_stamp_means_installing_again(venv: Path, pip: Pip, content: str) -> None:
    (venv / environment.STAMP).write_text(content, encoding="utf-8")
    assert (run(venv), len(pip.calls)) == (0, 1)


@pytest.mark.skipif(environment.fcntl is None, reason="no file locks on this system")
def test_second_run_waits_for_the_first(venv: Path, course: Path) -> None:
    program = (
        f"import sys; sys.path.insert(0, {str(Path(environment.__file__).parent)!r}); import environment; "
        f"from pathlib import Path; environment.ROOT = Path({str(course)!r}); "
        f"sys.exit(environment.main(['--venv', {str(venv)!r}]))"
    )
    with environment.only_one(course):
        other = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
        assert other.stdout is not None
        assert other.stdout.readline().startswith("Another run is installing")
        assert other.poll() is None
    assert other.communicate()[0] == "" and other.returncode == 0


def test_pip_asks_no_question_and_keeps_a_users_settings(course: Path, venv: Path, monkeypatch, tmp_path: Path) -> None:
    monkeypatch.undo()  # the real install, up to the command it runs
    monkeypatch.setenv("PIP_EXTRA_INDEX_URL", "https://example.org/simple")
    ran = {}

    class Pip(contextlib.nullcontext):
        stdout, returncode = ("Downloading torch-2.13.0.whl (185.9 MB)\n",), 0

        def __init__(self, command, **options):
            super().__init__(self)
            ran.update(options, command=[str(part) for part in command])

    monkeypatch.setattr(environment.subprocess, "Popen", Pip)
    assert environment.install(venv, ["dev"], tmp_path / "pip.log", tmp_path / "exact.txt")
    assert ran["command"][-4:] == ["--constraint", str(tmp_path / "exact.txt"), "--editable", ".[dev]"]
    assert ran["env"]["PIP_NO_INPUT"] == "1" and ran["env"]["PIP_EXTRA_INDEX_URL"] == "https://example.org/simple"
