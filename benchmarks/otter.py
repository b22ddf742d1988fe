"""The same submissions through otter-grader, for ``benchmarks.classroom``; a part of it, no benchmark by itself.

``otter run`` grades one submission without a container: no isolation, a fresh Python for each, all cells are run. One
test an exercise calls the same check. otter-grader (https://otter-grader.readthedocs.io) is not among the packages that
are installed; it is used where ``otter`` is found.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]
_TEST = """
OK_FORMAT = True
test = {{
    "name": "{name}",
    "points": {points},
    "suites": [
        {{
            "cases": [
                {{
                    "code": ">>> score = lesson.check('{name}', {name})\\n>>> float(score) == score.possible\\nTrue",
                    "hidden": False,
                    "locked": False,
                }}
            ],
            "scored": True,
            "setup": "",
            "teardown": "",
            "type": "doctest",
        }}
    ],
}}
"""


def found() -> str | None:
    """The program, where it is installed."""
    return shutil.which("otter")


def seconds_each(program: str, lesson: str, notebooks: list[Path], scratch: Path) -> float:
    """Grades the submissions one after the other.

    Args:
        program: ``otter``.
        lesson: whose exercises are checked, such as ``"detach"``.
        notebooks: the submissions.
        scratch: an empty folder.

    Returns:
        Wall time in seconds, divided by the number of submissions.

    Raises:
        RuntimeError: it graded one of them not at all.
    """
    from course_utils import Lesson

    tests = scratch / "tests"
    tests.mkdir()
    for name, exercise in Lesson(lesson).exercises.items():
        (tests / f"{name}.py").write_text(_TEST.format(name=name, points=exercise.points), encoding="utf-8")
    generated = [program, "generate", "-t", "tests", "-o", "autograder.zip", "--no-requirements", "--no-environment"]
    _run(generated, scratch)
    begin = time.perf_counter()
    for number, notebook in enumerate(notebooks):
        out = scratch / f"out{number}"
        out.mkdir()
        _run([program, "run", str(notebook), "-a", "autograder.zip", "-o", str(out), "--no-logo"], scratch)
        if not (out / "results.json").exists():
            raise RuntimeError(f"otter run left no result for {notebook}")
    return (time.perf_counter() - begin) / len(notebooks)


def _run(command: list[str], folder: Path) -> None:
    environment = os.environ | {"PYTHONPATH": str(REPOSITORY)}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)} failed:\n{done.stderr[-2000:]}")
