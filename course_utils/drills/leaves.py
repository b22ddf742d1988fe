"""Drills on leaves: which tensors are leaves, and whose ``.grad`` does backward fill?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from course_utils.drills.engine import Ask, Effect, Move, Topic
from course_utils.drills.flags import BLOCKS, COMPUTED, CUTS, FLAGGED, KINDS, PARAMETER, PLAIN, TEXTS, UNRECORDED, size
from course_utils.drills.run import execute, tensors

LEAF, GRAD = "{new}", r"{new}\.grad"
_MADE = "A tensor that you create yourself has no history, whatever its flag"
_ENDS = "`{new}` is a leaf that requires grad since this line, and the loss is computed from it"
_PASSED = "Backward passes through `{new}` and fills `.grad` of leaves alone; `{new}` is an operation's result"
_WHOLE = (
    "The name stands for the result of the whole line, whose last operation is recorded; the tensor that asked for the "
    "flag is the one before it"
)
_START = [
    Move(FLAGGED.text, FLAGGED.text + " * 1", _MADE, LEAF, is_usual=True,
         more=[Effect(FLAGGED.without, _ENDS, GRAD, is_usual=True)]),
    Move(FLAGGED.text + " {*|/|+} {2..9}", FLAGGED.text, _WHOLE, LEAF, is_usual=True, weight=2),
    Move(FLAGGED.text + ".{exp|sin|double|clone}()", FLAGGED.text, _WHOLE, LEAF, is_usual=True),
]  # fmt: skip
_PLAIN = Move(PLAIN.text, PLAIN.without + " * 1", _MADE, LEAF, is_usual=True, more=[
    Effect(PLAIN.without, "The loss is computed from `{new}`, which does not require grad: backward has nothing to do "
           "there", GRAD, is_usual=True)])  # fmt: skip


def _result(move: Move) -> Move:
    """A recorded operation: no leaf, and its ``.grad`` stays empty."""
    name, _, result = move.text.partition(" = ")
    whole = f"({result})" if " " in result else result
    passed = Effect(f"{name} = {whole}.detach().requires_grad_()", _PASSED, GRAD, is_usual=True)
    return replace(move, about=LEAF, more=[passed])


def _cut(move: Move) -> Move:
    """What leaves the graph: a leaf, and no gradient comes back through it."""
    words = "This line cuts every way from the loss back to `{name}`"
    return replace(move, about=r"\w+", more=[Effect(move.without, words, r".*\.grad")])


_DOUBLE = Move("{new} = {up}.double()", "{new} = {up}.float()",
               "A conversion that has something to convert is an operation, and it is recorded", is_usual=True)  # fmt: skip
_SAME = Move("{new} = {own}.{same}", "{new} = {own} * 1",
             "`{own}` has nothing to convert, so this returns the very object that `{own}` stands for",
             is_usual=True)  # fmt: skip
_AGAIN = Move(
    "{own} = {own} {*|-} {2..9}",
    "{own} = {own}.detach()",
    "`{own}` is now the name of an operation's result; the leaf of that name has none any more",
    "{own}",
)
_ANY = [_result(move) for move in COMPUTED]
_ANY += [_cut(replace(move, level=1)) for move in CUTS]
_ANY += [replace(move, about=LEAF) for move in UNRECORDED]
_ANY += [_DOUBLE, _SAME, _AGAIN, *_START, replace(PARAMETER, about=LEAF, level=1)]
_END = [
    Move("loss = {result}.{sum|mean}()", "loss = {result}.{sum|mean}() + {own}.sum()",
         "The loss is not computed from `{own}`, so no gradient comes there", r"{own}\.grad", is_usual=True, level=2),
    Move("loss = ({result} * {up}).{sum|mean}()", "loss = ({result} * {up}).{sum|mean}() + {own}.sum()",
         "The loss is not computed from `{own}`, so no gradient comes there", r"{own}\.grad", is_usual=True, level=2),
]  # fmt: skip
_RETAIN = Move(
    "{result}.retain_grad()",
    "pass",
    "`retain_grad()` asks backward to keep the gradient of a tensor that is no leaf",
    level=2,
)


def _read(lines: Sequence[str]) -> dict[str, bool]:
    found = tensors(execute(lines))
    found.pop("loss", None)
    own = {id(value): name for name, value in reversed(found.items())}  # of two names for one tensor the first
    grads = {f"{name}.grad": found[name].grad is not None for name in reversed(own.values())}
    return {name: value.is_leaf for name, value in found.items()} | (grads if "backward" in lines[-1] else {})


TOPIC = Topic(
    task="Which tensors are leaves when the last line has run?",
    lessons=("leaf_tensors",),
    asks={
        ".grad": Ask("is it a tensor, and not None?", {True: "is a tensor", False: "is None"}),
        "": Ask("is it a leaf?", {True: "has no `grad_fn` and is a leaf", False: "has a `grad_fn` and is no leaf"}),
    },
    moves={
        "start": _START,
        "leaf": _START[:1],
        "plain": [_PLAIN],
        "any": _ANY,
        "block": BLOCKS,
        "retain": [_RETAIN],
        "loss": _END,
        "end": [Move("loss.backward()")],
    },
    plans={
        1: ["start plain any any any any", "plain start any any any"],
        2: ["leaf plain any any any any retain loss end", "plain leaf any any any any any loss end"],
        3: ["leaf plain any block any any loss end", "leaf start block any any any retain loss end"],
    },
    read=_read,
    kinds={**KINDS, "result": lambda value, uses: KINDS["up"](value, uses) and not value.is_leaf},
    texts={**TEXTS, "same": ("float()", "cpu()", 'to("cpu")')},
    values=size,
)
