"""Drills on what is recorded: which tensors require grad (``FLAGS``), which are leaves and whose ``.grad`` backward
fills (``LEAVES``), and where grad mode is on (``MODES``).
"""

from collections.abc import Sequence
from typing import Any

from course_utils.drills.moves import Ask, Move, Topic, execute, tensors

_OWN, _PLAIN = "{new} = torch.{fill}({SIZE}, requires_grad=True)", "{new} = torch.{fill}({SIZE})"
_ASKED = "The flag is asked for when the tensor is made, and nothing lowers it later"
_ONE = "An operation is recorded as soon as one operand requires grad, as `{up}` does: its result is no leaf"
_NONE = "An operation is recorded only if an operand requires grad, and `{down}` does not"
_VIEW = "A view answers for its base, even where nothing is recorded: `{up}` requires grad, and so does the view"
_LATE = "When this line ran, `{down}` did not require grad; raising its flag afterwards changes nothing"
_VALUES = "`nn.Parameter(...)` takes the values alone: it makes a new leaf that requires grad"
_WRITTEN = Move("{down}.{copy_|add_}({up})", "-> pass", "Writing `{up}` into `{down}` in place is recorded", 2, 2)
_OUTSIDE = "{up} -> {up}.detach()", "-> {new} = {up}.detach().requires_grad_()"
_SEEN = Move("with torch.no_grad():\n    {new} = {up}[1:]", "[1:] -> [1:].clone()", _VIEW, 3, usual=True)
_ANY = [
    Move("{new} = {up}{.exp()|.sin()|.tanh()| * 2| / 3| - 4}", _OUTSIDE, _ONE, weight=2, usual=True),
    Move("{new} = {up} {*|+|-} {down}", _OUTSIDE, _ONE, weight=2, usual=True),
    Move("{new} = {down}{.cos()| * 3| + 5| - 6}", "{down} -> {down}.detach().requires_grad_()", _NONE, 1, 3, True),
    Move("{new} = {up}.detach()", "detach -> clone", "`detach()` gives a tensor outside the graph", weight=3),
    Move("{new} = {up}.data", "data -> clone()", "`.data` gives a tensor outside the graph", 2),
    Move("{new} = torch.tensor({up}.tolist())", "-> {new} = {up}.clone()", "Python numbers carry no history", 2),
    Move("{new} = torch.{ones|zeros}_like({up})", "-> {new} = {up}.clone()", "Only shape and dtype are `{up}`'s", 2),
    Move("{new} = ({up} {<|>} {0|1}).float()", "-> {new} = {up}.clone()", "Truth values cannot require grad", 2),
    Move("with torch.no_grad():\n    {new1} = {up}.exp()\n    {new2} = {new1} {*|+} {up}",
         "with torch.no_grad(): -> if True:", "Nothing that is computed under `no_grad()` is recorded", 3, 1.5),
    Move("with torch.no_grad():\n    with torch.enable_grad():\n        {new} = {up} {*|+} {2..9}",
         "with torch.enable_grad(): -> if True:", "`enable_grad()` switches recording on, also inside `no_grad()`", 3),
    _SEEN,
    _WRITTEN,
    Move("{down}.requires_grad_()", "-> pass", "`requires_grad_()` raises the flag of the tensor itself", 2),
    Move("{own}.requires_grad_(False)", "-> pass", "`requires_grad_(False)` lowers the flag of a leaf", 2),
    Move("{new} = {down} * 2\n{down}.requires_grad_()", "-> {down}.requires_grad_()\n{new} = {down} * 2", _LATE, 2),
    Move("{new} = nn.Parameter({up}.sin())", ("nn.Parameter -> ", "-> {new} = {up}.data"), _VALUES, 2, usual=True),
]  # fmt: skip


def _is_vector(value: Any, flag: bool) -> bool:
    is_vector = bool(tensors({"": value})) and value.is_floating_point() and value.dim() == 1 and len(value) > 1
    return is_vector and value.requires_grad == flag


