"""Where the history of a tensor ends: as a watch has seen it, or as the source shows it (``ending``)."""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from types import FunctionType, MethodType, ModuleType
from typing import Any, NamedTuple

import torch

from course_utils.base.user_code import Site, is_user_file
from course_utils.why.log import Cut, Log
from course_utils.why.scene import Scene, parameters_of
from course_utils.why.source import (
    Statement,
    bindings,
    called,
    is_backward,
    is_switch,
    name_in,
    names_read,
    receiver,
    statement_at,
    statements,
    targets,
    value_of,
)

_CALLS = {
    "detach": "detach", "detach_": "detach", "item": "number", "tolist": "number", "numpy": "numpy", "argmax": "dtype",
    "argmin": "dtype", "long": "dtype", "int": "dtype", "bool": "dtype", "byte": "dtype", "eq": "dtype", "gt": "dtype",
    "lt": "dtype", "ge": "dtype", "le": "dtype", "ne": "dtype", "argsort": "dtype", "from_numpy": "numpy",
    "multinomial": "dtype", "bernoulli": "operation", "one_hot": "dtype", "sign": "zero", "round": "zero",
    "floor": "zero", "ceil": "zero", "heaviside": "operation",
}  # fmt: skip
_PAIRS = ("max", "min", "topk", "sort", "median", "mode", "kthvalue", "cummax", "cummin")
"""Operations that give values, which have a history, and indices, which have none."""
_COPIES = ("tensor", "Tensor", "FloatTensor", "as_tensor", "Parameter", "Variable", "LongTensor")


CUTS = {
    "detach": "`detach()` gives its value without its history",
    "data": "`.data` gives its value without its history",
    "number": "a Python number has no history",
    "numpy": "a NumPy array has no history",
    "copy": "a new tensor made from old values has no history",
    "dtype": "whole numbers and truth values have no gradient",
    "operation": "the operation has no derivative",
    "gradient": "`torch.autograd.grad` gives gradients without a history, unless it is told `create_graph=True`",
    "reentrant": "a checkpoint with `use_reentrant=True` records nothing unless one of its inputs requires grad",
    "mode": "recording was switched off",
}
"""What each way to end a history does."""


@dataclass(frozen=True)
class Ending:
    """Where and how a history ends.

    Attributes:
        how: as of ``Cut``; or "frozen" (no parameter on the way needs a gradient), "unflagged" (nothing on the way
            does), "nothing".
        site: the line.
        text: the expression that ends it.
        name: the variable whose history is lost.
        switched: the line that switched recording off.
        also: other lines that may be the one.
    """

    how: str
    site: Site | None = None
    text: str = ""
    name: str = ""
    switched: Site | None = None
    also: tuple[Site, ...] = ()


class _Way(NamedTuple):
    """The way back through the source: variables of the function that is looked into, lines that were met."""

    own: dict[str, Any]
    seen: set[tuple[str, int]]
    depth: int
    past: bool = False  # also what has a history may be computed from what lost it

    def enters(self, one: Statement) -> bool:
        key = one.site.file, one.site.line
        if key in self.seen or self.depth > 6 or len(self.seen) > 400:
            return False
        self.seen.add(key)
        return True


def ending(scene: Scene, log: Log | None, tensor: torch.Tensor | None, name: str, site: Site) -> Ending:
    """Where the history of a variable's tensor ends.

    Args:
        tensor: it; None where the variable is gone.
        name: the variable.
        site: a line at which it is in use.
    """
    cut = log.cut(tensor) if log is not None and tensor is not None else None
    if cut is not None:
        end = seen(cut)
        return end if end.how != "mode" or end.switched is not None else replace(end, switched=_switch_in_source(scene))
    found = list(_in_source(scene, name, site, _Way({}, set(), 0)))
    if found:
        first = found[0]
        return Ending(first.how, first.site, first.text, first.name, first.switched, tuple(
            one.site for one in found[1:3] if one.site is not None and one.site != first.site
        ))  # fmt: skip
    if not scene.recording:
        return Ending("mode", next((one.site for one in bindings(name, site)), None), switched=_switch_in_source(scene))
    frozen = [own for own, module in scene.objects(torch.nn.Module) if _is_frozen(module)]
    if frozen:
        return Ending("frozen", freezing(scene), name=frozen[0])
    return _unflagged(scene, name, site)


def endings(scene: Scene, name: str, site: Site) -> list[Ending]:
    """All ends in the source of what a variable is computed from, though it has a history itself."""
    return list(_in_source(scene, name, site, _Way({}, set(), 0, past=True)))


