"""What must hold for every exercise of every lesson.

A lesson is covered the moment it is in the catalogue: its answers stand in ``tests/lessons/<name>.py``, its own
solutions come from its solution notebook.
"""

import importlib
import re
from functools import cache
from pathlib import Path

import nbformat
import pytest
import torch

from course_utils import Lesson
from course_utils.catalogue import LESSONS
from course_utils.checks.exercise import Predict
from course_utils.checks.judge import GENERAL, is_blank
from course_utils.lesson import SOLUTIONS

GRADED = [info for info in LESSONS if info.points]
EXERCISES = [(info.name, name) for info in LESSONS for name in Lesson(info.name).exercises]


def answers(lesson):
    return importlib.import_module(f"tests.lessons.{lesson}")


def entered(kind):
    """Every answer that is entered as right, or as wrong, with its lesson; the id names both and the exercise."""
    return [
        pytest.param(info.name, entry, id=f"{info.name}-{entry.exercise}-{entry.label}")
        for info in LESSONS
        for entry in getattr(answers(info.name), kind)
    ]


@pytest.fixture
def rounds(request):
    """How often an answer is judged, with fresh inputs each time. The clinic draws its own a dozen times a check."""
    nightly = request.config.getoption("--tier") == "nightly"
    return range(20 if nightly and request.node.callspec.params["lesson"] != "clinic" else 1)


@cache
def notebook(lesson):
    info = next(info for info in LESSONS if info.name == lesson)
    return nbformat.read(SOLUTIONS / f"{info.notebook}.ipynb", as_version=4)


def answer_cells(lesson):
    return {
        cell.metadata.nbgrader.grade_id.removeprefix(f"{lesson}-"): cell.source
        for cell in notebook(lesson).cells
        if cell.cell_type == "code" and cell.metadata.get("nbgrader", {}).get("solution")
    }


def run_answer(lesson, exercise, source):
    """The object that an answer cell makes, with the imports of the lesson's set-up cell."""
    setup = next(cell.source for cell in notebook(lesson).cells if cell.cell_type == "code")
    namespace = {"__name__": "__main__"}
    exec(compile(setup, f"<set-up of {lesson}>", "exec"), namespace)
    exec(compile(source, f"<{exercise}>", "exec"), namespace)
    return namespace[exercise]


def stub_of(source):
    """The answer cell as a learner gets it."""
    return re.sub(r"([ \t]*)### BEGIN SOLUTION.*?### END SOLUTION", r"\1pass", source, flags=re.DOTALL)


@pytest.mark.parametrize(("lesson", "exercise"), EXERCISES)
def test_the_course_s_own_solution_gets_full_points(lesson, exercise):
    answer = run_answer(lesson, exercise, answer_cells(lesson)[exercise])
    score = Lesson(lesson).check(exercise, answer)
    assert score.status == "passed", str(score)
    assert float(score) == score.possible


@pytest.mark.parametrize(("lesson", "exercise"), EXERCISES)
def test_the_stub_is_not_attempted(lesson, exercise):
    answer = run_answer(lesson, exercise, stub_of(answer_cells(lesson)[exercise]))
    score = Lesson(lesson).check(exercise, answer)
    assert (float(score), score.status) == (0.0, "not attempted"), str(score)


@pytest.mark.parametrize(("lesson", "right"), entered("RIGHT"))
def test_a_right_answer_passes_however_it_is_written(lesson, right, rounds):
    for _ in rounds:
        score = Lesson(lesson).check(right.exercise, right.answer)
        assert score.status == "passed", str(score)


@pytest.mark.parametrize(("lesson", "wrong"), entered("WRONG"))
def test_a_wrong_answer_loses_points_and_is_told_its_misconception(lesson, wrong, rounds):
    known = GENERAL | Lesson(lesson).exercises[wrong.exercise].misconceptions
    assert wrong.misconception in known, f"{wrong.exercise}.toml has {', '.join(known)}, and no {wrong.misconception!r}"
    expected = known[wrong.misconception].name
    for _ in rounds:
        score = Lesson(lesson).check(wrong.exercise, wrong.answer)
        assert score.status != "passed" and score < max(score.possible, 0.01)
        named = [claim.misconception for claim in score.claims if claim.misconception]
        assert expected in named, str(score)
        assert named[0] == expected, f"named {named} for {wrong.label}"
        assert_tells_one_story(score)


