"""The notebook tests themselves: ``pytest`` on a copy of the repository's settings and a handful of small notebooks.

One run serves all tests here; each reads off what became of its notebook.
"""

import os
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from dataclasses import dataclass, field
from pathlib import Path

import nbformat
import pytest
from nbformat import NotebookNode

from course_utils.authoring import cells
from course_utils.authoring.files import read
from course_utils.authoring.lint import executed
from course_utils.authoring.problems import Notebook, report

pytestmark = pytest.mark.slow

REPOSITORY = Path(__file__).resolve().parents[1]
CELL_SECONDS = 6  # instead of 60, for the cell that hangs
# As Score behaves, without importing torch in every kernel.
SCORE = """\
class Score(float):
    def __repr__(self): return float.__repr__(self)
    def _repr_html_(self): return "<p>passed</p>" if self else "<p>not attempted</p>"

class Lesson:
    def check(self, name, answer): return Score(answer)

lesson = Lesson()"""
PROGRESS = """\
import os, pathlib
progress = pathlib.Path(os.environ["COURSE_UTILS_PROGRESS"])
assert not progress.exists()
progress.touch()"""


def printed(text: str) -> list[NotebookNode]:
    return [nbformat.v4.new_output("stream", name="stdout", text=text)]


def shown(text: str, html: str = "") -> list[NotebookNode]:
    data = {"text/plain": text} | ({"text/html": html} if html else {})
    return [nbformat.v4.new_output("execute_result", data=data)]


def error(name: str, value: str) -> list[NotebookNode]:
    return [nbformat.v4.new_output("error", ename=name, evalue=value, traceback=[])]


@dataclass
class Outcome:
    """What became of the cells of one notebook, by pytest's count of code cells, from 0."""

    failed: dict[int, str] = field(default_factory=dict)
    passed: set[int] = field(default_factory=set)
    skipped: set[int] = field(default_factory=set)


def answer(name: str, value: str) -> list:
    return [cells.code(f"{name} = {value}", name), cells.check("detach", name, 2)]


PRINTS = ("print('one')", printed("one\n"))
SHOWS = ("6 * 7", shown("42"))
# Each a list of cells (source, stored outputs, tags). What was altered is in the stored output.
SOLUTIONS = {
    "good": [
        PRINTS,
        SHOWS,
        (SCORE, []),
        ("Score(2.0)", shown("2.0", "<p>passed</p>")),
        ("1 / 0", error("ZeroDivisionError", "division by zero"), "raises-exception"),
    ],
    "altered": [
        (SCORE, []),
        ("print('one')", printed("three\n")),
        ("6 * 7", shown("43")),
        ("Score(2.0)", shown("2.0", "<p>half passed</p>")),
        ("1 / 0", error("ZeroDivisionError", "division by one"), "raises-exception"),
        SHOWS,
    ],
    "progress_one": [(PROGRESS, [])],
    "progress_two": [(PROGRESS, [])],
    "ignored_stderr": [("import sys; print('oh', file=sys.stderr)", [], "nbval-ignore-output")],
}
STRIPPED = [("print('one')", "prints"), ("6 * 7", "shows")]
LEARNERS = {
    "untouched": [cells.code(SCORE, "setup"), *answer("answer", "0.0")],
    "wrong": [
        cells.code(SCORE, "setup"),
        *answer("solved", "2.0"),
        cells.code(SCORE.replace("not attempted", "0 of 2"), "attempts"),
        *answer("attempted", "0.0"),
        cells.code(SCORE.replace("return Score(answer)", "return None"), "silences"),
        *answer("silent", "0.0"),
        cells.code("1 / 0", "raises"),
        cells.code("import sys; print('oh', file=sys.stderr)", "warns"),
        cells.code("%tiem 1", "magic"),
    ],
    "dying": [cells.code("1", "before"), cells.code("import os; os._exit(1)", "dies"), cells.code("1", "after")],
    "hanging": [cells.code("import time; time.sleep(600)", "hangs"), cells.code("1", "after")],
}


def solution(content: list[tuple]) -> NotebookNode:
    notebook = cells.notebook(cells.code(part[0], f"cell-{i}", tags=part[2:]) for i, part in enumerate(content))
    for count, (cell, part) in enumerate(zip(notebook.cells, content, strict=True), start=1):
        cell.execution_count, cell.outputs = count, list(part[1])
    return notebook


@pytest.fixture(scope="module")
def course(tmp_path_factory) -> Path:
    root = tmp_path_factory.mktemp("course")
    solutions = root / "notebooks" / "solutions"
    solutions.mkdir(parents=True)
    (root / "tests").mkdir()
    for name in ("conftest.py", "pyproject.toml"):
        shutil.copy(REPOSITORY / name, root)
    for name, content in LEARNERS.items():
        cells.write(cells.notebook(content), root / "notebooks" / f"{name}.ipynb")
    for name, content in SOLUTIONS.items():
        cells.write(solution(content), solutions / f"{name}.ipynb")
    cells.write(cells.notebook(cells.code(source, id) for source, id in STRIPPED), solutions / "stripped.ipynb")
    return root


