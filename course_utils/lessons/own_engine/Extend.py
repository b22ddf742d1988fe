"""``Extend``: three operations with their rules, and slopes by a small step."""

import numpy as np

from course_utils.checks.compare import Seen, Trial, compared
from course_utils.lessons.own_engine._shared import leaf, play

Extend = compared(__file__, np=np)


@Extend.looks("computes the values of the three operations")
def _(trial: Trial) -> Seen:
    a, b = trial.randn(3, 2), trial.randn(2, 4)
    for name, call in (("matmul", "a @ b"), ("tanh", "a.tanh()"), ("sum", "a.sum()")):
        yield name, play(Extend, trial, name, f"y = {call}", "value: y.data", a=a, b=b)


@Extend.looks("hands back the right gradients, operation by operation", weight=3)
def _(trial: Trial) -> Seen:
    a, b, c = leaf(trial, 3, 3), leaf(trial, 3, 3), trial.randn(3, 3)
    both = "gradient of a: a.grad; gradient of b: b.grad"
    yield "matmul", play(Extend, trial, "matmul", "((a @ b) * c).sum().backward()", both, a=a, b=b, c=c)
    seen = "gradient of a: a.grad"
    yield "tanh", play(Extend, trial, "tanh", "(a.tanh() * c).sum().backward()", seen, a=a, c=c)
    yield "sum", play(Extend, trial, "sum", "(a.sum() * 3.0).backward()", seen, a=a)


@Extend.looks("saves what its rules need, and nothing else", "unsaved", weight=2)
def _(trial: Trial) -> Seen:
    a, b = trial.randn(3, 2), trial.randn(2, 4)
    seen = "bytes saved: engine.bytes_held(y)"
    for flags in ((True, True), (True, False), (False, True)):
        given = {
            name: value.clone().requires_grad_(flag) for name, value, flag in zip("ab", (a, b), flags, strict=True)
        }
        which = " and ".join(name for name, flag in zip("ab", flags, strict=True) if flag)
        yield f"a @ b, for the gradient of {which}", play(Extend, trial, "matmul", "y = a @ b", seen, **given)
    w, kept = leaf(trial, 3, 2), "array of h held: kept() is not None"
    yield "tanh alone", play(Extend, trial, "tanh", "y = w.tanh()", seen, w=w)
    yield "tanh and a product", play(Extend, trial, "tanh", "h = w.tanh(); y = h * h", seen, w=w)
    yield "sum alone", play(Extend, trial, "sum", "y = w.sum()", seen, w=w)
    for name in ("tanh", "sum"):
        program = f"h = w * 1.0; kept = weakref.ref(h.data); y = h.{name}(); del h"
        yield name, play(Extend, trial, name, program, kept, w=w)


@Extend.looks("works slopes out by a small step", weight=2)
def _(trial: Trial) -> Seen:
    x = trial.randn(2, 3)
    program = "slopes = engine.small_step(lambda a: (a ** 3).sum() + a[0, 1] * a[1, 2], x.data)"
    seen = "slopes: slopes; x afterwards: x.data"
    yield "of a function of six numbers", play(Extend, trial, "small_step", program, seen, x=x)
    program = "slopes = engine.small_step(lambda a: 1e6 * (a * a).sum(), x.data)"
    yield "at the bottom of a valley", play(Extend, trial, "small_step", program, "slopes: slopes", x=0 * x)