def assert_tells_one_story(score):
    """At most two crosses and two misconceptions, and no claim that expects what it got."""
    card = str(score)
    assert card.count("✗ does not hold") <= 2 and card.count("Likely misconception:") <= 2, card
    for claim in score.claims:
        details = dict(claim.details)
        assert "expected" not in details or details["expected"] != details.get("got"), card


@pytest.mark.parametrize(("lesson", "exercise"), EXERCISES)
def test_every_named_misconception_is_shown_by_a_wrong_answer(lesson, exercise):
    named = set(Lesson(lesson).exercises[exercise].misconceptions)
    shown = {wrong.misconception for wrong in answers(lesson).WRONG if wrong.exercise == exercise}
    assert named <= shown
    if lesson != "start_here":
        assert len(named) >= 5


@pytest.mark.parametrize(("lesson", "exercise"), EXERCISES)
def test_every_exercise_has_two_hints_or_more_that_do_not_contain_the_solution(lesson, exercise):
    hints = Lesson(lesson).exercises[exercise].hints
    assert len(hints) >= 2
    solved = answer_cells(lesson)[exercise].split("### BEGIN SOLUTION")[1].split("### END SOLUTION")[0]
    for line in filter(None, map(str.strip, solved.splitlines())):
        assert len(line) < 12 or not any(line in hint for hint in hints)


@pytest.mark.parametrize("info", GRADED, ids=lambda info: info.name)
def test_the_points_of_a_lesson_add_up(info):
    assert sum(exercise.points for exercise in Lesson(info.name).exercises.values()) == info.points


@pytest.mark.parametrize("info", LESSONS, ids=lambda info: info.name)
def test_notebook_and_module_name_the_same_exercises_in_the_same_order(info):
    assert list(answer_cells(info.name)) == list(Lesson(info.name).exercises)


def test_every_lesson_in_the_package_is_in_the_catalogue():
    folder = Path(importlib.import_module("course_utils.lessons").__path__[0])
    assert {path.parent.name for path in folder.glob("*/__init__.py")} == {info.name for info in LESSONS}


# What is predicted is fixed by the exercise itself, so a Predict has no inputs to draw.
WITH_INPUTS = [(lesson, name) for lesson, name in EXERCISES if not isinstance(Lesson(lesson).exercises[name], Predict)]


@pytest.mark.parametrize(("lesson", "exercise"), WITH_INPUTS)
def test_no_check_draws_the_same_inputs_twice(lesson, exercise):
    solution = run_answer(lesson, exercise, answer_cells(lesson)[exercise])
    seen = []

    def spy(*args):
        drawn = [value for value in torch.utils._pytree.tree_leaves(args) if isinstance(value, torch.Tensor)]
        drawn += [p for value in args if isinstance(value, torch.nn.Module) for p in value.parameters()]
        seen[-1].extend(value.detach().sum().item() for value in drawn if value.numel() and value.is_floating_point())
        seen[-1].extend(value for value in args if type(value) in (int, float))  # where nothing else is drawn: sizes
        seen[-1].extend(repr(value) for value in args if type(value) is list and not drawn)  # and lists of plain values
        return solution(*args)

    if isinstance(solution, type) and issubclass(solution, torch.autograd.Function):
        # Used through apply and judged as the class it is: the spy is one, too.
        function, applied = spy, solution.apply
        solution, spy = applied, type(exercise, (solution,), {"apply": staticmethod(function)})

    assert not is_blank(spy)
    for _ in range(2):
        seen.append([])
        Lesson(lesson).check(exercise, spy)
    first, second = (set(values) for values in seen)
    assert first and len(first & second) < len(first) / 2
