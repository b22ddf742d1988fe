"""Holds an exercise's module and its text file against each other (``agreed``)."""

import ast
import difflib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TypeVar

from course_utils.checks.exercise import Exercise, Predict
from course_utils.checks.misconceptions import GENERAL

# Where calls of the library take keys by position.
_PLACES = {
    "Missed": slice(0, 1),
    "expect": slice(1, 2),
    "expect_error": slice(2, 3),
    "expect_hooks": slice(2, 4),
    "expect_no_history": slice(1, 3),
    "expect_training_flags": slice(2, 4),
}
_Any = TypeVar("_Any", bound=Exercise | Predict)


def agreed(file: str, *exercises: _Any) -> tuple[_Any, ...]:
    """A lesson's exercises, in its order: what its ``EXERCISES`` is.

    Args:
        file: the lesson's ``__file__``; its folder holds ``<exercise>.py`` and ``<exercise>.toml`` for each.
        exercises: in the order of the lesson.

    Raises:
        ValueError: a claim names a misconception that the text file does not have, or the text file has one that
            nothing names.
    """
    folder = Path(file).parent
    files = (*folder.glob("_*.py"), Path(__file__).with_name("modes.py"))
    shared = {text for path in files for text in _texts(_tree(path))}
    for exercise in exercises:
        path = folder / f"{exercise.name}.py"
        tree = _tree(path)
        known = set(exercise.misconceptions)
        if unknown := set(_named(tree)) - known - set(GENERAL) - {""}:
            said = f"{path} names {_listed(unknown)}, which {path.stem}.toml does not have."
            raise ValueError(said + _near(unknown, known))
        readings = exercise.readings.values() if isinstance(exercise, Predict) else ()
        by_text = {key for _, key in (*exercise.raises, *exercise.effects)} | set(readings)
        if unknown := by_text - known - set(GENERAL):
            said = f"{path.stem}.toml names {_listed(unknown)}, which is none of its misconceptions."
            raise ValueError(said + _near(unknown, known))
        texts = shared | set(_texts(tree))
        if unnamed := known - by_text - texts:
            said = f"Nothing in {path} names {_listed(unnamed)}: use it in a claim, or take it out of {path.stem}.toml."
            raise ValueError(said + _near(unnamed, texts - known))
    return exercises


def _tree(path: Path) -> ast.AST:
    return ast.parse(path.read_text(encoding="utf-8"))


def _texts(tree: ast.AST) -> Iterator[str]:
    return (node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str))


def _named(tree: ast.AST) -> Iterator[str]:
    """The keys in ``Missed("key")``, ``expect(holds, "key")``, ``key="key"``, ``otherwise={"key": ...}``,
    ``key = "key" if ... else ...`` and ``for key, ... in (("key", ...), ...)``.
    """
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _PLACES:
            for argument in node.args[_PLACES[node.func.id]]:
                yield from _keys(argument)
        elif (isinstance(node, ast.keyword) and node.arg in ("key", "otherwise")) or (
            isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and node.targets[0].id == "key"
        ):
            yield from _keys(node.value)
        elif isinstance(node, ast.For | ast.comprehension) and isinstance(node.iter, ast.Tuple | ast.List):
            for row in node.iter.elts:
                for name, value in zip(_parts(node.target), _parts(row), strict=False):
                    if isinstance(name, ast.Name) and name.id == "key":
                        yield from _keys(value)


def _keys(value: ast.expr | None) -> Iterator[str]:
    match value:
        case ast.Constant(value=str(key)):
            yield key
        case ast.IfExp(body=first, orelse=second):
            yield from (*_keys(first), *_keys(second))
        case ast.BoolOp(values=values):
            for item in values:
                yield from _keys(item)
        case ast.Dict(keys=keys):
            for key_of_it in keys:
                yield from _keys(key_of_it)
        case ast.Tuple(elts=pairs) | ast.List(elts=pairs):
            for pair in pairs:
                if isinstance(pair, ast.Tuple) and pair.elts:
                    yield from _keys(pair.elts[0])


def _parts(value: ast.expr) -> list[ast.expr]:
    return value.elts if isinstance(value, ast.Tuple) else [value]


def _near(keys: Iterable[str], texts: Iterable[str]) -> str:
    near = {match for key in keys for match in difflib.get_close_matches(key, list(texts), cutoff=0.75)}
    return f" Did you misspell it? Near it: {_listed(near)}." if near else ""


def _listed(keys: set[str]) -> str:
    return ", ".join(repr(key) for key in sorted(keys))
