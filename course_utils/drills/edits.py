"""Drills on in-place edits: does backward notice, and is its gradient right? (``write``)

Every edit that is not recorded comes after the loss, so that the right gradient is that of the loss as it was computed.
"""

from __future__ import annotations

from course_utils.drills.edit_page import EditPage
from course_utils.drills.edit_ways import WAYS
from course_utils.drills.programs import ERROR, RIGHT, WRONG, Draw, Program, Question, named
from course_utils.drills.rules import explain_answer

OUTCOMES = (ERROR, WRONG, RIGHT)

# Ways to edit, by level, with their weights. Level 1: the tensor itself. Level 2: through another name for it, or for a
# part of it. Level 3: two edits, an optimizer's, and those that nobody counts.
_ROUTES: dict[int, dict[str, float]] = {
    1: {"plain": 4, "no_grad": 2, "data": 4, "copy": 3, "not in place": 3, "before": 1},
    2: {"view": 2, "detach": 1.5, "data": 3.5, "copy": 4, "base": 2, "same": 2, "rebound": 2.5},
    3: {
        "nested view": 2,
        "numpy": 2.5,
        "elsewhere": 1.5,
        "elsewhere, counted": 1,
        "undone": 2.5,
        "put back": 2,
        "replaced": 3,
        "step": 2.5,
        "copy": 2,
    },
}


def write(draw: Draw, level: int) -> Program:
    """A program at the given level, and what is asked about it."""
    while True:
        page = EditPage(draw, level)
        route = draw.weighted(_ROUTES[level])
        page.forward(route)
        WAYS[route](page)
        page.write("loss.backward()")
        if page.fits:
            return _finish(page)


_THEN = {
    ERROR: "`loss.backward()` raises an error",
    WRONG: "`loss.backward()` runs and gives a wrong gradient",
    RIGHT: "`loss.backward()` gives the right gradient",
}


def _finish(page: EditPage) -> Program:
    names, questions = page.names(), []
    for key, value, why in page.answers:
        name, _, what = key.partition(" ")
        if key == "backward":
            then = _THEN[str(value)]
        elif what == "changed":
            then = f"`{name}` {'has other values than before' if value else 'keeps its values'}"
        else:
            then = f"the version counter of `{name}` {'moves' if value else 'stays where it was'}"
        choices = OUTCOMES if key == "backward" else ()
        text = named(explain_answer(why, then), names)
        questions.append(Question(named(key, names), value, why.line, why.rule, text, choices))
    return Program(
        tuple(named(line, names) for line in page.lines),
        tuple(questions),
        edited=page.edited,
        loss=page.loss,
    )
