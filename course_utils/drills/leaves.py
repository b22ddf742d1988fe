"""Drills on leaves: which tensors are leaves, and whose ``.grad`` does backward fill? (``write``)"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch

from course_utils.drills import moves
from course_utils.drills.moves import Moves, Tensors
from course_utils.drills.programs import CAUSE, MAKER, TOKEN, Draw, Program, Refused
from course_utils.drills.run import execute, space

TASK = "Which tensors are leaves when the last line has run?"
LESSONS = ("leaf_tensors",)
MARKS = {2: r"backward\(\)", 3: r"(?m)^    "}  # level 2 has a backward pass, level 3 a block besides
_START: Moves = {moves.create_flagged: 2.0, moves.create_computed: 3.0, moves.create_parameter: 0.5}
_INSIDE: Moves = {moves.compute_flagged: 3, moves.view_flagged: 1}
# Moves that end in a leaf, and in a tensor that is none, by level.
_LEAF: dict[int, Moves] = {
    1: {
        moves.cut: 4,
        moves.compute_plain: 3,
        moves.parameter_of_leaf: 1.5,
        moves.convert_nothing: 1.5,
        moves.create_flagged: 1,
        moves.create_parameter: 0.5,
    },
    2: {
        moves.cut: 3,
        moves.compute_plain: 2,
        moves.view_plain: 1.5,
        moves.detach_in_place: 1.5,
        moves.parameter_of_leaf: 1.5,
        moves.convert_nothing: 1.5,
        moves.create_flagged: 0.5,
    },
    3: {
        moves.cut: 2,
        moves.compute_plain: 1,
        moves.view_plain: 0.5,
        moves.detach_in_place: 1.5,
        moves.parameter_of_leaf: 1,
        moves.convert_nothing: 1,
        moves.block(_INSIDE): 2,
        moves.block(_INSIDE, {moves.compute_flagged: 1}): 2,
    },
}
_RESULT: dict[int, Moves] = {
    1: {moves.compute_flagged: 4, moves.create_computed: 2.5, moves.convert: 1.5, moves.compute_again: 1},
    2: {
        moves.compute_flagged: 4,
        moves.create_computed: 1,
        moves.convert: 1,
        moves.compute_again: 1.5,
        moves.view_flagged: 1.5,
        moves.write_into: 2,
    },
    3: {
        moves.compute_flagged: 4,
        moves.create_computed: 1,
        moves.convert: 0.5,
        moves.compute_again: 1.5,
        moves.view_flagged: 1,
        moves.write_into: 2,
    },
}
_LINES = {1: (5, 6), 2: (6, 7), 3: (7, 8)}
_MOST_NAMES = {1: 6, 2: 3, 3: 3}
_CREATED = "A tensor that you create yourself has no history, whatever its flag"
_IS = {True: "no `grad_fn` and is a", False: "a `grad_fn` and is no"}


def write(draw: Draw, level: int) -> Program:
    """A program at the given level, and what is asked about it."""
    page = Tensors(draw)
    first = draw.chance(0.6)
    for flagged in (first, not first):
        page.take(_START if flagged else {moves.create_plain: 1.0})
    goal = draw.choice(_LINES[level])
    while len(page.lines) < goal:
        page.take((_LEAF if draw.chance(0.5) else _RESULT)[level])
    names, own = list(page.tensors()), page.floats()
    if level > 1:
        _backward(page, level)
    _name_leaves(page)
    worth = [name for name in names if name not in page.created or draw.chance(0.6)]
    for name in sorted(draw.sample(worth, min(len(worth), _MOST_NAMES[level])), key=names.index):
        page.ask(name, "is it a leaf?", lambda yes, name=name: f"`{name}` has {_IS[yes]} leaf")
    for name in own if level > 1 else ():
        is_there = {True: "a tensor", False: "None"}
        page.ask(
            f"{name}.grad", "is it a tensor, and not None?", lambda yes, name=name: f"`{name}.grad` is {is_there[yes]}"
        )
    program = page.finish(_read, least=4, most=6 if level == 1 else 3)
    asked = {question.answer for question in program.questions if question.key.endswith(".grad")}
    if level > 1 and len(asked) < 2:
        raise Refused("one answer to all gradients")
    return program


def _backward(page: Tensors, level: int) -> None:
    """Adds a loss and its backward, and what decides which gradients are there then."""
    draw, names = page.draw, page.floats(True)
    results = [name for name in names if not page.space[name].is_leaf]
    if not results:
        raise Refused("there is nothing to go backward through")
    ends = [results[-1]] if draw.chance(0.5) else draw.sample(names, min(2, len(names)))
    cuts = [effect for effect in page.effects if effect.rank == CAUSE and not effect.about]
    cut = {page.lines[effect.line - 1].strip().partition(" = ")[0] for effect in cuts}
    behind = [name for name in results if cut & _sources(page, name)]
    if behind and draw.chance(0.7):
        ends = [draw.choice(behind)]
    if draw.chance(0.6):
        x = draw.choice(results[-3:])
        page.effect(
            page.write(f"{x}.retain_grad()"),
            "`retain_grad()` asks backward to keep the gradient of a tensor that is no leaf",
        )
    terms = [x if not page.space[x].shape else f"{x}.{draw.choice(('sum', 'mean'))}()" for x in ends]
    loss = page.write(f"loss = {' + '.join(terms)}")
    for name in page.floats():
        _explain(page, name, loss)
        is_cut = f"This line cuts every way from the loss back to `{name}`"
        about = {"about": f"{name}.grad", "rule": is_cut, "answers": (False,), "worth": 6.0}
        page.effects += [replace(cut, **about) for cut in cuts]
    if level == 3 and draw.chance(0.4):
        moves.lower_flag(page)
        page.effects[-1] = replace(page.effects[-1], worth=6.0)
    page.write("loss.backward()")


def _sources(page: Tensors, name: str) -> set[str]:
    """The names of all that a tensor is computed from."""
    found = {name}
    for line in reversed(page.lines):
        made, _, text = line.strip().partition(" = ")
        if made in found:
            found.update(match[0] for match in TOKEN.finditer(text))
    return found - {name}


def _explain(page: Tensors, name: str, loss: int) -> None:
    """What the lines that make a tensor, and the loss, have to do with its gradient."""
    makes = [line for line, text in enumerate(page.lines, 1) if text.strip().startswith(f"{name} = ")][-1]
    value, more = page.space[name], {"about": f"{name}.grad", "rank": MAKER}
    flags = [effect.changes for effect in page.effects if (effect.about, effect.rank) == (name, MAKER)]
    if value.requires_grad and not value.is_leaf:
        rule = f"Backward passes through `{name}` and fills `.grad` of leaves alone; `{name}` is an operation's result"
        leaf = f"{name} = {name}.detach().requires_grad_()"
        page.effect(
            makes, rule, {makes: f"{page.lines[makes - 1].strip()}\n{leaf}"}, instead=f"With `{leaf}` after it", **more
        )
    elif flags and value.requires_grad:
        rule = f"`{name}` is a leaf that requires grad since this line, and the loss is computed from it"
        page.effect(makes, rule, flags[0], worth=2.0, **more)
        rule = f"The loss is not computed from `{name}`, so no gradient comes there"
        page.effect(loss, rule, f"{page.lines[loss - 1]} + {name}.sum()", worth=1.5, **more)
    elif flags and name in page.created:
        rule = f"The loss is computed from `{name}`, which does not require grad: backward has nothing to do there"
        page.effect(makes, rule, flags[0], worth=2.0, **more)


def _name_leaves(page: Tensors) -> None:
    """That what you create is a leaf comes from how it is made, and not from the flag that it asks for or not."""
    for at, effect in enumerate(page.effects):
        if effect.rank == MAKER and effect.about in page.created and page.space[effect.about].is_leaf:
            flagged = [page.lines[effect.line - 1].strip(), *effect.changes.values()]
            text = next(text for text in flagged if "requires_grad" in text or "Parameter" in text)
            page.effects[at] = replace(effect, rule=_CREATED, changes={effect.line: f"{text} * 1"})


def _read(lines: Sequence[str]) -> dict[str, bool]:
    names = space()
    try:
        execute(lines, names)
    except RuntimeError:  # without a line that requires grad there is nothing to go backward through
        if "loss" not in names:
            raise
    found = {}
    for name, value in names.items():
        if isinstance(value, torch.Tensor):
            found |= {name: value.is_leaf, f"{name}.grad": value.grad is not None}
    return found
