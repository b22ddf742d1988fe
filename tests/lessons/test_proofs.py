"""What must hold for every exercise of every lesson, from the moment that the lesson is in the catalogue."""

import ast
import re
from collections import Counter
from pathlib import Path

import pytest
import torch

import course_utils.lessons
from course_utils.catalogue import LESSONS
from course_utils.checks import judge as judging
from course_utils.checks import trial
from course_utils.checks.compare import Compared
from course_utils.checks.exercise import is_blank
from course_utils.checks.judge import judge
from course_utils.checks.misconceptions import GENERAL
from course_utils.checks.predictions import Predictions
from course_utils.engine import Engine
from tests.lessons.answers import Answer, made, right_answers, wrong_answers
from tests.lessons.loaded import LOADED

pytestmark = pytest.mark.usefixtures("short_clinic", "keys_are_known")

EXERCISES = [(lesson, exercise) for lesson, loaded in LOADED.items() for exercise in loaded.exercises.values()]
COURSE = [(lesson, Answer(made.name, "the course's own", made.source)) for lesson, made in EXERCISES]
RIGHT = [(lesson, right) for lesson in LOADED for right in right_answers(lesson)]
FEWEST, MOST = 4, 8  # misconceptions of an exercise


def each(rows):
    """Parameters (lesson, exercise or answer); the id names both."""
    return [
        pytest.param(lesson, one, id="-".join(filter(None, (lesson, getattr(one, "exercise", ""), one.name))))
        for lesson, one in rows
    ]


every_exercise = pytest.mark.parametrize(("lesson", "exercise"), each(EXERCISES))
every_compared = pytest.mark.parametrize(
    ("lesson", "exercise"), each(row for row in EXERCISES if isinstance(row[1], Compared))
)


@pytest.fixture
def keys_are_known(monkeypatch):
    """Whatever key a claim, an error's text or a side effect names while an answer is judged, the text file has it."""

    class Known(dict):
        def get(self, key):  # of what the exercise's text file lacks
            assert not key or key in self, f"no text file has {key!r}"
            return super().get(key)

    monkeypatch.setattr(judging, "GENERAL", Known(GENERAL))


@pytest.fixture
def rounds(request):
    """How often an answer is judged, with fresh inputs each time. The clinic draws its own a dozen times a check."""
    if request.config.getoption("--tier") != "nightly":
        return range(1)
    return range(3 if request.node.callspec.params["lesson"] == "clinic" else 20)


def own(lesson, exercise):
    return made(lesson, exercise.name, exercise.source)


def first_name(score):
    return next((claim.misconception.name for claim in score.claims if claim.misconception), "")


@pytest.mark.slow
@pytest.mark.parametrize(("lesson", "right"), each(COURSE + RIGHT))
def test_a_right_answer_passes_however_it_is_written(lesson, right, rounds):
    answer = made(lesson, right.exercise, right.source)
    for _ in rounds:
        score = judge(LOADED[lesson].exercises[right.exercise], answer, lesson)
        if score.status != "passed" or float(score) != score.possible:
            pytest.fail(f"{right.name!r}, a right answer, is refused. The card:\n\n{score}", pytrace=False)


@every_exercise
def test_the_stub_is_not_attempted(lesson, exercise):
    stub = re.sub(r"([ \t]*)### BEGIN SOLUTION.*?### END SOLUTION", r"\1pass", exercise.source, flags=re.DOTALL)
    score = judge(exercise, made(lesson, exercise.name, stub), lesson)
    assert (float(score), score.status) == (0.0, "not attempted"), str(score)


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


@pytest.mark.slow
@every_compared
def test_every_way_to_make_a_mistake_loses_points_and_is_told_its_own_name(
    lesson, exercise, request, seen_once, monkeypatch
):
    told = []
    for _ in range(20 if request.config.getoption("--tier") == "nightly" else 1):
        seed = trial.new_seed()
        with monkeypatch.context() as held:
            held.setattr(trial, "random_bits", lambda bits: seed)  # noqa: B023  all are held against the same inputs
            scores = [judge(exercise, mistake, lesson) for _, mistake in exercise.mistakes]
        for (key, way), score in zip(exercise.ways, scores, strict=True):
            if score.status == "passed" or first_name(score) != exercise.misconceptions[key].name:
                told.append(f"{key!r}, {list(way)}: {float(score)} points\n{score}")
            assert_tells_one_story(score)
    assert not told, "\n".join(told)


def assert_tells_one_story(score):
    """At most one cross and one misconception, and no claim that expects what it got."""
    card = str(score)
    assert card.count("✗ does not hold") <= 1 and card.count("Likely misconception:") <= 1, card
    for claim in score.claims:
        details = dict(claim.details)
        assert "expected" not in details or details["expected"] != details.get("got"), card


