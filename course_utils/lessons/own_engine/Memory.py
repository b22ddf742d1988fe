"""``Memory``: what is saved, freed and checked for edits, and how many bytes a graph holds."""

import numpy as np

from course_utils.checks.compare import Seen, Trial, compared
from course_utils.lessons.own_engine._shared import ends, play

Memory = compared(__file__, np=np)
_SAVING = "save write unsave"


@Memory.looks("hands a rule what was saved for it", gate=True)
def _(trial: Trial) -> Seen:
    program = "y = w * x; y.backward(np.ones(3))"
    yield "a product", ends(Memory, trial, _SAVING, program)
    yield "a product", play(Memory, trial, _SAVING, program, "gradient of w: w.grad")


@Memory.looks("frees what was saved, unless told to retain it, and refuses a second backward", weight=3)
def _(trial: Trial) -> Seen:
    for words, program in (
        ("a second backward", "y = (w * x).sum(); y.backward(); y.backward()"),
        ("with retain_graph=True", "y = (w * x).sum(); y.backward(retain_graph=True); y.backward()"),
        ("through an addition", "y = (w + x).sum(); y.backward(); y.backward()"),
    ):
        yield words, ends(Memory, trial, _SAVING, program)


@Memory.looks("saves the arrays themselves, no copies", "copy", weight=3)
def _(trial: Trial) -> Seen:
    yield "save(x)", play(Memory, trial, "save", "saved = x.save()", "holds the array of x: saved[0] is x.data")
    program = "y = w * x; x.data[...] = 5.0; y.backward(np.ones(3))"  # which goes around the counter
    yield "x.data[...] = 5.0", play(Memory, trial, _SAVING, program, "gradient of w: w.grad")


@Memory.looks("refuses where what was saved has been edited since, and nowhere else", weight=3)
def _(trial: Trial) -> Seen:
    for edit in (
        "y = w * x; x.mul_(2.0)",
        "y = w * x; x.detach().mul_(2.0)",
        "y = w.exp(); y.mul_(2.0)",
        "y = w + x; x.mul_(2.0)",
        "x.mul_(2.0); y = w * x",
        "y = w * x; y.mul_(2.0)",
    ):
        yield edit, ends(Memory, trial, _SAVING, f"{edit}; y.backward(np.ones(3))")
    product = "y = engine.record('product', engine.tensor(w.data), (w, lambda g, a, b: g * a * b, x, z))"
    for name in "xz":
        program = f"{product}; {name}.mul_(2.0); y.backward(np.ones(3))"
        yield f"{name} edited, x and z saved", ends(Memory, trial, _SAVING, program)
    program = "y = w * x; x.mul_(2.0)\ntry:\n y.backward(np.ones(3))\nexcept RuntimeError: pass"
    yield "x edited", play(Memory, trial, _SAVING, program, "saved as before: y.node.ways[0].saved is not None")


@Memory.looks("writes into the memory that is there, and counts every edit", weight=2)
def _(trial: Trial) -> Seen:
    seen = "twin: d.data; edits counted: x.memory.version"
    yield "x.mul_(2.0)", play(Memory, trial, _SAVING, "d = x.detach(); x.mul_(2.0)", seen)
    yield "x.mul_(1.0)", play(Memory, trial, _SAVING, "x.mul_(1.0)", "edits counted: x.memory.version")
    yield "of no dimension", play(Memory, trial, _SAVING, "x.mul_(2.0)", "x: x.data", x=trial.randn())


@Memory.looks("counts the bytes of what the graph has saved, each memory once", "bytes", weight=2)
def _(trial: Trial) -> Seen:
    rows, wide = trial.integer(3, 9), trial.integer(3, 9)
    given = {"x": trial.randn(rows, 4), "w": trial.randn(4, wide, requires_grad=True), "v": trial.randn(wide, wide)}
    before, after = "bytes saved: engine.bytes_held(y)", "bytes after backward: engine.bytes_held(y)"
    for call in ("(h @ v * h).sum()", "(h + h).sum()", "(h * h.detach()).exp().sum()"):
        program = f"h = (x @ w).tanh(); y = {call}"
        yield call, play(Memory, trial, "bytes_held", program, before, **given)
        yield f"{call}, used", play(Memory, trial, "bytes_held", f"{program}; y.backward()", after, **given)
