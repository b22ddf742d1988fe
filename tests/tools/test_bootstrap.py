"""Which Python is chosen, and what is said where none will do."""

import ast
import os
import sys
from pathlib import Path

import pytest

from tools import bootstrap

pytestmark = pytest.mark.skipif(os.name == "nt", reason="the Pythons that these tests make up are shell scripts")


@pytest.fixture
def pythons(tmp_path: Path):
    """Makes commands that answer the probe as a Python of some version would."""

    def make(*versions: str, makes_environments: bool = True) -> list[str]:
        paths = []
        for version in versions:
            path = tmp_path / f"python{version}"
            major, minor = version.split(".")
            path.write_text(f"#!/bin/sh\necho {major} {minor} {int(makes_environments)} {path}\n", encoding="utf-8")
            path.chmod(0o755)
            paths.append(str(path))
        return paths

    return make


@pytest.mark.parametrize(
    ("versions", "chosen"),
    [
        (["3.8", "3.11"], "3.11"),
        (["3.11", "3.13"], "3.11"),  # the first named, which is the one in use
        (["3.15", "3.12"], "3.12"),  # newer than the pinned versions were made for: only where nothing else is
        (["3.9", "3.15"], "3.15"),
    ],
)
def test_first_good_python_is_chosen(pythons, versions: list[str], chosen: str) -> None:
    path, message = bootstrap.choose(pythons(*versions))
    assert (Path(path).name, message) == (f"python{chosen}", "")


def test_commands_that_are_missing_broken_or_no_python_are_passed_over(pythons, tmp_path: Path) -> None:
    (tmp_path / "shim").write_text("#!/bin/sh\necho 'version not installed' >&2; exit 127\n", encoding="utf-8")
    (tmp_path / "cat").write_text("#!/bin/sh\necho meow\n", encoding="utf-8")
    for name in ("shim", "cat"):
        (tmp_path / name).chmod(0o755)
    commands = [str(tmp_path / name) for name in ("absent", "shim", "cat")] + pythons("3.11")
    assert Path(bootstrap.choose(commands)[0]).name == "python3.11"


def test_old_python_is_told_what_was_found_and_what_to_do(pythons) -> None:
    old, older = pythons("3.8", "2.7")
    path, message = bootstrap.choose([old, older])
    assert path == ""
    assert message.splitlines()[:2] == [
        "This course needs Python 3.11 or newer, and none was found.",
        f"Found: 2.7 ({older}), 3.8 ({old}).",
    ]
    assert "make lab PYTHON=" in message


def test_no_python_at_all_is_told(pythons) -> None:
    assert "Found: no Python." in bootstrap.choose(["/nowhere/python3"])[1]


def test_missing_ensurepip_is_told_with_debians_package(pythons) -> None:
    unable = pythons("3.11", makes_environments=False)
    assert "sudo apt install python3.11-venv" in bootstrap.choose(unable)[1]
    able = pythons("3.11")
    assert bootstrap.choose(unable + able) == (able[0], "")


def test_probe_tells_the_truth_of_this_python() -> None:
    assert bootstrap.probe(sys.executable) == (sys.version_info[:2], True, sys.executable)


def test_an_old_python_can_read_the_file() -> None:
    # 3.4 is the oldest grammar that ast knows; what is newer than 2.7 and passes it is looked for here.
    source = Path(bootstrap.__file__).read_text(encoding="utf-8")
    tree = ast.parse(source, feature_version=(3, 4))
    newer = (ast.JoinedStr, ast.AnnAssign, ast.NamedExpr, ast.Nonlocal, ast.YieldFrom)
    for node in ast.walk(tree):
        assert not isinstance(node, newer), f"line {node.lineno}: an old Python cannot read {type(node).__name__}"
        assert not any(isinstance(item, ast.Starred) for item in getattr(node, "elts", []))
        if isinstance(node, ast.FunctionDef):
            assert not node.returns and not any(argument.annotation for argument in node.args.args), node.name
            assert not node.args.kwonlyargs, node.name
    assert source.isascii()  # Python 2 refuses anything else without a declaration
