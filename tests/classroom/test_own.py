"""A teacher's own exercises, points, hidden tests and assignments: released, and graded for what they are."""

import json
from contextlib import nullcontext

import pytest

from course_utils.authoring import cells
from course_utils.authoring.files import dumps, read
from course_utils.base.files import write_whole
from course_utils.classroom.__main__ import main
from course_utils.classroom.course.release import release
from course_utils.classroom.judging.limits import Limits
from tests.classroom.hand_in import answered, hand_in, put, released
from tests.classroom.handed_in import NEEDS_SANDBOX
from tests.classroom.own import HIDDEN, HW1, answer, check, put_source

pytestmark = [*NEEDS_SANDBOX]
LIMITS = Limits(check_seconds=10.0)

DETACH = "03_detach"
RIGHT = {
    "double": "def double(x):\n    return 2 * x",
    "halve": "def halve(x):\n    return x / 2",
    "near": "def near(x):\n    return 3.0",
    "why": "Because of the graph.",
}


@pytest.fixture
def own(course):
    put_source(course)
    assert release(course, HW1) == 11
    return course


def report(grader, course, answers, assignment=HW1):
    content = json.dumps(answered(released(course, assignment), answers)).encode()
    return grader.grade(course.to_grade(assignment), content, student="ada", assignment=assignment)


def said(report):
    return {result.exercise: (result.outcome, result.earned) for result in report.exercises}


def test_a_release_holds_neither_solutions_nor_hidden_tests_and_grading_does(own):
    text = own.notebook("release", HW1).read_text()
    assert "seven is odd" not in text and "return 2 * x" not in text
    assert "seven is odd" in own.to_grade(HW1)
    assert own.to_grade(DETACH) == own.notebook("release", DETACH).read_text(), "where nothing is hidden"


def test_right_answers_of_an_own_assignment_get_all_points(own, grader):
    found = report(grader, own, RIGHT)
    assert said(found) == {
        "double-check": ("passed", 4),
        "halve-check": ("passed", 2),
        "near-check": ("passed", 2),
        "why": ("review by hand", 0),
    }
    assert found.repairs == found.reviews == (), "hidden tests are no edit of the student's"
    assert "seven is odd" not in found.notebook


def test_an_untouched_own_assignment_is_not_attempted(own, grader):
    found = report(grader, own, {})
    assert set(said(found).values()) == {("not attempted", 0)}
    found = report(grader, own, {"double": RIGHT["double"]})
    assert said(found) == dict.fromkeys(said(found), ("not attempted", 0)) | {"double-check": ("passed", 4)}
    assert "lesson.hint" not in found.exercises[1].text


def test_a_hidden_test_that_fails_costs_the_points_and_is_not_shown(own, grader):
    found = report(grader, own, {"halve": "def halve(x):\n    return x // 2"})
    result = found.exercises[1]
    assert (result.outcome, result.earned) == ("wrong", 0)
    assert "a hidden test" in result.text and "7.0" not in result.text
    assert "seven is odd" in result.text, "a message was written for the student"
    assert result.lost == (("a hidden test: seven is odd", 2.0),)


def test_a_number_at_the_end_is_partial_credit(own, grader):
    assert said(report(grader, own, {"near": "def near(x):\n    return 2.5"}))["near-check"] == ("partial", 1.5)


@pytest.mark.parametrize(
    ("source", "why"),
    [
        ("def double(x):\n    return x.nothing", "AttributeError: 'int' object has no attribute 'nothing'"),
        ("def double(x):\n    return 2 *", "SyntaxError: invalid syntax (line 2)"),
        ("double = 1 / 0", "ZeroDivisionError: division by zero"),
    ],
)
def test_an_answer_that_raises_is_told_apart_from_a_wrong_one_and_the_student_why(source, why, own, grader):
    found = report(grader, own, {"double": source})
    assert said(found)["double-check"] == ("raised", 0)
    assert why in found.exercises[0].text and found.exercises[0].lost[0][0].endswith(f": {why}")


def test_an_error_of_the_test_itself_is_a_test_that_fails(course, grader):
    """As where `.item()` is asked of a result of three numbers: the answer raised nothing."""
    notebook = read(put_source(course))
    {cell.id: cell for cell in notebook.cells}["halve-check"].source = "assert halve(torch.ones(1)).item() == 0.5"
    put_source(course, notebook)
    release(course, HW1)
    found = report(grader, course, {"halve": "def halve(x):\n    return torch.ones(3)"})
    assert said(found)["halve-check"] == ("wrong", 0)
    assert "a Tensor with 3 elements cannot be converted to Scalar" in found.exercises[1].text
    found = report(grader, course, {"halve": "def halve(x):\n    return torch.ones(3).item()"})
    assert said(found)["halve-check"] == ("raised", 0)


