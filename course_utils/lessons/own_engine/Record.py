"""``Record``: operations with their ways back, and the walk through the graph, on the same programs as PyTorch."""

import weakref
from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np

from course_utils.checks.claims import Trial, exercise, expect
from course_utils.engine import Function
from course_utils.lessons.own_engine import _shared as shared
from course_utils.lessons.own_engine._programs import TORCH

Record = exercise(__file__)

_OPERATIONS = ("matmul", "tanh", "sum")


@Record.claim("is a class of your own with a method of this part", weight=0, gate=True)
def _(trial: Trial) -> None:
    shared.expect_part(trial)


@Record.claim("computes the values of the three operations", weight=0.5)
def _(trial: Trial) -> None:
    given = shared.leaves(trial, (3, 2), (3, 2), (2, 4), flags=(False, False, False))
    built_in = [("built-in", _is_one_of(given["t0"][0].sum(axis=0), name="t3"))]
    for name, line in zip(_OPERATIONS, ("t3 = t0 @ t2", "t3 = t0.tanh()", "t3 = t0.sum()"), strict=True):
        shared.expect_as_torch(trial, shared.program(given, line), name, otherwise=built_in)


@Record.claim("hands back the right gradients, operation by operation", weight=2)
def _(trial: Trial) -> None:
    a, b, c = (trial.randn(*shape).numpy() for shape in ((3, 3), (3, 3), (3, 3)))
    upstream = trial.randn(3, 3).numpy()
    ones = np.ones((3, 3))
    y = np.tanh(a)
    pairs = product((upstream, upstream.T), (a, a.T, b, b.T))
    products = [made for g, other in pairs for made in (g @ other, other @ g, g * other)]  # two of them are right
    ordered = [_is_one_of(*products, name=name) for name in ("t0.grad", "t1.grad")]
    wrong: dict[str, list[shared.Reading]] = {
        "t0 @ t1": [
            ("upstream", _is_one_of(ones @ b.T)),
            ("matmul order", lambda found: all(fits(found) for fits in ordered)),
        ],
        "t0.tanh()": [("upstream", _is_one_of(1 - y * y)), ("from the input", _is_one_of(upstream * (1 - a * a)))],
        "(t0 * t1).sum()": [("upstream", _is_one_of(b))],
        "t0.sum()": [("spread", _is_one_of(np.array(3.0)))],
    }
    for (text, otherwise), name in zip(wrong.items(), ("matmul", "tanh", "sum", "sum"), strict=True):
        given = {"t0": (a, True), "t1": (b, True), "c": (c if text.endswith("sum()") else upstream, False)}
        loss = "loss = t2 * 3.0" if text.endswith("sum()") else "loss = (t2 * c).sum()"
        program = shared.program(given, f"t2 = {text}", loss, "loss.backward()")
        shared.expect_as_torch(trial, program, name, otherwise=otherwise)


def _is_one_of(*values: np.ndarray, name: str = "t0.grad") -> Callable[[dict], bool]:
    return lambda found: any(shared.near(found.get(name), value) for value in values)


@Record.claim("saves what its rules need, in as many bytes as PyTorch", weight=1)
def _(trial: Trial) -> None:
    for name, lines in (
        ("matmul", ("t2 = t0 @ t1",)),
        ("matmul", ("t2 = t1 @ t0",)),
        ("tanh", ("t2 = t0.tanh()",)),
        ("tanh", ("t3 = t0.tanh()", "t2 = t3 * t3")),
        ("sum", ("t2 = t0.sum()",)),
    ):
        shared.expect_written(trial, name)
        for flags in ((True, True), (True, False)):
            program = shared.program(shared.leaves(trial, (3, 3), (3, 3), flags=flags), *lines)
            right, called = shared.held(TORCH, program), f"{program.text}; bytes_held(t2)"
            got = trial.run(lambda p=program, name=name: shared.held(shared.engine_of(trial, name), p), called=called)
            expect(got == right, "unsaved" if got < right else "held", expected=f"{right} bytes", got=f"{got}")

    def is_held() -> bool:
        x = shared.engine_of(trial, "sum").tensor(np.ones(3), True) + 1.0
        result, array = x.sum(), weakref.ref(x.data)
        del x
        return result.shape == () and array() is not None

    held = trial.run(is_held, called="t1 = t0 + 1.0; t2 = t1.sum(); del t1")
    expect(not held, "unsaved", expected="nobody holds the array of t1", got="the rule of sum holds it")


@Record.claim("runs each node once, and after all that was made of its results", weight=2, gate=True)
def _(trial: Trial) -> None:
    given = shared.leaves(trial, (2, 3), (2, 3), flags=(True, False))
    order = "sum add mul exp mul tanh leaf"  # no other one will do
    for last in (("t5 = t4 * t2", "t6 = t5 + t3"), ("t5 = t2 * t4", "t6 = t3 + t5")):  # who goes deep first errs in one
        lines = "t2 = t0.tanh()", "t3 = t2 * t1", "t4 = t3.exp()", *last, "loss = t6.sum()", "loss.backward()"
        played = shared.play(trial, shared.program(given, *lines), "walk", "backward")
        names, expected = " ".join(played.names), f"each node once, after its users: {order}"
        expect(len(set(played.visits)) == len(played.visits), "path by path", expected=expected, got=names)
        expect(order.startswith(names), "creation order", expected=expected, got=names)
        is_unknown = played.raised is None or isinstance(played.raised.error, KeyError)  # a leaf, to the answer's dict
        expect(not is_unknown or f"{names} leaf" != order, "no leaves", expected=expected, got=names)
        if played.raised:
            raise played.raised
        expect(names == order, expected=expected, got=names)