def run_pytest(root: Path, *arguments: str) -> subprocess.CompletedProcess:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    environment["PYTHONPATH"] = str(REPOSITORY)
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *arguments],
        cwd=root,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
    )


@pytest.fixture(scope="module")
def run(course, request) -> subprocess.CompletedProcess:
    # Each of its workers would begin a warm Python of its own.
    workers = () if request.config.getoption("--tier") == "nightly" else ("--numprocesses=0",)
    return run_pytest(course, "--junitxml=report.xml", f"--nbval-cell-timeout={CELL_SECONDS}", *workers)


@pytest.fixture(scope="module")
def outcomes(run, course) -> dict[str, Outcome]:
    assert run.returncode == 1, run.stdout + run.stderr
    found: dict[str, Outcome] = {}
    for case in ElementTree.parse(course / "report.xml").iter("testcase"):
        notebook = case.get("classname", "").removesuffix(".ipynb").rsplit(".", 1)[-1]
        cell = int(case.get("name", "").removeprefix("Cell "))
        outcome = found.setdefault(notebook, Outcome())
        failure = next((child for child in case if child.tag in ("failure", "error")), None)
        if failure is not None:
            outcome.failed[cell] = f"{failure.get('message')}\n{failure.text}"
        elif case.find("skipped") is not None:
            outcome.skipped.add(cell)
        else:
            outcome.passed.add(cell)
    assert set(found) == {*SOLUTIONS, *LEARNERS, "stripped"}, run.stdout + run.stderr
    return found


def test_a_solution_whose_outputs_agree_passes(outcomes):
    assert outcomes["good"] == Outcome(passed={0, 1, 2, 3, 4})


def test_each_altered_output_of_a_solution_is_refused(outcomes):
    failed, said = outcomes["altered"].failed, {1: "three", 2: "43", 3: "half passed", 4: "division by one"}
    assert failed.keys() == said.keys() and outcomes["altered"].passed == {0, 5}
    assert all("Cell outputs differ" in failed[cell] and text in failed[cell] for cell, text in said.items())


def test_a_solution_without_outputs_passes_in_silence_so_the_lint_refuses_it(outcomes, course):
    assert outcomes["stripped"] == Outcome(passed={0, 1})
    stripped = read(course / "notebooks" / "solutions" / "stripped.ipynb")
    assert "[not-executed]" in report(executed(Notebook("stripped.ipynb", "stripped", stripped)))


def test_stderr_is_refused_even_where_outputs_are_ignored(outcomes):
    assert list(outcomes["ignored_stderr"].failed) == [0]
    assert "wrote to stderr" in outcomes["ignored_stderr"].failed[0]


def test_every_notebook_has_a_progress_file_of_its_own(outcomes):
    assert outcomes["progress_one"] == outcomes["progress_two"] == Outcome(passed={0})


def test_an_untouched_learner_notebook_passes(outcomes):
    assert outcomes["untouched"] == Outcome(passed={0, 1, 2})


def test_what_is_wrong_in_a_learner_notebook_is_refused(outcomes):
    said = {
        2: "It shows 2.0",
        5: "must score 0.0 and say 'not attempted'",
        8: "It shows nothing",
        9: "ZeroDivisionError",
        10: "wrote to stderr",
        11: "tiem",
    }
    failed = outcomes["wrong"].failed
    assert failed.keys() == said.keys() and all(text in failed[cell] for cell, text in said.items())


def test_a_failure_names_the_cell_by_its_id(run):
    assert "wrong.ipynb, cell with id raises, line 1: ['1 / 0']" in run.stdout


def test_a_dead_kernel_is_one_failure_noticed_before_the_time_limit(outcomes):
    assert list(outcomes["dying"].failed) == [1]
    assert "The kernel died in this cell" in outcomes["dying"].failed[1]  # and not "Timeout of 6 seconds exceeded"
    assert outcomes["dying"].passed == {0} and outcomes["dying"].skipped == {2}


def test_a_hanging_cell_is_stopped_at_the_time_limit(outcomes):
    assert list(outcomes["hanging"].failed) == [0]
    assert f"Timeout of {CELL_SECONDS} seconds exceeded" in outcomes["hanging"].failed[0]


@pytest.mark.nightly
def test_the_run_is_quiet(course):
    run = run_pytest(course, "notebooks/untouched.ipynb", "--numprocesses=1")
    assert run.returncode == 0, run.stdout
    assert "3 passed in" in run.stdout
    assert "warning" not in (run.stdout + run.stderr).lower()
