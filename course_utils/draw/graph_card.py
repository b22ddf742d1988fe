"""What a drawn graph says: in one box (``Card``), with its size, shape and role; above the boxes (``summary``); and the
whole in words (``in_words``, ``numbers_in_words``).
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from course_utils.base.text import count_of, format_bytes
from course_utils.draw.fold import Folding, Group
from course_utils.draw.labels import shortened, wrapped
from course_utils.draw.style import text_width
from course_utils.graph import GraphMemory
from course_utils.graph.numbers import Numbers

Role = Literal["keeps", "again", "shares", "plain", "leaf"]
Shape = Literal["round", "square", "stack"]

NAME_SIZE, DETAIL_SIZE = 8.5, 7.5
LEADING = 1.35  # line height over font size

# How far the boxes behind a folded one stand out, to the right and above.
STACK = 4.0

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
    shape: Shape

    @property
    def behind(self) -> float:
        """How far the boxes behind it stand out."""
        return STACK if self.shape == "stack" else 0.0


def card_of(group: Group, kinds: Mapping[str, str], numbers: Sequence[Numbers] = ()) -> Card:
    """The card of one node, or of several folded into one.

    Args:
        group: the node or nodes.
        kinds: classes of modules by their names.
        numbers: of each node by its index; where there are any, they stand in the place of bytes, unshortened.
    """
    limit = _WIDEST - 2 * _PADDING
    name, details = words_of(group, kinds)
    names = wrapped(name, limit, lambda text: text_width(text, NAME_SIZE, True))
    lines = [(line, NAME_SIZE, True) for line in names]
    if numbers:
        of_node = numbers[group.nodes[0].index]
        lines += [(f"value {of_node.value}", DETAIL_SIZE, False), (f"gradient {of_node.gradient}", DETAIL_SIZE, False)]
        details = []
    for detail in details:
        lines.append((shortened(detail, limit, lambda text: text_width(text, DETAIL_SIZE, False)), DETAIL_SIZE, False))
    width = max(text_width(text, size, bold) for text, size, bold in lines) * (_SPARE if numbers else 1) + 2 * _PADDING
    height = sum(size for _, size, _ in lines) * LEADING + _PADDING
    return Card(tuple(lines), max(_NARROWEST, width), max(24.0, height), _role(group, bool(numbers)), _shape(group))


def words_of(group: Group, kinds: Mapping[str, str]) -> tuple[str, list[str]]:
    """The name in the box, and the lines below it."""
    if len(group.nodes) == 1:
        node = group.nodes[0]
        if node.leaf_shape is not None:
            return node.tensor_name or "leaf", [str(list(node.leaf_shape)), *_bytes(group)]
        return f"{node.tensor_name} = {node.label}" if node.tensor_name else node.label, _bytes(group)
    count = f"{len(group.nodes)} nodes"
    if group.calls:
        first, last = group.calls[0], group.calls[-1]
        count = f"{first}" if first == last else f"{first} to {last}" if last - first > 1 else f"{first} and {last}"
        count = f"repeat {count} of {group.of}, {len(group.nodes)} nodes"
    if group.module:
        kind = [kinds[group.module]] if group.module in kinds else []
        return group.module, [*kind, count, *_bytes(group)]
    names = Counter(node.label for node in group.nodes if node.leaf_shape is None) or {"leaf": 1}
    return ", ".join(names), [count, *_bytes(group)]


def _bytes(group: Group) -> list[str]:
    if group.kept:
        return [f"keeps {format_bytes(group.kept)}"]
    if group.repeated:
        return [f"same {format_bytes(group.repeated)}"]
    if group.shared:
        return [f"shares {format_bytes(group.shared)}"]
    return ["freed"] if any(node.freed for node in group.nodes) else []


def _role(group: Group, without_bytes: bool) -> Role:
    if group.kept and not without_bytes:
        return "keeps"
    if len(group.nodes) == 1 and group.nodes[0].leaf_shape is not None:
        return "leaf"
    if without_bytes:
        return "plain"
    if group.repeated:
        return "again"
    return "shares" if group.shared else "plain"


def _shape(group: Group) -> Shape:
    if len(group.nodes) > 1:
        return "stack"
    return "square" if group.nodes[0].leaf_shape is not None else "round"


def summary(memory: GraphMemory, folding: Folding) -> str:
    """How many nodes and boxes there are, and what they keep."""
    count = len(memory.nodes)
    text = count_of(count, "node")
    if len(folding.groups) < count:
        text += f" in {len(folding.groups)} boxes"
    freed = sum(node.freed for node in memory.nodes)
    if freed and not memory.total:
        return f"{text}; backward has freed what they had saved"
    text += f"; the graph alone keeps {format_bytes(memory.exclusive)}"
    return f"{text}; it shares {format_bytes(memory.shared)} with others" if memory.shared else text


def in_words(memory: GraphMemory, folding: Folding, title: str) -> str:
    """The figure in words, for those who do not see it."""
    parts = [f"{title}: {summary(memory, folding)}."]
    roots = memory.nodes[0].label
    leaves = [node.tensor_name for node in memory.leaves if node.tensor_name]
    unnamed = len(memory.leaves) - len(leaves)
    ends = _listed(leaves, 8) if leaves else ""
    if unnamed:
        ends += (" and " if ends else "") + f"{unnamed} {'leaf' if unnamed == 1 else 'leaves'} without a name"
    parts.append(f"It starts at {roots} and ends at {ends}." if ends else f"It starts at {roots}.")
    keepers = sorted((group for group in folding.groups if group.kept), key=lambda group: -group.kept)
    if keepers:
        boxes, sizes = Counter[str](), Counter[str]()
        for group in keepers:
            boxes[words_of(group, {})[0]] += 1
            sizes[words_of(group, {})[0]] += group.kept
        named = [
            f"{name} {format_bytes(size)}" + (f" in {boxes[name]} boxes" if boxes[name] > 1 else "")
            for name, size in sizes.most_common()
        ]
        parts.append(f"Most is kept by {'; '.join(named[:5])}{_more(named, 5)}.")
    if memory.hidden:
        parts.append(f"What {_listed(list(memory.hidden), 5)} saved is not visible.")
    return " ".join(parts)


def numbers_in_words(memory: GraphMemory, numbers: Sequence[Numbers], title: str) -> str:
    """The same of a figure with numbers: every box, from the result down."""
    boxes = [
        f"{words_of(Group((node,)), {})[0]}: value {of_node.value}, gradient {of_node.gradient}."
        for node, of_node in zip(memory.nodes, numbers, strict=True)
    ]
    return " ".join([f"{title}: {count_of(len(boxes), 'node')}, from the result down.", *boxes])


def _listed(names: list[str], most: int) -> str:
    if len(names) > most:
        return ", ".join(names[:most]) + _more(names, most)
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))


def _more(names: list[str], most: int) -> str:
    return f" and {len(names) - most} more" if len(names) > most else ""
