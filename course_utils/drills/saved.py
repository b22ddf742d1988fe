"""Drills on what backward needs: does it notice an edit in place, and is its gradient right (``EDITS``); whose bytes
does a graph hold (``FUNCTIONS``)?
"""

from collections.abc import Sequence

import torch
from torch.multiprocessing.reductions import StorageWeakRef

from course_utils.drills.moves import Answer, Ask, Move, Topic, execute, tensors
from course_utils.memory.loops import collector_off

ERROR, WRONG, RIGHT = "error", "wrong gradient", "right gradient"
# {V} is edited; it is made of {A}, and {Y} is made of it; {W} is another name that has to do with it.
_A, _B = (f"{{{name}}} = torch.{{ones|rand}}({{SIZE}}, requires_grad=True)\n" for name in "AB")
_RESULT = _A + "{B} = {A} {*|+} {2..4}\n{V} = {B}.%s()\nloss = {V}.{sum|mean}()"
_INPUT = _A + "{V} = {A} {*|+} {2..4}\n{Y} = %s\nloss = {Y}.{sum|mean}()"
_HEADS = [
    Move(_RESULT % "{keeps}", weight=2.5),
    Move(_INPUT % "{V}.{saves}()", weight=2.5),
    Move(_B + _INPUT % "{V} * {B}", weight=2),
    Move(_INPUT % "{V} {+|-} {2..9}", "{V} {+|-} {2..9} -> {V} ** 2", "`{+|-}` needs no values in backward"),
    Move(_INPUT % "{V}.{keeps}()", "{keeps} -> square", "`{keeps}` needs its result `{Y}`, and not its input `{V}`"),
    Move(_RESULT % "{saves}", "{saves} -> exp", "`{saves}` needs its input `{B}`, and not its result `{V}`"),
]
_PLAIN = "An edit in place changes the values and moves the version counter, even under `no_grad()`"
_SHARES = "`{V}` and what is edited share memory and version counter, so an edit of one is an edit of the other"
_APART = "`.data` shares the memory of `{V}` and has a version counter of its own"
_OWN = "`clone()` makes a tensor with memory of its own: the edit changes nothing of `{V}`"
_DROPPED = "Without the underscore a new tensor is made and dropped; `{V}` stays as it was"
_ARRAY = "The array shares the memory of `{V}`, and NumPy knows of no version counter"
_BACK = "`copy_` puts back the values, but no version counter goes back, and backward looks at that alone"
_DATA, _CLONE = ("data -> clone()", "data -> detach()"), "{.detach()|}.clone() -> .detach()"
_SAVED = "{W} = {V}.detach().clone()\nwith torch.no_grad():\n    {V}.{method}\n    {V}.copy_({W})"
_EDITS = [
    Move("{V}.{method}", "-> pass", _PLAIN, weight=2.5),
    Move("with torch.no_grad():\n    {V}.{method}", "{V}.{method} -> pass", _PLAIN, weight=2),
    Move("{V}.detach().{method}", "detach() -> detach().clone()", _SHARES, weight=2),
    Move("{V}.data.{method}", _DATA, _APART, weight=4),
    Move("{V}{.detach()|}.clone().{method}", _CLONE, _OWN, weight=4),
    Move("{V}.{mul|add}(2)", "{V}.{mul|add} -> {V}.detach().{mul|add}_", _DROPPED, weight=3.5),
    Move("{W} = {V}{[1:]|[0]|.detach()}\n{W}.{method}", "{V}{[1:]|[0]|.detach()} -> {V}.clone()", _SHARES, 2, 6),
    Move("{W} = {V}.clone()\n{V}.{method}", "{V}.{method} -> {W}.{method}", _PLAIN, 2, 2),
    Move("{W} = {V}.data\n{W}.{method}", _DATA, _APART, 2, 6),
    Move("{W} = {V}\n{W} = {W} {*|-} {2..5}", "= {W} {*|-} -> {*|-}=", "This line gives `{W}` to a new tensor", 2, 8),
    Move("{W} = {V}.detach().numpy()\n{W} {*|+}= 3", (".numpy() -> .clone().numpy()", ".numpy() -> "), _ARRAY, 3, 3),
    Move(_SAVED, ("{V}.copy_({W}) -> pass", "{V}.{method}\n    {V}.copy_({W}) -> pass"), _BACK, 3, 2.5),
]


def _edits(lines: Sequence[str]) -> dict[str, Answer]:
    """Holds what is there after the edit against what was there before it, and the gradient against the one without."""
    loss = next(at for at, line in enumerate(lines, 1) if line.startswith("loss = "))
    before, after = tensors(execute(lines[:loss])), execute(lines[:-1])
    found: dict[str, Answer] = {}
    for name, value in before.items():
        found[f"{name} changed"] = not after[name].equal(value)
        found[f"{name} counted"] = after[name]._version > value._version
    runs = execute([*lines[:loss], lines[-1]]), execute(lines)
    right, got = ([names[name].grad for name, value in before.items() if value.is_leaf] for names in runs)
    if any(grad is None for grad in got):
        return found | {"backward": ERROR}
    return found | {"backward": RIGHT if all(map(torch.equal, got, right)) else WRONG}


