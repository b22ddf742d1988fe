"""Where a round of a loop begins that calls no model: at a line or in a function that is named (``mark``), or where the
user's loop goes back (``Loops``).
"""

import ast
import functools
import importlib.machinery
import importlib.util
import os
from collections import Counter
from collections.abc import Callable, Sequence
from types import CodeType, FrameType, ModuleType
from typing import Any

from course_utils.base.user_code import Site, is_user_file

STEP = "__a_round_begins__"
"""The name under which marked code finds what it calls."""

_LEAST_ROUNDS = 8


class Mark:
    """What begins a round: ``train.py:40``, ``Metric.update``, or ``library.module.Class.method``.

    Args:
        text: as it was given.
        begins: called as a round begins.

    Attributes:
        found: it has been met in some code.
    """

    def __init__(self, text: str, begins: Callable[[], None]) -> None:
        file, _, line = text.rpartition(":")
        self.text, self.found = text, False
        self._file, self._line = (file, int(line)) if file and line.isdigit() else ("", 0)
        self._begins = begins

    def compile(self, source: bytes, path: str) -> CodeType:
        """Compiles a file of the user's, with a call put in where a round begins; lines keep their numbers."""
        tree = ast.parse(source, path)
        if self._line and path.endswith(os.path.normpath(self._file)):
            inside = [node for node in ast.walk(tree) if isinstance(node, ast.stmt) and node.lineno <= self._line]
            around = [node for node in inside if self._line <= (node.end_lineno or 0)]
            if around:
                _put_before(tree, max(around, key=lambda node: node.lineno), self._line)
                self.found = True
        elif not self._line:
            for function in _functions_called(tree, self.text):
                documented = ast.get_docstring(function, clean=False) is not None
                function.body.insert(int(documented), _call(function.body[0]))
                self.found = True
        return compile(ast.fix_missing_locations(tree), path, "exec", dont_inherit=True)

    def into(self, space: dict[str, Any]) -> None:
        """Gives a module what its marked lines call."""
        space[STEP] = self._begins

    def wrap_library(self) -> None:
        """Wraps a function of a library, named with its module, if the name is one."""
        words = self.text.split(".")
        for cut in range(len(words) - 1, 0, -1):
            try:
                found = None if self._line else importlib.util.find_spec(".".join(words[:cut]))
            except (ImportError, ValueError):
                found = None
            if found is None or is_user_file(found.origin or ""):
                continue
            owner: Any = importlib.import_module(".".join(words[:cut]))
            for word in words[cut:-1]:
                owner = getattr(owner, word)
            setattr(owner, words[-1], _before(getattr(owner, words[-1]), self._begins))
            self.found = True
            return


def _before(plain: Callable, begins: Callable[[], None]) -> Callable:
    @functools.wraps(plain)
    def call(*args: Any, **kwargs: Any) -> Any:
        begins()
        return plain(*args, **kwargs)

    return call


class MarkedModules:
    """Finds the user's own modules as Python does, and has them compiled by a mark; nothing is written to disk."""

    def __init__(self, mark: Mark) -> None:
        self._mark = mark

    def find_spec(self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> Any:
        """As a finder of ``sys.meta_path`` does."""
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        plain = spec is not None and type(spec.loader) is importlib.machinery.SourceFileLoader
        if not plain or spec is None or not is_user_file(spec.origin or ""):
            return None
        spec.loader = _MarkedLoader(name, spec.origin or "")
        spec.loader.mark = self._mark
        return spec


class _MarkedLoader(importlib.machinery.SourceFileLoader):
    mark: Mark

    def get_code(self, fullname: str) -> CodeType:
        return self.mark.compile(self.get_data(self.path), self.path)

    def exec_module(self, module: ModuleType) -> None:
        self.mark.into(vars(module))
        super().exec_module(module)


def _functions_called(tree: ast.Module, name: str) -> list[ast.FunctionDef]:
    """The functions of a name, ``update`` or ``Metric.update``."""
    owner, _, last = name.rpartition(".")
    inside: list[ast.AST] = [tree]
    if owner:
        last_owner = owner.rpartition(".")[2]
        inside = [node for node in ast.walk(tree) if isinstance(node, ast.ClassDef) and node.name == last_owner]
    nodes = (node for parent in inside for node in (ast.iter_child_nodes(parent) if owner else ast.walk(parent)))
    return [node for node in nodes if isinstance(node, ast.FunctionDef) and node.name == last]


def _put_before(tree: ast.Module, statement: ast.stmt, line: int) -> None:
    if isinstance(statement, (ast.For, ast.While)) and line < statement.body[0].lineno:
        statement = statement.body[0]  # the line of a loop runs as often as what is in it
    for parent in ast.walk(tree):
        for _, field in ast.iter_fields(parent):
            if isinstance(field, list) and statement in field:
                field.insert(field.index(statement), _call(statement))
                return


def _call(at: ast.stmt) -> ast.stmt:
    call = ast.Expr(ast.Call(ast.Name(STEP, ast.Load()), [], []))
    return ast.fix_missing_locations(ast.copy_location(call, at))


class Loops:
    """Sees where a loop of the user's goes back, from the frames of operations alone: the last resort of a program that
    calls no module and computes no gradient.

    Attributes:
        begins_at: the line where a round begins; None until one loop has gone round often enough.
    """

    def __init__(self) -> None:
        self.begins_at: Site | None = None
        self._last: list[tuple[int, int]] = []
        self._rounds: Counter[CodeType] = Counter()
        self._same = 0
        self._loop: CodeType | None = None

    def goes_back(self, frame: FrameType | None) -> bool:
        """Whether a round begins with the operation that is running: the loop that was chosen has gone back.

        Args:
            frame: the operation's.
        """
        frames: list[FrameType] = []
        while frame is not None:
            if is_user_file(frame.f_code.co_filename):
                frames.append(frame)
            frame = frame.f_back
        frames.reverse()
        before, self._last = self._last, [(id(one), one.f_lasti) for one in frames]
        for (key, at), one in zip(before, frames, strict=False):
            if key != id(one):
                return False
            if one.f_lasti != at:
                return one.f_lasti < at and self._has_gone_back(one)
        # Twice at the same place: a loop of one operation, or an operation that takes memory twice.
        self._same += len(before) == len(frames) > 0
        return self._same > 4 * _LEAST_ROUNDS and bool(frames) and self._has_gone_back(frames[-1])

    def _has_gone_back(self, frame: FrameType) -> bool:
        code = frame.f_code
        self._rounds[code] += 1
        if self._loop is None and self._rounds[code] >= _LEAST_ROUNDS:
            self._loop = code
            self.begins_at = Site(code.co_filename, frame.f_lineno or 0, code.co_qualname)
        return code is self._loop
