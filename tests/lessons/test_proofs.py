"""What must hold for every exercise of every lesson.

A lesson is covered the moment it is in the catalogue: its answers stand in ``tests/lessons/<name>.py``, its own
solutions come from its solution notebook.
"""

import ast
import importlib
import re
from collections import Counter
from functools import cache
from pathlib import Path

import nbformat
import pytest
import torch

from course_utils import Lesson
from course_utils.base.files import read_toml
from course_utils.catalogue import LESSONS
from course_utils.checks import draws
from course_utils.checks import judge as judging
from course_utils.checks.compare import Compared
from course_utils.checks.exercise import is_blank
from course_utils.checks.judge import judge
from course_utils.checks.misconceptions import GENERAL
from course_utils.checks.misconceptions import LESSONS as LESSONS_FOLDER
from course_utils.checks.predictions import Predictions
from course_utils.engine import Engine
from course_utils.lesson import SOLUTIONS
from tests.lessons.loaded import LOADED

pytestmark = pytest.mark.usefixtures("short_clinic", "keys_are_known")

GRADED = [info for info in LESSONS if info.points]
EXERCISES = [(name, exercise) for name, lesson in LOADED.items() for exercise in lesson.exercises]


def answers(lesson):
    return importlib.import_module(f"tests.lessons.{lesson}")


def entered(kind):
    """Every answer that is entered as right, with its lesson; the id names both and the exercise."""
    return [
        pytest.param(info.name, entry, id=f"{info.name}-{entry.exercise}-{entry.label}")
        for info in LESSONS
        for entry in getattr(answers(info.name), kind)
    ]


@pytest.fixture
def keys_are_known(monkeypatch):
    """Whatever key a claim, an error's text or a side effect names while an answer is judged, the text file has it."""

    def known(exercise, key):
        assert not key or key in GENERAL | exercise.misconceptions, f"{exercise.name}.toml lacks {key!r}"
        return find(exercise, key)

    find = judging._known
    monkeypatch.setattr(judging, "_known", known)


@pytest.fixture
def rounds(request):
    """How often an answer is judged, with fresh inputs each time. The clinic draws its own a dozen times a check."""
    if request.config.getoption("--tier") != "nightly":
        return range(1)
    return range(3 if request.node.callspec.params["lesson"] == "clinic" else 20)


def refuse(entry, what):
    """Tells the author of an entry in plain words, without a traceback through the tests."""
    pytest.fail(f"{type(entry).__name__} answer {entry.label!r} to {entry.exercise}: {what}", pytrace=False)


def exercise_of(lesson, entry):
    if entry.exercise not in LOADED[lesson].exercises:
        refuse(entry, f"lesson {lesson} has no such exercise, but {', '.join(LOADED[lesson].exercises)}.")
    return LOADED[lesson].exercises[entry.exercise]


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
    score = judge(LOADED[lesson].exercises[exercise], answer, lesson)
    assert score.status == "passed", str(score)
    assert float(score) == score.possible


@pytest.mark.parametrize(("lesson", "exercise"), EXERCISES)
def test_the_stub_is_not_attempted(lesson, exercise):
    answer = run_answer(lesson, exercise, stub_of(answer_cells(lesson)[exercise]))
    score = judge(LOADED[lesson].exercises[exercise], answer, lesson)
    assert (float(score), score.status) == (0.0, "not attempted"), str(score)


@pytest.mark.parametrize(("lesson", "right"), entered("RIGHT"))
def test_a_right_answer_passes_however_it_is_written(lesson, right, rounds):
    exercise_of(lesson, right)
    for _ in rounds:
        score = judge(LOADED[lesson].exercises[right.exercise], right.answer, lesson)
        if score.status != "passed":
            refuse(right, f"it is refused. The card:\n\n{score}")


COMPARED = [(name, e) for name, e in EXERCISES if isinstance(LOADED[name].exercises[e], Compared)]


@pytest.fixture
def seen_once(monkeypatch):
    """What a look sees of a mistake is looked at once for a seed, and not for every other mistake again."""
    view = Compared._view
    found = {}

    def remembered(self, look, answer, seed):
        key = look, answer, seed
        if key not in found:
            found[key] = view(self, look, answer, seed)
        return found[key]

    monkeypatch.setattr(Compared, "_view", remembered)


@pytest.mark.parametrize(("lesson", "exercise"), COMPARED)
def test_every_way_to_make_a_mistake_loses_points_and_is_told_its_own_name(
    lesson, exercise, request, seen_once, monkeypatch
):
    made, told = LOADED[lesson].exercises[exercise], []
    for _ in range(20 if request.config.getoption("--tier") == "nightly" else 3):
        seed = draws.new_seed()
        with monkeypatch.context() as held:
            held.setattr(draws, "source", lambda bits: seed)  # noqa: B023  all are held against the same inputs
            scores = [judge(made, mistake, lesson) for _, mistake in made.mistakes]
        for (key, way), score in zip(made.ways, scores, strict=True):
            named = [claim.misconception.name for claim in score.claims if claim.misconception][:1]
            if score.status == "passed" or named != [made.misconceptions[key].name]:
                told.append(f"{key!r}, {list(way)}: {float(score)} points, named {named}\n{score}")
            assert_tells_one_story(score)
    assert not told, "\n".join(told)


@pytest.mark.parametrize(("lesson", "exercise"), COMPARED)
def test_every_misconception_has_a_way_and_no_way_is_in_two(lesson, exercise):
    made = LOADED[lesson].exercises[exercise]
    assert {key for key, _ in made.ways} == set(made.misconceptions)
    twice = [way for way, count in Counter(way for _, way in made.ways).items() if count > 1]
    assert not twice, f"one edit cannot be two mistakes: {twice}"


