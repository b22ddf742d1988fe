"""Drills on leaves: which tensors are leaves, and whose ``.grad`` does backward fill?"""

from __future__ import annotations

from collections.abc import Sequence

from course_utils.drills.flags import (
    BLOCKS,
    COMPUTED,
    CUTS,
    KINDS,
    NEW,
    NONE,
    ONE,
    PARAMETER,
    PLAIN,
    TEXTS,
    UNCUT,
    UNRECORDED,
    size,
)
from course_utils.drills.moves import USUAL, Ask, Move, Topic
from course_utils.drills.run import execute, tensors

LEAF, GRAD = "{new}", r"{new}\.grad"
_MADE = "A tensor that you create yourself has no history, whatever its flag"
_PASSED = "Backward passes through `{new}` and fills `.grad` of leaves alone; `{new}` is an operation's result"
_WHOLE = (
    "The name stands for the result of the whole line, whose last operation is recorded; the tensor that asked for the "
    "flag is the one before it"
)
_OWN = Move(NEW, ("", f"{NEW} * 1", _MADE, LEAF, USUAL), ("", PLAIN, "`{new}` is a leaf that requires grad since this "
            "line, and the loss is computed from it", GRAD, USUAL))  # fmt: skip
_START = [
    _OWN,
    Move(f"{NEW} {{*|/|+}} {{2..9}}", ("", NEW, _WHOLE, LEAF, USUAL), weight=2),
    Move(f"{NEW}.{{exp|sin|double|clone}}()", ("", NEW, _WHOLE, LEAF, USUAL)),
]
_PLAIN = Move(PLAIN, ("", f"{NEW} * 1", _MADE, LEAF, USUAL), ("", NEW, "The loss is computed from `{new}`, which does "
              "not require grad: backward has nothing to do there", GRAD, USUAL))  # fmt: skip
_ANY = [
    *(Move(f"{{new}} = {text}", ("{up}", "{up}.detach()", ONE, LEAF, USUAL), ("", f"{{new}} = "
         f"({text}).detach().requires_grad_()", _PASSED, GRAD, USUAL)) for text in COMPUTED),
    *(Move(f"{{new}} = {text}", ("{down}", "{down}.detach().requires_grad_()", NONE, LEAF,
         USUAL)) for text in UNRECORDED),
    *(Move(f"{{new}} = {cut}", (cut, UNCUT[cut], words, r"\w+"), (cut, UNCUT[cut], "This line cuts every way from the "
         "loss back to `{name}`", r".*\.grad"), weight=2 if "detach" in cut else 1) for cut, words in CUTS.items()),
    Move("{new} = {up}.double()", ("double", "float", "A conversion that has something to convert is an operation, "
         "and it is recorded", LEAF, USUAL)),
    Move("{new} = {own}.{same}", (".{same}", " * 1", "`{own}` has nothing to convert, so this returns the very object "
         "that `{own}` stands for", LEAF, USUAL)),
    Move("{own} = {own} {*|-} {2..9}", ("", "{own} = {own}.detach()", "`{own}` is now the name of an operation's "
         "result; the leaf of that name has none any more", "{own}")),
    Move("{new} = nn.Parameter({up}.{function}())", ("", "{new} = {up}.{function}()", PARAMETER, LEAF, USUAL)),
    *_START,
]  # fmt: skip
_NOT_IN_LOSS = "The loss is not computed from `{own}`, so no gradient comes there", r"{own}\.grad", USUAL
_LOSSES = [
    Move(f"loss = {text}.{{sum|mean}}()", ("", f"loss = {text}.{{sum|mean}}() + {{own}}.sum()", *_NOT_IN_LOSS), level=2)
    for text in ("{result}", "({result} * {up})")
]
_RETAIN = Move("{result}.retain_grad()", ("", "pass", "`retain_grad()` asks backward to keep the gradient of a tensor "
               "that is no leaf"), level=2)  # fmt: skip


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
    moves={"start": _START, "leaf": [_OWN], "plain": [_PLAIN], "any": _ANY, "block": BLOCKS, "retain": [_RETAIN],
           "loss": _LOSSES, "end": [Move("loss.backward()")]},
    plans={
        1: ["start plain any any any any", "plain start any any any"],
        2: ["leaf plain any any any any retain loss end", "plain leaf any any any any any loss end"],
        3: ["leaf plain any block any any loss end", "leaf start block any any any retain loss end"],
    },
    read=_read,
    kinds={**KINDS, "result": lambda value, uses: KINDS["up"](value, uses) and not value.is_leaf},
    texts={**TEXTS, "same": ("float()", "cpu()", 'to("cpu")')},
    values=size,
)  # fmt: skip
