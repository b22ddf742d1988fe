"""What ``make check`` asks first: style, formatting, direction of imports, types, the notebooks' anatomy.

A run of all tests begins with this file, on one of its workers. Where anything here fails, the run ends at once.
"""

import subprocess
import sys
from pathlib import Path

import pytest

from course_utils.authoring.__main__ import main

ROOT = Path(__file__).resolve().parents[1]
COMMANDS = {
    "ruff check": [sys.executable, "-m", "ruff", "check", "."],
    "ruff format": [sys.executable, "-m", "ruff", "format", "--check", "."],
    "import-linter": [str(Path(sys.executable).with_name("lint-imports"))],
    "mypy": [sys.executable, "-m", "mypy", "course_utils"],
}


def refuse(tool: str, said: str, request: pytest.FixtureRequest) -> None:
    request.session.shouldfail = f"{tool} refuses what is there, and the rest was not tried"
    pytest.fail(f"{tool} says:\n{said.strip()}", pytrace=False)


@pytest.mark.parametrize("tool", COMMANDS)
def test_style_imports_and_types_are_kept(tool: str, request: pytest.FixtureRequest) -> None:
    result = subprocess.run(COMMANDS[tool], cwd=ROOT, capture_output=True, text=True)
    if result.returncode:
        refuse(tool, result.stdout + result.stderr, request)


def test_the_notebooks_anatomy_is_kept(capsys: pytest.CaptureFixture, request: pytest.FixtureRequest) -> None:
    if main(["--course", str(ROOT), "lint"]):
        refuse("python -m course_utils.authoring lint", capsys.readouterr().err, request)
