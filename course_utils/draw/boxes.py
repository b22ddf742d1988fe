"""The boxes of a drawn graph. In a large one, nodes that belong to one module become one (``folded``). What stands in a
box (``Label``), with its size and role; above the boxes (``summary``); and the whole in words (``in_words``,
``numbers_in_words``).

The graph does not say which module recorded a node. A node is taken to belong to the module whose parameters it uses,
or else to the one that its inputs come from; then neighbours in the order of the graph that belong together are folded.
As only neighbours are, no arrow can run in a circle.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from graphlib import TopologicalSorter
from itertools import groupby, takewhile
from typing import Literal

from course_utils.base.text import count_of, format_bytes
from course_utils.draw.style import shortened, text_width, wrapped
from course_utils.graph import GraphMemory, GraphNode
from course_utils.graph.numbers import Numbers

# Above this many nodes a drawing is folded, and folded into about this many boxes.
MOST_NODES = 80
_GOAL = 24
# Leaves that several groups use are drawn on their own, so that sharing is seen, up to this many.
_MOST_SHARED_LEAVES = 16

Role = Literal["keeps", "again", "shares", "plain", "leaf"]

NAME_SIZE, DETAIL_SIZE = 8.5, 7.5
LEADING = 1.35  # line height over font size

_PADDING = 6.0
_NARROWEST, _WIDEST = 66.0, 128.0
# Drawn, letters are as wide as whole pixels allow: a long line of numbers grows by more than the padding.
_SPARE = 1.03

Path = tuple[str, ...]  # of a module: the parts of its qualified name
Edges = Sequence[tuple[int, int]]


@dataclass(frozen=True)
class Group:
    """One box of a drawing: a node, or several folded into one.

    Attributes:
        nodes: the nodes in it, the first one nearest to the loss.
        module: the qualified name of the module they belong to; "" for none.
    """

    nodes: tuple[GraphNode, ...]
    module: str = ""

    @property
    def is_leaf(self) -> bool:
        """Whether it is a leaf on its own."""
        return len(self.nodes) == 1 and self.nodes[0].leaf_shape is not None

    @property
    def kept(self) -> int:
        """Bytes that only the graph holds, counted here first."""
        return sum(node.kept for node in self.nodes)

    @property
    def repeated(self) -> int:
        """Bytes that only the graph holds, counted in an earlier box."""
        return sum(node.repeated for node in self.nodes) if len(self.nodes) == 1 else 0

    @property
    def shared(self) -> int:
        """Bytes that variables hold too, as its nodes count them: a tensor that two of them saved counts twice."""
        return sum(node.shared for node in self.nodes)


def folded(memory: GraphMemory) -> tuple[list[Group], Edges]:
    """The graph in about ``_GOAL`` boxes and those of the leaves that several of them use; edges are pairs of boxes."""
    following = [[after for after in node.next if after is not None] for node in memory.nodes]
    order = _order(following)
    paths, hands_on = _belonging(memory, following, order)
    operations = [index for index in order if not hands_on[index]]
    runs: list[list[int]] = []
    for depth in range(max(map(len, paths), default=0), -1, -1):
        runs = [list(run) for _, run in groupby(operations, lambda index: paths[index][:depth])]  # noqa: B023  (called at once)
        if len(runs) <= _GOAL:
            break
    boxes: list[tuple[list[int], str]] = []
    for run in runs:
        module = ".".join(_common([paths[index] for index in run]))
        # One box for all that belongs to no module would say little: it is cut into pieces of one length.
        size = len(run) if module else max(8, -(-2 * len(operations) // _GOAL))
        boxes += [(run[at : at + size], module) for at in range(0, len(run), size)]
    return _complete(memory, boxes, following, order)


def _order(following: Sequence[Sequence[int]]) -> list[int]:
    """Node indices so that every edge points forward, a branch stays in one piece, and short branches come first."""
    depth = [0] * len(following)
    for index in TopologicalSorter(dict(enumerate(following))).static_order():
        depth[index] = 1 + max((depth[after] for after in following[index]), default=0)
    finished: list[int] = []
    entered: set[int] = set()
    stack = [(index, False) for index in range(len(following))][::-1]
    while stack:
        index, done = stack.pop()
        if done:
            finished.append(index)
        elif index not in entered:
            entered.add(index)
            stack.append((index, True))
            stack += [(after, False) for after in sorted(following[index], key=depth.__getitem__)]
    return finished[::-1]


def _belonging(
    memory: GraphMemory, following: Sequence[Sequence[int]], order: Sequence[int]
) -> tuple[list[Path], list[bool]]:
    """The path of each node's module, () where it has none; and whether it is a leaf, or does no more than reshape or
    transpose one.
    """
    paths, hands_on = [Path()] * len(order), [False] * len(order)
    for index in reversed(order):  # from the leaves up
        node, after = memory.nodes[index], following[index]
        if node.leaf_shape is not None:
            paths[index], hands_on[index] = tuple(node.tensor_name.split("."))[:-1], True
            continue
        hands_on[index] = len(after) == 1 and hands_on[after[0]] and not (node.kept or node.repeated or node.shared)
        # What comes from other modules decides only where the node uses no parameter itself.
        uses = [one for one in after if hands_on[one]] or after
        paths[index] = _joined([paths[one] for one in uses if paths[one]])
    return paths, hands_on


def _joined(paths: Sequence[Path]) -> Path:
    """The module in which results of these modules meet: the one that holds them all, or of numbered ones the last:
    what joins layer 2's output to something in layer 3 belongs to layer 3.
    """
    common = _common(paths)
    inside = {path[len(common)] for path in paths if len(path) > len(common)}
    return (*common, max(inside, key=int)) if len(inside) > 1 and all(map(str.isdigit, inside)) else common


def _common(paths: Sequence[Path]) -> Path:
    """The parts with which all paths begin."""
    return tuple(parts[0] for parts in takewhile(lambda parts: len(set(parts)) == 1, zip(*paths, strict=False)))


def _complete(
    memory: GraphMemory, boxes: list[tuple[list[int], str]], following: Sequence[Sequence[int]], order: Sequence[int]
) -> tuple[list[Group], Edges]:
    """Puts each leaf, and what only hands it on, with the first box that uses it; a leaf that several use stays out."""
    box_of = {index: box for box, (members, _) in enumerate(boxes) for index in members}
    users: list[set[int]] = [set() for _ in order]
    for index in order:
        for after in following[index]:
            users[after] |= {box_of[index]} if index in box_of else users[index]
    shared = [leaf.index for leaf in memory.leaves if len(users[leaf.index]) > 1]
    alone = shared if len(shared) <= _MOST_SHARED_LEAVES else []
    for index in order:
        if index not in box_of and index not in alone and users[index]:
            box_of[index] = min(users[index])
            boxes[box_of[index]][0].append(index)
    for index in range(len(order)):
        if index not in box_of:
            box_of[index] = len(boxes)
            boxes.append(([index], ""))
    # A leaf folded into the first of its users gets no arrow from the others: it would point upwards.
    edges = [(box_of[upper], box_of[lower]) for upper, lower in memory.edges if box_of[upper] < box_of[lower]]
    return [Group(tuple(memory.nodes[index] for index in members), module) for members, module in boxes], edges


@dataclass(frozen=True)
class Label:
    """What stands in a box: lines of (text, size, bold), and the size that they need."""

    text: tuple[tuple[str, float, bool], ...]
    width: float
    height: float
    role: Role
    is_leaf: bool


def label_of(group: Group, kinds: Mapping[str, str], numbers: Sequence[Numbers] = ()) -> Label:
    """The label of one node, or of several folded into one, with its bytes, or with ``numbers`` of each, unshortened.

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
    return Label(tuple(lines), max(_NARROWEST, width), max(24.0, height), role, group.is_leaf)


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
