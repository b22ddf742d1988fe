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

import pytest

from course_utils.authoring import cells
from course_utils.authoring.execute import executed
from course_utils.authoring.files import read
from course_utils.authoring.lint import lint_solution

REPOSITORY = Path(__file__).resolve().parents[1]
CELL_SECONDS = 8  # instead of 60, for the cell that hangs
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
progress.write_text("mine")"""


@dataclass
class Outcome:
    """What became of the cells of one notebook, by pytest's count of code cells, from 0."""

    failed: dict[int, str] = field(default_factory=dict)
    passed: set[int] = field(default_factory=set)
    skipped: set[int] = field(default_factory=set)


def answer(value: str) -> list:
    return [cells.code(f"answer = {value}", "answer"), cells.check("detach", "answer", 2)]


SOLUTIONS = {
    "good": [cells.code("print('one')\nprint('two')", "prints"), cells.code("6 * 7", "shows")],
    "altered_text": [cells.code("print('one')", "prints"), cells.code("6 * 7", "shows")],
    "altered_value": [cells.code("6 * 7", "shows")],
    "altered_card": [cells.code(SCORE, "setup"), *answer("2.0")],
    "altered_error": [cells.code("1 / 0", "raises", tags=["raises-exception"])],
    "stripped": [cells.code("print('one')", "prints"), cells.code("6 * 7", "shows")],
    "progress_one": [cells.code(PROGRESS, "progress")],
    "progress_two": [cells.code(PROGRESS, "progress")],
    "ignored_stderr": [cells.code("import sys", "a"), cells.code("1", "b", tags=["nbval-ignore-output"])],
}
LEARNERS = {
    "untouched": [cells.code(SCORE, "setup"), *answer("0.0")],
    "solved": [cells.code(SCORE, "setup"), *answer("2.0")],
    "zero_but_attempted": [cells.code(SCORE.replace("not attempted", "0 of 2"), "setup"), *answer("0.0")],
    "silent_check": [
        cells.code(SCORE.replace("return Score(answer)", "return None"), "setup"),
        *answer("0.0"),
    ],
    "raising": [cells.code("1 / 0", "raises"), cells.code("1", "after")],
    "on_stderr": [cells.code("import sys; print('oh', file=sys.stderr)", "warns")],
    "unknown_magic": [cells.code("%tiem 1", "magic")],
    "dying": [cells.code("1", "before"), cells.code("import os; os._exit(1)", "dies"), cells.code("1", "after")],
    "hanging": [cells.code("while True: pass", "hangs"), cells.code("1", "after")],
}


def alter(notebook, name: str) -> None:
    outputs = [cell.outputs[0] for cell in notebook.cells if cell.outputs]
    if name == "altered_text":
        outputs[0].text = "three\n"
    elif name == "altered_value":
        outputs[0].data["text/plain"] = "43"
    elif name == "altered_card":
        outputs[0].data["text/html"] = "<p>half passed</p>"
    elif name == "altered_error":
        outputs[0].evalue = "division by one"
    elif name == "ignored_stderr":
        notebook.cells[1].source = "import sys; print('oh', file=sys.stderr)"


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
        notebook = cells.notebook(content)
        if name != "stripped":
            notebook = executed(notebook, solutions)
            alter(notebook, name)
        cells.write(notebook, solutions / f"{name}.ipynb")
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
def outcomes(course) -> dict[str, Outcome]:
    report = course / "report.xml"
    run = run_pytest(
        course, "-o", "junit_family=xunit2", f"--junitxml={report}", f"--nbval-cell-timeout={CELL_SECONDS}"
    )
    assert run.returncode == 1, run.stdout + run.stderr
    found: dict[str, Outcome] = {}
    for case in ElementTree.parse(report).iter("testcase"):
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
    assert set(found) == set(SOLUTIONS) | set(LEARNERS), run.stdout + run.stderr
    return found


def test_a_solution_whose_outputs_agree_passes(outcomes):
    assert outcomes["good"] == Outcome(passed={0, 1})