@pytest.mark.nightly
def test_words_that_stand_far_from_a_question_wait_for_a_person(own, capsys):
    notebook = answered(released(own, HW1), {})
    notebook["cells"].insert(1, {"cell_type": "markdown", "id": "mine", "metadata": {}, "source": "Because it is so."})
    put(own, "ada", HW1, json.dumps(notebook).encode())
    hand_in(own, "bob", HW1)
    assert main(["grade", "--course", str(own.root), HW1]) == 0
    printed = capsys.readouterr().out
    assert "0+?" in printed and "hw1: still to mark: 1 (why 1)" in printed
    with own.gradebook() as gradebook:
        comments = {name: gradebook.find_comment("why", HW1, HW1, name).comment for name in ("ada", "bob")}
    assert comments == {"ada": None, "bob": "No response."}


def test_an_own_exercise_in_a_lesson_stands_beside_the_lessons_own(course, grader):
    source = course.notebook("source", DETACH)
    notebook = read(source)
    hidden = HIDDEN.format("assert not snapshot(torch.ones(3)).requires_grad")
    notebook.cells.append(check("mine-check", f"assert snapshot(torch.ones(2)).shape == (2,)\n{hidden}", 3))
    write_whole(source, dumps(notebook))
    release(course, DETACH)
    wrong = "def snapshot(x):\n    return x.clone().requires_grad_()"
    found = said(report(grader, course, {"snapshot": wrong}, DETACH))
    assert found["mine-check"] == ("wrong", 0) and found["snapshot"][1] < 1
    right = report(grader, course, {"snapshot": "def snapshot(x):\n    return x.detach().clone()"}, DETACH)
    assert said(right)["mine-check"] == ("passed", 3) and said(right)["snapshot"] == ("passed", 1)


def test_a_condition_that_is_false_at_the_end_fails(course, grader):
    notebook = put_source(course)
    changed = read(notebook)
    cells = {cell.id: cell for cell in changed.cells}
    cells["halve-check"].source = "torch.equal(halve(torch.ones(2)), torch.full((2,), 0.5))"
    write_whole(notebook, dumps(changed))
    release(course, HW1)
    assert said(report(grader, course, RIGHT))["halve-check"] == ("passed", 2)
    wrong = RIGHT | {"halve": "def halve(x):\n    return x"}
    assert said(report(grader, course, wrong))["halve-check"] == ("wrong", 0)


def test_the_command_grades_it_and_marks_reach_the_gradebook(own, capsys):
    hand_in(own, "ada", HW1, RIGHT | {"halve": "def halve(x):\n    return x // 2"})
    assert main(["grade", "--course", str(own.root), HW1]) == 0
    assert "0 wrong" in capsys.readouterr().out
    with own.gradebook() as gradebook:
        assert gradebook.find_submission(HW1, "ada").score == 6


@pytest.fixture(autouse=True)
def warm(grader, monkeypatch):
    """Tests that are tried at a release run in the grader that is warm already."""
    monkeypatch.setattr("course_utils.classroom.run.tried.Grader", lambda: nullcontext(grader))


def _refused(course, capsys, name, answer_cell, source, points=2, heading=""):
    above = [cells.markdown(heading, "heading")] if heading else []
    book = cells.notebook([*above, answer_cell, check(f"{name}-check", source, points)])
    put_source(course, book, "hw2")
    assert main(["release", "--course", str(course.root), "hw2"]) == 1
    assert not course.notebook("release", "hw2").exists()
    return capsys.readouterr().err


@pytest.mark.parametrize(
    ("source", "why"),
    [
        ("assert (double(2) == 4, 'no')", "An answer that gives None earns 2 of 2 points."),
        ("assert double", "An answer that gives None earns 2 of 2 points."),
        ("import torch\ndouble(torch.ones(2)) == 2", "the line gives a Tensor"),
        ("assert double(2) == 4\n### BEGIN HIDDEN TESTS\nassert double(3) == 7\n### END HIDDEN TESTS", "earns 0 of 2"),
        ("assert double(2) == 5", "The source's own answer earns 0 of 2 points"),
    ],
)
def test_tests_that_would_grade_everybody_wrongly_are_not_released(source, why, course, capsys):
    assert why in _refused(course, capsys, "double", answer("double", "2 * x"), source)