EDITS = Topic(
    task="What does the last line do, and what has the edit before it changed?",
    lessons=["detach"],
    asks={
        " changed": Ask("Does it hold other values than when the loss was computed?",
                        {True: "`{name}` has other values than before", False: "`{name}` keeps its values"}),
        " counted": Ask("Has its `_version` grown since the loss was computed?",
                        {True: "the counter of `{name}` moves", False: "the counter of `{name}` stays as it was"}),
        "backward": Ask("What comes of it? Right is the gradient of the loss as it was computed.", {
            ERROR: "backward finds that the version counter of a tensor that it needs has moved",
            WRONG: "backward takes new values for the old ones", RIGHT: "backward gives the right gradient"}),
    },
    moves={"head": _HEADS, "edit": _EDITS, "end": [Move("loss.backward()")]},
    plans={1: ["head edit end"], 2: ["head edit end"], 3: ["head edit end"]},
    read=_edits,
    texts={"SIZE": "345", "keeps": ("exp", "sqrt", "tanh", "sigmoid"), "saves": ("sin", "cos", "square"),
           "method": ("mul_(2)", "mul_(3)", "add_(1)", "add_(2)", "zero_()")},
)  # fmt: skip

_TWICE, _LEARNS = "-> {new} = {last} * {last}", "{B}.clone().requires_grad_()"
_LEAF = "The graph ends in a node that will fill `.grad` of `{new}`, and that node holds the tensor itself"
_PRODUCT = "`*` needs `{B}` for the gradient of `{last}`, and `{last}` for that of `{B}`, which does not require grad"
_NEITHER = "`{+|-}` needs neither"
_KEEPS = "`{keeps}` needs its result `{new}` in backward, and not its input `{last}`"
_STEPS = [
    Move("{new} = {last}.{saves}()", "{last}.{saves}() -> {last} + 1", "`{saves}` needs its input", weight=3),
    Move("{new} = {last} ** {2..4}", "** {2..4} -> + 1", "`**` needs its input"),
    Move("{new} = {last}.{keeps}()", ("{last}.{keeps}() -> {last} + 1", _TWICE), _KEEPS, weight=3),
    Move("{new} = {last} {*|+|-|/} {2..9}", _TWICE, "`{*|+|-|/}` with a number needs no values", weight=2.5),
]
_CLASS = """class {Function}(torch.autograd.Function):
    @staticmethod
    def forward(value, factor):
        return value * factor
    @staticmethod
    def setup_context(ctx, inputs, output):
        value, factor = inputs
        %s
    @staticmethod
    def backward(ctx, grad):
        return grad, {2..9} * grad
{A} = torch.{full}, requires_grad=True)
{P}, {Q} = {inputs}
{R} = {Function}.apply({P}, {Q})"""
_SAVE, _ALL = "ctx.save_for_backward({kept})", "ctx.save_for_backward(value, factor)"
_IF = "if ctx.needs_input_grad[{0|1}]: "
_SAVES = "`{Function}` saves what it hands to `save_for_backward`, whatever its backward does, and nothing else"
_STAYS = "What is an attribute of `ctx` stays with the node, whether backward has run or not, and nothing else does"
_WHERE = "`{Function}` saves only what this line names, and only where its input {0|1} requires grad"
_CLASSES = [
    Move(_CLASS % _SAVE, (f"{_SAVE} -> pass", f"{_SAVE} -> {_ALL}"), _SAVES, 2, 3),
    Move(_CLASS % "ctx.shape = value.shape", f"ctx.shape = value.shape -> {_ALL}", "A shape holds no values", 2),
    Move(_CLASS % "ctx.kept = {kept}", ("ctx.kept = {kept} -> pass", "{kept} -> value, factor"), _STAYS, 3, 1.5),
    Move(_CLASS % (_IF + _SAVE), ("if -> if not", f"{_IF}{_SAVE} -> {_ALL}"), _WHERE, 3),
]


def _held(lines: Sequence[str]) -> dict[str, bool]:
    """Whose bytes are held when only the last tensor's name is left."""
    with collector_off():  # what it finds, and when, depends on what else the process has done
        names = execute(lines)
        others = list(tensors(names))[:-1]
        held = {name: StorageWeakRef(names.pop(name).untyped_storage()) for name in others}
        return {name: not weak.expired() for name, weak in held.items()}


FUNCTIONS = Topic(
    task="In the end all names are deleted but that of the result. Whose bytes does the graph still hold?",
    lessons=["custom_function"],
    asks={"": Ask("Are its bytes still held?", {True: "`{name}` is still held", False: "`{name}` is free"})},
    moves={
        "leaf": [Move("{new} = torch.{full}, requires_grad=True)", ", requires_grad=True -> ", _LEAF, usual=True)],
        "plain": [Move("{B} = torch.{full})")], "step": _STEPS,
        "combine": [Move("{new} = {B} * {last}", ("{last} -> {last}.detach()", f"{{B}} -> {_LEARNS}"), _PRODUCT, 1, 2),
                    Move("{new} = {last} {+|-} {B}", ("{+|-} -> *", f"{{+|-}} {{B}} -> * {_LEARNS}"), _NEITHER)],
        "reduce": [Move("{T} = {last}.{sum|mean}()", "{last} -> ({last} * {last})", "`{sum|mean}` needs no values")],
        "class": _CLASSES, "end": [Move("{T}.backward()", "-> pass", "Backward frees what was saved for it", 3)],
    },
    plans={1: ["leaf step step step step step reduce", "leaf plain step combine step step step reduce"],
           2: ["class step reduce", "class step step reduce"], 3: ["class step reduce", "class step reduce end"]},
    read=_held,
    kinds={"last": lambda value, uses: uses == 1 and isinstance(value, torch.Tensor) and value.requires_grad
           and value.dim() == 1},
    texts={"full": ("full((5,), 0.{1..9}", "ones(5", "rand(5"), "saves": ("sin", "cos", "square"),
           "keeps": ("exp", "sigmoid", "tanh", "sqrt"), "kept": ("value", "factor", "value, factor"),
           "Function": ("Scale", "Swish", "Gate", "Damp"), "inputs": (
               "{A} {*|+} {2..9}, torch.{full})", "torch.{full}), {A} {*|+} {2..9}", "{A} * {2..5}, {A} - {6..9}")},
)  # fmt: skip
