"""The user's source, read once and statement by statement (``parsed``, ``statements``, ``statement_at``), and the line
that keeps something (``keeping``).
"""

import ast
import functools
import linecache
import sys
from collections.abc import Iterator
from typing import Any

from course_utils.base.user_code import Site, is_user_file

_EMPTY = ast.Module([], [])
_SIMPLE = (ast.Assign, ast.AugAssign, ast.AnnAssign, ast.Expr, ast.Return)


def users_files() -> list[str]:
    """Files of the user's modules, and the cells of a notebook, the latest first."""
    modules = (getattr(module, "__file__", None) for module in list(sys.modules.values()))
    files = [*modules, *reversed(list(linecache.cache))]
    return [file for file in dict.fromkeys(files) if isinstance(file, str) and is_user_file(file)]


@functools.lru_cache(maxsize=64)
def _tree(file: str, source: str) -> ast.Module:
    try:
        return ast.parse(source)
    except SyntaxError:
        return _EMPTY


def parsed(file: str, *words: str) -> ast.Module:
    """The syntax of a file; an empty one where it is not Python, not there, or has none of the words asked for.

    Words are looked for in the text first: a project of hundreds of modules is not parsed for one name.
    """
    source = "".join(linecache.getlines(file))
    named = not words or any(word in source or not word.isidentifier() for word in words)
    return _tree(file, source) if named else _EMPTY


def in_functions(parent: ast.AST, function: str = "<module>", inner: str = "") -> Iterator[tuple[str, Any]]:
    """Everything in a tree, with the name of the function that it stands in, a function or a class with its own."""
    for child in ast.iter_child_nodes(parent):
        if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            name = f"{inner}{child.name}"
            yield name, child
            yield from in_functions(child, name, f"{name}{'' if isinstance(child, ast.ClassDef) else '.<locals>'}.")
        else:
            yield function, child
            yield from in_functions(child, function, inner)


def statements(tree: ast.AST) -> Iterator[tuple[str, ast.stmt]]:
    """The statements that store, call or return something, each with the name of the function that it stands in."""
    return ((function, one) for function, one in in_functions(tree) if isinstance(one, _SIMPLE))


def statement_at(site: Site) -> ast.stmt | None:
    """The statement of a line that stores, calls or returns something; None where there is none such, or several."""
    every = (one for _, one in statements(parsed(site.file)))
    found = [one for one in every if one.lineno <= site.line <= (one.end_lineno or 0)]
    return found[0] if len(found) == 1 else None


def is_in_loop(site: Site) -> bool:
    """Whether a loop of the same function goes round a line."""
    loops = (ast.For, ast.While, ast.AsyncFor)
    functions = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
    around = [
        one for one in ast.walk(parsed(site.file))
        if isinstance(one, (*loops, *functions)) and one.lineno <= site.line <= (one.end_lineno or 0)
    ]  # fmt: skip
    return isinstance(max(around, key=lambda one: one.lineno, default=None), loops)


def returns_nothing(site: Site) -> bool:
    """Whether the function that begins at a line has no ``return`` of a value, as far as its text is known."""
    every = [one for function, one in statements(parsed(site.file)) if function == site.function]
    return bool(every) and not any(isinstance(one, ast.Return) and one.value is not None for one in every)


def is_bound_in(name: str, site: Site) -> bool:
    """Whether the function of a line gives a variable what it computes: it is no argument, and no loop's."""
    every = (one for function, one in statements(parsed(site.file)) if function == site.function)
    targets = (whole for one in every if isinstance(one, ast.Assign) for whole in one.targets)
    return any(isinstance(part, ast.Name) and part.id == name for whole in targets for part in parts_of(whole))


def without_edit(site: Site) -> str:
    """``h = h + x`` for ``h += x``, where ``h`` is a variable that its function has bound, and no view."""
    statement = statement_at(site)
    target = getattr(statement, "target", None)
    if isinstance(statement, ast.AugAssign) and isinstance(target, ast.Name) and is_bound_in(target.id, site):
        value = ast.BinOp(ast.Name(target.id, ast.Load()), statement.op, statement.value)
        return ast.unparse(ast.Assign([target], value, lineno=1))
    return ""


def parts_of(target: ast.expr) -> Iterator[ast.expr]:
    """The targets that an assignment's target is made of: ``a``, ``b`` and ``c`` of ``a, (b, *c)``."""
    if isinstance(target, (ast.Tuple, ast.List)):
        for part in target.elts:
            yield from parts_of(part)
    elif isinstance(target, ast.Starred):
        yield from parts_of(target.value)
    else:
        yield target


def called_name(node: ast.AST) -> str:
    """What a call calls: the last part of its name."""
    function = getattr(node, "func", None)
    return getattr(function, "attr", getattr(function, "id", ""))
