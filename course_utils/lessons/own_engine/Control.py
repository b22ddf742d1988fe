"""``Control``: who is recorded, who keeps a gradient, and what the mode and detach leave as it was."""

import weakref
from contextlib import contextmanager

import numpy as np

from course_utils.checks.compare import Seen, Trial, compared
from course_utils.engine import Tensor
from course_utils.lessons.own_engine._shared import ends, play

Control = compared(__file__, np=np, contextmanager=contextmanager, weakref=weakref, Tensor=Tensor)


@Control.looks("records where one input at least requires grad", "all", weight=2)
def _(trial: Trial) -> Seen:
    for call in ("w * x", "x * w", "w * w", "x * x", "(w * x) * x"):
        yield call, play(Control, trial, "records", f"y = {call}", "requires grad: y.requires_grad")


@Control.looks("records nothing inside `no_grad`, and puts back the mode that it found", weight=3)
def _(trial: Trial) -> Seen:
    own = "records no_grad"
    seen = "inside: y.requires_grad; after it: u.requires_grad; flag of w: w.requires_grad"
    program = "with engine.no_grad():\n    y = w * 2.0\nu = w * 3.0"
    yield "a block", play(Control, trial, own, program, seen)
    program = "with engine.no_grad():\n    with engine.no_grad():\n        pass\n    y = w * 2.0"
    yield "after an inner block", play(Control, trial, own, program, "requires grad: y.requires_grad")
    program = "mode = engine.no_grad()\nwith engine.no_grad():\n    with mode:\n        pass\n    y = w * 2.0"
    yield "a block made before", play(Control, trial, own, program, "requires grad: y.requires_grad")
    block = (
        "caught = False\ntry:\n    with engine.no_grad():\n        raise KeyError\nexcept KeyError:\n    caught = True"
    )
    seen = "the error goes through: caught; requires grad: y.requires_grad"
    yield "after an error", play(Control, trial, own, f"{block}\ny = w * 2.0", seen)


@Control.looks("detaches on the same memory, without history, and leaves the tensor alone", "copy", weight=2)
def _(trial: Trial) -> Seen:
    seen = "twin requires grad: d.requires_grad; h requires grad: h.requires_grad; gradient of w: w.grad"
    program = "h = w * x; d = h.detach(); (h * d).sum().backward() if h.requires_grad else None"
    yield "h and its twin", play(Control, trial, "detach", program, seen)
    program = "d = x.detach(); d.mul_(2.0)"
    yield "an edit of the twin", play(Control, trial, "detach", program, "x: x.data")
    program = "y = w.exp(); y.detach().mul_(2.0); y.sum().backward()"
    yield "backward after it", ends(Control, trial, "detach", program)


@Control.looks("begins with `.grad` None, and adds to it, in an array of its own", weight=2)
def _(trial: Trial) -> Seen:
    program = "before = w.grad; (w * x).sum().backward(); once = w.grad.copy(); (w * x).sum().backward()"
    seen = "gradient at first: before; after one backward: once; after two: w.grad"
    yield "w", play(Control, trial, "accumulate", program, seen)
    program = "g = np.ones(3); w.backward(g); once = w.grad.copy(); g[0] = 5.0; w.backward(g)"
    seen = "gradient at first: once; after two: w.grad; g afterwards: g"
    yield "an edit of what was given", play(Control, trial, "accumulate", program, seen)


@Control.looks("keeps an inner gradient where that is asked for, and refuses where there will be none", "retain")
def _(trial: Trial) -> Seen:
    program, seen = "h = w * x; {}(h * h).sum().backward()", "gradient of h: h.grad; gradient of w: w.grad"
    for words, asked in (("not asked", ""), ("h.retain_grad()", "h.retain_grad(); ")):
        yield words, play(Control, trial, "retain_grad", program.format(asked), seen)
    program = "w.retain_grad(); (w * x).sum().backward()"
    yield "w.retain_grad() alone", ends(Control, trial, "retain_grad", "w.retain_grad()")
    yield "w.retain_grad()", play(Control, trial, "retain_grad", program, "gradient of w: w.grad")
    yield "x.retain_grad()", ends(Control, trial, "retain_grad", "x.retain_grad()")


@Control.looks("lets go of a tensor whose gradient is kept, without the collector", "circle")
def _(trial: Trial) -> Seen:
    program = "h = w * 2.0; h.retain_grad(); h.sum().backward(); held = weakref.ref(h.data); del h"
    return {"h": play(Control, trial, "retain_grad", program, "array alive: held() is not None")}
