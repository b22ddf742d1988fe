"""Claims and text file of an exercise agree: each key that a claim can name is one of its misconceptions, each of its
misconceptions is named. On a card, a key that is none would cost the name.
"""

import ast
import importlib
import inspect
from pathlib import Path

import pytest

from course_utils.base.files import read_toml
from course_utils.checks.exercise import Exercise
from course_utils.checks.judge import judge
from course_utils.checks.misconceptions import GENERAL, LESSONS
from course_utils.checks.missed import Missed
from tests.lessons.loaded import LOADED
from tests.lessons.reached import keys_in

EXERCISES = [(lesson, name) for lesson, loaded in LOADED.items() for name in loaded.exercises]
JUDGED = [(lesson, name) for lesson, name in EXERCISES if not LOADED[lesson].exercises[name].keys]
EVERY_KEY = {key for lesson, name in EXERCISES for key in LOADED[lesson].exercises[name].misconceptions}

# What is a key in another exercise, and here a word for a card, a name in PyTorch, or a key that is not reached.
OTHER_TEXTS = {
    "will_require_grad": {"flagged", "not flagged", "mean", "sum"},
    "freeze": {"first"},
    "port_evaluation": {"eval", "train", "detach"},
    # "always on" takes a grad mode that is off before the call; the others it takes for "history".
    "bounded_evaluation": {"eval", "train", "detach", "always on", "detached", "eval alone"},
    "evaluate": {"eval", "train", "detach"},
    "ema_update": {"mean", "mask"},
    "stream_predictions": {"eval", "detach", "detached", "elsewhere"},  # the last two are told as other ones
    "frozen_features": {"eval", "train", "detach", "detached"},
    "route": {"zeros"},
    "capture": {"none"},
    "activation_bytes": {"none", "start"},
    "accumulate": {"zero", "loss after"},  # it asks for no loss after a step
    "accumulated_step": {"zero"},
    "apply_gradients": {"zero", "zeros"},
    "histogram_gradient": {"zero"},
    "train_ensemble": {"sum"},
    "run_clinic": {"none"},
    "Record": {"sum"},
    "Control": {"detach", "no_grad"},
    "Extend": {"accumulated"},
}


def module_of(lesson, name):
    return f"course_utils.lessons.{lesson}.{name}"


def told_by_text(lesson, name):
    """The keys that the text file itself names: for errors, side effects and wrong predictions."""
    fields = read_toml(LESSONS / lesson / f"{name}.toml")
    return {row[-1] for kind in ("raises", "effects", "readings") for row in fields.get(kind, ())}


@pytest.mark.parametrize(("lesson", "name"), JUDGED)
def test_each_key_that_a_claim_can_name_is_in_the_text_file(lesson, name):
    found = keys_in(module_of(lesson, name))
    known = set(LOADED[lesson].exercises[name].misconceptions)
    unknown = found.keys() & EVERY_KEY - known - set(GENERAL) - OTHER_TEXTS.get(name, set())
    assert not unknown, f"{name}.toml lacks { ({key: found[key] for key in unknown}) }"
    assert OTHER_TEXTS.get(name, set()) <= found.keys(), "this text is gone: take it out of OTHER_TEXTS"


@pytest.mark.parametrize(("lesson", "name"), JUDGED)
def test_a_key_where_the_moves_take_one_is_in_the_text_file(lesson, name):
    known = {"", *GENERAL, *LOADED[lesson].exercises[name].misconceptions}
    unknown = set(direct_keys(module_of(lesson, name))) - known
    assert not unknown, f"{name}.py names {unknown}, which {name}.toml lacks: misspelt?"


@pytest.mark.parametrize(("lesson", "name"), EXERCISES)
def test_the_text_file_names_its_own_misconceptions_and_no_other(lesson, name):
    known = set(LOADED[lesson].exercises[name].misconceptions)
    by_text = told_by_text(lesson, name)
    assert by_text <= known | set(GENERAL), f"{name}.toml names {by_text - known - set(GENERAL)}, and has none of it"
    shared = [module_of(lesson, path.stem) for path in (LESSONS / lesson).glob("_*.py") if path.stem != "__init__"]
    texts = {
        text for module in (module_of(lesson, name), *shared, "course_utils.checks.modes") for text in written(module)
    }
    assert known - by_text <= texts, f"nothing names {known - by_text - texts}: use it in a claim, or take it out"


def test_a_key_that_no_text_file_has_costs_the_name_and_not_the_card():
    exercise = Exercise("task", 1, (), {})

    @exercise.claim("holds")
    def _(trial):
        raise Missed("put together " + "at run time", got="another one")

    score = judge(exercise, lambda: 1, "lesson")
    assert float(score) == 0 and [claim.misconception for claim in score.claims] == [None, None]
    assert "another one" in str(score) and "Likely misconception" not in str(score)


def written(module):
    tree = ast.parse(Path(LESSONS.parents[1] / (module.replace(".", "/") + ".py")).read_text(encoding="utf-8"))
    return {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)}


# Where the moves of ``claims`` take a key by position.
PLACES = {"Missed": slice(0, 1), "expect": slice(1, 2), "expect_raises": slice(2, 3), "expect_hooks": slice(2, 4)}
PLACES |= {"expect_no_history": slice(1, 3), "expect_training_flags": slice(2, 4)}


def direct_keys(module):
    """The texts in ``Missed("key")``, ``expect(holds, "key")``, ``key="key"``, ``otherwise={"key": ...}`` and
    ``key = "key" if ... else ...``, in the claims and in what the exercise's own module has for them."""
    for node in ast.walk(ast.parse(inspect.getsource(importlib.import_module(module)))):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in PLACES:
            for argument in node.args[PLACES[node.func.id]]:
                yield from chosen(argument)
        elif (isinstance(node, ast.keyword) and node.arg in ("key", "otherwise")) or (
            isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and node.targets[0].id == "key"
        ):
            yield from chosen(node.value)


def chosen(value):
    """The texts that an expression may come to."""
    assert not isinstance(value, ast.JoinedStr | ast.BinOp), f"line {value.lineno} puts a key together: write it out"
    match value:
        case ast.Constant(value=str(key)):
            yield key
        case ast.IfExp(body=first, orelse=second):
            yield from (*chosen(first), *chosen(second))
        case ast.BoolOp(values=values) | ast.Dict(keys=values):
            for item in values:
                yield from chosen(item)
        case ast.Tuple(elts=pairs) | ast.List(elts=pairs):
            for pair in pairs:
                if isinstance(pair, ast.Tuple) and pair.elts:
                    yield from chosen(pair.elts[0])
