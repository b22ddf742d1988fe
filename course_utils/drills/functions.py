"""Drills on what a graph holds: operations of PyTorch's own, and Functions that somebody wrote.

All names but the last one are deleted; whose bytes are still held then?
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch.multiprocessing.reductions import StorageWeakRef

from course_utils.drills.engine import Ask, Draw, Effect, Move, Topic
from course_utils.drills.run import execute, tensors
from course_utils.memory.collector import collector_off

_LEAF = Move("{new} = torch.{full}, requires_grad=True)", "{new} = torch.{full})", "`{new}` is a leaf that requires grad: the "
             "graph ends in a node that will fill its `.grad`, and that node holds the tensor itself", "{new}")  # fmt: skip
_PLAIN = "{b} = torch.{full})"
_INPUT = "`{saves}` needs its input `{last}` in backward"
_RESULT = "`{keeps}` needs its result `{new}` in backward, and not its input `{last}`"
_NOTHING = "needs no values of its input in backward"
_TWICE = "{new} = {last} * {last}"
_STEPS = [
    Move("{new} = {last}.{saves}()", "{new} = {last} + 1", _INPUT, "{last}", weight=3),
    Move("{new} = {last} ** {2..4}", "{new} = {last} + 1", "`**` needs its input `{last}` in backward", "{last}"),
    Move("{new} = {last}.{keeps}()", "{new} = {last} + 1", _RESULT, "{new}", weight=3, more=[
        Effect(_TWICE, _RESULT, "{last}", True)]),
    Move("{new} = {last} {*|+|-|/} {2..9}", _TWICE, f"`{{*|+|-|/}}` with a number {_NOTHING}", "{last}", True, weight=2),
    Move("{new} = -{last}", _TWICE, f"`-` {_NOTHING}", "{last}", True, weight=0.5),
]  # fmt: skip
_COMBINE = [
    Move(f"{{new}} = {product}", f"{{new}} = {product.replace('{last}', '{last}.detach()')}",
         "`*` needs `{b}` for the gradient of `{last}`", "{b}", weight=1.5, more=[
             Effect(f"{{new}} = {product.replace('{b}', '{b}.clone().requires_grad_()')}", "`*` would need `{last}` for the "
                    "gradient of `{b}` alone, which requires none", "{last}", True)])
    for product in ("{b} * {last}", "{last} * {b}")
] + [
    Move("{new} = {last} {+|-} {b}", "{new} = {last} * {b}.clone().requires_grad_()", "`{+|-}` needs no values in backward",
         "{last}", True, weight=1.5, more=[Effect("{new} = {last} * {b}", "`{+|-}` needs no values in backward", "{b}", True)]),
]  # fmt: skip
_REDUCE = Move("{new} = {last}.{sum|mean}()", "{new} = ({last} * {last}).{sum|mean}()", f"`{{sum|mean}}` {_NOTHING}", "{last}",
               True)  # fmt: skip

_CLASS = """class {Function}(torch.autograd.Function):
    @staticmethod
    def forward(value, factor):
        return {forward}
    @staticmethod
    def setup_context(ctx, inputs, output):
        value, factor = inputs
        KEEP
    @staticmethod
    def backward(ctx, grad):
        return {gradients}
{a} = torch.{full}, requires_grad=True)
{inputs}
{r} = {Function}.apply({p}, {q})"""
_EITHER = "{p}|{q}"
_FORGOTTEN = "`{Function}` saves nothing of `{name}`. What it has computed with it does not matter"


def _function(keep: str, words: str, everything: str, level: int, weight: float = 1.0, *more: Effect) -> Move:
    """A Function that keeps something, and the same that keeps nothing or everything."""
    without, all_kept = _CLASS.replace("KEEP", "pass"), _CLASS.replace("KEEP", everything)
    return Move(_CLASS.replace("KEEP", keep), without, words, _EITHER, level=level, weight=weight, more=[
        *more, Effect(all_kept, _FORGOTTEN, _EITHER, True)])  # fmt: skip


_SAVE = "ctx.save_for_backward({kept})"
_SAVE_ALL, _HANDS = "ctx.save_for_backward(value, factor)", "`{Function}` hands `{name}` to `save_for_backward`"
_IF, _UNLESS = "if ctx.needs_input_grad[{0|1}]: ", "if not ctx.needs_input_grad[{0|1}]: "
_CLASSES = [
    _function(_SAVE, f"{_HANDS}, whatever its backward will do with it", _SAVE_ALL, 2, 3),
    _function("ctx.shape = value.shape", "", _SAVE_ALL, 2),
]
_LASTING = [
    _function("ctx.kept = {kept}", "An attribute of `ctx` stays as long as the node does, and backward does not free it",
              "ctx.kept = value, factor", 3, 1.5),
    Move(_CLASS.replace("KEEP", _IF + _SAVE), _CLASS.replace("KEEP", _UNLESS + _SAVE), "`{Function}` saves what it saves "
         "only where its input {0|1} requires grad", _EITHER, level=3, more=[
             Effect(_CLASS.replace("KEEP", _SAVE_ALL), _FORGOTTEN, _EITHER, True)]),
]  # fmt: skip
_BACKWARD = Move("{total}.backward()", "pass", "Backward frees what was saved for it, and `{name}` was", level=3)


def _shape(draw: Draw, level: int) -> dict[str, object]:
    names = {name: f"N9{at}_" for at, name in enumerate("abpqr")}
    name = draw.choice(("Scale", "Swish", "Gate", "Damp", "Soften", "Bend"))
    return {**names, "size": 2 + draw.below(8), "Function": name}


def _read(lines: Sequence[str]) -> dict[str, bool]:
    """Whose bytes are held when only the last tensor's name is left."""
    with collector_off():  # what it finds, and when, depends on what else the process has done
        names = execute(lines)
        *others, _last = tensors(names)
        held = {name: StorageWeakRef(names[name].untyped_storage()) for name in others}
        for name in others:
            del names[name]
        return {name: not weak.expired() for name, weak in held.items()}


