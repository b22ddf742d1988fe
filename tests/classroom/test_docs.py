"""docs/classroom.md is so: its ten commands run, its table is what they print, its numbers are those of the code."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from course_utils.classroom.__main__ import _parser
from course_utils.classroom.course.submissions import LARGEST_BYTES
from course_utils.classroom.judging.grader import Limits
from course_utils.classroom.judging.results import OUTCOMES
from tests.classroom.attacks import WRONG
from tests.classroom.handed_in import DETACH, FROZEN, MODES, NEEDS_SANDBOX, ROOT, Notebook, exercises
from tests.classroom.the_class import notebook_with
from tests.lessons.answers import wrong_answers

pytestmark = pytest.mark.slow

PAGE = (ROOT / "docs" / "classroom.md").read_text(encoding="utf-8")
BLOCKS = dict(re.findall(r"<!-- (\w+) -->\n```\w*\n(.*?)```", PAGE, flags=re.DOTALL))

# What bob answered: known mistakes, by the keys of their misconceptions.
MISTAKES = {
    "snapshot": "alias",
    "predicted_edit": "data is watched",
    "mean_loss": "batches kept",
    "truncated_bptt": "every step",
    "stop_gradient_round": "zero gradient",
}


def fill(folder: Path) -> None:
    """What a teacher has before the first command: a list of students, and what they sent."""
    (folder / "students.csv").write_text("id\nada\nbob\ncarla\ndan\neve\nfinn\n")
    wrong = {one.exercise: one.source for one in wrong_answers("detach") if MISTAKES[one.exercise] == one.name}
    half = list(exercises())[::2]
    handed_in = {
        ("ada", DETACH): Notebook().solve().bytes(),
        ("ada", MODES): Notebook(MODES).solve().bytes(),
        ("bob", DETACH): notebook_with(DETACH, wrong).bytes(),
        ("carla", DETACH): Notebook().solve(*half).bytes(),
        ("dan", DETACH): Notebook().write(snapshot=f"torch.equal = lambda *_: True\n{WRONG['snapshot']}").bytes(),
        ("eve", DETACH): Notebook().solve().bytes()[:-2000],
    }
    for (student, assignment), content in handed_in.items():
        path = folder / "handed_in" / student / assignment / f"{assignment}.ipynb"
        path.parent.mkdir(parents=True)
        path.write_bytes(content)


@pytest.fixture(scope="module")
def followed(tmp_path_factory):
    """The folder after the page's commands, and what each printed."""
    folder = tmp_path_factory.mktemp("teacher")
    fill(folder)
    checkout = folder / "autograd-control"
    checkout.mkdir()
    # A checkout of its own, with the lessons as they once were: what is handed in was made from those.
    shutil.copytree(ROOT / "course_utils", checkout / "course_utils", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(FROZEN / "notebooks", checkout / "notebooks")
    shutil.copyfile(ROOT / "nbgrader_config.py", checkout / "nbgrader_config.py")
    environment = os.environ | {
        "PATH": os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"])),
        "PYTHONPATH": str(checkout),
        "COLUMNS": "80",
    }
    script, printed = ["set -e"], {}
    for number, command in enumerate(commands()):
        script += [command + f" >{folder}/{number}.out 2>{folder}/{number}.err"]
    result = subprocess.run(["bash", "-c", "\n".join(script)], cwd=checkout, env=environment)
    for number in range(len(commands())):
        for kind in ("out", "err"):
            path = folder / f"{number}.{kind}"
            printed[number, kind] = path.read_text() if path.exists() else None
    assert result.returncode == 0, printed
    return folder / "class", printed


def commands() -> list[str]:
    return [line for line in BLOCKS["commands"].splitlines() if line.strip() and not line.startswith("#")]


@pytest.mark.nightly
@NEEDS_SANDBOX[1]
def test_the_ten_commands_lead_from_an_empty_folder_to_feedback(followed):
    course, _ = followed
    assert len(commands()) == 10
    assert sorted(path.name for path in (course / "source").iterdir()) == ["03_detach", "05_no_grad"]
    feedback = sorted(path.relative_to(course).as_posix() for path in course.glob("feedback/*/*/*.html"))
    assert feedback == [
        *("feedback/ada/03_detach/03_detach.html", "feedback/ada/05_no_grad/05_no_grad.html"),
        *(f"feedback/{name}/03_detach/03_detach.html" for name in ("bob", "carla", "dan", "eve")),
    ]
    assert {"students.csv", "moodle.csv", "canvas.csv", "outcomes.csv", "misunderstood.csv", "misunderstood.md"} == {
        path.name for path in (course / "export").iterdir()
    }


@pytest.mark.nightly
@NEEDS_SANDBOX[1]
def test_the_tables_on_the_page_are_those_that_are_printed_and_exported(followed):
    course, printed = followed
    (number,) = [number for number, command in enumerate(commands()) if command.endswith("classroom grade")]
    table = printed[number, "out"].split("\n\n\n")[0]
    assert table.strip() == BLOCKS["table"].strip()
    lines = (course / "export" / "misunderstood.md").read_text().splitlines()
    shown = [line for line in BLOCKS["misunderstood"].splitlines() if line.startswith("|")]
    assert shown and set(shown) <= set(lines)


def test_every_outcome_is_explained():
    for outcome in OUTCOMES:
        assert re.search(rf"^\| {outcome} \|", PAGE, flags=re.MULTILINE), outcome


def test_every_command_and_option_is_on_the_page():
    (commands,) = [action for action in _parser()._actions if action.choices]
    for name, parser in commands.choices.items():
        assert f"`{name}`" in PAGE or f"classroom {name}" in PAGE
        for action in parser._actions:
            for option in action.option_strings:
                if option.startswith("--") and option != "--help":
                    assert option in PAGE, f"{name} {option} is not explained"


def test_the_limits_on_the_page_are_those_of_the_grader():
    limits = Limits()
    mebibytes = 2**20
    for text in (
        f"{limits.submission_seconds:g} s for the whole submission",
        f"{limits.check_seconds:g} s for one cell or check",
        f"{limits.cpu_seconds:g} s of processor time",
        f"{limits.memory_bytes / mebibytes / 1024:g} GiB of memory",
        f"{limits.processes} processes",
        f"{limits.file_bytes / mebibytes:g} MiB of files",
        f"{limits.output_bytes / mebibytes:g} MiB of output",
        f"{LARGEST_BYTES / mebibytes:g} MiB for the notebook",
    ):
        assert text in PAGE, text


def test_links_exist():
    links = {link for link in re.findall(r"\]\(([^)#]+)", PAGE) if "://" not in link}
    assert [link for link in links if not (ROOT / "docs" / link).exists()] == []
