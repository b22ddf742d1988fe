"""What stands in one box of a drawn graph (``Card``), and the box's size, shape and role."""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from course_utils.base.text import format_bytes
from course_utils.draw.fold import Group
from course_utils.draw.labels import shortened, wrapped

Role = Literal["keeps", "again", "shares", "plain", "leaf"]
Shape = Literal["round", "square", "stack"]

# The width in points of a text of some size in points, bold or not.
Measure = Callable[[str, float, bool], float]

NAME_SIZE, DETAIL_SIZE = 8.5, 7.5
LEADING = 1.35  # line height over font size

# How far the boxes behind a folded one stand out, to the right and above.
STACK = 4.0

_PADDING = 6.0
_NARROWEST, _WIDEST = 66.0, 128.0


@dataclass(frozen=True)
class Label:
    """A line of text, by the middle of its height and by its middle or, where ``centred`` is False, its left end."""

    x: float
    y: float
    text: str
    size: float
    bold: bool = False
    centred: bool = True
    quiet: bool = False


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

    def labels(self, x: float, y: float) -> list[Label]:
        """Its lines, around a middle."""
        y -= sum(size for _, size, _ in self.text) * LEADING / 2
        labels = []
        for text, size, bold in self.text:
            labels.append(Label(x, y + size * LEADING / 2, text, size, bold))
            y += size * LEADING
        return labels


def card_of(group: Group, measure: Measure, kinds: Mapping[str, str]) -> Card:
    """The card of one node, or of several folded into one; ``kinds`` are classes of modules by their names."""
    limit = _WIDEST - 2 * _PADDING
    name, details = words_of(group, kinds)
    names = wrapped(name, limit, lambda text: measure(text, NAME_SIZE, True))
    lines = [(line, NAME_SIZE, True) for line in names]
    for detail in details:
        lines.append((shortened(detail, limit, lambda text: measure(text, DETAIL_SIZE, False)), DETAIL_SIZE, False))
    width = max(measure(text, size, bold) for text, size, bold in lines) + 2 * _PADDING
    height = sum(size for _, size, _ in lines) * LEADING + _PADDING
    return Card(tuple(lines), max(_NARROWEST, width), max(24.0, height), _role(group), _shape(group))


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


def _role(group: Group) -> Role:
    if group.kept:
        return "keeps"
    if len(group.nodes) == 1 and group.nodes[0].leaf_shape is not None:
        return "leaf"
    if group.repeated:
        return "again"
    return "shares" if group.shared else "plain"


def _shape(group: Group) -> Shape:
    if len(group.nodes) > 1:
        return "stack"
    return "square" if group.nodes[0].leaf_shape is not None else "round"
