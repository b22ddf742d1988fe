"""Drills on flags: which tensors require grad?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from course_utils.drills.moves import USUAL, Ask, Draw, Move, Topic
from course_utils.drills.run import execute, tensors

ASK = Ask("does it require grad?", {True: "requires grad", False: "does not require grad"})
NEW, PLAIN = "{new} = torch.{fill}({size}, requires_grad=True)", "{new} = torch.{fill}({size})"
ASKED = "The flag is asked for when the tensor is made, and nothing lowers it later"
ONE = "An operation is recorded as soon as one operand requires grad, and `{up}` does here"
NONE = "An operation is recorded only if an operand requires grad, and `{down}` does not"
OFF = "Nothing that is computed under `no_grad()` is recorded"
WRITES = "Writing `{up}` into `{blank}` in place is recorded: `{blank}` now hangs on the history of `{up}`"
# Texts with what each of them does, for drills on leaves and modes, too.
COMPUTED = ["{up}.{function}()", "{up} {*|/|+|-} {2..9}", "{up} {*|+|-} {down}", "{down} {*|+|-} {up}"]
UNRECORDED = ["{down}.{function}()", "{down} {*|+|-} {2..9}", "{down} {*|+|-} {2..9}"]
CUTS = {
    "{up}.detach()": "`detach()` gives a tensor outside the graph, on the values of `{up}`",
    "{up}.data": "`.data` gives a tensor outside the graph, on the values of `{up}`",
    "torch.tensor({up}.tolist())": "The values go through Python numbers, which carry no history; `torch.tensor` "
    "makes a new tensor of them",
    "torch.{ones|zeros}_like({up})": "Only shape and dtype are taken from `{up}`: the result is a new tensor",
    "({up} {<|>} {0|1}).float()": "A comparison gives truth values, which cannot require grad; what is made of them "
    "does not either",
    "{up}.{argmax|argmin}()": "A position is an integer and has no gradient, so the history of `{up}` ends here",
}
UNCUT = {cut: "{up}.sum()" if "arg" in cut else "{up}.clone()" for cut in CUTS}
PARAMETER = "`nn.Parameter(...)` takes the values alone: it makes a new leaf that requires grad"
_ANSWERS = (
    "A view answers for its base, also where nothing is recorded: `{up}` requires grad, and so the view says it does"
)
VIEW = Move("with torch.no_grad():\n    {new} = {up}[1:]", ("[1:]", "[1:].clone()", _ANSWERS, "", USUAL), level=3)
NO_GRAD = ("with torch.no_grad():", "if True:", OFF)
BLOCKS = [
    Move("with torch.no_grad():\n    {new} = {up} {*|+} {2..9}", NO_GRAD, level=3),
    Move("with torch.no_grad():\n    {new1} = {up}.{function}()\n    {new2} = {new1} + {up}", NO_GRAD, level=3),
    Move("with torch.no_grad():\n    with torch.enable_grad():\n        {new} = {up} {*|+} {2..9}",
         ( "with torch.enable_grad():", "if True:", "`enable_grad()` switches recording on again, also inside "
         "`no_grad()`"), level=3, weight=1.5),
    VIEW,
]  # fmt: skip
_ANY = [
    *(Move(f"{{new}} = {text}", ("{up}", "{up}.detach()", ONE, "", USUAL)) for text in COMPUTED),
    *(Move(f"{{new}} = {text}", ("{down}", "{down}.detach().requires_grad_()", NONE, "",
         USUAL)) for text in UNRECORDED),
    *(Move(f"{{new}} = {cut}", (cut, UNCUT[cut], words), level=1 if "detach" in cut else 2,
         weight=3 if "detach" in cut else 1) for cut, words in CUTS.items()),
    Move("{down}.requires_grad_()", ("", "pass", "`requires_grad_()` raises the flag of the tensor itself"), level=2),
    Move("{own}.requires_grad_(False)", ("", "pass", "`requires_grad_(False)` lowers the flag of a leaf, from this "
         "line on"), level=2),
    Move("{new} = {down} * {2..9}\n{down}.requires_grad_()", ("", "{down}.requires_grad_()\n{new} = {down} * {2..9}",
         "When this line ran, `{down}` did not require grad, so nothing was recorded. Raising the flag in the next "
         "line changes nothing that was computed before", "{new}"), level=2),
    Move("{blank}[0] = {up}[0]", ("", "pass", WRITES), level=2),
    Move("{blank}.{copy_|add_}({up})", ("", "pass", WRITES), level=2),
    Move("{new} = nn.Parameter({up}.{function}())", ("", "{new} = {up}.{function}().detach()", PARAMETER, "", USUAL),
         level=2),
    *BLOCKS,
    Move("layer = nn.Linear({size}, {1..3})\nlayer.requires_grad_(False)\n{new} = layer({down})",
         ( "layer.requires_grad_(False)", "pass", "`requires_grad_(False)` lowers the flag of every parameter of the "
         "layer, and the input passes none on"), level=3),
    Move("head = nn.Linear({size}, {1..3})\nhead.requires_grad = False\n{new} = head({down})",
         ( "requires_grad = False", "requires_grad_(False)", "`head.requires_grad = False` sets an attribute that "
         "nobody reads: the parameters still require grad"), level=3),
]  # fmt: skip
TEXTS = {"fill": ("ones", "zeros", "rand", "randn"), "function": ("exp", "sin", "cos", "tanh", "sigmoid")}


def size(draw: Draw, level: int) -> dict[str, object]:
    """How many elements the vectors of a program have."""
    return {"size": 3 + draw.below(3)}


def _is_vector(value: Any, flag: bool) -> bool:
    is_vector = isinstance(value, torch.Tensor) and value.is_floating_point() and value.dim() == 1 and len(value) > 1
    return is_vector and value.requires_grad == flag


KINDS = {
    "up": lambda value, uses: _is_vector(value, True),
    "down": lambda value, uses: _is_vector(value, False) and value._base is None,
    "own": lambda value, uses: _is_vector(value, True) and value.is_leaf and value._base is None,
    "blank": lambda value, uses: _is_vector(value, False) and value._base is None and uses == 1,
}


def _read(lines: Sequence[str]) -> dict[str, bool]:
    return {name: value.requires_grad for name, value in tensors(execute(lines)).items()}


TOPIC = Topic(
    task="Which tensors require grad when the last line has run?",
    lessons=("requires_grad",),
    asks={"": ASK},
    moves={
        "flagged": [Move(NEW, ("", PLAIN, ASKED, "", USUAL))],
        "plain": [Move(PLAIN, ("", NEW, "A new tensor does not require grad unless you ask for it", "", USUAL))],
        "any": _ANY,
    },
    plans={
        n: [f"{start}{' any' * (2 + 2 * min(n, 2))}" for start in ("flagged plain", "plain flagged")] for n in (1, 2, 3)
    },
    read=_read,
    kinds=KINDS,
    texts=TEXTS,
    values=size,
)
