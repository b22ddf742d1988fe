"""``Extend``: three operations with their rules, and slopes by a small step."""

import numpy as np

from course_utils.checks.compare import Seen, Trial, compared
from course_utils.lessons.own_engine._shared import play

Extend = compared(__file__, np=np)


@Extend.looks("computes the values of the three operations")
def _(trial: Trial) -> Seen:
    a, b = trial.randn(3, 2), trial.randn(2, 4)
    for name, call in (("matmul", "a @ b"), ("tanh", "a.tanh()"), ("sum", "a.sum()")):
        yield name, play(Extend, trial, name, f"y = {call}", "value: y.data", a=a, b=b)


@Extend.looks("hands back the right gradients, operation by operation", weight=3)
def _(trial: Trial) -> Seen:
    a, b, c = (trial.randn(3, 3, requires_grad=flag) for flag in (True, True, False))
    both = "gradient of a: a.grad; gradient of b: b.grad"
    yield "matmul", play(Extend, trial, "matmul", "((a @ b) * c).sum().backward()", both, a=a, b=b, c=c)
    seen = "gradient of a: a.grad"
    yield "tanh", play(Extend, trial, "tanh", "(a.tanh() * c).sum().backward()", seen, a=a, c=c)
    yield "sum", play(Extend, trial, "sum", "(a.sum() * 3.0).backward()", seen, a=a)


@Extend.looks("saves what its rules need, and nothing else", "unsaved", weight=2)
def _(trial: Trial) -> Seen:
    seen = "bytes saved: engine.bytes_held(y)"
    for a, b in ((True, True), (True, False), (False, True)):
        given = {"a": trial.randn(3, 2, requires_grad=a), "b": trial.randn(2, 4, requires_grad=b)}
        which = " and ".join(name for name, value in given.items() if value.requires_grad)
        yield f"a @ b, for the gradient of {which}", play(Extend, trial, "matmul", "y = a @ b", seen, **given)
    yield "tanh alone", play(Extend, trial, "tanh", "y = w.tanh()", seen)
    yield "tanh and a product", play(Extend, trial, "tanh", "h = w.tanh(); y = h * h", seen)
    yield "sum alone", play(Extend, trial, "sum", "y = w.sum()", seen)
    for name in ("tanh", "sum"):
        program = f"h = w * 1.0; kept = weakref.ref(h.data); y = h.{name}(); del h"
        yield name, play(Extend, trial, name, program, "array of h held: kept() is not None")


@Extend.looks("works slopes out by a small step", weight=2)
def _(trial: Trial) -> Seen:
    x = trial.randn(2, 3)
    program = "slopes = engine.small_step(lambda a: (a ** 3).sum() + a[0, 1] * a[1, 2], x.data)"
    program, seen = f"before = x.data.copy(); {program}", "slopes: slopes; x edited: (x.data != before).any().item()"
    yield "of a function of six numbers", play(Extend, trial, "small_step", program, seen, x=x)
    program = "slopes = engine.small_step(lambda a: 1e6 * (a * a).sum(), x.data)"
    yield "at the bottom of a valley", play(Extend, trial, "small_step", program, "slopes: slopes", x=0 * x)
