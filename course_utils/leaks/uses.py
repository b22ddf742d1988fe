"""What a program does with what it keeps (``is_only_logged``), as its source shows it."""

import ast
from collections.abc import Iterator

from course_utils.base.user_code import Site
from course_utils.holders.holder import Holder
from course_utils.source.statements import parsed, parts_of

_OF_TENSORS = ("torch", "F", "nn", "functional")
_OF_CONTAINERS = ("append", "appendleft", "extend", "insert", "add", "update", "setdefault", "clear", "pop", "popleft",
                  "copy", "items", "values", "keys", "get", "put", "sort", "index", "count", "remove")  # fmt: skip


def is_only_logged(holder: Holder, line: Site | None) -> bool:
    """Whether a plain number will do in place of a tensor: nothing that only a tensor can do is done with what is kept.

    Looked at is the file of the line that keeps; what is computed from the holder, or is returned, counts too. In doubt
    a tensor is needed.
    """
    tree = parsed(line.file) if line is not None else None
    if tree is None:
        return False
    names = {holder.tail[1]}
    for _ in range(3):
        names |= set(_handed_on(tree, names))
    return not any(_needs_a_tensor(node, names) for node in ast.walk(tree))


def _handed_on(tree: ast.Module, names: set[str]) -> Iterator[str]:
    """Names that are bound to what is computed from some names, and functions that return it."""
    for node in ast.walk(tree):
        if isinstance(node, (ast.Assign, ast.For, ast.comprehension)):
            value = node.value if isinstance(node, ast.Assign) else node.iter
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            if _mentions(value, names) and not _is_number(value):
                yield from (_name(part) for target in targets for part in parts_of(target))
        elif isinstance(node, ast.FunctionDef):
            returned = (part.value for part in ast.walk(node) if isinstance(part, ast.Return) and part.value)
            if any(_mentions(value, names) and not _is_number(value) for value in returned):
                yield node.name


def _needs_a_tensor(node: ast.AST, names: set[str]) -> bool:
    if isinstance(node, ast.Call) and _name(node) == "register_buffer":
        return any(isinstance(word, ast.Constant) and word.value in names for word in node.args)
    if isinstance(node, ast.Call) and _root(node.func) in _OF_TENSORS and _name(node) not in ("tensor", "as_tensor"):
        return any(_mentions(word, names) for word in node.args)
    if isinstance(node, ast.Attribute) and node.attr not in (*_OF_CONTAINERS, *names):
        return _is_one(node.value, names)
    return False


def _is_one(node: ast.AST, names: set[str]) -> bool:
    """``total``, ``self.total``, ``losses[-1]``, ``evaluate(...)``."""
    return _name(node) in names


def _name(node: ast.AST) -> str:
    while isinstance(node, (ast.Subscript, ast.Call)):
        node = node.value if isinstance(node, ast.Subscript) else node.func
    return getattr(node, "attr", getattr(node, "id", ""))


def _mentions(node: ast.AST, names: set[str]) -> bool:
    return any(_is_one(part, names) for part in ast.walk(node) if isinstance(part, (ast.Name, ast.Attribute)))


def _is_number(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and _name(node) in ("item", "float", "int", "len", "str", "tolist")


def _root(node: ast.AST) -> str:
    while isinstance(node, ast.Attribute):
        node = node.value
    return getattr(node, "id", "")
