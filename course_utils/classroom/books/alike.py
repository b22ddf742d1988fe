"""Submissions that are alike beyond what the lesson gave and what the class has in common (``alike``): pairs for a
teacher to look at. Two who are alike may have worked together, as was allowed, or had one good idea each.

What is compared are pieces of syntax trees, in which names, constants, comments and layout do not count, and runs of
words of written answers.
"""

from __future__ import annotations

import ast
import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations

from course_utils.classroom.course.source import parse

NODES, WORDS = 12, 5  # of a piece: so many nodes of a tree in a row, or words
FEW = 0.05  # of the class, and two at least: what more have, many have found
ALIKE, PIECES = 0.5, 10  # a pair is named from this share on, and so many pieces
LINES = 10  # or where so many lines of their own, which are all, are the same


@dataclass(frozen=True)
class Pair:
    """Two students, the share of the pieces of the one with fewer that the other has too, and how many those are."""

    one: str
    other: str
    share: float
    pieces: int


def pieces_of(notebook: str) -> frozenset[int]:
    """The pieces of what a student can have written in a notebook, or of all that a release says."""
    found: set[int] = set()
    for cell in json.loads(notebook)["cells"]:
        source, grading = "".join(cell["source"]), cell["metadata"].get("nbgrader", {})
        if cell["cell_type"] == "code" and not grading.get("locked"):
            tree = parse(source)
            for part in tree.body if tree is not None else ():
                found.update(_runs(list(_nodes(part)), NODES))
        elif grading.get("solution"):
            found.update(_runs(re.findall(r"\w+", source.lower()), WORDS))
    return frozenset(found)


def lines_of(notebook: str) -> tuple[str, ...]:
    """The lines of what a student can have written, blank ones left out."""
    found = list[str]()
    for cell in json.loads(notebook)["cells"]:
        grading = cell["metadata"].get("nbgrader", {})
        if grading.get("solution") or (cell["cell_type"] == "code" and not grading.get("locked")):
            found += (line for line in "".join(cell["source"]).splitlines() if line.strip())
    return tuple(found)


def the_same(lines: Mapping[str, tuple[str, ...]]) -> list[Pair]:
    """The pairs who handed in the same lines, character by character, however many of the class did."""
    groups: dict[tuple[str, ...], list[str]] = defaultdict(list)
    for name in sorted(lines):
        groups[lines[name]].append(name)
    return [
        Pair(one, other, 1.0, len(own))
        for own, names in groups.items()
        if len(own) >= LINES
        for one, other in combinations(names, 2)
    ]


def alike(pieces: Mapping[str, frozenset[int]], given: frozenset[int]) -> list[Pair]:
    """The pairs that are alike, most alike first.

    Args:
        pieces: each student's.
        given: those of the release.
    """
    counts = Counter(piece for own in pieces.values() for piece in own - given)
    most = max(2, int(FEW * len(pieces)))
    rare = {name: {piece for piece in own - given if counts[piece] <= most} for name, own in pieces.items()}
    holders: dict[int, list[str]] = defaultdict(list)
    for name in sorted(rare):
        for piece in rare[name]:
            holders[piece].append(name)
    shared = Counter(pair for names in holders.values() for pair in combinations(names, 2))
    pairs = [
        Pair(one, other, number / min(len(rare[one]), len(rare[other])), number)
        for (one, other), number in shared.items()
        if number >= PIECES
    ]
    return sorted((pair for pair in pairs if pair.share >= ALIKE), key=lambda pair: (-pair.share, pair.one, pair.other))


def _nodes(tree: ast.AST) -> Iterator[str]:
    """The tree as a row of names: kinds of nodes and what is called on things, without names of the student's own."""
    yield tree.attr if isinstance(tree, ast.Attribute) else type(tree).__name__
    for child in ast.iter_child_nodes(tree):
        is_text = isinstance(child, ast.Expr) and isinstance(child.value, ast.Constant)
        if not is_text and not isinstance(child, ast.expr_context):
            yield from _nodes(child)


def _runs(row: list[str], length: int) -> Iterator[int]:
    return (hash(tuple(row[start : start + length])) for start in range(len(row) - length + 1))
