"""The virtual environment: by which Python it is made, what is installed, and what is said where it cannot be."""

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tools import bootstrap

pytestmark = pytest.mark.skipif(os.name == "nt", reason="the Pythons that these tests make up are shell scripts")
PYPROJECT = '[project]\nname = "course"\n\n[tool.ruff]\nline-length = 120\n'


@pytest.mark.parametrize(
    ("version", "on_the_path", "chosen"),
    [
        ((3, 11), ["python3.12"], "here"),  # the one in use, if the course was tried on it
        ((3, 8), ["python3.11", "python3.12"], "python3.12"),
        ((3, 15), ["python3.13"], "python3.13"),
        ((3, 15), [], "here"),  # newer than the pinned versions were made for: only where nothing else is
        ((3, 9), [], None),
    ],
)
def test_the_python_that_makes_the_environment(monkeypatch, version, on_the_path, chosen):
    monkeypatch.setattr(bootstrap, "output_of", lambda name, *_: "1" * (name in ["here", *on_the_path]))
    assert bootstrap.python_to_use("here", version) == chosen


def test_what_to_do_is_said_where_no_python_will_do(tmp_path):
    program = f"import sys; sys.path.insert(0, {str(bootstrap.ROOT)!r}); from tools import bootstrap\n"
    program += "bootstrap.python_to_use = lambda *_: None; bootstrap.main()"
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert ran.returncode == 1 and "sudo apt install python3-venv" in ran.stderr and "make lab PYTHON=" in ran.stderr


def test_an_old_python_can_read_the_file():
    # 3.4 is the oldest grammar that ast knows; what is newer than 2.7 and passes it is looked for here.
    source = Path(bootstrap.__file__).read_text(encoding="utf-8")
    tree = ast.parse(source, feature_version=(3, 4))
    for node in ast.walk(tree):
        newer = (ast.JoinedStr, ast.AnnAssign, ast.NamedExpr, ast.Nonlocal, ast.YieldFrom)
        assert not isinstance(node, newer), f"line {node.lineno}: an old Python cannot read {type(node).__name__}"
        assert not any(isinstance(item, ast.Starred) for item in getattr(node, "elts", []))
    assert source.isascii()  # Python 2 refuses anything else without a declaration


class Course:
    """A course in a folder of its own. Its environment is made for show, and pip notes what it is asked for."""

    def __init__(self, root, monkeypatch):
        self.venv, self.calls, self.pip_fails, self.there, self.index = root / ".venv", [], False, "", ""
        self.constraints = root / "constraints.txt"
        self.constraints.write_text("setuptools==84.2.1\ntorch==2.13.0\n")
        (root / "pyproject.toml").write_text(PYPROJECT)
        (root / "course_utils" / "base").mkdir(parents=True)
        (root / "course_utils" / "base" / "versions.py").write_text(
            'RELEASES = ("2.10.0", "2.13.0", "2.15.0")  # tried\n'
        )
        monkeypatch.setattr(bootstrap, "ROOT", str(root))
        monkeypatch.setattr(bootstrap.subprocess, "call", self.call)
        monkeypatch.setattr(bootstrap, "output_of", self.output_of)

    def call(self, command, cwd=None):
        if "venv" in command:
            (self.venv / "bin").mkdir(parents=True, exist_ok=True)
            (self.venv / "bin" / "python").touch()
            self.calls.append("venv")
            return 0
        self.calls.append(command[-1])
        return int(self.pip_fails)

    def output_of(self, python, *command):
        if command[:2] == ("-m", "pip"):
            return self.index if "index" in command else "pip 25" * Path(python).exists()
        return self.there

    def prepare(self, extra="", torch=""):
        return bootstrap.prepare(str(self.venv), extra, torch)

    @property
    def pins(self):
        return (self.venv / "course-constraints.txt").read_text().partition("# installed")[0]


@pytest.fixture
def course(tmp_path, monkeypatch):
    return Course(tmp_path, monkeypatch)


def test_a_second_run_does_and_says_nothing(course, capsys):
    assert (course.prepare(), course.calls) == (0, ["venv", "."])
    capsys.readouterr()
    assert (course.prepare(), course.calls) == (0, ["venv", "."])
    assert capsys.readouterr().out == ""


def test_changed_requirements_are_installed_once_and_settings_of_tools_are_none(course):
    course.prepare()
    (course.constraints.parent / "pyproject.toml").write_text(PYPROJECT.replace("120", "100"))
    assert (course.prepare(), len(course.calls)) == (0, 2)
    course.constraints.write_text("torch==2.14.0\n")
    assert (course.prepare(), course.prepare(), course.calls[2:]) == (0, 0, ["."])


def test_what_the_tests_need_is_added_once_and_stays(course):
    assert (course.prepare(), course.prepare("dev"), course.prepare(), course.prepare("dev")) == (0, 0, 0, 0)
    assert course.calls == ["venv", ".", ".[dev]"]


def test_where_pip_fails_the_next_run_tries_again(course):
    course.pip_fails = True
    assert course.prepare() == 1
    course.pip_fails = False
    assert (course.prepare(), course.calls) == (0, ["venv", ".", "."])


def test_an_environment_that_cannot_work_is_made_anew_and_one_that_was_moved_is_installed_into(course):
    course.prepare()
    (course.venv / "bin" / "python").unlink()
    assert (course.prepare(), course.calls) == (0, ["venv", ".", "venv", "."])
    course.venv = course.venv.rename(course.venv.parent / "moved")
    assert (course.prepare(), course.calls[4:]) == (0, ["."])


@pytest.mark.parametrize(
    ("asked", "there", "index", "constrained"),
    [
        ("", "", "2.15.0, 2.13.0+cpu, 2.13.0", "setuptools==84.2.1\ntorch==2.13.0\n"),
        ("", "", "2.16.0+cpu, 2.15.0+cpu, 2.10.0+cpu", "torch==2.15.0\n"),  # 2.16 was not tried
        ("", "", "2.15.0, 2.14.1", "setuptools==84.2.1\ntorch==2.13.0\n"),  # all of them bring GPU libraries
        ("", "2.15.0+cu132", "2.13.0+cpu", "torch==2.15.0\n"),  # what is there stays
        ("2.11", "2.15.0", "2.13.0+cpu", "torch==2.11.*\n"),
    ],
)
def test_which_pytorch_is_installed(course, monkeypatch, asked, there, index, constrained):
    monkeypatch.setattr(bootstrap.sys, "platform", "linux")
    course.there, course.index = there, index
    assert (course.prepare(torch=asked), course.pins) == (0, constrained)
    assert (course.prepare(torch=asked), len(course.calls)) == (0, 2)


@pytest.mark.parametrize("asked", ["2.13.0", "2.15.0", "2.15"])
def test_the_pytorch_that_is_named_is_the_only_one_whatever_is_pinned_for_which_system(course, asked):
    pinned = "torch==2.13.0 ; sys_platform == 'linux'\ntorch==2.15.0 ; sys_platform != 'linux'\n"
    course.constraints.write_text("setuptools==84.2.1\n" + pinned)
    assert course.prepare(torch=asked) == 0
    assert course.pins == f"setuptools==84.2.1\ntorch=={asked}{'.*' if asked == '2.15' else ''}\n"