@pytest.mark.parametrize(
    ("notebook", "cell", "said"),
    [
        ("altered_text", 0, "three"),
        ("altered_value", 0, "43"),
        ("altered_card", 2, "half passed"),
        ("altered_error", 0, "division by one"),
    ],
)
def test_a_solution_with_one_altered_output_is_refused(notebook, cell, said, outcomes):
    assert list(outcomes[notebook].failed) == [cell]
    assert "Cell outputs differ" in outcomes[notebook].failed[cell]
    assert said in outcomes[notebook].failed[cell]


def test_a_solution_without_outputs_passes_in_silence_so_the_lint_refuses_it(outcomes, course):
    assert outcomes["stripped"] == Outcome(passed={0, 1})
    problems = lint_solution(course / "notebooks" / "solutions" / "stripped.ipynb")
    assert [problem.cell_id for problem in problems if problem.rule == "not-executed"] == ["prints", "shows"]


def test_stderr_is_refused_even_where_outputs_are_ignored(outcomes):
    assert list(outcomes["ignored_stderr"].failed) == [1]
    assert "wrote to stderr" in outcomes["ignored_stderr"].failed[1]


def test_every_notebook_has_a_progress_file_of_its_own(outcomes):
    assert outcomes["progress_one"] == outcomes["progress_two"] == Outcome(passed={0})


def test_an_untouched_learner_notebook_passes(outcomes):
    assert outcomes["untouched"] == Outcome(passed={0, 1, 2})


@pytest.mark.parametrize(
    ("notebook", "cell", "said"),
    [
        ("solved", 2, "It shows 2.0"),
        ("zero_but_attempted", 2, "must score 0.0 and say 'not attempted'"),
        ("silent_check", 2, "It shows nothing"),
        ("raising", 0, "ZeroDivisionError"),
        ("on_stderr", 0, "wrote to stderr"),
        ("unknown_magic", 0, "tiem"),
    ],
)
def test_a_wrong_learner_notebook_is_refused(notebook, cell, said, outcomes):
    assert list(outcomes[notebook].failed) == [cell]
    assert said in outcomes[notebook].failed[cell]


def test_a_failure_names_the_cell_by_its_id(outcomes, course):
    run = run_pytest(course, "notebooks/raising.ipynb")
    assert "raising.ipynb, cell with id raises, line 1: ['1 / 0']" in run.stdout


def test_a_dead_kernel_is_one_failure_noticed_before_the_time_limit(course):
    # Without a limit of its own, so the 60 s of pyproject.toml: whoever waits for it does not make the timeout here.
    run = run_pytest(course, "notebooks/dying.ipynb", "--durations=0", "--durations-min=0.0")
    assert "The kernel died in this cell" in run.stdout
    assert "1 failed, 1 passed, 1 xfailed" in run.stdout, run.stdout
    seconds = next(
        float(line.split("s ")[0]) for line in run.stdout.splitlines() if "call" in line and "Cell 1" in line
    )
    assert seconds < 30


def test_a_hanging_cell_is_stopped_at_the_time_limit(outcomes):
    assert list(outcomes["hanging"].failed) == [0]
    assert f"Timeout of {CELL_SECONDS} seconds exceeded" in outcomes["hanging"].failed[0]


def test_the_run_is_quiet(course):
    run = run_pytest(course, "notebooks/untouched.ipynb", "notebooks/solutions/good.ipynb")
    assert run.returncode == 0, run.stdout
    assert "5 passed in" in run.stdout
    assert "warning" not in (run.stdout + run.stderr).lower()


def test_the_alterations_are_real(course):
    # The notebook whose outputs agree and the one that was altered differ in nothing else.
    good = read(course / "notebooks" / "solutions" / "good.ipynb")
    altered = read(course / "notebooks" / "solutions" / "altered_value.ipynb")
    assert good.cells[1].source == altered.cells[0].source
    assert good.cells[1].outputs[0].data == {"text/plain": "42"}
    assert altered.cells[0].outputs[0].data == {"text/plain": "43"}