def test_an_error_that_no_known_mistake_raises_has_no_name():
    score = judge(LOADED["requires_grad"].exercises["freeze"], lambda module: module.nowhere, "requires_grad")
    assert score == 0 and not any(claim.misconception for claim in score.claims), str(score)


@pytest.mark.parametrize("lesson", LOADED)
def test_no_label_and_no_answer_is_entered_twice(lesson):
    module = answers(lesson)
    labels = Counter(f"{type(row).__name__} {row.exercise}: {row.label}" for row in module.RIGHT)
    tree = ast.parse(Path(module.__file__).read_text(encoding="utf-8"))
    lists = (node.value.elts for node in tree.body if isinstance(getattr(node, "value", 0), ast.Tuple | ast.List))
    written = Counter(
        f"{ast.unparse(call.args[0])}: {ast.unparse(call.args[2])}"
        for rows in lists
        for call in rows
        if isinstance(call, ast.Call) and ast.unparse(call.func) == "Right"
    )
    twice = [text for text, count in (labels + written).items() if count > 1]
    assert not twice, "drop an answer entered twice; give a label used twice a name of its own"


def assert_tells_one_story(score):
    """At most one cross and one misconception, and no claim that expects what it got."""
    card = str(score)
    assert card.count("✗ does not hold") <= 1 and card.count("Likely misconception:") <= 1, card
    for claim in score.claims:
        details = dict(claim.details)
        assert "expected" not in details or details["expected"] != details.get("got"), card


PREDICTED = [(name, e) for name, e in EXERCISES if isinstance(LOADED[name].exercises[e], Predictions)]


def other_than(right, choices):
    """A wrong prediction of the right one's kind."""
    if isinstance(right, bool):
        return not right
    if isinstance(right, tuple):
        return (*right, 0)
    return next(value for value in (*choices, 1, 2) if value != right)


@pytest.mark.parametrize(("lesson", "exercise"), PREDICTED)
def test_every_misconception_of_a_prediction_is_named_for_the_wrong_values_that_show_it(lesson, exercise):
    made, fields = LOADED[lesson].exercises[exercise], read_toml(LESSONS_FOLDER / lesson / f"{exercise}.toml")
    right = run_answer(lesson, exercise, answer_cells(lesson)[exercise])
    shown = set()
    for keys, *values, key in fields["readings"]:
        keys, values = ([keys], values) if isinstance(keys, str) else (keys, values[0] if values else [])
        wrong = dict(zip(keys, values, strict=True)) if values else {}
        wrong = {name: wrong.get(name, other_than(right[name], fields.get("choices", ()))) for name in keys}
        score = judge(made, right | wrong, lesson)
        assert score < max(score.possible, 0.01), f"{wrong} is no wrong prediction"
        named = [claim.misconception.name for claim in score.claims if claim.misconception]
        shown |= {key} if named[:1] == [made.misconceptions[key].name] else set()
    assert shown == set(made.misconceptions)


@pytest.mark.parametrize(("lesson", "exercise"), EXERCISES)
def test_every_exercise_has_a_right_answer_written_differently_and_enough_misconceptions(lesson, exercise):
    assert any(right.exercise == exercise for right in answers(lesson).RIGHT), (
        f"no Right({exercise!r}, ...): enter a right answer written differently from the solution's"
    )
    count = len(LOADED[lesson].exercises[exercise].misconceptions)
    assert count >= 4 or lesson == "start_here", f"{exercise}.toml has {count} misconceptions; four are the fewest"


@pytest.mark.parametrize(("lesson", "exercise"), EXERCISES)
def test_every_exercise_has_two_hints_or_more_that_do_not_contain_the_solution(lesson, exercise):
    hints = Lesson(lesson).exercises[exercise].hints
    assert len(hints) >= 2, f"{exercise}.toml has {len(hints)} hints; an exercise has two or more"
    solved = answer_cells(lesson)[exercise].split("### BEGIN SOLUTION")[1].split("### END SOLUTION")[0]
    for line in filter(None, map(str.strip, solved.splitlines())):
        assert len(line) < 12 or not any(line in hint for hint in hints), "a hint holds this line of the solution"


@pytest.mark.parametrize("info", GRADED, ids=lambda info: info.name)
def test_the_points_of_a_lesson_add_up(info):
    assert sum(exercise.points for exercise in Lesson(info.name).exercises.values()) == info.points


@pytest.mark.parametrize("info", LESSONS, ids=lambda info: info.name)
def test_notebook_and_module_name_the_same_exercises_in_the_same_order(info):
    assert list(answer_cells(info.name)) == list(Lesson(info.name).exercises)


def test_every_lesson_in_the_package_is_in_the_catalogue():
    folder = Path(importlib.import_module("course_utils.lessons").__path__[0])
    assert {path.parent.name for path in folder.glob("*/__init__.py")} == {info.name for info in LESSONS}


# What is predicted is fixed by the exercise itself, so there are no inputs to draw.
WITH_INPUTS = [row for row in EXERCISES if row not in PREDICTED]


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
    elif isinstance(solution, type):  # a part of an engine, which makes all its tensors here

        def tensor(engine, data, requires_grad=False):
            made = Engine.tensor(engine, data, requires_grad)
            seen[-1].append(float(made.data.sum()))
            return made

        spy = type(exercise, (solution,), {"tensor": tensor})

    assert not is_blank(spy)
    for _ in range(2):
        seen.append([])
        judge(LOADED[lesson].exercises[exercise], spy, lesson)
    first, second = (set(values) for values in seen)
    assert first and len(first & second) < len(first) / 2
