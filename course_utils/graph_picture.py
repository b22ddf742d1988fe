"""A drawing of the recorded graph as plain data (``graph_picture``): boxes, texts and lines in points, and its words.

Decides everything that can be decided without drawing, so that it can be tested as data. Imports
``course_utils.fold``, ``graph``, ``labels``, ``layout`` and ``text``.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from course_utils.fold import MOST_NODES, Folding, Group, folded, unfolded
from course_utils.graph import GraphMemory
from course_utils.labels import Width, shortened, wrapped
from course_utils.layout import Line, layered
from course_utils.text import format_bytes

Role = Literal["keeps", "again", "shares", "plain", "leaf"]
Shape = Literal["round", "square", "stack"]

# The width in points of a text of some size in points, bold or not.
Measure = Callable[[str, float, bool], float]

TITLE_SIZE, SUBTITLE_SIZE, NAME_SIZE, DETAIL_SIZE, LEGEND_SIZE = 11.0, 9.0, 8.5, 7.5, 8.0

# How far the boxes behind a folded one stand out, to the right and above.
STACK = 4.0

_LEADING = 1.35  # line height over font size
_PADDING = 6.0
_NARROWEST, _WIDEST = 66.0, 128.0
_MARGIN = 14.0
_WORDS: dict[Role, str] = {
    "keeps": "keeps: only the graph holds these bytes",
    "again": "same: a box above counts these bytes",
    "shares": "shares: variables or other graphs hold these too",
    "plain": "operation that keeps nothing",
    "leaf": "leaf: the gradient ends here",
}
_STACKED = "stacked: several nodes in one box"
_ARROWS = "the way gradients go in backward"


@dataclass(frozen=True)
class Box:
    """A box, by its upper left corner; y grows downwards.

    Attributes:
        role: what it says about bytes.
        shape: ``square`` for a leaf, ``stack`` for several nodes in one, ``round`` for one operation.
    """

    x: float
    y: float
    width: float
    height: float
    role: Role
    shape: Shape


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
class GraphPicture:
    """A drawing of a graph: its size in points, what is in it, and the same in words (``description``).

    ``boxes`` holds the boxes of the graph and then those of the legend; ``count`` says how many are of the graph.
    """

    width: float
    height: float
    boxes: tuple[Box, ...]
    labels: tuple[Label, ...]
    lines: tuple[Line, ...]
    count: int
    description: str


def graph_picture(
    memory: GraphMemory,
    measure: Measure,
    *,
    title: str = "",
    kinds: Mapping[str, str] | None = None,
    fold: bool | None = None,
    widest: float = 900.0,
) -> GraphPicture:
    """Lays a graph out, names in boxes, title above, legend below.

    Args:
        memory: the graph.
        measure: the width of a text.
        title: the first line; by default ``Recorded graph``.
        kinds: the class of each module, by its qualified name.
        fold: whether to fold nodes by module; None: above 80 nodes.
        widest: width in points beyond which the graph is folded though it has fewer nodes.
    """
    if fold is None:
        fold = len(memory.nodes) > MOST_NODES
        if not fold and len(memory.nodes) > MOST_NODES // 2:
            picture = _picture(memory, unfolded(memory), measure, title, kinds or {})
            if picture.width <= widest:
                return picture
            fold = True
    return _picture(memory, folded(memory) if fold else unfolded(memory), measure, title, kinds or {})


def _picture(
    memory: GraphMemory, folding: Folding, measure: Measure, title: str, kinds: Mapping[str, str]
) -> GraphPicture:
    cards = [_card(group, measure, kinds) for group in folding.groups]
    plan = layered([(card.width + card.behind, card.height + card.behind) for card in cards], folding.edges)
    roles = [role for role in _WORDS if any(card.role == role for card in cards)]
    legend_width = max(
        16 + measure(words, LEGEND_SIZE, False) for words in (*(_WORDS[role] for role in roles), _STACKED)
    )
    heading = (title or "Recorded graph", _summary(memory, folding))
    inner = max(
        plan.width,
        legend_width,
        min(measure(heading[0], TITLE_SIZE, True), 420.0),
        min(measure(heading[1], SUBTITLE_SIZE, False), 420.0),
    )
    width = inner + 2 * _MARGIN
    labels, y = _heading(heading, width, measure)
    left, top = (width - plan.width) / 2, y
    boxes = []
    for card, box in zip(cards, plan.boxes, strict=True):
        # The lowest box of a stack is the one that is read; the others look out above it, on the right.
        x, y = left + box.x - box.width / 2, top + box.y - box.height / 2 + card.behind
        boxes.append(Box(x, y, card.width, card.height, card.role, card.shape))
        labels += card.labels(x + card.width / 2, y + card.height / 2)
    lines = tuple(Line(left + line.x0, top + line.y0, left + line.x1, top + line.y1, line.arrow) for line in plan.lines)
    legend_boxes, legend_labels, height = _legend(
        roles, any(card.behind for card in cards), top + plan.height + 18, width, measure
    )
    return GraphPicture(
        width,
        height + _MARGIN,
        (*boxes, *legend_boxes),
        (*labels, *legend_labels),
        lines,
        len(boxes),
        _description(memory, folding, heading),
    )


@dataclass(frozen=True)
class _Card:
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
        y -= sum(size for _, size, _ in self.text) * _LEADING / 2
        labels = []
        for text, size, bold in self.text:
            labels.append(Label(x, y + size * _LEADING / 2, text, size, bold))
            y += size * _LEADING
        return labels


def _card(group: Group, measure: Measure, kinds: Mapping[str, str]) -> _Card:
    limit = _WIDEST - 2 * _PADDING
    name, details = _words(group, kinds)
    names = wrapped(name, limit, lambda text: measure(text, NAME_SIZE, True))
    lines = [(line, NAME_SIZE, True) for line in names]
    for detail in details:
        lines.append((shortened(detail, limit, lambda text: measure(text, DETAIL_SIZE, False)), DETAIL_SIZE, False))
    width = max(measure(text, size, bold) for text, size, bold in lines) + 2 * _PADDING
    height = sum(size for _, size, _ in lines) * _LEADING + _PADDING
    return _Card(tuple(lines), max(_NARROWEST, width), max(24.0, height), _role(group), _shape(group))


def _words(group: Group, kinds: Mapping[str, str]) -> tuple[str, list[str]]:
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


def _summary(memory: GraphMemory, folding: Folding) -> str:
    count = len(memory.nodes)
    text = f"{count} node{'' if count == 1 else 's'}"
    if len(folding.groups) < count:
        text += f" in {len(folding.groups)} boxes"
    freed = sum(node.freed for node in memory.nodes)
    if freed and not memory.total:
        return f"{text}; backward has freed what they had saved"
    text += f"; the graph alone keeps {format_bytes(memory.exclusive)}"
    return f"{text}; it shares {format_bytes(memory.shared)} with others" if memory.shared else text


def _heading(heading: tuple[str, str], width: float, measure: Measure) -> tuple[list[Label], float]:
    y = _MARGIN
    labels = []
    sizes = ((heading[0], TITLE_SIZE, True, wrapped), (heading[1], SUBTITLE_SIZE, False, _clauses))
    for text, size, bold, lines in sizes:
        for line in lines(text, width - 2 * _MARGIN, lambda part: measure(part, size, bold)):  # noqa: B023
            labels.append(Label(width / 2, y + size * _LEADING / 2, line, size, bold))
            y += size * _LEADING
    return labels, y + 12


def _clauses(text: str, limit: float, width: Width) -> list[str]:
    """Lines that break after a semicolon."""
    lines: list[str] = []
    for clause in text.split("; "):
        if lines and width(f"{lines[-1]}; {clause}") <= limit:
            lines[-1] += f"; {clause}"
        else:
            lines.append(clause)
    return [shortened(line, limit, width) for line in lines]


def _legend(
    roles: list[Role], stacks: bool, y: float, width: float, measure: Measure
) -> tuple[list[Box], list[Label], float]:
    """Entries in as many columns as fit side by side."""
    entries: list[tuple[Role | str, str]] = [(role, _WORDS[role]) for role in roles]
    if stacks:
        entries.append(("stack", _STACKED))
    entries.append(("\N{DOWNWARDS ARROW}", _ARROWS))
    entry = max(16 + measure(words, LEGEND_SIZE, False) for _, words in entries) + 14
    columns = max(1, min(len(entries), int((width - 2 * _MARGIN + 14) // entry)))
    left = (width - columns * entry + 14) / 2
    step = LEGEND_SIZE * 1.7
    boxes, labels = [], []
    for position, (sign, words) in enumerate(entries):
        x, at = left + position % columns * entry, y + position // columns * step
        if sign == "stack":
            boxes.append(Box(x, at + 2, 9.0, 6.0, "plain", "stack"))
        elif sign in _WORDS:
            boxes.append(Box(x, at, 11.0, 8.0, sign, "square" if sign == "leaf" else "round"))
        else:
            labels.append(Label(x + 5.5, at + 4.0, sign, LEGEND_SIZE, quiet=True))
        labels.append(Label(x + 16, at + 4.0, words, LEGEND_SIZE, centred=False, quiet=True))
    return boxes, labels, y + (-(-len(entries) // columns) - 1) * step + LEGEND_SIZE


def _description(memory: GraphMemory, folding: Folding, heading: tuple[str, str]) -> str:
    """The figure in words, for those who do not see it."""
    parts = [f"{heading[0]}: {heading[1]}."]
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
            boxes[_words(group, {})[0]] += 1
            sizes[_words(group, {})[0]] += group.kept
        named = [
            f"{name} {format_bytes(size)}" + (f" in {boxes[name]} boxes" if boxes[name] > 1 else "")
            for name, size in sizes.most_common()
        ]
        parts.append(f"Most is kept by {'; '.join(named[:5])}{_more(named, 5)}.")
    if memory.hidden:
        parts.append(f"What {_listed(list(memory.hidden), 5)} saved is not visible.")
    return " ".join(parts)


def _listed(names: list[str], most: int) -> str:
    if len(names) > most:
        return ", ".join(names[:most]) + _more(names, most)
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))


def _more(names: list[str], most: int) -> str:
    return f" and {len(names) - most} more" if len(names) > most else ""