def comes_from(owner: str, site: Site) -> bool:
    """Whether what a line computes comes from a variable, as the source of its function shows it."""
    statement = statement_at(site)
    waiting, seen = [statement] if statement is not None else [], set[int]()
    while waiting:
        one = waiting.pop()
        if one.site.line in seen:
            continue
        seen.add(one.site.line)
        names = {node.id for node in one.inside if isinstance(node, ast.Name)}
        if owner in names:
            return True
        waiting += [other for name in names for other in bindings(name, one.site)[:2]]
    return False


def _unflagged(scene: Scene, name: str, site: Site) -> Ending:
    """The variable that was most likely to be trained: a tensor of decimals, called like a weight or bound last."""
    found: list[tuple[str, Site]] = []
    waiting, seen = [(name, site)], set()
    while waiting:
        at, where = waiting.pop()
        for one in bindings(at, where)[:1] if at not in seen else ():
            value, held = value_of(one), scene.value(at)
            reads = names_read(value) if value is not None else []
            if isinstance(held, torch.Tensor) and held.is_floating_point() and at != name:
                found.append((at, one.site))
            waiting += [(read, one.site) for read in reads]
        seen.add(at)
    weights = [
        pair for pair in found if re.match(r"(?:self\.)?(w|b|weight|bias|theta|beta|alpha|param)", pair[0], re.I)
    ]
    best = (weights or sorted(found, key=lambda pair: -pair[1].line))[:1]
    return Ending("unflagged", best[0][1], name=best[0][0]) if best else Ending("unflagged", name=name)


def seen(cut: Cut) -> Ending:
    """An end as a watch has seen it."""
    statement = statement_at(cut.site)
    if statement is not None and any(_how(node) == "reentrant" for node in statement.inside):
        return Ending("reentrant", cut.site, ast.unparse(value_of(statement) or statement.node))
    text = next((ast.unparse(node) for node in (statement.inside if statement else ()) if _how(node) == cut.how), "")
    name = next(
        (name_in(receiver(node)) for node in (statement.inside if statement else ()) if called(node) == cut.name), ""
    )
    return Ending(
        cut.how,
        cut.site,
        text,
        name,
        _switch_around(statement) if cut.how == "mode" and statement is not None else None,
    )


def _in_source(scene: Scene, name: str, site: Site, way: "_Way") -> Iterator[Ending]:
    """The ends in the source, from the variable backwards; the earliest comes first."""
    for one in [one for one in bindings(name, site) if one.site.line <= site.line or one.loops][:2]:
        if way.enters(one):
            earlier, value = list(_in_statement(scene, one, way)), value_of(one)
            yield from earlier
            if earlier or value is None or called(value) not in _PAIRS or targets(one)[1:2] != [name]:
                continue
            if _had_history(scene, value, one, way):
                yield Ending("dtype", one.site, ast.unparse(value), next(iter(names_read(value)), ""))


def _in_statement(scene: Scene, one: Statement, way: "_Way") -> Iterator[Ending]:
    value = value_of(one)
    if value is None:
        return
    earlier: list[Ending] = []
    for read in names_read(value):
        held = scene.value(read, way.own)
        if way.past or not (isinstance(held, torch.Tensor) and held.requires_grad):
            earlier += _in_source(scene, read, one.site, way)
    for node in ast.walk(value):
        if isinstance(node, ast.Call):
            earlier += _in_function(scene, node, way)
    yield from earlier
    if earlier:
        return
    if one.switched_off and not isinstance(one.node, ast.For):
        yield Ending("mode", one.site, ast.unparse(value), switched=_switch_around(one))
        return
    ends = [node for node in ast.walk(value) if _how(node) not in ("", "zero") and _had_history(scene, node, one, way)]
    for node in reversed(ends):
        whose = receiver(node)
        name = name_in(whose) if whose is not None else next(iter(names_read(node)), "")
        yield Ending(_how(node), one.site, ast.unparse(node), name)


def _how(node: ast.AST) -> str:
    if isinstance(node, ast.Attribute) and node.attr == "data":
        return "data"
    if isinstance(node, ast.Compare) or _is_index(node):
        return "dtype"
    if not isinstance(node, ast.Call):
        return ""
    word = called(node)
    if is_backward(node) and word == "grad":
        return "" if "create_graph=True" in ast.unparse(node) else "gradient"
    if word == "checkpoint" and "use_reentrant=True" in ast.unparse(node):
        return "reentrant"
    if word in _COPIES and any(names_read(argument) for argument in node.args):
        return "copy"
    if word == "float" and receiver(node) is None:
        return "number"
    if word in ("to", "type") and any(kind in ast.unparse(node) for kind in ("long", "int", "bool")):
        return "dtype"
    if word in _CALLS and (receiver(node) is not None):
        return _CALLS[word]
    return ""


