"""Drills on flags: which tensors require grad? (``write``)"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from course_utils.drills.page import Asked
from course_utils.drills.programs import Draw, Program
from course_utils.drills.run import execute
from course_utils.drills.tensors import RULES, Tensors
from course_utils.drills.texts import grammar

TASK = "Which tensors require grad when the last line has run?"
LESSONS = ("requires_grad",)
MARKS = {
    2: r"(?m)^\w[.\[]|^\w \+=|Parameter|\.data$|tolist|_like|\.arg|\.(long|int)\(| [<>] \d$|= \w(\[|\.(view|uns|resh))",
    3: r"(?m)^    |layer",
}
_GRAMMAR = grammar(r"""
block:
    with torch.no_grad():
        <<inside>>
block:
    with torch.no_grad():
        <<inside?>>
        with torch.enable_grad():
            <<compute up>>
        <<inside>>
block:
    with torch.no_grad():
        <<inside>>
        with torch.enable_grad():
            <<compute up>>
inside x3: <<compute up>>
inside x1: <<view up>>
inside x1.5: <<write>>
inside x0.5: <<flagged>>
inside? x1: <<inside>>
inside? x2:
""")
# Lines that end in a tensor that requires grad, and in one that does not, by level. Level 1 has operations and `detach`
# alone; level 2 everything else that a straight line of code can do; level 3 blocks and layers.
_UP = {
    1: {"compute up": 8.0, "flagged": 1.0},
    2: {"compute up": 5, "write": 4, "view up": 2, "raise": 2.5, "parameter of": 1, "parameter": 0.5},
    3: {"compute up": 4, "write": 2, "view up": 1, "raise": 1.5, "layer": 1.5, "misspelt": 1.5, "flagged": 0.5},
}
_DOWN = {
    1: {"detach": 3.0, "compute down": 5.0, "plain": 1.0},
    2: {
        **{"cut": 4.0, "compute down": 3.0, "compute from positions": 2.0},
        **{"view down": 1.0, "lower": 1.0, "plain": 1.0, "frozen parameter": 0.5},
    },
    3: {"cut": 2, "compute down": 2, "compute from positions": 1, "block": 5, "frozen": 1.5, "lower": 1},
}
_LINES = {1: (5, 6), 2: (7, 8), 3: (9, 11)}


def write(draw: Draw, level: int) -> Program:
    """A program at the given level, and what is asked about it."""
    page = Tensors(draw, _GRAMMAR)
    for kind in draw.sample(("flagged", "plain"), 2):
        page.add(f"<<{kind}>>")
    page.grow(lambda: (_UP if draw.chance(0.5) else _DOWN)[level], draw.choice(_LINES[level]))
    says = {True: "requires grad", False: "does not require grad"}
    asked = [Asked(name, "does it require grad?", says) for name in page.tensors()]
    return page.finish(asked, RULES, _read, least=4)


def _read(lines: Sequence[str]) -> dict[str, bool]:
    return {name: value.requires_grad for name, value in execute(lines).items() if isinstance(value, torch.Tensor)}