_KINDS = {
    "up": lambda value, uses: _is_vector(value, True),
    "down": lambda value, uses: _is_vector(value, False) and value._base is None,
    "own": lambda value, uses: _is_vector(value, True) and value.is_leaf and value._base is None,
    "result": lambda value, uses: _is_vector(value, True) and not value.is_leaf,
}
_TEXTS = {"SIZE": "345", "fill": ("ones", "zeros", "rand", "randn")}
FLAGS = Topic(
    task="Which tensors require grad when the last line has run?",
    lessons=["requires_grad"],
    asks={"": Ask("Does it require grad?", {True: "`{key}` requires grad", False: "`{key}` does not require grad"})},
    moves={"own": [Move(_OWN, f"-> {_PLAIN}", _ASKED, usual=True)],
           "plain": [Move(_PLAIN, f"-> {_OWN}", "A new tensor does not require grad unless asked to", usual=True)],
           "any": _ANY},
    plans={n: [f"own plain{' any' * lines}", f"plain own{' any' * lines}"] for n, lines in ((1, 4), (2, 6), (3, 6))},
    read=lambda lines: {name: value.requires_grad for name, value in tensors(execute(lines)).items()},
    kinds=_KINDS,
    texts=_TEXTS,
)  # fmt: skip

_LAST = "The name stands for what the line's last operation gives; the tensor that asked for the flag has no name"
_NO_HISTORY = "You make `{new}` yourself, without the flag: it has no history, and gets no gradient"
_SAME = "`{own}` has nothing to convert: this is the very object that `{own}` stands for"
_AGAIN = "`{own}` is now the name of an operation's result; the leaf that had this name has lost it"
_ELSEWHERE = "The loss is not computed from `{own}`, so no gradient comes there"


def _leaves(lines: Sequence[str]) -> dict[str, bool]:
    found = tensors(execute(lines))
    found.pop("loss", None)
    own = {id(value): name for name, value in reversed(found.items())}  # of two names for one tensor the first
    grads = {f"{name}.grad": found[name].grad is not None for name in reversed(own.values())}
    return {name: value.is_leaf for name, value in found.items()} | (grads if "backward" in lines[-1] else {})


LEAVES = Topic(
    task="Which tensors are leaves when the last line has run?",
    lessons=["leaf_tensors"],
    asks={".grad": Ask("Is it a tensor, and not None?", {True: "`{key}` is a tensor", False: "`{key}` is None"}),
          "": Ask("Is it a leaf?", {True: "`{key}` is a leaf", False: "`{key}` has a `grad_fn` and is no leaf"})},
    moves={
        "own": [Move(_OWN, f"-> {_OWN} * 1", "You make `{new}` yourself, and ask for its flag", usual=True)],
        "plain": [Move(_PLAIN, (f"-> {_OWN} * 1", f"-> {_OWN}"), _NO_HISTORY, usual=True)],
        "any": [*_ANY, Move(f"{_OWN}{{ * 2| / 3| + 4|.exp()|.double()|.clone()}}", f"-> {_OWN}", _LAST, 1, 3, True),
                Move("{new} = {own}.{float()|cpu()}", "{own}.{float()|cpu()} -> {own} * 1", _SAME, usual=True),
                Move("{own} = {own} {*|-} {2..9}", "-> {own} = {own}", _AGAIN)],
        "retain": [Move("{result}.retain_grad()", "-> pass", "`retain_grad()` lets backward fill it, leaf or not", 2)],
        "loss": [Move(f"loss = {text}.sum()", f"{text}. -> ({text} + {{own}}.sum()).", _ELSEWHERE, 2)
                 for text in ("{result}", "({result} * {up})")],
        "end": [Move("loss.backward()")],
    },
    plans={1: ["own plain any any any any", "plain own any any any any"],
           **dict.fromkeys((2, 3), ("own plain any any any any retain loss end",))},
    read=_leaves,
    kinds=_KINDS,
    texts=_TEXTS,
)  # fmt: skip

