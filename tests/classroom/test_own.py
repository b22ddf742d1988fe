"""A teacher's own exercises, points, hidden tests and assignments: released, and graded for what they are."""

import json
import re

import pytest

from tests.classroom.handed_in import DETACH, NEEDS_SANDBOX, WRITTEN, solutions
from tests.classroom.own import HIDDEN, HW1, check, put_source
from tests.classroom.teacher import row, said_of

pytestmark = [*NEEDS_SANDBOX]

RIGHT = {
    "double": "def double(x):\n    return 2 * x",
    "halve": "def halve(x):\n    return x / 2",
    "near": "def near(x):\n    return 3.0",
    "why": "Because of the graph.",
}
SHADOWS = "isinstance = all = len = abs = lambda *_: True\nAssertionError = Warning\n"
REPLACES = """
import ast, builtins, types
class Without(ast.NodeTransformer):
    visit_Assert = visit_If = lambda self, node: ast.Pass()
get_ipython().ast_transformers.append(Without())
plain = builtins.compile
builtins.compile = lambda source, *a, **k: plain("pass" if "assert" in str(source) else source, *a, **k)
torch.Tensor.__eq__ = torch.equal = lambda *_: True
"""
HALF = {"halve": "def halve(x):\n    return x // 2"}
RAISE = {
    "double": "def double(x):\n    return x.nothing",
    "halve": "def halve(x):\n    return 2 *",
    "near": "near = 1 / 0",
}
CLOSE = RIGHT | {"halve": "def halve(x):\n    return torch.ones(3)", "near": "def near(x):\n    return 2.5", "why": ""}
ZERO = "def double(x):\n    return 0"
ENDS = {"double": "import os\ndef double(x):\n    os._exit(0)", "halve": "def halve(x):\n    raise SystemExit"}
BLANK = "0 not attempted"
# student: answers, and what must come of double, halve, near and why.
STUDENTS = {
    "right": (RIGHT, ["4 passed", "2 passed", "2 passed", "? by hand"]),
    "hidden": (RIGHT | HALF, ["4 passed", "0 wrong", "2 passed", "? by hand"]),
    "close": (CLOSE, ["4 passed", "0 wrong", "1.5 partial", BLANK]),
    "raises": (RAISE, ["0 raised", "0 raised", "0 raised", BLANK]),
    # What wants the points of plain asserts without an answer.
    "shadows": ({"double": SHADOWS + ZERO, "near": "near = lambda x: 99"}, ["0 wrong", BLANK, "0 wrong", BLANK]),
    "replaces": (
        {"double": REPLACES + ZERO, "near": RIGHT["near"]},
        ["0 wrong or ? by hand"] + ["? by hand or 0 not attempted or 2 passed"] * 3,
    ),
    "ends": (ENDS, ["0 killed", "0 raised", BLANK, BLANK]),
}


@pytest.fixture(scope="module")
def own(released_course, tmp_path_factory, by_one_grader):
    """A course with ``hw1``, and an own exercise in lesson 03; what was printed when both were graded."""
    teacher = released_course.copy(tmp_path_factory.mktemp("own") / "class")
    put_source(teacher)
    hidden = HIDDEN.format("assert not snapshot(torch.ones(3)).requires_grad")
    mine = check("mine-check", f"assert snapshot(torch.ones(2)).shape == (2,)\n{hidden}", 3)
    teacher.change_source(lambda cells, order: order.append(json.loads(json.dumps(mine))))
    teacher.released = teacher.run("release", DETACH, HW1)
    for student, (answers, _) in STUDENTS.items():
        teacher.hand_in(student, HW1, **answers)
    for student, way in {
        "ada": "x.detach().clone()",
        "bob": "x.detach().clone().requires_grad_(x.is_floating_point())",
    }.items():
        teacher.hand_in(student, snapshot=f"def snapshot(x):\n    return {way}")
    teacher.printed = teacher.run("grade", DETACH, HW1)
    return teacher


def test_a_release_names_its_points_and_holds_neither_solutions_nor_hidden_tests(own):
    assert f"released {HW1}: 11 points\n" in own.released
    assert f"released {DETACH}: 15 points\n" in own.released
    text = own.notebook("release", HW1).read_text()
    assert "seven is odd" not in text and "return 2 * x" not in text


@pytest.mark.parametrize("student", STUDENTS)
def test_an_own_assignment_is_graded_for_what_it_is(student, own):
    cells = iter(row(own.printed[own.printed.index(f"{HW1}:") :], student).split("  "))
    outcomes = [cell.strip() for cell in cells if cell.strip()][2:]
    assert len(outcomes) == 4
    for outcome, wanted in zip(outcomes, STUDENTS[student][1], strict=True):
        assert outcome in wanted.split(" or "), outcomes


def test_the_student_reads_why_and_no_hidden_test(own):
    own.run("feedback", HW1)
    page = own.page("hidden", HW1)
    assert "a hidden test" in page and "seven is odd" in page, "a message was written for the student"
    assert "7.0" not in page and "seven is odd" not in own.page("right", HW1)
    page = own.page("raises", HW1)
    for why in ("has no attribute &#39;nothing&#39;", "invalid syntax", "division by zero"):
        assert why in page or why.replace("&#39;", "'") in page, why
    assert said_of(own.printed, "right") == [], "hidden tests are no edit of the student's"


def test_a_notebook_of_an_earlier_release_is_graded_as_one_of_this(teacher, by_one_grader):
    blank = teacher.hand_in("blank")
    teacher.hand_in("ada", **solutions(), written=WRITTEN)
    without = json.loads(blank.read_text())
    for cell in without["cells"]:
        cell["metadata"] = {}
        cell.pop("id")
    teacher.put("eve", json.dumps(without).encode())

    def mend(cells, order):
        for name in ("title", "written-text", "setup", "snapshot", "snapshot-check", "case-run"):
            cells[name]["source"] += "\n# Mended."

    for _ in range(2):
        teacher.change_source(mend)
        teacher.run("release", DETACH)
    printed = teacher.run("grade", DETACH)
    for student in ("blank", "eve"):
        assert row(printed, student).count("0 not attempted") == 6 and said_of(printed, student) == []
    assert row(printed, "ada").split()[1] == "10+?" and said_of(printed, "ada") == []
    assert len(list(teacher.root.glob(f"earlier/{DETACH}/*/{DETACH}.ipynb"))) == 2


def test_an_own_exercise_in_a_lesson_stands_beside_the_lessons_own(own):
    table = own.printed[: own.printed.index(f"{HW1}:")]
    assert row(table, "ada").rstrip().endswith("3 passed") and "1 passed" in row(table, "ada")
    assert row(table, "bob").rstrip().endswith("0 wrong") and "1 passed" not in row(table, "bob")


def test_marks_of_an_own_assignment_reach_the_gradebook(own):
    marks = [(4.0, None, False), (0.0, None, False), (2.0, None, False), (None, None, True)]
    assert own.marks("hidden", HW1) == dict(zip(("double", "halve", "near", "why"), marks, strict=True))
    assert re.search(rf"^{HW1}: still to mark: \d \(.*why 2\)$", own.printed, re.MULTILINE)
