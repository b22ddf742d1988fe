"""Drills on what a graph holds: operations of PyTorch's own, and Functions that somebody wrote.

All names but the last one are deleted; whose bytes are still held then?
"""

from collections.abc import Sequence

from torch.multiprocessing.reductions import StorageWeakRef

from course_utils.drills.moves import Ask, Move, Topic, execute, tensors
from course_utils.memory.loops import collector_off

_TWICE, _FLAGGED = "-> {new} = {last} * {last}", "{B} -> {B}.clone().requires_grad_()"
_LEAF = "The graph ends in a node that will fill `.grad` of `{new}`, and that node holds the tensor itself"
_PRODUCT = "`*` needs `{B}` for the gradient of `{last}`, and `{last}` for that of `{B}`, which does not require grad"
_KEEPS = "`{keeps}` needs its result `{new}` in backward, and not its input `{last}`"
_STEPS = [
    Move("{new} = {last}.{saves}()", "{last}.{saves}() -> {last} + 1", "`{saves}` needs its input", weight=3),
    Move("{new} = {last} ** {2..4}", "** {2..4} -> + 1", "`**` needs its input"),
    Move("{new} = {last}.{keeps}()", ("{last}.{keeps}() -> {last} + 1", _TWICE), _KEEPS, weight=3),
    Move("{new} = {last} {*|+|-|/} {2..9}", _TWICE, "`{*|+|-|/}` with a number needs no values", weight=2.5),
]
_COMBINE = [
    Move("{new} = {B} * {last}", ("{last} -> {last}.detach()", _FLAGGED), _PRODUCT, weight=2),
    Move("{new} = {last} {+|-} {B}", ("{+|-} -> *", f"{{+|-}} {_FLAGGED.replace('> ', '> * ')}"), "`{+|-}` needs none"),
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
]
_LASTING = [
    Move(_CLASS % "ctx.kept = {kept}", ("ctx.kept = {kept} -> pass", "{kept} -> value, factor"), _STAYS, 3, 1.5),
    Move(_CLASS % (_IF + _SAVE), ("if -> if not", f"{_IF}{_SAVE} -> {_ALL}"), _WHERE, 3),
]
_BACKWARD = Move("{total}.backward()", "-> pass", "Backward frees what was saved for it", 3)


def _read(lines: Sequence[str]) -> dict[str, bool]:
    """Whose bytes are held when only the last tensor's name is left."""
    with collector_off():  # what it finds, and when, depends on what else the process has done
        names = execute(lines)
        others = list(tensors(names))[:-1]
        held = {name: StorageWeakRef(names.pop(name).untyped_storage()) for name in others}
        return {name: not weak.expired() for name, weak in held.items()}


def _is_recorded(value: object, dim: int) -> bool:
    return any(tensor.requires_grad and tensor.dim() == dim for tensor in tensors({"": value}).values())


TOPIC = Topic(
    task="In the end all names are deleted but that of the result. Whose bytes does the graph still hold?",
    lessons=["custom_function"],
    asks={"": Ask("still held?", {True: "`{name}` is still held", False: "`{name}` is free"})},
    moves={
        "leaf": [Move("{new} = torch.{full}, requires_grad=True)", ", requires_grad=True -> ", _LEAF, usual=True)],
        "plain": [Move("{B} = torch.{full})")], "step": _STEPS, "combine": _COMBINE,
        "reduce": [Move("{new} = {last}.{sum|mean}()", "{last} -> ({last} * {last})", "`{sum|mean}` needs no values")],
        "class": _CLASSES, "lasting": _LASTING, "end": [_BACKWARD],
    },
    plans={
        1: ["leaf step step step step step reduce", "leaf plain step combine step step step reduce"],
        2: ["class step reduce", "class step step reduce"],
        3: ["lasting step reduce", "lasting step reduce end", "class step reduce end"],
    },
    read=_read,
    kinds={
        "last": lambda value, uses: uses == 1 and _is_recorded(value, 1),
        "total": lambda value, uses: _is_recorded(value, 0),
    },
    texts={
        "full": ("full((5,), 0.{1..9}", "ones(5", "rand(5"), "saves": ("sin", "cos", "square"),
        "keeps": ("exp", "sigmoid", "tanh", "sqrt"), "kept": ("value", "factor", "value, factor"),
        "Function": ("Scale", "Swish", "Gate", "Damp"), "inputs": (
            "{A} {*|+} {2..9}, torch.{full})", "torch.{full}), {A} {*|+} {2..9}", "{A} * {2..5}, {A} - {6..9}"),
    },
)  # fmt: skip
