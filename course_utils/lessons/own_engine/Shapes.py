"""``Shapes``: what was broadcast is summed at every edge, and an operation may have several results."""

from contextlib import suppress
from typing import Any

import numpy as np

from course_utils.base.text import message_of
from course_utils.checks.claims import AnswerRaised, Missed, Trial, exercise, expect
from course_utils.lessons.own_engine import _shared as shared
from course_utils.lessons.own_engine._programs import Program

Shapes = exercise(__file__)


@Shapes.claim("is a class of your own with a method of this part", weight=0, gate=True)
def _(trial: Trial) -> None:
    shared.expect_part(trial)


@Shapes.claim("fits a gradient to a shape by sums", weight=2)
def _(trial: Trial) -> None:
    shared.expect_written(trial, "fit")
    shapes = [((3, 2), (2,)), ((3, 2), ()), ((3, 2), (1, 2)), ((3, 2), (3, 1)), ((2, 3, 2), (3, 1)), ((3, 2), (3, 2))]
    for full, shape in (*shapes, ((3, 2), (1, 1)), ((2, 3, 2), (1, 3, 1))):
        gradient = trial.randn(*full).numpy()
        before, added = gradient.copy(), tuple(range(len(full) - len(shape)))
        ones = tuple(i for i, size in enumerate(shape) if size == 1)
        leading = gradient.sum(axis=added)
        right = leading.sum(axis=ones, keepdims=True)
        called = f"fit(a gradient of shape {full}, {shape})"
        unshifted = gradient.sum(axis=(*{*added, *ones},), keepdims=True)[(0,) * len(added)]
        try:
            got = trial.run(lambda g=gradient, s=shape: np.array(_fit(trial, g, s)), called=called)
        except AnswerRaised as raised:
            key = _key_of_error(str(raised.error), gradient, shape, unshifted)
            if not key:
                raise
            raise Missed(key, expected=f"shape {shape}", got=message_of(raised.error)) from None
        expect(np.array_equal(gradient, before), "side effect", expected="the gradient as it was", got="other values")
        mean = gradient.mean(axis=added).mean(axis=ones, keepdims=True) if added or ones else right
        readings = [
            ("leading only", leading),
            ("mean", mean),
            ("dropped", leading.sum(axis=ones)),
            ("unshifted", unshifted),
        ]
        readings += [("at the front", gradient.sum(axis=tuple(range(len(shape), len(full)))))]
        if shared.near(got, right):
            continue
        key = next((key for key, value in readings if shared.near(got, value)), "")
        if got.shape != right.shape:
            raise Missed(key, expected=f"shape {right.shape}", got=f"shape {got.shape}")
        raise Missed(key, expected=shared.shown(right), got=shared.shown(got))


def _key_of_error(said: str, gradient: np.ndarray, shape: tuple[int, ...], unshifted: np.ndarray) -> str:
    """What an error in ``fit`` shows: what was summed could not be given the shape, or had lost a dimension."""
    sizes = {gradient.size: "reshaped", unshifted.size: "unshifted", int(np.prod(shape)): ""}
    key = next((key for size, key in sizes.items() if f"reshape array of size {size} into" in said), "")
    return "numbers kept" if gradient.ndim == len(shape) and "out of" in said else key


def _fit(trial: Trial, gradient: np.ndarray, shape: tuple[int, ...]) -> object:
    return shared.engine_of(trial, "fit").fit(gradient, shape)


@Shapes.claim("fits gradients at every edge, on the way, where dimensions were only put in front", weight=2)
def _(trial: Trial) -> None:
    given = shared.leaves(trial, (3, 2), (2,))
    program = shared.program(given, "t2 = t0 + t1", "(t2 * t2).sum().backward()")
    shared.expect_as_torch(trial, program, "through", otherwise=[("by the rule", _is_unfitted)])
    for lines in (("t2 = t0 + t1.sum()",), ("t2 = t0 * (t1 * 2.0).tanh()",), ("t2 = t0 + t1 * t1.sum()",)):
        program = shared.program(given, *lines, "(t2 * t2).sum().backward()")
        leaves = [("leaves only", lambda found: True)]
        shared.expect_as_torch(trial, program, "through", otherwise=leaves, error="leaves only")


def _is_unfitted(found: dict[str, Any]) -> bool:
    return np.shape(found["t1.grad"]) == (3, 2)


