"""The direction of imports: ``tests/test_style.py`` keeps the contract of pyproject.toml; here, it is broken."""

import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import grimp

from course_utils.classroom.sandbox.zygote import JUDGES, NOT_LOADED

ROOT = Path(__file__).resolve().parents[1]


# In these modules, lines that each break a contract; the first one closes a circle, too.
AGAINST = {
    "memory.report": "course_utils.lesson",
    "classroom.rebuild.reading": "course_utils.classroom.judging.grader",
    "progress.history": "nbgrader",
}


def test_imports_against_the_direction_are_refused(tmp_path: Path) -> None:
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    shutil.copytree(ROOT / "course_utils", tmp_path / "course_utils", ignore=shutil.ignore_patterns("__pycache__"))
    for module, other in AGAINST.items():
        with open(tmp_path / "course_utils" / f"{module.replace('.', '/')}.py", "a", encoding="utf-8") as file:
            file.write(f"\nimport {other}\n")
    command = shutil.which("lint-imports", path=str(Path(sys.executable).parent))
    assert command is not None
    # Run in a terminal of a known width, where no contract's name is broken over two lines.
    environment = os.environ | {"COLUMNS": "200", "PYTHONPATH": str(tmp_path)}
    result = subprocess.run([command, "--no-cache"], cwd=tmp_path, env=environment, capture_output=True, text=True)
    said = [line.split(" (")[0] for line in result.stdout.splitlines()]
    broken = [line.removesuffix(" BROKEN") for line in said if line.endswith(" BROKEN")]
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["importlinter"]["contracts"]
    assert broken == [contract["name"] for contract in contracts], result.stdout
    for module, other in AGAINST.items():
        assert any(f"course_utils.{module} -> {other}" in line for line in said), module


def test_what_judges_is_all_loaded_anew_for_a_student() -> None:
    """A module that held on to the first set of what judges would hand it to a student's code."""
    graph = grimp.build_graph("course_utils", exclude_type_checking_imports=True)
    loaded_anew = tuple(f"course_utils.{name}" for name in JUDGES)
    # Nothing that judges imports the drills, which look at exercises.
    not_learners = tuple(f"course_utils.{name}" for name in (*NOT_LOADED, "drills"))
    judges = {module for module in graph.modules if module.startswith(loaded_anew)}
    assert len(judges) > 20
    # The package itself is mended by hand: its three names are set to the second set's.
    holders = {
        module
        for judge in judges
        for module in graph.find_modules_that_directly_import(judge)
        if not module.startswith((*loaded_anew, *not_learners)) and module != "course_utils"
    }
    assert holders == set()