@Record.claim("adds up what arrives from several uses", weight=2)
def _(trial: Trial) -> None:
    given = shared.leaves(trial, (3,), (3,), (3,), flags=(True, False, False))
    b, c = given["t1"][0], given["t2"][0]
    program = shared.program(given, "loss = (t0 * t1).sum() + (t0 * t2).sum()", "loss.backward()")
    overwritten = [("overwritten", _is_one_of(b, c))]
    shared.expect_as_torch(trial, program, "walk", "backward", otherwise=overwritten)
    if trial.run(lambda: _edits_what_it_was_given(trial), called="y = x * 2.0; (y + y).backward(g)"):
        trial.effects.append("edited in place the gradient that backward was given")
    lines = "t3 = t0 * 1.0", "t4 = t1 * t0", "t5 = t4.tanh()", "t6 = t3.exp()", "t7 = t3 + t4"
    for last in ("t5 + (t6 + t7)", "(t7 + t6) + t5"):  # t3 and t4 are handed one array, and t3 gets more before t4 runs
        program = shared.program(given, *lines, f"({last}).sum().backward()")
        in_place = [("in place", lambda found: True)]
        shared.expect_as_torch(trial, program, "walk", "backward", otherwise=in_place)
    for lines in (("t3 = t0 + t0",), ("t3 = t0 * t0",), ("t3 = t0 * t1", "t4 = t3 + t3", "t3 = t4 + t3")):
        program = shared.program(given, *lines, "t3.sum().backward()")
        shared.expect_as_torch(trial, program, "walk", "backward", otherwise=[("overwritten", lambda found: True)])


def _edits_what_it_was_given(trial: Trial) -> bool:
    engine, g = shared.engine_of(trial, "walk", "backward"), np.ones(3)
    y = engine.tensor(np.ones(3), True) * 2.0
    (y + y).backward(g)
    return not np.array_equal(g, np.ones(3))


@Record.claim("starts with the gradient that it is given, at the slot of the result", weight=1)
def _(trial: Trial) -> None:
    given = shared.leaves(trial, (3, 2), (3, 2)) | {"g": (trial.randn(3, 2).numpy(), False)}
    program = shared.program(given, "t2 = t0 * t1", "t2.backward(g.data)")
    ones = [("ones", _is_one_of(given["t1"][0]))]
    shared.expect_as_torch(trial, program, "walk", "backward", otherwise=ones)
    slot = [("slot", lambda found: True)]
    for lines in (("t3.sum().backward()", "t2.sum().backward()"), ("t3.backward(g.data[1:])",)):
        program = shared.program(given, "t2, t3 = t0.split([1, 2])", *lines)
        shared.expect_as_torch(trial, program, "walk", "backward", otherwise=slot, error="slot")
    program = shared.program(shared.leaves(trial, ()), "t0.backward()", "t0.backward()")
    shared.expect_as_torch(trial, program, "walk", "backward")


@Record.claim("hands None where no gradient came, and runs such a node all the same", weight=0.5)
def _(trial: Trial) -> None:
    class Nothing(Function):
        forward = staticmethod(lambda context, x: x)
        backward = staticmethod(lambda context, gradient: None)

    def passed() -> list[Any]:
        engine = shared.engine_of(trial, "walk", "backward")
        x, y = engine.tensor(np.ones(3), True), engine.tensor(np.ones(3), True)
        Nothing.apply(x).sum().backward()
        loss = Nothing.apply(y.exp()).sum()
        loss.backward()
        return [x.grad, engine.bytes_held(loss)]

    shared.expect_written(trial, "walk", "backward")
    called = "y = Nothing.apply(x).sum(); y.backward(), a Function whose backward returns None"
    gradient, held = trial.run(passed, called=called)
    expect(gradient is None, "zeros", expected="x.grad None", got=shared.shown(gradient))
    expect(held == 0, "skipped", expected="what exp saved before it is freed as well", got=f"{held} bytes held")
    program = shared.program(shared.leaves(trial, (2,)), "t1, t2 = t0.split([1, 1])", "t2.sum().backward()")
    slot = [("slot", lambda found: np.array_equal(found["t0.grad"], [1, 0]))]
    shared.expect_as_torch(trial, program, "walk", "backward", otherwise=slot)


@Record.claim("agrees with PyTorch on random programs", weight=1.5)
def _(trial: Trial) -> None:
    given = shared.leaves(trial, (3, 2), (2, 3))
    lines = "t2 = (t0 @ t1).tanh()", "loss0 = (t2 * t2).sum() * 0.5", "loss0.backward()"
    added = "t2 = t0 * 1.0", "t3 = t0 * t0", "t4 = t3.tanh()", "t5 = t2.exp()", "t6 = t2 + t3"
    losses = "loss0 = (t4 + (t5 + t6)).sum()", "loss0 = ((t6 + t5) + t4).sum()"
    programs = [lines, *((*added, loss, "loss0.backward()") for loss in losses)]
    shared.expect_random(trial, "expand", [shared.program(given, *one) for one in programs])