def _is_index(node: ast.AST) -> bool:
    """Whether an expression takes the indices of an operation that gives values and indices: ``out.max(1)[1]``."""
    if isinstance(node, ast.Subscript):
        return called(node.value) in _PAIRS and ast.unparse(node.slice) in ("1", "-1")
    return isinstance(node, ast.Attribute) and node.attr == "indices" and called(node.value) in _PAIRS


def _had_history(scene: Scene, node: ast.AST, one: Statement, way: "_Way") -> bool:
    """Whether what is cut off may have had a history: a target that is made of data never had one."""
    owner = receiver(node)
    if _how(node) == "reentrant":
        return True
    if any(_makes_history(scene, inner, way) for inner in ast.walk(node) if inner is not node):
        return True
    for read in names_read(owner if owner is not None and not _is_library(scene, owner) else node):
        held = scene.value(read, way.own)
        if isinstance(held, (list, tuple)):
            return any(isinstance(item, torch.Tensor) and item.requires_grad for item in held)
        if isinstance(held, torch.Tensor) and held.requires_grad:
            return True
        made = [value for two in bindings(read, one.site) if two != one and (value := value_of(two)) is not None]
        if held is None and (not made or read.startswith("self.")):
            return True  # it is gone, and was handed in
        if any(_makes_history(scene, inner, way) for value in made for inner in ast.walk(value)):
            return True
        parts = [scene.value(part, way.own) for value in made for part in names_read(value)]
        if any(isinstance(part, torch.Tensor) and part.requires_grad for part in parts):
            return True
    return False


def _makes_history(scene: Scene, node: ast.AST, way: "_Way") -> bool:
    """Whether a call runs a network or a function of the user's."""
    if not isinstance(node, ast.Call):
        return False
    called_on = scene.value(ast.unparse(node.func), way.own)
    return isinstance(called_on, (torch.nn.Module, FunctionType, MethodType))


def _is_library(scene: Scene, node: ast.AST) -> bool:
    return isinstance(scene.value(ast.unparse(node)), ModuleType)


def _in_function(scene: Scene, call: ast.Call, way: "_Way") -> Iterator[Ending]:
    """The ends in a function or a layer of the user's that is called."""
    if not isinstance(call.func, (ast.Name, ast.Attribute)):
        return
    target = scene.value(ast.unparse(call.func), way.own)
    owner = target if isinstance(target, torch.nn.Module) else scene.value(ast.unparse(receiver(call) or call), way.own)
    function = type(target).forward if isinstance(target, torch.nn.Module) else target
    function = getattr(function, "__wrapped__", function) if isinstance(function, FunctionType) else function
    code = function.__code__ if isinstance(function, (FunctionType, MethodType)) else None
    if code is None or not is_user_file(code.co_filename):
        return
    for one in statements(code.co_filename):
        if one.site.function == code.co_qualname and isinstance(one.node, ast.Return) and way.enters(one):
            yield from _in_statement(scene, one, _Way({"self": owner}, way.seen, way.depth + 1, way.past))


def _switch_around(statement: Statement | None) -> Site | None:
    """The line of the ``with`` block or decorator that switches recording off around a statement."""
    if statement is None:
        return None
    site = statement.site
    for one in reversed(statements(site.file)):
        inside = one.node.lineno <= site.line <= (one.node.end_lineno or 0)
        items = one.node.items if isinstance(one.node, (ast.With, ast.AsyncWith)) and inside else []
        if any(is_switch(ast.unparse(item.context_expr)) for item in items):
            return one.site
    return site if statement.switched_off else None


def _switch_in_source(scene: Scene) -> Site | None:
    files = dict.fromkeys(frame.site.file for frame in scene.frames)
    every = (one for file in files for one in statements(file))
    return next((one.site for one in every if any("set_grad_enabled" in called(node) for node in one.inside)), None)


def _is_frozen(module: Any) -> bool:
    parameters = parameters_of(module)
    return bool(parameters) and not any(one.requires_grad for one in parameters)


def freezing(scene: Scene) -> Site | None:
    """The line that lowers the flags: ``p.requires_grad = False``."""
    files = dict.fromkeys(frame.site.file for frame in scene.frames)
    every = (one for file in files for one in statements(file) if not hasattr(one.node, "body"))
    words = ("requires_grad = False", "requires_grad_(False)")
    return next((one.site for one in every if any(word in ast.unparse(one.node) for word in words)), None)