_LOOK, _OFF = "{new} = torch.is_grad_enabled()", "torch.set_grad_enabled(False)"
_BLOCK = ("with torch.{off}: -> if True:", f"with torch.{{off}}: -> {_OFF}\nif True:")
_UNTIL = "`{off}` switches grad mode off until its block ends, and no longer"
_STAYS = "As a statement `set_grad_enabled` holds from its line on, to the end of the block that it stands in"
_CALLED = "What counts is the mode when `{g}` is called, not the mode when it was written"
_NOBODY = "`torch.no_grad()` alone on a line makes a context manager that nobody enters: nothing is switched off"
_EVAL = "`eval()` changes what dropout and batch norm do, and nothing about recording"
_DECORATED = "@torch.{no_grad|inference_mode}()"
_MODES = [
    Move("with torch.{off}:\n    {look1}\n{look2}", _BLOCK, _UNTIL, weight=3),
    Move(f"torch.no_grad()\n{_LOOK}", f"torch.no_grad() -> {_OFF}", _NOBODY, weight=2),
    Move("torch.set_grad_enabled({False|True})\n{look}", "torch.set_grad_enabled({False|True}) -> pass", _STAYS, 1, 3),
    Move(f"{_DECORATED}\ndef {{f}}(value):\n    return value * {{2..9}}\n{{new1}} = {{f}}({{up}})\n{{new2}} = "
         "torch.is_grad_enabled()", (f"{_DECORATED} -> pass", f"{_DECORATED} -> {_OFF}"), "The decorator switches grad "
         "mode off while `{f}` runs, and only then", 2, 2),
    Move("with torch.{off}:\n    {g} = lambda value: value {*|+} {2..9}\n{new} = {g}({up})",
         "{new} -> with torch.no_grad(): {new}", _CALLED, 2, 2),
    Move("{g} = lambda value: value {*|+} {2..9}\nwith torch.{off}:\n    {new} = {g}({up})", _BLOCK[0], _CALLED, 2),
    Move("layer = nn.Linear({SIZE}, 2).eval()\n{new} = layer({down})", "eval() -> requires_grad_(False)", _EVAL, 2),
    _WRITTEN,
    _SEEN,
    Move("with torch.{no}:\n    {look1}\n    with torch.{on}:\n        {look2}\n    {look3}", ("with torch.{no}: -> if "
         "True:", "with torch.{on}: -> if True:"), "The innermost block around a line decides its mode, and behind it "
         "that of the block around holds again", 3, 2),
    Move("with torch.inference_mode():\n    with torch.{on}:\n        {new} = {up} * {2..9}", "with "
         "torch.inference_mode(): -> if True:", "Inference mode records nothing, whatever grad mode says", 3),
]  # fmt: skip


def _modes(lines: Sequence[str]) -> dict[str, bool]:
    names = execute(lines)
    flags = {f"{name}.requires_grad": value.requires_grad for name, value in tensors(names).items()}
    return flags | {name: value for name, value in names.items() if isinstance(value, bool)}


MODES = Topic(
    task="What is each of these when all has run?",
    lessons=["volatile_history", "no_grad"],
    asks={"": Ask("What is its value?", {True: "`{key}` is True", False: "`{key}` is False"})},
    moves={"own": [Move(_OWN)], "plain": [Move(_PLAIN)], "any": _MODES},
    plans={1: ["own any any any", "own any any"], 2: ["own plain any any any"], 3: ["own plain any any any"]},
    read=_modes,
    kinds=_KINDS,
    texts={**_TEXTS, "look": (_LOOK, "{new} = {up} * {2..9}", "{new} = {up}.{exp|sin|cos|tanh}()"),
           "off": ("no_grad()", "no_grad()", "inference_mode()", _OFF[6:]), "no": ("no_grad()", _OFF[6:]),
           "on": ("enable_grad()", "set_grad_enabled(True)"), "f": ("scale", "shift"), "g": ("double", "step")},
)  # fmt: skip
