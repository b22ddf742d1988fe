"""Drills on flags: which tensors require grad? (``write``)"""

from __future__ import annotations

import re

from course_utils.drills import blocks, steps
from course_utils.drills.programs import Draw, Program, Question, named
from course_utils.drills.rules import explain_answer
from course_utils.drills.trace import Trace

# Steps that end in a tensor that requires grad, and in one that does not, by level. Level 1 has operations and `detach`
# alone; level 2 everything else that a straight line of code can do; level 3 blocks and layers.
_UP: dict[int, steps.Steps] = {
    1: {steps.compute_flagged: 8, steps.create_flagged: 1},
    2: {
        steps.compute_flagged: 5,
        blocks.write_flagged: 4,
        blocks.view_flagged: 2,
        blocks.raise_flag: 1,
        blocks.raise_used_flag: 1.5,
        steps.parameter_of: 1,
        steps.create_parameter: 0.5,
    },
    3: {
        steps.compute_flagged: 4,
        blocks.write_flagged: 2,
        blocks.view_flagged: 1,
        blocks.raise_used_flag: 1.5,
        blocks.layer_plain: 1.5,
        blocks.layer_misspelt: 1.5,
        blocks.layer_frozen_between: 1,
        steps.create_flagged: 0.5,
    },
}
_INSIDE_OFF: steps.Steps = {
    steps.compute_flagged: 3,
    blocks.view_flagged: 1,
    blocks.write_flagged: 1.5,
    steps.create_flagged: 0.5,
}
_INSIDE_ON: steps.Steps = {steps.compute_flagged: 1}
_DOWN: dict[int, steps.Steps] = {
    1: {steps.detach: 3, steps.compute_plain: 5, steps.create_plain: 1},
    2: {
        steps.cut: 4,
        steps.compute_plain: 3,
        steps.compute_from_positions: 2,
        blocks.view_plain: 1,
        blocks.lower_flag: 1,
        steps.create_plain: 1,
        steps.create_frozen_parameter: 0.5,
    },
    3: {
        steps.cut: 2,
        steps.compute_plain: 2,
        steps.compute_from_positions: 1,
        blocks.block(_INSIDE_OFF): 2,
        blocks.block(_INSIDE_OFF, _INSIDE_ON): 3,
        blocks.layer_frozen: 1,
        blocks.lower_flag: 1,
    },
}
# What a program must have that the level below has not.
_MARKS = {
    1: "",
    2: r"(?m)^\w[.\[]|^\w \+=|Parameter|\.data$|tolist|_like|\.arg|\.(long|int)\(| [<>] \d$|= \w(\[|\.(view|uns|resh))",
    3: r"(?m)^    |layer",
}
_LINES = {1: (5, 6), 2: (7, 8), 3: (9, 11)}
_MOST_KEYS = 6


def write(draw: Draw, level: int) -> Program:
    """A program at the given level, and what is asked about it."""
    while True:
        trace = Trace(draw)
        first = draw.chance(0.5)
        for flagged in (first, not first):
            steps.take(trace, {(steps.create_flagged if flagged else steps.create_plain): 1.0})
        goal = draw.choice(_LINES[level])
        while len(trace.lines) < goal:
            steps.take(trace, (_UP if draw.chance(0.5) else _DOWN)[level])
        if trace.fits and (program := _finish(trace)) is not None and re.search(_MARKS[level], program.code):
            return program


def _finish(trace: Trace) -> Program | None:
    names = trace.names()
    values = list(trace.values.values())
    picked = trace.draw.sample(range(len(values)), min(len(values), _MOST_KEYS))
    asked = [values[index] for index in sorted(picked)]
    if len(asked) < 4 or len({value.flag for value in asked}) < 2:
        return None
    questions = []
    for value in asked:
        then = f"`{value.name}` {'requires grad' if value.flag else 'does not require grad'}"
        why = value.why_flag
        text = named(explain_answer(why, then), names)
        questions.append(Question(named(value.name, names), value.flag, why.line, why.rule, text))
    return Program(tuple(named(line, names) for line in trace.lines), tuple(questions))
