"""Drills on flags: which tensors require grad? (``write``)"""

from __future__ import annotations

from course_utils.drills import moves
from course_utils.drills.moves import Moves, Tensors
from course_utils.drills.programs import Draw, Program, reader

TASK = "Which tensors require grad when the last line has run?"
LESSONS = ("requires_grad",)
MARKS = {
    2: r"(?m)^\w[.\[]|^\w \+=|Parameter|\.data$|tolist|_like|\.arg|\.(long|int)\(| [<>] \d$|= \w(\[|\.(view|uns|resh))",
    3: r"(?m)^    |layer",
}
# Moves that end in a tensor that requires grad, and in one that does not, by level. Level 1 has operations and `detach`
# alone; level 2 everything else that a straight line of code can do; level 3 blocks and layers.
_UP: dict[int, Moves] = {
    1: {moves.compute_flagged: 8, moves.create_flagged: 1},
    2: {
        moves.compute_flagged: 5,
        moves.write_into: 4,
        moves.view_flagged: 2,
        moves.raise_flag: 2.5,
        moves.parameter_of: 1,
        moves.create_parameter: 0.5,
    },
    3: {
        moves.compute_flagged: 4,
        moves.write_into: 2,
        moves.view_flagged: 1,
        moves.raise_flag: 1.5,
        moves.layer(False): 1.5,
        moves.layer(False, "layer.requires_grad = False"): 1.5,
        moves.layer(True, "layer.requires_grad_(False)"): 1,
        moves.create_flagged: 0.5,
    },
}
_INSIDE_OFF: Moves = {
    moves.compute_flagged: 3,
    moves.view_flagged: 1,
    moves.write_into: 1.5,
    moves.create_flagged: 0.5,
}
_INSIDE_ON: Moves = {moves.compute_flagged: 1}
_DOWN: dict[int, Moves] = {
    1: {moves.detach: 3, moves.compute_plain: 5, moves.create_plain: 1},
    2: {
        moves.cut: 4,
        moves.compute_plain: 3,
        moves.compute_from_positions: 2,
        moves.view_plain: 1,
        moves.lower_flag: 1,
        moves.create_plain: 1,
        moves.create_frozen_parameter: 0.5,
    },
    3: {
        moves.cut: 2,
        moves.compute_plain: 2,
        moves.compute_from_positions: 1,
        moves.block(_INSIDE_OFF): 2,
        moves.block(_INSIDE_OFF, _INSIDE_ON): 3,
        moves.layer(False, "layer.requires_grad_(False)"): 1,
        moves.lower_flag: 1,
    },
}
_LINES = {1: (5, 6), 2: (7, 8), 3: (9, 11)}


def write(draw: Draw, level: int) -> Program:
    """A program at the given level, and what is asked about it."""
    page = Tensors(draw)
    first = draw.chance(0.5)
    for flagged in (first, not first):
        (page.flagged if flagged else page.plain)()
    goal = draw.choice(_LINES[level])
    while len(page.lines) < goal:
        page.take((_UP if draw.chance(0.5) else _DOWN)[level])
    for name in page.tensors():
        page.ask(
            name,
            "does it require grad?",
            lambda yes, name=name: f"`{name}` {'requires' if yes else 'does not require'} grad",
        )
    return page.finish(reader(lambda name, value: {name: value.requires_grad}), least=4)
