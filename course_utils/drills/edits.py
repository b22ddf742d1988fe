"""Drills on in-place edits: does backward notice, and is its gradient right?

Every edit comes after the loss, so that the right gradient is that of the loss as it was computed.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable, Sequence
from typing import Any

import torch

from course_utils.drills.moves import USUAL, Answer, Ask, Draw, Move, Topic
from course_utils.drills.run import space, tensors

OUTCOMES = ERROR, WRONG, RIGHT = "error", "wrong gradient", "right gradient"
CHANGED, COUNTED, BACKWARD = "{v} changed", "{v} counted", "backward"
# The edited tensor is {v}, {w} another name that has to do with it, and {y} what is computed from {v}.
_LEAF, _END = "{new1} = torch.{fill}({size}, requires_grad=True)\n", "\nloss = {y}.{sum|mean}()"
_STEP, _RESULT = "{new2} = {new1} {*|+} {2..9}\n", _LEAF + "{v} = {new1} {*|+} {2..9}\n"
_OWN_END = "\nloss = {v}.{sum|mean}()"


def _spared(text: str, old: str, new: str, words: str, level: int = 1) -> Move:
    """A loss whose backward does not need what is edited, and what would be needed in its place."""
    return Move(text, (old, new, f"{words}, so the edit of `{{v}}` does no harm", BACKWARD, USUAL), level=level)


_HEADS = [
    Move(_LEAF + _STEP + "{v} = {new2}.{keeps_result}()" + _OWN_END, weight=2.5),
    Move(_RESULT + "{y} = {v}.{keeps_input}()" + _END, weight=2.5),
    Move(_RESULT + "{new2} = torch.{fill}({size}, requires_grad=True)\n{y} = {v} * {new2}" + _END, weight=2),
    _spared(_RESULT + "{y} = {v} {+|-} {2..9}" + _END, "{v} {+|-} {2..9}", "{v} ** 2", "`{+|-}` needs no values in "
         "backward"),
    _spared(_RESULT + "{y} = {v}.{keeps_result}()" + _END, "{v}.{keeps_result}()", "{v} ** 2", "`{keeps_result}` "
         "needs its result `{y}` in backward, and not its input `{v}`"),
    _spared(_LEAF + _STEP + "{v} = {new2}.{keeps_input}()" + _OWN_END, "{keeps_input}", "exp", "`{keeps_input}` needs "
         "its input `{new2}` in backward, and not its result `{v}`"),
    _spared("{new2} = torch.{fill}({size})\n" + _RESULT + "{y} = {v} * {new2}" + _END, "* {new2}",
         "* {new2}.clone().requires_grad_()", "`*` would need `{v}` for the gradient of `{new2}` alone, and `{new2}` "
         "does not require grad", 2),
]  # fmt: skip
_SHARED = "Memory is shared with `{v}`, so an edit of one is an edit of the other"
_HERE = "This line edits `{v}` in place"
_COUNTER = "The version counter is shared with `{v}` as the memory is, so the edit counts for both"
_APART = "`.data` shares the memory of `{v}` and has a version counter of its own"
_MOVES = "An edit in place moves the version counter of the tensor, under `no_grad()` too"
_REFUSES = "{why}. The edit comes after the loss and moves the version counter, so backward refuses"
_UNSEEN = "{why}. The edit moves no version counter of `{v}`, so backward takes the new values for the old ones"
_OWN = "`clone()` makes a tensor with memory of its own: the edit changes nothing of `{v}`"


def _noticed(text: str, old: str, new: str, changed: str = _SHARED, counted: str = _COUNTER, **more: Any) -> Move:
    """An edit that moves the version counter."""
    told = ((changed, CHANGED), (counted, COUNTED), (_REFUSES, BACKWARD))
    return Move(text, *((old, new, *one) for one in told), **more)


def _unseen(text: str, old: str, copied: str, noticed: str, counted: str = _APART, **more: Any) -> Move:
    """An edit of shared memory that moves no version counter."""
    told = ((copied, _SHARED, CHANGED), (noticed, counted, COUNTED), (noticed, _UNSEEN, BACKWARD))
    return Move(text, *((old, *one) for one in told), **more)


_HERE_TOO = (_HERE, _MOVES)
_EDITS = [
    _noticed("{v}.{method}", "{v}.{method}", "pass", *_HERE_TOO, weight=2.5),
    _noticed("with torch.no_grad():\n    {v}.{method}", "{v}.{method}", "pass", *_HERE_TOO, weight=1.5),
    _noticed("{v}.detach().{method}", "detach()", "detach().clone()", weight=1.5),
    _unseen("{v}.data.{method}", "data", "clone()", "detach()", weight=3),
    Move("{v}{.detach()|}.clone().{method}", ("{.detach()|}.clone()", ".detach()", _OWN), weight=1.5),
    Move("{v}.{mul|add}({2..5})", ("{v}.{mul|add}", "{v}.detach().{mul|add}_", "Without the underscore a new tensor "
         "is made and dropped; `{v}` stays as it was"), weight=1.5),
]  # fmt: skip
_THROUGH = [
    _noticed("{w} = {v}.detach()\n{w}.{method}", "detach", "clone", level=2),
    _noticed("{w} = {v}{[1:]|[:2]|[0]}\n{w}.{method}", "{[1:]|[:2]|[0]}", "{[1:]|[:2]|[0]}.clone()", level=2),
    _noticed("{w} = {v}.{float()|cpu()}\n{w}.{method}", ".{float()|cpu()}", " * 1", "`{w}` and `{v}` are two names "
         "for one tensor: nothing is copied", _MOVES, level=2),
    _noticed("{w} = {v}.clone()\n{v}.{method}", "{v}.{method}", "{w}.{method}", *_HERE_TOO, level=2),
    _unseen("{w} = {v}.data\n{w}.{method}", "data", "clone()", "detach()", level=2, weight=3.5),
    Move("{w} = {v}{.detach()|}.clone()\n{w}.{method}", ("{.detach()|}.clone()", ".detach()", _OWN), level=2, weight=4),
    Move("{w} = {v}\n{w} = {w} {*|-} {2..5}", ("= {w} {*|-}", "{*|-}=", "This line makes a new tensor and gives it "
         "the name `{w}`; `{v}` stays as it was"), level=2, weight=2.5),
]  # fmt: skip
_UNDONE = "The second edit puts back exactly what the first one changed, and `.data` moves no version counter of `{v}`"
_PUT_BACK = "{w} = {v}.detach().clone()\nwith torch.no_grad():\n    {v}.{method}\n    {v}.copy_({w})"
_TAKEN = "{v}.{method}\n    {v}.copy_({w})", "pass\n    pass"
_UNCOUNTED = [
    _unseen("{w} = {v}.detach().numpy()\n{w} {*|+}= {2..5}", ".numpy()", ".clone().numpy()", "", "The array shares "
         "the memory of `{v}`, and NumPy knows of no version counter", level=3, weight=3),
    Move("{w} = {v}.data\n{w}.mul_({2|4})\n{w}.div_({2|4})", ("{w}.div_({2|4})", "pass", _UNDONE,
         f"{CHANGED}|backward"), ("data", "detach()", _APART, COUNTED), level=3, weight=2),
    Move(_PUT_BACK, ("{v}.copy_({w})", "pass", "`copy_` puts back the values from before the edit", CHANGED),
         (*_TAKEN, _MOVES, COUNTED), (*_TAKEN, "{why}. The values are those from before, but the version counter has "
         "moved, and backward looks at that alone", BACKWARD), level=3, weight=4),
]  # fmt: skip
_ELSEWHERE = [
    Move("{v}.data[2:].{method}", ("data", "clone()", _SHARED, CHANGED), ("data", "detach()", _APART, COUNTED),
         ("data[2:]", "data", "{why}. The edit changes other elements, and `.data` moves no version counter of `{v}`",
         BACKWARD), level=3),
    Move("{v}.detach()[2:].{method}", ("detach", "clone", _SHARED, CHANGED), ("detach()", "data", _COUNTER, COUNTED),
         ("detach()", "data", "{why}. The edit changes other elements, but `{v}` and its views have one version "
         "counter in common, so backward refuses", BACKWARD), level=3, weight=2),
]  # fmt: skip


def _names(draw: Draw, level: int) -> dict[str, object]:
    return {"v": "N90_", "w": "N91_", "y": "N92_", "size": 4 if level == 3 else 3 + draw.below(3)}


def _why(lines: Sequence[str], key: str) -> dict[str, str]:
    """What backward needs of the edited tensor, and which line says so."""
    for number, line in enumerate(lines, 1):
        if found := re.match(r"N90_ = \w+\.(exp|sqrt|tanh|sigmoid)\(\)$", line):
            return {"why": f"`{found[1]}` in line {number} needs its result `N90_` in backward"}
        if found := re.match(r"\w+ = (N90_\S*)\.(sin|cos|square)\(\)$", line):
            return {"why": f"`{found[2]}` in line {number} needs its input `{found[1]}` in backward"}
        if found := re.match(r"\w+ = N90_ \* (\w+)$", line):
            return {"why": f"`*` in line {number} needs `N90_` in backward, for the gradient of `{found[1]}`"}
    return {}


def _read(lines: Sequence[str]) -> dict[str, Answer]:
    """Looks at all tensors when the loss is computed and before backward."""
    names, loss = space(), next(at for at, line in enumerate(lines, 1) if line.startswith("loss = "))
    exec("\n".join(lines[:loss]), names)
    leaves = [value for value in tensors(names).values() if value.is_leaf and value.requires_grad]
    right = _numbers(torch.autograd.grad(names["loss"], leaves, retain_graph=True, allow_unused=True))
    before = {name: (value, value.detach().clone(), value._version) for name, value in tensors(names).items()}
    exec("\n".join(lines[loss:-1]), names)
    found: dict[str, Answer] = {}
    for name, (value, values, version) in before.items():
        found |= {f"{name} changed": not value.detach().equal(values), f"{name} counted": value._version > version}
    found["backward"] = ERROR
    with contextlib.suppress(RuntimeError):
        exec(lines[-1], names)
        found["backward"] = RIGHT if _numbers(leaf.grad for leaf in leaves) == right else WRONG
    return found


def _numbers(gradients: Iterable[torch.Tensor | None]) -> list[list[float] | None]:
    return [None if gradient is None else gradient.tolist() for gradient in gradients]


_SAYS = {ERROR: "raises an error", WRONG: "runs and gives a wrong gradient", RIGHT: "gives the right gradient"}
TOPIC = Topic(
    task="What does the last line do, and what has the edit before it changed?",
    lessons=("detach",),
    asks={
        " changed": Ask("does it hold other values than when the loss was computed?",
                        {True: "has other values than before", False: "keeps its values"}, subject="`{name}`"),
        " counted": Ask("has its `_version` grown since the loss was computed?",
                        {True: "moves", False: "stays where it was"}, subject="the version counter of `{name}`"),
        "backward": Ask("... (right: the gradient of the loss as it was computed)", _SAYS, subject="`loss.backward()`"),
    },
    moves={"head": _HEADS, "part": [Move(_RESULT + "{y} = {v}[:2].{keeps_input}()" + _END)], "edit": _EDITS,
           "through": _THROUGH, "uncounted": _UNCOUNTED, "elsewhere": _ELSEWHERE, "end": [Move("loss.backward()")]},
    plans={1: ["head edit end"], 2: ["head through end"], 3: ["head uncounted end"] * 2 + ["part elsewhere end"]},
    read=_read,
    texts={"fill": ("ones", "rand"), "keeps_result": ("exp", "sqrt", "tanh", "sigmoid"),
           "keeps_input": ("sin", "cos", "square"), "method": ("mul_(2)", "mul_(3)", "add_(1)", "add_(2)", "zero_()")},
    values=_names,
    facts=_why,
)  # fmt: skip
