"""What the rooms may weigh, in lines: a clause in means a clause out."""

import re
from pathlib import Path

import nbformat
import pytest

from course_utils.catalogue import LESSONS, text_files
from course_utils.lesson import SOLUTIONS

ROOT = Path(__file__).parents[1]
ROOMS = {  # folder, ending: at most so many lines
    ("course_utils/lessons", ".py"): 4800,
    ("course_utils/lessons", ".toml"): 8500,
    ("course_utils/checks", ".py"): 1881,
    ("course_utils/draw", ".py"): 1700,
    ("course_utils/why", ".py"): 1700,
    ("course_utils/leaks", ".py"): 2200,
    ("course_utils/progress", ".py"): 625,
    ("course_utils/workspace", ".py"): 280,
    ("course_utils/authoring", ".py"): 1250,
    ("course_utils/drills", ".py"): 1200,
    ("benchmarks", ".py"): 900,
    ("course_utils/classroom", ".py"): 4150,
    ("tests/classroom", ".py"): 4468,
    ("tests/lessons", ".py"): 3500,
    ("tests/lessons", ".toml"): 300,
}
MODULES, MODULE_LINES = 230, 300
ROOM = "Take out what nobody would miss, or raise the number here and say why."
EXERCISE_LINES, CONTRACT_WORDS = 120, 65
LONG_CONTRACT_WORDS = 130  # where an exercise is a list of parts: the clinic's, and those of the engine
LONG_CONTRACTS = ("clinic", "own_engine")


def lines(path):
    return len(path.read_text(encoding="utf-8").splitlines())


@pytest.mark.parametrize(("place", "ending"), ROOMS)
def test_a_room_is_not_heavier_than_it_may_be(place, ending):
    found = {path: lines(path) for path in (ROOT / place).rglob(f"*{ending}")}
    total, most = sum(found.values()), ROOMS[place, ending]
    longest = sorted(found, key=found.get)[-3:]
    assert total <= most, f"{place} has {total} lines of {most}, most in {[path.name for path in longest]}. {ROOM}"


def test_a_module_is_large_enough_to_be_one_and_small_enough_to_be_read():
    found = {str(path.relative_to(ROOT)): lines(path) for path in (ROOT / "course_utils").rglob("*.py")}
    assert len(found) <= MODULES, f"{len(found)} modules of {MODULES}: {sorted(found, key=found.get)[:9]}. {ROOM}"
    assert not {path: count for path, count in found.items() if count > MODULE_LINES}


@pytest.mark.parametrize("lesson", LESSONS, ids=lambda lesson: lesson.name)
def test_an_exercise_and_its_contract_are_short(lesson):
    folder = ROOT / "course_utils" / "lessons" / lesson.name
    modules = {path.name: lines(path) for path in folder.glob("*.py")}
    long = {name: count for name, count in modules.items() if count > EXERCISE_LINES}
    assert not long, f"an exercise has {EXERCISE_LINES} lines at most"
    most = LONG_CONTRACT_WORDS if lesson.name in LONG_CONTRACTS else CONTRACT_WORDS
    notebook = nbformat.read(SOLUTIONS / f"{lesson.notebook}.ipynb", as_version=4)
    cells = {cell.id: cell.source for cell in notebook.cells}
    counts = {path.stem: words(cells[f"{path.stem}-text"]) for path in text_files(folder)}
    assert not {name: count for name, count in counts.items() if count > most}, f"a contract has {most} words at most"


def words(source):
    """How many words stand below an exercise's heading: the contract, without code that is given to be repaired."""
    contract = re.split(r"^### Exercise .*$", source, flags=re.MULTILINE)[1]
    return len(re.sub(r"```.*?```", " ", contract, flags=re.DOTALL).split())
