"""Drills on what a graph holds: operations of PyTorch's own, and Functions that somebody wrote.

All names but the last one are deleted; whose bytes are still held then?
"""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor
from torch.multiprocessing.reductions import StorageWeakRef

from course_utils.drills.moves import USUAL, Ask, Draw, Move, Topic
from course_utils.drills.run import execute, tensors
from course_utils.memory.loops import collector_off

_SPARED, _TWICE = "needs no values of its input in backward", "{new} = {last} * {last}"
_RESULT = "`{keeps}` needs its result `{new}` in backward, and not its input `{last}`"
_STEPS = [
    Move("{new} = {last}.{saves}()", (".{saves}()", " + 1", "`{saves}` needs its input `{last}` in backward",
         "{last}"), weight=3),
    Move("{new} = {last} ** {2..4}", ("** {2..4}", "+ 1", "`**` needs its input `{last}` in backward", "{last}")),
    Move("{new} = {last}.{keeps}()", (".{keeps}()", " + 1", _RESULT, "{new}"), ("", _TWICE, _RESULT, "{last}", USUAL),
         weight=3),
    Move("{new} = {last} {*|+|-|/} {2..9}", ("", _TWICE, f"`{{*|+|-|/}}` with a number {_SPARED}", "{last}", USUAL),
         weight=2),
    Move("{new} = -{last}", ("", _TWICE, f"`-` {_SPARED}", "{last}", USUAL), weight=0.5),
]  # fmt: skip
_COMBINE = [
    *(Move(f"{{new}} = {product}", ("{last}", "{last}.detach()", "`*` needs `{b}` for the gradient of `{last}`",
         "{b}"), ("{b}", "{b}.clone().requires_grad_()", "`*` would need `{last}` for the gradient of `{b}` alone, "
         "which requires none", "{last}", USUAL), weight=1.5) for product in ("{b} * {last}", "{last} * {b}")),
    Move("{new} = {last} {+|-} {b}", ("{+|-} {b}", "* {b}.clone().requires_grad_()", "`{+|-}` needs no values in "
         "backward", "{last}", USUAL), ("{+|-}", "*", "`{+|-}` needs no values in backward", "{b}", USUAL), weight=1.5),
]  # fmt: skip
_CLASS = """class {Function}(torch.autograd.Function):
    @staticmethod
    def forward(value, factor):
        return {forward}
    @staticmethod
    def setup_context(ctx, inputs, output):
        value, factor = inputs
        KEEPS
    @staticmethod
    def backward(ctx, grad):
        return {gradients}
{a} = torch.{full}, requires_grad=True)
{inputs}
{r} = {Function}.apply({p}, {q})"""


def _function(
    keeps: str, words: str, everything: str, level: int, weight: float = 1.0, old: str = "", new: str = ""
) -> Move:
    """A Function that keeps something, the same that keeps nothing (or has ``new`` for ``old``), or everything."""
    forgotten = "`{Function}` saves nothing of `{name}`. What it has computed with it does not matter"
    return Move(_CLASS.replace("KEEPS", keeps), (old or keeps, new or "pass", words, "{p}|{q}"),
                (keeps, everything, forgotten, "{p}|{q}", USUAL), level=level, weight=weight)  # fmt: skip


_SAVE, _SAVE_ALL = "ctx.save_for_backward({kept})", "ctx.save_for_backward(value, factor)"
_IF = "if ctx.needs_input_grad[{0|1}]: "
_HANDS = "`{Function}` hands `{name}` to `save_for_backward`, whatever its backward will do with it"
_CLASSES = [_function(_SAVE, _HANDS, _SAVE_ALL, 2, 3), _function("ctx.shape = value.shape", "", _SAVE_ALL, 2)]
_LASTING = [
    _function("ctx.kept = {kept}", "An attribute of `ctx` stays as long as the node does, and backward does not "
         "free it", "ctx.kept = value, factor", 3, 1.5),
    _function(_IF + _SAVE, "`{Function}` saves what it saves only where its input {0|1} requires grad", _SAVE_ALL, 3,
         1, "if", "if not"),
]  # fmt: skip
_HELD = (
    "`{new}` is a leaf that requires grad: the graph ends in a node that will fill its `.grad`, and that node holds "
    "the tensor itself"
)


_REDUCE = Move("{new} = {last}.{sum|mean}()", ("{last}", "({last} * {last})", f"`{{sum|mean}}` {_SPARED}", "{last}",
               USUAL))  # fmt: skip
_BACKWARD = Move("{total}.backward()", ("", "pass", "Backward frees what was saved for it, and `{name}` was"), level=3)


def _is_recorded(value: object) -> bool:
    return isinstance(value, Tensor) and value.requires_grad


def _shape(draw: Draw, level: int) -> dict[str, object]:
    names = {name: f"N9{at}_" for at, name in enumerate("abpqr")}
    function = draw.choice(("Scale", "Swish", "Gate", "Damp", "Soften", "Bend"))
    return {**names, "size": 2 + draw.below(8), "Function": function}


def _read(lines: Sequence[str]) -> dict[str, bool]:
    """Whose bytes are held when only the last tensor's name is left."""
    with collector_off():  # what it finds, and when, depends on what else the process has done
        names = execute(lines)
        others = list(tensors(names))[:-1]
        held = {name: StorageWeakRef(names[name].untyped_storage()) for name in others}
        for name in others:
            del names[name]
        return {name: not weak.expired() for name, weak in held.items()}


TOPIC = Topic(
    task="In the end all names are deleted but that of the result. Whose bytes does the graph still hold?",
    lessons=("custom_function",),
    asks={"": Ask("still held?", {True: "are still held", False: "are free"}, subject="the bytes of `{name}`")},
    moves={
        "leaf": [Move("{new} = torch.{full}, requires_grad=True)", (", requires_grad=True", "", _HELD, "{new}"))],
        "plain": [Move("{b} = torch.{full})")], "step": _STEPS, "combine": _COMBINE, "reduce": [_REDUCE],
        "class": _CLASSES, "lasting": _LASTING, "end": [_BACKWARD],
    },
    plans={
        1: ["leaf step step step step step reduce", "leaf plain step combine step step step reduce",
            "leaf plain combine step step step reduce"],
        2: ["class step reduce", "class step step reduce"],
        3: ["lasting step reduce", "lasting step reduce end", "class step reduce end"],
    },
    read=_read,
    kinds={
        "last": lambda value, uses: uses == 1 and _is_recorded(value) and value.dim() == 1,
        "total": lambda value, uses: _is_recorded(value) and value.dim() == 0,
    },
    texts={
        "full": ("full(({size},), 0.{1..9}", "ones({size}", "rand({size}"),
        "saves": ("sin", "cos", "square"), "keeps": ("exp", "sigmoid", "tanh", "sqrt"),
        "kept": ("value", "factor", "value, factor"),
        "forward": ("value * factor", "value + {2..9} * factor", "{2..9} * value - factor"),
        "gradients": ("grad, grad", "grad, -grad", "grad, {2..9} * grad", "{2..9} * grad, grad"),
        "inputs": ("{p} = {a} {*|+} {2..9}\n{q} = torch.{full})", "{p} = torch.{full})\n{q} = {a} {*|+} {2..9}",
                   "{p} = {a} {*|+} {2..9}\n{q} = {a} {-|/} {3..8}"),
    },
    values=_shape,
    explained={"class ": "What `backward` returns here is made up, and need not be the derivative."},
)  # fmt: skip
