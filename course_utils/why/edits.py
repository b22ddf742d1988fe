"""Statements that edit a tensor in place (``edits``), and the same without the edit (``Edit.mended``)."""

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from course_utils.why.source import Statement, called, name_in, receiver, statements, words

_NO_EDITS = {"requires_grad_", "detach_", "share_memory_", "__init__", "retain_grad_", "manual_seed_"}
ABOVE = "  # above this line"

_PLACES = {"torch", "F", "nn", "init", "functional", "nn.init", "torch.nn.init", "nn.functional", "torch.nn.functional"}
"""Modules whose functions edit their first argument: ``F.relu_(h)``, ``nn.init.zeros_(w)``."""


@dataclass(frozen=True)
class Edit:
    """One edit in the user's source.

    Attributes:
        statement: where.
        name: the variable or attribute whose memory is edited; the optimizer's for a step.
        kind: "operation", "index", "activation" (a function or layer with ``inplace=True``), "step".
        ops: what autograd may call the operation.
        node: the expression that edits; the statement for ``+=`` and ``h[0] = ...``.
        layer: it is done by a layer, which is made with ``inplace=True`` elsewhere.
    """

    statement: Statement
    name: str
    kind: str
    ops: tuple[str, ...]
    node: ast.AST
    layer: bool = False

    @property
    def line(self) -> int:
        return self.statement.site.line

    @property
    def code_of_its_own(self) -> bool:
        """Whether the edit is written out in its line, and not in a layer that the line calls."""
        return not self.layer and bool(self.name)

    @property
    def mended(self) -> str:
        """The user's line without the edit; "" where that takes more than a change of the line."""
        node, whole = self.node, self.statement.node
        if isinstance(node, ast.AugAssign):
            if isinstance(node.target, (ast.Name, ast.Attribute)):
                return ast.unparse(
                    ast.Assign([node.target], ast.BinOp(_load(node.target), node.op, node.value), lineno=1)
                )
            return f"{self.name} = {self.name}.clone(){ABOVE}"
        if isinstance(node, ast.Assign):
            return self._masked(node) or f"{self.name} = {self.name}.clone(){ABOVE}"
        if not isinstance(node, ast.Call) or self.kind == "step" or self.layer:
            return ""
        text = ast.unparse(node)
        if self.kind == "activation":
            plain = ast.Call(node.func, node.args, [word for word in node.keywords if word.arg != "inplace"])
            new = ast.unparse(plain)
        else:
            new = text.replace(f".{called(node)}(", f".{called(node).rstrip('_')}(", 1)
        if isinstance(whole, ast.Expr) and whole.value is node:
            owner = receiver(node)
            if isinstance(owner, (ast.Subscript, ast.Call)):
                return f"{self.name} = {self.name}.clone(){ABOVE}"
            return f"{self.name} = {new}"
        return ast.unparse(whole).replace(text, new) if not hasattr(whole, "body") else new

    def _masked(self, node: ast.Assign) -> str:
        """``h = torch.where(mask, value, h)`` for ``h[mask] = value``."""
        target = node.targets[0]
        index = target.slice if isinstance(target, ast.Subscript) else None
        is_mask = isinstance(index, ast.Compare) or (
            isinstance(index, (ast.Name, ast.Attribute)) and "mask" in ast.unparse(index).lower()
        )
        if index is None or not is_mask:
            return ""
        return f"{self.name} = torch.where({ast.unparse(index)}, {ast.unparse(node.value)}, {self.name})"


def _load(target: ast.expr) -> ast.expr:
    return ast.parse(ast.unparse(target), mode="eval").body


def edits(files: Iterable[str], layers: Iterable[str] = ()) -> list[Edit]:
    """All edits in some files, from top to bottom.

    Args:
        layers: names of attributes that hold layers with ``inplace=True``.
    """
    inplace = set(layers)
    return [edit for file in files for statement in statements(file) for edit in _of(statement, inplace)]


def edits_in(statement: Statement, layers: Iterable[str] = ()) -> list[Edit]:
    """The edits of one statement."""
    return list(_of(statement, set(layers)))


def _of(statement: Statement, inplace: set[str]) -> Iterator[Edit]:
    node = statement.node
    if isinstance(node, ast.AugAssign):
        name = name_in(node.target)
        is_index = isinstance(node.target, ast.Subscript)
        yield Edit(statement, name, "index" if is_index else "operation", words(_as_binary(node)), node)
    if isinstance(node, ast.Assign):
        for target in node.targets:
            if isinstance(target, ast.Subscript) and name_in(target):
                yield Edit(statement, name_in(target), "index", ("copyslices", "indexput"), node)
    for call in statement.inside:
        if isinstance(call, ast.Call):
            yield from _of_call(statement, call, inplace)


def _as_binary(node: ast.AugAssign) -> ast.BinOp:
    return ast.BinOp(_load(node.target), node.op, node.value)


def _of_call(statement: Statement, call: ast.Call, inplace: set[str]) -> Iterator[Edit]:
    word, owner = called(call), receiver(call)
    first = name_in(call.args[0]) if call.args else ""
    for keyword in call.keywords:
        if keyword.arg == "out" and name_in(keyword.value):
            yield Edit(statement, name_in(keyword.value), "operation", words(call), call)
        if keyword.arg == "inplace" and getattr(keyword.value, "value", None) is True and first:
            yield Edit(statement, first, "activation", words(call), call)
    if word.endswith("_") and not word.endswith("__") and word not in _NO_EDITS:
        is_function = owner is None or ast.unparse(owner) in _PLACES
        name = first if is_function else name_in(owner)
        if name and ".data" not in ast.unparse(call.func):  # which counts no edit
            yield Edit(statement, name, "operation", (word.rstrip("_").replace("_", "").lower(),), call)
    elif word == "step" and owner is not None:
        yield Edit(statement, name_in(owner), "step", (), call)
    elif word in inplace and first:
        yield Edit(statement, first, "activation", (), call, layer=True)