@Shapes.claim("splits a tensor into views, with one node for all of them, and marks the whole as viewed", weight=2)
def _(trial: Trial) -> None:
    shared.expect_written(trial, "split")
    cut = trial.run(lambda: _cut(trial), called="x.split([2, 1, 2]), x of shape (5, 2)")
    right = [(2, 2), (1, 2), (2, 2)]
    at_sizes = ((2, 2), (0, 2), (4, 2)), ((2, 2), (0, 2), (1, 2), (3, 2))  # without the last size, and with it
    keys = dict.fromkeys(at_sizes, "cut points") | {(*right, (0, 2)): "the end"}
    expect(cut == right, keys.get(tuple(cut), ""), expected=f"shapes {right}", got=f"{cut}")
    given = shared.leaves(trial, (5, 2), (5, 2), flags=(True, False))
    lines = "t2 = t0 * t1", "t3, t4, t5 = t2.split([2, 1, 2])"
    program = shared.program(given, *lines, "(t3.sum() + (t4 * t4).sum() + t5.tanh().sum()).backward()")
    played = shared.expect_as_torch(trial, program, "split")
    nodes = sum(name == "split" for name in played.names)
    several = sum(name not in ("sum", "add", "mul", "tanh", "leaf") for name in played.names)
    expect(several <= 1, "a node each", expected="one node for the three pieces", got=f"{several} nodes")
    expect(nodes == 1, expected="a node with the name split", got=" ".join(played.names))
    program = shared.program(shared.leaves(trial, (3,), flags=(False,)), "t1, t2 = t0.split([1, 2])", "t2.mul_(2.0)")
    shared.expect_as_torch(trial, program, "split", otherwise=[("copies", lambda found: True)])
    given = shared.leaves(trial, (3,), (2,), flags=(False, True))
    lines = "t2, t3 = t0.split([1, 2])", "t4 = t3 * t1", "t0.mul_(2.0)", "t4.sum().backward()"
    shared.expect_as_torch(trial, shared.program(given, *lines), "split", silent="copies")
    for made, flag, key in (("x * 2.0", True, "not marked"), ("a tensor that requires no grad", False, "plain")):
        called = f"h = {made}; h.split([1, 2]); h.mul_(w), w requires grad"
        refused = trial.run(lambda flag=flag: _is_edit_refused(trial, flag), called=called)
        expect(refused, key, expected="h.mul_(w) refused: h has views now", got="it was recorded")


def _cut(trial: Trial) -> list[tuple[int, ...]]:
    engine = shared.engine_of(trial, "split")
    return [piece.shape for piece in engine.tensor(np.ones((5, 2))).split([2, 1, 2])]


def _is_edit_refused(trial: Trial, flag: bool) -> bool:
    engine = shared.engine_of(trial, "split")
    h = engine.tensor(np.ones(3), flag) * 2.0
    h.split([1, 2])
    try:
        h.mul_(engine.tensor(np.ones(3), True))
    except NotImplementedError:
        return True
    return False


@Shapes.claim("gives a rule zeros for a result that nobody used", weight=1)
def _(trial: Trial) -> None:
    try:
        for program in _with_an_unused_piece(trial):
            shared.expect_as_torch(trial, program, "through")
    except AnswerRaised as raised:
        got = message_of(raised.error, 120)
        raise Missed(_handed(trial), expected="zeros in the other piece's place", got=got) from None
    except Missed as missed:
        missed.misconception = _handed(trial)
        raise


def _with_an_unused_piece(trial: Trial) -> list[Program]:
    given, split = shared.leaves(trial, (3, 2)), "t1, t2 = t0.split([1, 2])"
    return [shared.program(given, split, f"loss0 = {used}.tanh().sum()", "loss0.backward()") for used in ("t1", "t2")]


def _handed(trial: Trial) -> str:
    """The misconception behind what a rule is handed for a result that nobody used: None, nothing, or other zeros."""
    shapes = (1, 2), (2, 2)
    calls: list[tuple[object, ...]] = []

    def through(unused: int) -> None:
        engine = shared.engine_of(trial, "through")
        piece, _ = engine.tensor(np.ones((3, 2)), True).split([1, 2])
        piece.node.ways[0].rule = lambda *given: calls.append(given) or np.zeros((3, 2))
        engine.through(piece.node, [None if at == unused else np.ones(shape) for at, shape in enumerate(shapes)])

    for unused in (0, 1):
        with suppress(AnswerRaised):
            trial.run(lambda unused=unused: through(unused), called=trial.called)
    if any(len(given) < 2 for given in calls):
        return "left out"
    if len(calls) < 2 or any(one is None for given in calls for one in given):
        return "unused"
    return "any zeros" if any(tuple(map(np.shape, given)) != shapes for given in calls) else ""


@Shapes.claim("takes what was saved from `unsave`", weight=1)
def _(trial: Trial) -> None:
    given = shared.leaves(trial, (3,), (3,), flags=(True, False))
    program = shared.program(given, "t2 = t0 * t1", "t1.mul_(2.0)", "t2.sum().backward()")
    shared.expect_as_torch(trial, program, "through", silent="around unsave")
    program = shared.program(given, "loss = (t0 * t1).sum()", "loss.backward()", "loss.backward()")
    shared.expect_as_torch(trial, program, "through", silent="around unsave")


@Shapes.claim("agrees with PyTorch on random programs", weight=1)
def _(trial: Trial) -> None:
    given = shared.leaves(trial, (3, 2), (3, 1), (1, 2), (2,))
    broadcast = shared.program(given, "loss0 = (t0 * t1 * t2 + t3).tanh().sum()", "loss0.backward()")
    ones = [shared.leaves(trial, (3, 2), shape) for shape in ((1,), (1, 1))]
    both = [shared.program(given, "loss0 = (t0 * t1).tanh().sum()", "loss0.backward()") for given in ones]
    shared.expect_random(trial, "expand split split", [broadcast, *both, *_with_an_unused_piece(trial)])