TOPIC = Topic(
    task="In the end all names are deleted but that of the result. Whose bytes does the graph still hold?",
    lessons=("custom_function",),
    asks={"": Ask("still held?", {True: "are still held", False: "are free"}, subject="the bytes of `{name}`")},
    moves={"leaf": [_LEAF], "plain": [Move(_PLAIN)], "step": _STEPS, "combine": _COMBINE, "reduce": [_REDUCE],
           "class": _CLASSES, "lasting": _LASTING, "end": [_BACKWARD]},
    plans={
        1: ["leaf" + " step" * 5 + " reduce", "leaf plain step combine step step step reduce", "leaf plain combine step step step reduce"],
        2: ["class step reduce", "class step step reduce"],
        3: ["lasting step reduce", "lasting step reduce end", "class step reduce end"],
    },
    read=_read,
    kinds={
        "last": lambda value, uses: isinstance(value, torch.Tensor) and value.requires_grad and value.dim() == 1 and uses == 1,
        "total": lambda value, uses: isinstance(value, torch.Tensor) and value.requires_grad and value.dim() == 0,
    },
    texts={
        "full": ("full(({size},), 0.{1..9}", "ones({size}", "rand({size}"),
        "saves": ("sin", "cos", "square"),
        "keeps": ("exp", "sigmoid", "tanh", "sqrt"),
        "kept": ("value", "factor", "value, factor"),
        "forward": ("value * factor", "value + {2..9} * factor", "{2..9} * value - factor"),
        "gradients": ("grad, grad", "grad, -grad", "grad, {2..9} * grad", "{2..9} * grad, grad"),
        "inputs": ("{p} = {a} {*|+} {2..9}\n{q} = torch.{full})", "{p} = torch.{full})\n{q} = {a} {*|+} {2..9}",
                   "{p} = {a} {*|+} {2..9}\n{q} = {a} {-|/} {3..8}"),
    },
    values=_shape,
    explained={"class ": "What `backward` returns here is made up, and need not be the derivative."},
)  # fmt: skip
