"""Drills on leaves: which tensors are leaves, and whose ``.grad`` does backward fill?"""

from collections.abc import Sequence

from course_utils.drills.flags import BLOCKS, COMPUTED, CUTS, KINDS, OWN, PLAIN, TEXTS
from course_utils.drills.moves import Ask, Move, Topic, execute, tensors

_LAST = "The name stands for the result of the line's last operation; the tensor that asked for the flag is before it"
_MADE = "You make `{new}` yourself, and ask for its flag"
_NONE = "You make `{new}` yourself: it has no history, whatever its flag"
_NOTHING = "`{new}` does not require grad, so backward has nothing to do there"
_RESULT = "`{up}` requires grad, so the operation is recorded: `{new}` is its result, and no leaf for backward to fill"
_SAME = "`{own}` has nothing to convert: this is the very object that `{own}` stands for"
_AGAIN = "`{own}` is now the name of an operation's result; the leaf of that name has none any more"
_PARAMETER = "`nn.Parameter(...)` takes the values alone: it makes a new leaf that requires grad"
_ELSEWHERE = "The loss is not computed from `{own}`, so no gradient comes there"
_OWN = [Move(OWN, f"-> {OWN} * 1", _MADE, usual=True)]
_START = [*_OWN, Move(f"{OWN}{{ * 2| / 3| + 4|.exp()|.double()|.clone()}}", f"-> {OWN}", _LAST, weight=3, usual=True)]
_PLAIN = [
    Move(PLAIN, f"-> {OWN} * 1", _NONE, usual=True),
    Move(PLAIN, f"-> {OWN}", _NOTHING, 2, usual=True),
]
_RESULTS = [
    Move(move.text, f"-> {move.text.replace('= ', '= (')}).detach().requires_grad_()", _RESULT, usual=True)
    for move in COMPUTED[:2]
]
_OTHERS = [
    Move("{new} = {own}.{float()|cpu()}", "{own}.{float()|cpu()} -> {own} * 1", _SAME, usual=True),
    Move("{own} = {own} {*|-} {2..9}", "-> {own} = {own}", _AGAIN),
    Move("{new} = nn.Parameter({up}.sin())", "-> {new} = {up}.sin()", _PARAMETER, usual=True),
]
_LOSSES = [
    Move(f"loss = {text}.{{sum|mean}}()", f"{text}. -> ({text} + {{own}}.sum()).", _ELSEWHERE, 2)
    for text in ("{result}", "({result} * {up})")
]
_RETAIN = Move("{result}.retain_grad()", "-> pass", "`retain_grad()` lets backward fill it, leaf or not", 2)


def _read(lines: Sequence[str]) -> dict[str, bool]:
    found = tensors(execute(lines))
    found.pop("loss", None)
    own = {id(value): name for name, value in reversed(found.items())}  # of two names for one tensor the first
    grads = {f"{name}.grad": found[name].grad is not None for name in reversed(own.values())}
    return {name: value.is_leaf for name, value in found.items()} | (grads if "backward" in lines[-1] else {})


TOPIC = Topic(
    task="Which tensors are leaves when the last line has run?",
    lessons=["leaf_tensors"],
    asks={
        ".grad": Ask("is it a tensor, and not None?", {True: "`{key}` is a tensor", False: "`{key}` is None"}),
        "": Ask("is it a leaf?", {True: "`{key}` is a leaf", False: "`{key}` has a `grad_fn` and is no leaf"}),
    },
    moves={"start": _START, "own": _OWN, "plain": _PLAIN, "block": BLOCKS, "retain": [_RETAIN], "loss": _LOSSES,
           "any": [*_RESULTS, *COMPUTED[2:], *CUTS, *_OTHERS, *_START], "end": [Move("loss.backward()")]},
    plans={
        1: ["start plain any any any any", "plain start any any any"],
        2: ["own plain any any any any retain loss end"],
        3: ["own plain any block any any loss end", "own start block any any any retain loss end"],
    },
    read=_read,
    kinds={**KINDS, "result": lambda value, uses: KINDS["up"](value, uses) and not value.is_leaf},
    texts=TEXTS,
)  # fmt: skip
