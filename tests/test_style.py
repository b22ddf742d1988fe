"""Style, formatting and types before a push, and the direction of imports. ``make check`` asks of style by itself.

A run of all tests begins with this file, on one of its workers. Where anything here fails, the run ends at once.
"""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
TOOLS = [
    pytest.param([sys.executable, "-m", "ruff", "check", "."], id="ruff check", marks=pytest.mark.slow),
    pytest.param([sys.executable, "-m", "ruff", "format", "--check", "."], id="ruff format", marks=pytest.mark.slow),
    pytest.param([str(Path(sys.executable).with_name("lint-imports"))], id="import-linter"),
    pytest.param([sys.executable, "-m", "mypy", "course_utils"], id="mypy", marks=pytest.mark.slow),
]


@pytest.mark.parametrize("command", TOOLS)
def test_style_imports_and_types_are_kept(command: list[str], request: pytest.FixtureRequest) -> None:
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    if result.returncode:
        request.session.shouldfail = f"{request.node.callspec.id} refuses what is there, and the rest was not tried"
        pytest.fail(f"{request.session.shouldfail}:\n{(result.stdout + result.stderr).strip()}", pytrace=False)
