"""A large graph with fewer boxes (``folded``): nodes that belong to one module, or to one call of it, become one.

The graph does not say which module recorded a node. A node is taken to belong to the module whose parameters it uses,
or else to the one that its inputs come from; then neighbours in the order of the graph that belong together are folded.
As only neighbours are, no arrow can run in a circle.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise, takewhile

from course_utils.graph import GraphMemory, GraphNode

# Above this many nodes a drawing is folded, and folded into about this many boxes.
MOST_NODES = 80
_GOAL = 24
# Leaves that several groups use are drawn on their own, so that sharing is seen, up to this many.
_MOST_SHARED_LEAVES = 16


@dataclass(frozen=True)
class Group:
    """One box of a drawing: a node, or several folded into one.

    Attributes:
        nodes: the nodes in it, the first one nearest to the loss.
        module: the qualified name of the module they belong to; "" for none.
        calls: which repetitions these are, from 1 in the order of the forward pass; empty where nothing repeats.
        of: how many repetitions there are.
    """

    nodes: tuple[GraphNode, ...]
    module: str = ""
    calls: range = range(0)
    of: int = 0

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


@dataclass(frozen=True)
class Folding:
    """``groups``, and ``edges`` as pairs of positions in them."""

    groups: tuple[Group, ...]
    edges: tuple[tuple[int, int], ...]


def unfolded(memory: GraphMemory) -> Folding:
    """Each node in a box of its own."""
    return Folding(tuple(Group((node,)) for node in memory.nodes), memory.edges)


def folded(memory: GraphMemory) -> Folding:
    """The graph in about ``_GOAL`` boxes, and those of the leaves that several of them use."""
    order = _order(memory)
    paths = _module_paths(memory, order)
    operations = [index for index in order if not _only_hands_on(memory, index)]
    deepest = max(map(len, paths), default=0)
    runs: list[list[int]] = []
    for depth in range(deepest, -1, -1):
        runs = [list(run) for _, run in groupby(operations, lambda index: paths[index][:depth])]  # noqa: B023  (called at once)
        if len(runs) <= _GOAL:
            break
    groups = []
    for run in runs:
        module = ".".join(_common([paths[index] for index in run]))
        # Few and large boxes say little: they are cut where they repeat themselves.
        groups += (
            _cut(memory, run, module, _GOAL // 2 // len(runs))
            if len(runs) <= _GOAL // 4
            else [_group(memory, run, module)]
        )
    return _complete(memory, groups)


def _group(memory: GraphMemory, run: list[int], module: str, calls: range = range(0), of: int = 0) -> Group:
    return Group(tuple(memory.nodes[index] for index in run), module, calls, of)


def _common(paths: Sequence[tuple[str, ...]]) -> tuple[str, ...]:
    """The parts with which all paths begin."""
    return tuple(parts[0] for parts in takewhile(lambda parts: len(set(parts)) == 1, zip(*paths, strict=False)))


def _order(memory: GraphMemory) -> list[int]:
    """Node indices so that every edge points forward, a branch stays in one piece, and short branches come first."""
    depth = [0] * len(memory.nodes)
    for index in _post_order(memory, [node.next for node in memory.nodes]):
        depth[index] = 1 + max((depth[after] for after in memory.nodes[index].next if after is not None), default=0)
    # What is entered last comes directly after its node.
    nearest_last = [
        sorted((after for after in node.next if after is not None), key=depth.__getitem__) for node in memory.nodes
    ]
    return _post_order(memory, nearest_last)[::-1]


def _post_order(memory: GraphMemory, following: Sequence[Sequence[int | None]]) -> list[int]:
    """Node indices, each after everything that follows it; of what follows, the last is gone into first."""
    order: list[int] = []
    entered, done = [False] * len(memory.nodes), [False] * len(memory.nodes)
    for root in range(len(memory.nodes)):
        stack = [root]
        while stack:
            index = stack[-1]
            if not entered[index]:
                entered[index] = True
                stack.extend(after for after in following[index] if after is not None and not entered[after])
            else:
                stack.pop()
                if not done[index]:
                    done[index] = True
                    order.append(index)
    return order


def _module_paths(memory: GraphMemory, order: list[int]) -> list[tuple[str, ...]]:
    """The parts of the name of each node's module, none where it has no module."""
    paths: list[tuple[str, ...]] = [()] * len(memory.nodes)
    for index in reversed(order):  # from the leaves up
        node = memory.nodes[index]
        if node.leaf_shape is not None:
            paths[index] = tuple(node.tensor_name.split("."))[:-1]
            continue
        following = [after for after in node.next if after is not None]
        uses = [after for after in following if _only_hands_on(memory, after)]
        # What comes from other modules decides only where the node uses no parameter itself.
        paths[index] = _joined([paths[after] for after in uses or following if paths[after]])
    return paths


