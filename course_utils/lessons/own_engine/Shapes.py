"""``Shapes``: backward, and gradients in the shape of what they belong to."""

import numpy as np

from course_utils.checks.compare import Seen, Trial, compared
from course_utils.lessons.own_engine._shared import ends, play

Shapes = compared(__file__, np=np)


@Shapes.looks("goes back along a chain", gate=True)
def _(trial: Trial) -> Seen:
    yield "w.exp().sum()", play(Shapes, trial, "backward", "w.exp().sum().backward()", "gradient of w: w.grad")
    program = "(w * x).tanh().sum().backward()"
    yield "of a product", play(Shapes, trial, "backward", program, "gradient of w: w.grad")


@Shapes.looks("adds up what arrives from several uses, into a new array", weight=4)
def _(trial: Trial) -> Seen:
    seen = "gradient of w: w.grad"
    for call in ("w * x + w * z", "w + w", "w * w"):
        yield call, play(Shapes, trial, "backward", f"({call}).sum().backward()", seen)
    lines = "a = w * 1.0; b = x * w; c = a + b; ({}).sum().backward()"
    for last in ("b.tanh() + (a.exp() + c)", "(c + a.exp()) + b.tanh()"):  # a and b are handed one array
        yield last, play(Shapes, trial, "backward", lines.format(last), seen)
    program = "g = np.ones(3); y = w * 2.0; (y + y).backward(g)"
    yield "what backward was given", play(Shapes, trial, "backward", program, "g afterwards: g")


@Shapes.looks("begins with the gradient that it is given", "ones")
def _(trial: Trial) -> Seen:
    seen = "gradient of w: w.grad"
    yield "for a product", play(Shapes, trial, "backward", "(w * x).backward(z.data)", seen)
    yield "for a leaf", play(Shapes, trial, "backward", "w.backward(z.data)", seen)


@Shapes.looks("fits a gradient to a shape by sums", weight=2)
def _(trial: Trial) -> Seen:
    cases = ((3, 2), (3, 2)), ((3, 2), (2,)), ((3, 2), ()), ((3, 2), (1, 2)), ((3, 2), (3, 1)), ((3, 2), (1, 1))
    for full, shape in (*cases, ((2, 3, 2), (3, 1)), ((2, 3, 2), (1, 3, 1)), ((3, 3, 3), (3, 1))):
        program = f"fitted = engine.fit(g.data, {shape})"
        seen = "result: fitted; its shape: fitted.shape; g afterwards: g.data"
        yield f"{full} to {shape}", play(Shapes, trial, "fit", program, seen, g=trial.randn(*full))


@Shapes.looks("fits gradients at every edge, on the way", weight=2)
def _(trial: Trial) -> Seen:
    a, b = (trial.randn(*shape, requires_grad=True) for shape in ((3, 2), (2,)))
    seen = "gradient of a: a.grad; gradient of b: b.grad"
    for call in ("a + b", "a + b.sum()", "a * (b * 2.0).tanh()", "a + b * b.sum()"):
        program = f"y = {call}; (y * y).sum().backward()"
        yield call, play(Shapes, trial, "backward", program, seen, a=a, b=b)
    program = "((a * b).sum() + (b * b).sum()).backward()"  # what arrives at b has two shapes
    yield "b in two products", play(Shapes, trial, "backward", program, seen, a=a, b=b)


@Shapes.looks("hands on what `visit` returns, and takes what was saved from `unsave`", "passed over")
def _(trial: Trial) -> Seen:
    program = "y = w * x; y.register_hook(lambda g: 3.0 * g); y.sum().backward()"
    yield "a hook that triples", play(Shapes, trial, "backward", program, "gradient of w: w.grad")
    for words, program in (
        ("backward after an edit", "y = w * x; x.mul_(2.0); y.sum().backward()"),
        ("a second backward", "y = (w * x).sum(); y.backward(); y.backward()"),
    ):
        yield words, ends(Shapes, trial, "backward", program)
