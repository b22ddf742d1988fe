"""What a cell's code defines and uses, without running it (``read_code``, ``Reader``, ``parse``).

Magics and shell commands are replaced line by line.
"""

from __future__ import annotations

import ast
import builtins
import re
import symtable
import threading
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

# Python's parser takes the square of a text's length for some, worst for f-strings and ``import a.a.a.a``: what has
# more than this is no answer, and is not looked at.
_LONGEST, _MOST_BRACES = 50_000, 1000  # characters of one source
_LONGEST_CHAIN = re.compile(r"(?:\.[\s\\]*\w+[\s\\]*){99}")
_BUILTINS = frozenset(dir(builtins)) | {"get_ipython", "display", "__file__", "__name__", "_", "__", "In", "Out"}

_CELL_MAGIC = re.compile(r"\s*%%(\S+).*\n?")
# Cell magics whose body is text, or runs as something else, elsewhere, or not at all.
_FOREIGN_MAGICS = {
    *("!", "HTML", "SVG", "bash", "cmd", "cython", "file", "html", "javascript", "js", "latex", "markdown", "perl"),
    *("pypy", "python", "python2", "python3", "ruby", "script", "sh", "svg", "sx", "system", "writefile"),
}
# Line magics with a statement after them; and what is no Python: a magic, a command, a question, ``x = !ls``.
_RUNS_CODE = re.compile(r"^([ \t]*)%(?:time|prun|memit)[ \t]+(?:-\S+[ \t]+)*(?=\S)", re.MULTILINE)
_MAGIC = re.compile(
    r"^([ \t]*)(?:(?:[%!?,;/]|([^=\n#\"']*=)[ \t]*[%!])(?:\\\n|[^\n])*|[^\s#\"'?]+\?\??[ \t]*$)", re.MULTILINE
)
_INDENT = re.compile(r"\s*^([ \t]+)\S", re.MULTILINE)
# Python 3.11 counts a tree's depth for all threads at once, and raises SystemError where two make one side by side:
# https://github.com/python/cpython/issues/106905
_ONE_TREE = threading.Lock()
_WORDS = re.compile("[^#\"']*[#\"'].*\\w", re.DOTALL)


@dataclass(frozen=True)
class Code:
    """What is known of a source.

    Attributes:
        defines: the names that it binds at its top level, also inside ``if``, ``for``, ``with`` and ``try``, or by
            ``global``.
        uses: the names that it, or a function in it, looks up outside itself.
        is_whole: whether it is code as it stands, its indentation not mended.
        is_text: whether it may be words and no code: comments, texts, or what is no Python.
    """

    defines: frozenset[str] = frozenset()
    uses: frozenset[str] = frozenset()
    is_whole: bool = False
    is_text: bool = False


class Reader:
    """``read_code`` for one notebook: each source once, and no more than so many characters beside what is known."""

    def __init__(self, known: Mapping[str, Code]) -> None:
        self._known, self._room = dict(known), 2 * _LONGEST

    def __call__(self, source: str) -> Code:
        if source not in self._known:
            if len(source) > self._room:
                return Code(is_text=True)
            self._room -= len(source)
            self._known[source] = read_code(source)
        return self._known[source]


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
    words = not top.get_symbols() and not top.get_children() and _WORDS.match(source) is not None
    if (magic := _CELL_MAGIC.match(source)) and magic[1] == "timeit":  # what it binds is gone when it ends
        defines = set()
    return Code(frozenset(defines), frozenset(uses - defines - _BUILTINS), _INDENT.match(source) is None, words)


def parse(source: str) -> ast.Module | None:
    """The cell's syntax tree; None where it is not code. One thread at a time makes one."""
    with _ONE_TREE:
        return _tried(ast.parse, source)


def deleted_first(source: str) -> set[str]:
    """The names that a cell deletes before it has bound them: in the student's kernel they were there."""
    tree, bound, deleted = parse(source), set[str](), set[str]()
    for statement in tree.body if tree else ():
        for node in ast.walk(statement):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Del) and node.id not in bound:
                deleted.add(node.id)
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                bound.add(node.id)
    return deleted


def _tried(parser: Callable[[str], Any], source: str) -> Any:
    for text in _as_python(source):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # a wrong escape in a student's text is no news here
                return parser(text)
        except (SyntaxError, ValueError, RecursionError, MemoryError):  # the last two where it is nested too deeply
            continue
    return None


def _as_python(source: str) -> Iterable[str]:
    """The source without cell magics, and where that may help also without others; each line stays where it was."""
    if len(source) > _LONGEST or source.count("{") > _MOST_BRACES or _LONGEST_CHAIN.search(source):
        return ()
    start = 0
    while magic := _CELL_MAGIC.match(source, start):
        if magic[1] in _FOREIGN_MAGICS:
            return ()
        start = magic.end()
    body = "\n" * source.count("\n", 0, start) + source[start:]
    if indent := _INDENT.match(body):
        body = "\n".join(line.removeprefix(indent[1]) for line in body.split("\n"))
    plain = _MAGIC.sub(
        lambda magic: magic[1] + (f"{magic[2]} None" if magic[2] else "pass") + "\n" * magic[0].count("\n"),
        _RUNS_CODE.sub(r"\1", body),
    )
    return dict.fromkeys((body, plain))


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