def _joined(paths: Sequence[tuple[str, ...]]) -> tuple[str, ...]:
    """The module in which results of these modules meet: the one that holds them all, or of numbered ones the last:
    what joins layer 2's output to something in layer 3 belongs to layer 3.
    """
    common = _common(paths)
    following = {path[len(common)] for path in paths if len(path) > len(common)}
    if len(following) > 1 and all(name.isdigit() for name in following):
        return (*common, max(following, key=int))
    return common


def _only_hands_on(memory: GraphMemory, index: int) -> bool:
    """Whether a node is a leaf, or does no more than reshape or transpose one."""
    while True:
        node = memory.nodes[index]
        if node.leaf_shape is not None:
            return True
        following = [after for after in node.next if after is not None]
        if len(following) != 1 or node.kept or node.repeated or node.shared:
            return False
        index = following[0]


def _cut(memory: GraphMemory, run: list[int], module: str, most: int) -> list[Group]:
    """A run in at most about ``most`` pieces: one for each time that it repeats itself, as a module called in a loop
    does, or for each few of them; what belongs to no module, else in pieces of one length.
    """
    uses = Counter(after for index in run for after in memory.nodes[index].next if after is not None)
    in_a_loop = any(times > 1 and _only_hands_on(memory, index) for index, times in uses.items())
    if len(run) <= 8 or most < 2 or (module and not in_a_loop):
        return [_group(memory, run, module)]
    places = _repeats(memory, run)
    if not places:
        size = max(8, -(-len(run) // most))
        return [_group(memory, run[at : at + size], module) for at in range(0, len(run), size)]
    together = -(-len(places) // most)
    starts = places[::together]
    groups = [_group(memory, run[: places[0]], module)] if places[0] else []
    for number, (start, end) in enumerate(zip(starts, [*starts[1:], len(run)], strict=True)):
        last = len(places) - number * together
        calls = range(max(1, last - together + 1), last + 1)
        groups.append(_group(memory, run[start:end], module, calls, len(places)))
    return groups


def _repeats(memory: GraphMemory, run: list[int]) -> list[int]:
    """Where a run starts again: the places of the operation that comes back most often at one distance."""
    best: list[int] = []
    names = [memory.nodes[index].name for index in run]
    for name, times in Counter(names).items():
        if times < 3 or times <= len(best):
            continue
        places = [place for place, other in enumerate(names) if other == name]
        distances = Counter(after - before for before, after in pairwise(places))
        distance, often = distances.most_common(1)[0]
        if distance > 1 and often >= 0.8 * (times - 1):
            best = places
    return best


def _complete(memory: GraphMemory, groups: list[Group]) -> Folding:
    """Puts each leaf, and what only hands it on, with the group that uses it; a leaf that several use stays out."""
    group_of = {node.index: position for position, group in enumerate(groups) for node in group.nodes}
    users: dict[int, list[int]] = {}
    for index in _order(memory):
        positions = [group_of[index]] if index in group_of else users.get(index, [])
        for after in memory.nodes[index].next:
            if after is not None and after not in group_of:
                users.setdefault(after, []).extend(positions)
    shared = [leaf.index for leaf in memory.leaves if len(set(users.get(leaf.index, ()))) > 1]
    alone = set(shared if len(shared) <= _MOST_SHARED_LEAVES else ())
    members: dict[int, list[GraphNode]] = {}
    for index, positions in users.items():
        if positions and index not in alone:
            members.setdefault(min(positions), []).append(memory.nodes[index])
            group_of[index] = min(positions)
    complete = [
        Group((*group.nodes, *members.get(position, [])), group.module, group.calls, group.of)
        for position, group in enumerate(groups)
    ]
    for node in memory.nodes:
        if node.index not in group_of:
            group_of[node.index] = len(complete)
            complete.append(Group((node,)))
    edges = {
        (group_of[upper], group_of[lower]): None
        for upper, lower in memory.edges
        # A leaf folded into the first of its users gets no arrow from the others: it would point upwards.
        if group_of[upper] < group_of[lower]
    }
    return Folding(tuple(complete), tuple(edges))
