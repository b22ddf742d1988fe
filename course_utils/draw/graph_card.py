"""What a drawn graph says: in one box (``Card``), with its size and role; above the boxes (``summary``); and the
whole in words (``in_words``, ``numbers_in_words``).
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from course_utils.base.text import count_of, format_bytes
from course_utils.draw.fold import Group
from course_utils.draw.style import shortened, text_width, wrapped
from course_utils.graph import GraphMemory
from course_utils.graph.numbers import Numbers

Role = Literal["keeps", "again", "shares", "plain", "leaf"]

NAME_SIZE, DETAIL_SIZE = 8.5, 7.5
LEADING = 1.35  # line height over font size

_PADDING = 6.0
_NARROWEST, _WIDEST = 66.0, 128.0
# Drawn, letters are as wide as whole pixels allow: a long line of numbers grows by more than the padding.
_SPARE = 1.03


@dataclass(frozen=True)
class Card:
    """What stands in a box: lines of (text, size, bold), and the size that they need."""

    text: tuple[tuple[str, float, bool], ...]
    width: float
    height: float
    role: Role
    is_leaf: bool


def card_of(group: Group, kinds: Mapping[str, str], numbers: Sequence[Numbers] = ()) -> Card:
    """The card of one node, or of several folded into one, with its bytes, or with ``numbers`` of each, unshortened.

    ``kinds`` are the classes of modules by their names.
    """
    limit = _WIDEST - 2 * _PADDING
    name, details = _words(group, kinds)
    role, held = _held(group)
    lines = [(line, NAME_SIZE, True) for line in wrapped(name, limit, lambda text: text_width(text, NAME_SIZE, True))]
    if numbers:
        of_node = numbers[group.nodes[0].index]
        role, details = "plain", [f"value {of_node.value}", f"gradient {of_node.gradient}"]
    else:
        details = [shortened(detail, limit, lambda text: text_width(text, DETAIL_SIZE)) for detail in details + held]
    if group.is_leaf and role != "keeps":
        role = "leaf"
    lines += [(detail, DETAIL_SIZE, False) for detail in details]
    width = max(text_width(*line) for line in lines) * (_SPARE if numbers else 1) + 2 * _PADDING
    height = sum(size for _, size, _ in lines) * LEADING + _PADDING
    return Card(tuple(lines), max(_NARROWEST, width), max(24.0, height), role, group.is_leaf)


def _words(group: Group, kinds: Mapping[str, str]) -> tuple[str, list[str]]:
    """The name in the box, and what stands below it beside its bytes."""
    node, count = group.nodes[0], f"{len(group.nodes)} nodes"
    if group.is_leaf:
        return node.tensor_name or "leaf", [str(list(node.leaf_shape or ()))]
    if len(group.nodes) == 1:
        return f"{node.tensor_name} = {node.label}" if node.tensor_name else node.label, []
    if group.module:
        return group.module, [*filter(None, [kinds.get(group.module)]), count]
    return ", ".join(dict.fromkeys(node.label for node in group.nodes if node.leaf_shape is None)) or "leaf", [count]


def _held(group: Group) -> tuple[Role, list[str]]:
    if group.kept:
        return "keeps", [f"keeps {format_bytes(group.kept)}"]
    if group.repeated:
        return "again", [f"same {format_bytes(group.repeated)}"]
    if group.shared:
        return "shares", [f"shares {format_bytes(group.shared)}"]
    return "plain", ["freed"] if any(node.freed for node in group.nodes) else []


def summary(memory: GraphMemory, boxes: int) -> str:
    """How many nodes and boxes there are, and what they keep."""
    text = count_of(len(memory.nodes), "node")
    if boxes < len(memory.nodes):
        text += f" in {boxes} boxes"
    if not memory.total and any(node.freed for node in memory.nodes):
        return f"{text}; backward has freed what they had saved"
    text += f"; the graph alone keeps {format_bytes(memory.exclusive)}"
    return f"{text}; it shares {format_bytes(memory.shared)} with others" if memory.shared else text


def in_words(memory: GraphMemory, groups: Sequence[Group], title: str) -> str:
    """The figure in words, for those who do not see it."""
    named = [node.tensor_name for node in memory.leaves if node.tensor_name]
    unnamed = len(memory.leaves) - len(named)
    ends = [_listed(named, 8)] if named else []
    if unnamed:
        ends.append(f"{unnamed} {'leaf' if unnamed == 1 else 'leaves'} without a name")
    ending = f" and ends at {' and '.join(ends)}" if ends else ""
    parts = [f"{title}: {summary(memory, len(groups))}.", f"It starts at {memory.nodes[0].label}{ending}."]
    boxes, sizes = Counter[str](), Counter[str]()
    for group in sorted(groups, key=lambda group: -group.kept):
        if group.kept:
            boxes[_words(group, {})[0]] += 1
            sizes[_words(group, {})[0]] += group.kept
    kept = [
        f"{name} {format_bytes(size)}" + (f" in {boxes[name]} boxes" if boxes[name] > 1 else "")
        for name, size in sizes.most_common()
    ]
    if kept:
        parts.append(f"Most is kept by {'; '.join(kept[:5])}{_more(kept, 5)}.")
    if memory.hidden:
        parts.append(f"What {_listed(memory.hidden, 5)} saved is not visible.")
    return " ".join(parts)


def numbers_in_words(memory: GraphMemory, numbers: Sequence[Numbers], title: str) -> str:
    """The same of a figure with numbers: every box, from the result down."""
    parts = [f"{title}: {count_of(len(numbers), 'node')}, from the result down."]
    for node, of_node in zip(memory.nodes, numbers, strict=True):
        parts.append(f"{_words(Group((node,)), {})[0]}: value {of_node.value}, gradient {of_node.gradient}.")
    return " ".join(parts)


def _listed(names: Sequence[str], most: int) -> str:
    if len(names) > most:
        return ", ".join(names[:most]) + _more(names, most)
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))


def _more(names: Sequence[str], most: int) -> str:
    return f" and {len(names) - most} more" if len(names) > most else ""
