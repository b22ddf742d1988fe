"""Drills on in-place edits: does backward notice, and is its gradient right?

Every edit comes after the loss, so that the right gradient is that of the loss as it was computed.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable, Sequence

import torch

from course_utils.drills.engine import Answer, Ask, Draw, Effect, Move, Topic
from course_utils.drills.run import space, tensors

OUTCOMES = ERROR, WRONG, RIGHT = "error", "wrong gradient", "right gradient"
CHANGED, COUNTED, BACKWARD = "{v} changed", "{v} counted", "backward"
# The edited tensor is {v}, {w} another name that has to do with it, and {y} what is computed from {v}.
_LEAF = "{new1} = torch.{fill}({size}, requires_grad=True)\n"
_RESULT = _LEAF + "{v} = {new1} {*|+} {2..9}\n"
_END = "loss = {y}.{sum|mean}()"
_HEADS = [
    Move(_LEAF + "{new2} = {new1} {*|+} {2..9}\n{v} = {new2}.{keeps_result}()\nloss = {v}.{sum|mean}()", weight=2.5),
    Move(_RESULT + "{y} = {v}.{keeps_input}()\n" + _END, weight=2.5),
    Move(_RESULT + "{new2} = torch.{fill}({size}, requires_grad=True)\n{y} = {v} * {new2}\n" + _END, weight=2),
]
_PART = [Move(_RESULT + "{y} = {v}[:2].{keeps_input}()\n" + _END)]


def _harmless(text: str, needed: str, words: str, level: int = 1) -> Move:
    """A loss whose backward does not need what is edited; ``needed``: one whose backward does."""
    return Move(text, needed, f"{words}, so the edit of `{{v}}` does no harm", BACKWARD, is_usual=True, level=level)


_HEADS += [
    _harmless(_RESULT + "{y} = {v} {+|-} {2..9}\n" + _END, _RESULT + "{y} = {v} ** 2\n" + _END,
              "`{+|-}` needs no values in backward"),
    _harmless(_RESULT + "{y} = {v}.{keeps_result}()\n" + _END, _RESULT + "{y} = {v} ** 2\n" + _END,
              "`{keeps_result}` needs its result `{y}` in backward, and not its input `{v}`"),
    _harmless(_LEAF + "{new2} = {new1} {*|+} {2..9}\n{v} = {new2}.{keeps_input}()\nloss = {v}.{sum|mean}()",
              _LEAF + "{new2} = {new1} {*|+} {2..9}\n{v} = {new2}.exp()\nloss = {v}.{sum|mean}()",
              "`{keeps_input}` needs its input `{new2}` in backward, and not its result `{v}`"),
    _harmless("{new2} = torch.{fill}({size})\n" + _RESULT + "{y} = {v} * {new2}\n" + _END,
              "{new2} = torch.{fill}({size})\n" + _RESULT + "{y} = {v} * {new2}.clone().requires_grad_()\n" + _END,
              "`*` would need `{v}` for the gradient of `{new2}` alone, and `{new2}` does not require grad", 2),
]  # fmt: skip

_SHARED = "Memory is shared with `{v}`, so an edit of one is an edit of the other"
_COUNTER = "The version counter is shared with `{v}` as the memory is, so the edit counts for both"
_APART = "`.data` shares the memory of `{v}` and has a version counter of its own"
_NUMPY = "The array shares the memory of `{v}`, and NumPy knows of no version counter"
_MOVES = "An edit in place moves the version counter of the tensor, under `no_grad()` too"
_REFUSES = "{why}. The edit comes after the loss and moves the version counter, so backward refuses"
_UNSEEN = "{why}. The edit moves no version counter of `{v}`, so backward takes the new values for the old ones"
_OWN = "`clone()` makes a tensor with memory of its own: the edit changes nothing of `{v}`"


def _edit(text: str, *effects: tuple[str, str, str], level: int = 1, weight: float = 1.0) -> Move:
    """An edit, with (the same without the effect, words, the key that is explained) for each of its effects."""
    return Move(text, level=level, weight=weight, more=[Effect(*one) for one in effects])


def _noticed(text: str, without: str, changed: str = _SHARED, counted: str = _COUNTER, **more: float) -> Move:
    """An edit that moves the version counter."""
    told = (without, changed, CHANGED), (without, counted, COUNTED), (without, _REFUSES, BACKWARD)
    return _edit(text, *told, **more)  # type: ignore[arg-type]


def _unnoticed(text: str, copied: str, noticed: str, counted: str = _APART, **more: float) -> Move:
    """An edit of shared memory that moves no version counter."""
    told = (copied, _SHARED, CHANGED), (noticed, counted, COUNTED), (noticed, _UNSEEN, BACKWARD)
    return _edit(text, *told, **more)  # type: ignore[arg-type]


_NO_GRAD, _HERE = "with torch.no_grad():\n    {v}.{method}", "This line edits `{v}` in place"
_COPY = "{w} = {v}{.detach()|}.clone()\n{w}.{method}"
_PUT_BACK = "{w} = {v}.detach().clone()\nwith torch.no_grad():\n    {v}.{method}\n    {v}.copy_({w})"
_TAKEN_BACK = _PUT_BACK.replace("{v}.{method}", "pass").replace("{v}.copy_({w})", "pass")
_UNDONE = "{w} = {v}.data\n{w}.mul_({2|4})\n{w}.div_({2|4})"
_EDITS = [
    _noticed("{v}.{method}", "pass", _HERE, _MOVES, weight=2.5),
    _noticed(_NO_GRAD, "with torch.no_grad():\n    pass", _HERE, _MOVES, weight=1.5),
    _noticed("{v}.detach().{method}", "{v}.detach().clone().{method}", weight=1.5),
    _unnoticed("{v}.data.{method}", "{v}.clone().{method}", "{v}.detach().{method}", weight=3),
    _edit("{v}{.detach()|}.clone().{method}", ("{v}.detach().{method}", _OWN, ""), weight=1.5),
    _edit("{v}.{mul|add}({2..5})", ("{v}.detach().{mul|add}_({2..5})", "Without the underscore a new tensor is made and "
          "dropped; `{v}` stays as it was", ""), weight=1.5),
]  # fmt: skip
_THROUGH = [
    _noticed("{w} = {v}.detach()\n{w}.{method}", "{w} = {v}.clone()\n{w}.{method}", level=2),
    _noticed("{w} = {v}{[1:]|[:2]|[0]}\n{w}.{method}", "{w} = {v}{[1:]|[:2]|[0]}.clone()\n{w}.{method}", level=2),
    _noticed("{w} = {v}.{float()|cpu()}\n{w}.{method}", "{w} = {v} * 1\n{w}.{method}",
             "`{w}` and `{v}` are two names for one tensor: nothing is copied", _MOVES, level=2),
    _unnoticed("{w} = {v}.data\n{w}.{method}", "{w} = {v}.clone()\n{w}.{method}", "{w} = {v}.detach()\n{w}.{method}",
               level=2, weight=3.5),
    _edit(_COPY, (_COPY.replace("{.detach()|}.clone()", ".detach()"), _OWN, ""), level=2, weight=4),
    _edit("{w} = {v}\n{w} = {w} {*|-} {2..5}", ("{w} = {v}\n{w} {*|-}= {2..5}", "This line makes a new tensor and gives it "
          "the name `{w}`; `{v}` stays as it was", ""), level=2, weight=2.5),
    _noticed("{w} = {v}.clone()\n{v}.{method}", "{w} = {v}.clone()\n{w}.{method}", _HERE, _MOVES, level=2),
]  # fmt: skip
_UNCOUNTED = [
    _unnoticed("{w} = {v}.detach().numpy()\n{w} {*|+}= {2..5}", "{w} = {v}.detach().clone().numpy()\n{w} {*|+}= {2..5}",
               "{w} = {v}.detach()\n{w} {*|+}= {2..5}", _NUMPY, level=3, weight=3),
    _edit(_UNDONE, (_UNDONE.replace("{w}.div_({2|4})", "pass"), "The second edit puts back exactly what the first one "
          "changed, and `.data` moves no version counter of `{v}`", f"{CHANGED}|backward"),
          (_UNDONE.replace(".data", ".detach()"), _APART, COUNTED), level=3, weight=2),
    _edit(_PUT_BACK, (_PUT_BACK.replace("{v}.copy_({w})", "pass"), "`copy_` puts back the values from before the edit",
          CHANGED), (_TAKEN_BACK, _MOVES, COUNTED), (_TAKEN_BACK, "{why}. The values are those from before, but the "
          "version counter has moved, and backward looks at that alone", BACKWARD), level=3, weight=4),
]  # fmt: skip
_OTHER_PART = [
    _edit("{v}.data[2:].{method}", ("{v}.clone()[2:].{method}", _SHARED, CHANGED), ("{v}.detach()[2:].{method}", _APART, COUNTED),
          ("{v}.data.{method}", "{why}. The edit changes other elements, and `.data` moves no version counter of `{v}`", BACKWARD),
          level=3),
    _edit("{v}.detach()[2:].{method}", ("{v}.clone()[2:].{method}", _SHARED, CHANGED), ("{v}.data[2:].{method}", _COUNTER, COUNTED),
          ("{v}.data[2:].{method}", "{why}. The edit changes other elements, but `{v}` and its views have one version counter "
           "in common, so backward refuses", BACKWARD), level=3, weight=2),
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


TOPIC = Topic(
    task="What does the last line do, and what has the edit before it changed?",
    lessons=("detach",),
    asks={
        " changed": Ask("does it hold other values than when the loss was computed?",
                        {True: "has other values than before", False: "keeps its values"}, subject="`{name}`"),
        " counted": Ask("has its `_version` grown since the loss was computed?",
                        {True: "moves", False: "stays where it was"}, subject="the version counter of `{name}`"),
        "backward": Ask("... (right: the gradient of the loss as it was computed)",
                        {ERROR: "raises an error", WRONG: "runs and gives a wrong gradient", RIGHT: "gives the right "
                         "gradient"}, subject="`loss.backward()`"),
    },
    moves={"head": _HEADS, "part": _PART, "edit": _EDITS, "through": _THROUGH, "uncounted": _UNCOUNTED,
           "elsewhere": _OTHER_PART, "end": [Move("loss.backward()")]},
    plans={1: ["head edit end"], 2: ["head through end"], 3: ["head uncounted end", "head uncounted end", "part elsewhere end"]},
    read=_read,
    texts={
        "fill": ("ones", "rand"),
        "keeps_result": ("exp", "sqrt", "tanh", "sigmoid"),
        "keeps_input": ("sin", "cos", "square"),
        "method": ("mul_(2)", "mul_(3)", "add_(1)", "add_(2)", "zero_()"),
    },
    values=_names,
    facts=_why,
)  # fmt: skip
