"""What a cell's code defines and uses, without running it (``read_code``, ``parse``). IPython reads the prompts."""

from __future__ import annotations

import ast
import builtins
import re
import symtable
import threading
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from IPython.core.inputtransformer2 import TransformerManager

_LONGEST = 50_000  # characters of one source: what has more is no answer, and is not looked at
# A magic, a command of the shell or a question, alone in its line or behind ``name =``.
_MAGIC = re.compile(r"^([ \t]*(?:\w+[ \t]*=[ \t]*)?)(?:[%!?].*|[%\w.]+\?+[ \t]*)$", re.MULTILINE)
BUILTINS = frozenset(dir(builtins)) | {"get_ipython", "display", "__file__", "__name__", "_", "__", "In", "Out"}
# Python 3.11 counts a tree's depth for all threads at once, and raises SystemError where two make one side by side:
# https://github.com/python/cpython/issues/106905
_ONE_TREE = threading.Lock()


@dataclass(frozen=True)
class Code:
    """What is known of a source; of what cannot be read, nothing but that.

    Attributes:
        defines: the names that it binds at its top level, also inside ``if``, ``for``, ``with`` and ``try``, or by
            ``global``.
        uses: the names that it, or a function in it, looks up outside itself.
        is_whole: whether it is code as it stands, its indentation not mended.
        is_text: whether it may be words: comments, texts, or what is no Python.
        only_defines: whether all that it does is to bind those names: imports, functions and classes.
    """

    defines: frozenset[str] = frozenset()
    uses: frozenset[str] = frozenset()
    is_whole: bool = False
    is_text: bool = False
    only_defines: bool = False


def read_code(source: str) -> Code:
    """What can be known of a source without running it."""
    top = _tried(lambda text: symtable.symtable(text, "<cell>", "exec"), source)
    if top is None:
        return Code(is_text=True)
    defines, uses, waiting = set(), set(), [top]
    while waiting:
        scope = waiting.pop()
        waiting.extend(scope.get_children())
        for symbol in scope.get_symbols():
            bound = symbol.is_assigned() or symbol.is_imported()
            if bound and (scope is top or symbol.is_declared_global()):
                defines.add(symbol.get_name())
            elif symbol.is_referenced() and (scope is top or symbol.is_global()):
                uses.add(symbol.get_name())
    is_whole = not source.lstrip("\n").startswith((" ", "\t"))
    is_text = not top.get_symbols() and not top.get_children() and any(sign in source for sign in "#\"'%")
    only_defines = all(map(_only_defines, getattr(parse(source), "body", [None])))
    return Code(frozenset(defines), frozenset(uses - defines - BUILTINS), is_whole, is_text, only_defines)


def _only_defines(statement: ast.stmt | None) -> bool:
    match statement:
        case ast.ImportFrom(names=[ast.alias("*")]):  # of which the names are not known
            return False
        case ast.Import() | ast.ImportFrom() | ast.FunctionDef(decorator_list=[]) | ast.ClassDef(decorator_list=[]):
            return True
    return False


def parse(source: str) -> ast.Module | None:
    """The cell's syntax tree; None where it is not code. One thread at a time makes one."""
    with _ONE_TREE:
        return _tried(ast.parse, source)


def _tried(parser: Callable[[str], Any], source: str) -> Any:
    try:
        if len(source) > _LONGEST:
            return None
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a wrong escape in a student's text is no news here
            try:
                return parser(source)
            except SyntaxError:
                return parser(_as_python(source))
    except (SyntaxError, ValueError, RecursionError, MemoryError):  # the last two where it is nested too deeply
        return None


def _as_python(source: str) -> str:
    """The source, line for line, without prompts and indentation, and with a number in place of each magic."""
    lines = source.splitlines(keepends=True)
    for transform in TransformerManager().cleanup_transforms:
        lines = transform(lines)
    return _MAGIC.sub(r"\g<1>0", "".join(lines))


def called_on_lesson(source: str) -> tuple[str, str, str] | None:
    """What a check cell checks: (the lesson's variable, the exercise's name, the answer as an expression).

    None where the cell is not a single ``lesson.check("name", answer)``.
    """
    match getattr(parse(source), "body", None):
        case [ast.Expr(ast.Call(ast.Attribute(ast.Name(lesson), "check"), [ast.Constant(str(name)), answer], []))]:
            return lesson, name, ast.unparse(answer)
    return None


def lessons_made(source: str) -> dict[str, str]:
    """The lessons that a cell makes by ``variable = Lesson("name")``, by variable."""
    made: dict[str, str] = {}
    for statement in getattr(parse(source), "body", ()):
        match statement:
            case ast.Assign(targets, ast.Call(ast.Name("Lesson"), [ast.Constant(str(name))])):
                made |= {target.id: name for target in targets if isinstance(target, ast.Name)}
    return made
