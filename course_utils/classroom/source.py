"""What a cell's code defines and uses, without running it (``defined``, ``used``, ``parse``).

Imports IPython's input transformer when a cell is no plain Python. Imports nothing of the course.
"""

from __future__ import annotations

import ast
import builtins
import symtable
import warnings
from functools import lru_cache

_LONGEST = 200_000  # characters; more is not an answer, and would take the parser long
_BUILTINS = frozenset(dir(builtins)) | {"get_ipython", "display", "__file__", "__name__", "_", "__", "In", "Out"}
# The parser recurses; so much nesting is refused before it is asked.
_DEEPEST = 150


@lru_cache(maxsize=1024)
def python(source: str) -> str | None:
    """The cell as plain Python, its magics turned into calls; None where it is neither."""
    if len(source) > _LONGEST or _too_deep(source):
        return None
    if _tree(source) is not None:
        return source
    try:
        from IPython.core.inputtransformer2 import TransformerManager

        changed = TransformerManager().transform_cell(source)
    except Exception:  # whatever IPython makes of broken code: then it is broken code
        return None
    return changed if _tree(changed) is not None else None


def is_python(source: str) -> bool:
    """Whether the cell is Python as it stands, without magics and without mending its indentation."""
    return len(source) <= _LONGEST and not _too_deep(source) and _tree(source) is not None


def parse(source: str) -> ast.Module | None:
    """The cell's syntax tree; None where it is not code."""
    text = python(source)
    return None if text is None else _tree(text)


def _tree(source: str) -> ast.Module | None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a wrong escape in a student's text is no news here
            return ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _too_deep(source: str) -> bool:
    depth = deepest = run = longest = 0
    for character in source:
        if character in "([{":
            depth += 1
            deepest = max(deepest, depth)
        elif character in ")]}":
            depth -= 1
        if character in "-+~ \t" or character == "\\":
            run += character in "-+~"
        else:
            longest, run = max(longest, run), 0
    return deepest > _DEEPEST or max(longest, run) > 5 * _DEEPEST


@lru_cache(maxsize=4096)
def defined(source: str) -> frozenset[str]:
    """The names that the cell binds at its top level, also inside ``if``, ``for``, ``with`` and ``try``."""
    tree = parse(source)
    return frozenset() if tree is None else frozenset(_bound(tree.body))


def _bound(body: list[ast.stmt]) -> set[str]:
    names: set[str] = set()
    for statement in body:
        if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            names.add(statement.name)
            continue
        if isinstance(statement, (ast.Import, ast.ImportFrom)):
            names.update((alias.asname or alias.name).partition(".")[0] for alias in statement.names)
        for node in _own_nodes(statement):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                names.add(node.id)
            elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                names.add(node.name)
    return names


def _own_nodes(statement: ast.AST) -> list[ast.AST]:
    """The nodes of a statement, without what lies inside functions and classes."""
    found, waiting = [], [statement]
    while waiting:
        node = waiting.pop()
        found.append(node)
        if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)):
            waiting.extend(ast.iter_child_nodes(node))
    return found


@lru_cache(maxsize=4096)
def used(source: str) -> frozenset[str]:
    """The names that the cell, or a function in it, looks up outside itself."""
    text = python(source)
    if text is None:
        return frozenset()
    try:
        table = symtable.symtable(text, "<cell>", "exec")
    except (SyntaxError, ValueError, RecursionError):
        return frozenset()
    names: set[str] = set()
    waiting = [table]
    while waiting:
        scope = waiting.pop()
        waiting.extend(scope.get_children())
        top = scope is table
        for symbol in scope.get_symbols():
            if symbol.is_referenced() and (symbol.is_global() or (top and not symbol.is_assigned())):
                names.add(symbol.get_name())
    return frozenset(names - defined(source) - _BUILTINS)


def called_on_lesson(source: str) -> tuple[str, str, str] | None:
    """What a check cell checks: (the lesson's variable, the exercise's name, the answer as an expression).

    None where the cell is not a single ``lesson.check("name", answer)``.
    """
    tree = parse(source)
    if tree is None or len(tree.body) != 1 or not isinstance(tree.body[0], ast.Expr):
        return None
    call = tree.body[0].value
    if not isinstance(call, ast.Call) or len(call.args) != 2 or call.keywords:
        return None
    function, name = call.func, call.args[0]
    if not (isinstance(function, ast.Attribute) and function.attr == "check" and isinstance(function.value, ast.Name)):
        return None
    if not (isinstance(name, ast.Constant) and isinstance(name.value, str)):
        return None
    return function.value.id, name.value, ast.unparse(call.args[1])


def lessons_made(source: str) -> dict[str, str]:
    """The lessons that a cell makes by ``variable = Lesson("name")``, by variable."""
    tree = parse(source)
    made: dict[str, str] = {}
    for statement in tree.body if tree else ():
        if not (isinstance(statement, ast.Assign) and isinstance(statement.value, ast.Call)):
            continue
        call = statement.value
        if isinstance(call.func, ast.Name) and call.func.id == "Lesson" and len(call.args) == 1:
            name = call.args[0]
            if isinstance(name, ast.Constant) and isinstance(name.value, str):
                made |= {target.id: name.value for target in statement.targets if isinstance(target, ast.Name)}
    return made
