"""Drills on flags: which tensors require grad?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from course_utils.drills.engine import Ask, Draw, Move, Topic
from course_utils.drills.run import execute, tensors

ASK = Ask("does it require grad?", {True: "requires grad", False: "does not require grad"})
FLAGGED = Move("{new} = torch.{fill}({size}, requires_grad=True)", "{new} = torch.{fill}({size})",
               "The flag is asked for when the tensor is made, and nothing lowers it later", is_usual=True)  # fmt: skip
PLAIN = Move("{new} = torch.{fill}({size})", "{new} = torch.{fill}({size}, requires_grad=True)",
             "A new tensor does not require grad unless you ask for it", is_usual=True)  # fmt: skip
_ONE = "An operation is recorded as soon as one operand requires grad, and `{up}` does here"
_NONE = "An operation is recorded only if an operand requires grad, and `{down}` does not"
COMPUTED = [
    Move("{new} = {up}.{function}()", "{new} = {up}.detach().{function}()", _ONE, is_usual=True),
    Move("{new} = {up} {*|/|+|-} {2..9}", "{new} = {up}.detach() {*|/|+|-} {2..9}", _ONE, is_usual=True),
    Move("{new} = {up} {*|+|-} {down}", "{new} = {up}.detach() {*|+|-} {down}", _ONE, is_usual=True, weight=1.5),
    Move("{new} = {down} {*|+|-} {up}", "{new} = {down} {*|+|-} {up}.detach()", _ONE, is_usual=True),
]  # fmt: skip
UNRECORDED = [
    Move("{new} = {down}.{function}()", "{new} = {down}.detach().requires_grad_().{function}()", _NONE, is_usual=True),
    Move("{new} = {down} {*|+|-} {2..9}", "{new} = {down}.detach().requires_grad_() {*|+|-} {2..9}", _NONE,
         is_usual=True, weight=1.5),
]  # fmt: skip
CUTS = [
    Move("{new} = {up}.detach()", "{new} = {up}.clone()",
         "`detach()` gives a tensor outside the graph, on the values of `{up}`", weight=3),
    Move("{new} = {up}.data", "{new} = {up}.clone()",
         "`.data` gives a tensor outside the graph, on the values of `{up}`", level=2),
    Move("{new} = torch.tensor({up}.tolist())", "{new} = {up}.clone()", "The values go through Python numbers, which "
         "carry no history; `torch.tensor` makes a new tensor of them", level=2),
    Move("{new} = torch.{ones|zeros}_like({up})", "{new} = {up}.clone()",
         "Only shape and dtype are taken from `{up}`: the result is a new tensor", level=2),
    Move("{new} = ({up} {<|>} {0|1}).float()", "{new} = {up}.clone()", "A comparison gives truth values, which cannot "
         "require grad; what is made of them does not either", level=2),
    Move("{new} = {up}.{argmax|argmin}()", "{new} = {up}.sum()",
         "A position is an integer and has no gradient, so the history of `{up}` ends here", level=2),
]  # fmt: skip
_WRITES = "Writing `{up}` into `{blank}` in place is recorded: `{blank}` now hangs on the history of `{up}`"
WRITES = [
    Move("{blank}[0] = {up}[0]", "pass", _WRITES, level=2),
    Move("{blank}.{copy_|add_}({up})", "pass", _WRITES, level=2),
]
PARAMETER = Move("{new} = nn.Parameter({up}.{function}())", "{new} = {up}.{function}().detach()",
                 "`nn.Parameter(...)` takes the values alone: it makes a new leaf that requires grad",
                 is_usual=True, level=2)  # fmt: skip
_OFF = "Nothing that is computed under `no_grad()` is recorded"
VIEW = Move("with torch.no_grad():\n    {new} = {up}[1:]", "with torch.no_grad():\n    {new} = {up}[1:].clone()",
            "A view answers for its base, also where nothing is recorded: `{up}` requires grad, and so the view says it "
            "does, though it has no history", is_usual=True, level=3)  # fmt: skip
BLOCKS = [
    Move("with torch.no_grad():\n    {new} = {up} {*|+} {2..9}", "if True:\n    {new} = {up} {*|+} {2..9}",
         _OFF, level=3),
    Move("with torch.no_grad():\n    {new1} = {up}.{function}()\n    {new2} = {new1} + {up}",
         "if True:\n    {new1} = {up}.{function}()\n    {new2} = {new1} + {up}", _OFF, level=3),
    Move("with torch.no_grad():\n    with torch.enable_grad():\n        {new} = {up} {*|+} {2..9}",
         "with torch.no_grad():\n    if True:\n        {new} = {up} {*|+} {2..9}",
         "`enable_grad()` switches recording on again, also inside `no_grad()`", level=3, weight=1.5),
    VIEW,
]  # fmt: skip
LAYERS = [
    Move("layer = nn.Linear({size}, {1..3})\nlayer.requires_grad_(False)\n{new} = layer({down})",
         "layer = nn.Linear({size}, {1..3})\npass\n{new} = layer({down})", "`requires_grad_(False)` lowers the flag of "
         "every parameter of the layer, and the input passes none on", level=3),
    Move("layer = nn.Linear({size}, {1..3})\nlayer.requires_grad = False\n{new} = layer({down})",
         "layer = nn.Linear({size}, {1..3})\nlayer.requires_grad_(False)\n{new} = layer({down})",
         "`layer.requires_grad = False` sets an attribute that nobody reads: the parameters still require grad",
         level=3),
]  # fmt: skip
FLAGS = [
    Move("{down}.requires_grad_()", "pass", "`requires_grad_()` raises the flag of the tensor itself", level=2),
    Move("{own}.requires_grad_(False)", "pass", "`requires_grad_(False)` lowers the flag of a leaf, from this line on",
         level=2),
    Move("{new} = {down} * {2..9}\n{down}.requires_grad_()", "{down}.requires_grad_()\n{new} = {down} * {2..9}",
         "When this line ran, `{down}` did not require grad, so nothing was recorded. Raising the flag in the next line "
         "changes nothing that was computed before", "{new}", level=2),
]  # fmt: skip
TEXTS = {"fill": ("ones", "zeros", "rand", "randn"), "function": ("exp", "sin", "cos", "tanh", "sigmoid")}


def size(draw: Draw, level: int) -> dict[str, object]:
    """How many elements the vectors of a program have."""
    return {"size": 3 + draw.below(3)}


def _is_vector(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.is_floating_point() and value.dim() == 1 and len(value) > 1


KINDS = {
    "up": lambda value, uses: _is_vector(value) and value.requires_grad,
    "down": lambda value, uses: _is_vector(value) and not value.requires_grad and value._base is None,
    "own": lambda value, uses: _is_vector(value) and value.requires_grad and value.is_leaf and value._base is None,
    "blank": lambda value, uses: _is_vector(value) and not value.requires_grad and value._base is None and uses == 1,
}


def _read(lines: Sequence[str]) -> dict[str, bool]:
    return {name: value.requires_grad for name, value in tensors(execute(lines)).items()}


TOPIC = Topic(
    task="Which tensors require grad when the last line has run?",
    lessons=("requires_grad",),
    asks={"": ASK},
    moves={
        "flagged": [FLAGGED],
        "plain": [PLAIN],
        "any": [*COMPUTED, *UNRECORDED, *CUTS, *FLAGS, *WRITES, PARAMETER, *BLOCKS, *LAYERS],
    },
    plans={
        1: ["flagged plain" + " any" * 4, "plain flagged" + " any" * 4],
        2: ["flagged plain" + " any" * 6, "plain flagged" + " any" * 6],
        3: ["flagged plain" + " any" * 5, "plain flagged" + " any" * 6],
    },
    read=_read,
    kinds=KINDS,
    texts=TEXTS,
    values=size,
)
