"""A drawing of the recorded graph as plain data (``graph_picture``): boxes, texts and lines in points, and its words.

Decides everything that can be decided without drawing, so that it can be tested as data.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from course_utils.base.text import count_of, format_bytes
from course_utils.draw.boxes import Line
from course_utils.draw.fold import MOST_NODES, Folding, folded, unfolded
from course_utils.draw.graph_card import LEADING, Label, Measure, Role, Shape, card_of, words_of
from course_utils.draw.labels import Width, shortened, wrapped
from course_utils.draw.layout import layered
from course_utils.graph import GraphMemory

TITLE_SIZE, SUBTITLE_SIZE, LEGEND_SIZE = 11.0, 9.0, 8.0

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
    cards = [card_of(group, measure, kinds) for group in folding.groups]
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


def _summary(memory: GraphMemory, folding: Folding) -> str:
    count = len(memory.nodes)
    text = count_of(count, "node")
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
        for line in lines(text, width - 2 * _MARGIN, lambda part: measure(part, size, bold)):  # noqa: B023  (called at once)
            labels.append(Label(width / 2, y + size * LEADING / 2, line, size, bold))
            y += size * LEADING
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


def _listed(names: list[str], most: int) -> str:
    if len(names) > most:
        return ", ".join(names[:most]) + _more(names, most)
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))


def _more(names: list[str], most: int) -> str:
    return f" and {len(names) - most} more" if len(names) > most else ""