@every_compared
def test_every_misconception_has_a_way_and_no_way_is_in_two(lesson, exercise):
    assert {key for key, _ in exercise.ways} == set(exercise.misconceptions)
    twice = [way for way, count in Counter(way for _, way in exercise.ways).items() if count > 1]
    assert not twice, f"one edit cannot be two mistakes: {twice}"


def test_an_error_that_no_known_mistake_raises_has_no_name():
    score = judge(LOADED["requires_grad"].exercises["freeze"], lambda module: module.nowhere, "requires_grad")
    assert score == 0 and not first_name(score), str(score)


@pytest.mark.parametrize("lesson", LOADED)
def test_no_answer_is_entered_twice(lesson):
    answers = [row for where, row in RIGHT + COURSE if where == lesson]
    named = [(right.exercise, right.name) for right in answers]
    written = [(right.exercise, ast.unparse(ast.parse(right.source))) for right in answers]
    twice = [text for text, count in Counter(named + written).items() if count > 1]
    assert not twice, "drop an answer entered twice; give a name used twice a name of its own"


@pytest.mark.parametrize(("lesson", "exercise"), each(row for row in EXERCISES if isinstance(row[1], Predictions)))
def test_every_misconception_of_a_prediction_is_named_for_the_wrong_values_that_show_it(lesson, exercise):
    shown = set()
    for wrong in wrong_answers(lesson):
        if wrong.exercise == exercise.name:
            score = judge(exercise, made(lesson, exercise.name, wrong.source), lesson)
            assert score < max(score.possible, 0.01), f"{wrong} is no wrong prediction"
            shown |= {wrong.name} if first_name(score) == exercise.misconceptions[wrong.name].name else set()
    assert shown == set(exercise.misconceptions)


@every_exercise
def test_every_exercise_has_a_right_answer_written_differently_and_few_misconceptions(lesson, exercise):
    assert any(right.exercise == exercise.name for right in right_answers(lesson)), "enter one in tests/lessons/right"
    count = len(exercise.misconceptions)
    most = 11 if exercise.name == "run_clinic" else MOST  # one for each of its promises, the last has two
    assert FEWEST <= count <= most, f"{count} misconceptions of {FEWEST} to {most}: merge, or split"


@every_exercise
def test_every_exercise_has_two_hints_or_more_that_do_not_contain_the_solution(lesson, exercise):
    assert len(exercise.hints) >= 2
    solved = exercise.source.split("### BEGIN SOLUTION")[1].split("### END SOLUTION")[0]
    for line in filter(None, map(str.strip, solved.splitlines())):
        assert len(line) < 12 or not any(line in hint for hint in exercise.hints), "a hint holds this line"


@pytest.mark.parametrize("info", LESSONS, ids=lambda info: info.name)
def test_the_points_of_a_lesson_add_up(info):
    assert sum(exercise.points for exercise in LOADED[info.name].exercises.values()) == info.points


def test_every_lesson_in_the_package_is_in_the_catalogue():
    folder = Path(course_utils.lessons.__path__[0])
    assert {path.parent.name for path in folder.glob("*/__init__.py")} == {info.name for info in LESSONS}


# What is predicted is fixed by the exercise itself, so there are no inputs to draw.
@pytest.mark.slow
@pytest.mark.parametrize(("lesson", "exercise"), each(row for row in EXERCISES if not isinstance(row[1], Predictions)))
def test_no_check_draws_the_same_inputs_twice(lesson, exercise):
    solution = own(lesson, exercise)
    seen = []

    def spy(*args):
        drawn = [value for value in torch.utils._pytree.tree_leaves(args) if isinstance(value, torch.Tensor)]
        drawn += [p for value in args if isinstance(value, torch.nn.Module) for p in value.parameters()]
        floats = [value for value in drawn if value.numel() and value.is_floating_point()]
        seen[-1].extend(value.detach().sum().item() for value in floats)
        seen[-1].extend(value for value in args if type(value) in (int, float))  # where nothing else is drawn: sizes
        seen[-1].extend(repr(value) for value in args if type(value) in (list, torch.Tensor) and not floats)
        return solution(*args)

    if isinstance(solution, type) and issubclass(solution, torch.autograd.Function):
        # Used through apply and judged as the class it is: the spy is one, too.
        function, applied = spy, solution.apply
        solution, spy = applied, type(exercise.name, (solution,), {"apply": staticmethod(function)})
    elif isinstance(solution, type):  # a part of an engine, which makes all its tensors here

        def tensor(engine, data, requires_grad=False):
            made = Engine.tensor(engine, data, requires_grad)
            seen[-1].append(float(made.data.sum()))
            return made

        spy = type(exercise.name, (solution,), {"tensor": tensor})

    assert not is_blank(spy)
    for _ in range(2):
        seen.append([])
        judge(exercise, spy, lesson)
    first, second = (set(values) for values in seen)
    assert first and len(first & second) < len(first) / 2, "inputs come again: draw their values, not only sizes"
