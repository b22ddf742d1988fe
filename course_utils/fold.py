"""A large graph with fewer boxes (``folded``): nodes that belong to one module, or to one call of it, become one.

The graph does not say which module recorded a node. A node is taken to belong to the module whose parameters it uses,
or else to the one that its inputs come from; then neighbours in the order of the graph that belong together are folded.
As only neighbours are, no arrow can run in a circle. Imports ``course_utils.graph``.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from course_utils.graph import GraphMemory, GraphNode

# Above this many nodes a drawing is folded, and folded into about this many boxes.
MOST_NODES = 80
_GOAL = 48
# Leaves that several groups use are drawn on their own, so that sharing is seen, up to this many.
_MOST_SHARED_LEAVES = 16


@dataclass(frozen=True)
class Group:
    """One box of a drawing: a node, or several folded into one.

    Attributes:
        nodes: the nodes in it, the first one nearest to the loss.
        module: the qualified name of the module they belong to; "" for none.
        call: which call of the module this is, from 1 in the order of the forward pass; 0 where it is not split.
        calls: how many calls there are.
    """

    nodes: tuple[GraphNode, ...]
    module: str = ""
    call: int = 0
    calls: int = 0

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


def folded(memory: GraphMemory, goal: int = _GOAL) -> Folding:
    """The graph in about ``goal`` boxes."""
    order = _order(memory)
    modules = _modules(memory, order)
    operations = [index for index in order if memory.nodes[index].leaf_shape is None]
    deepest = max((len(_path(module)) for module in modules), default=0)
    runs: list[list[int]] = []
    for depth in range(deepest, -1, -1):
        runs = _runs(operations, [_path(module)[:depth] for module in modules])
        if len(runs) <= goal:
            break
    groups = []
    for run in runs:
        module = ".".join(_common([_path(modules[index]) for index in run]))
        pieces = _calls(memory, run) if len(runs) < goal / 2 else [run]
        for position, piece in enumerate(pieces):
            call = len(pieces) - position if len(pieces) > 1 else 0
            groups.append(Group(tuple(memory.nodes[index] for index in piece), module, call, len(pieces) if call else 0))
    return _with_leaves(memory, groups)


def _path(module: str) -> tuple[str, ...]:
    return tuple(module.split(".")) if module else ()


def _common(paths: Sequence[tuple[str, ...]]) -> tuple[str, ...]:
    common = paths[0] if paths else ()
    for path in paths:
        same = 0
        while same < min(len(common), len(path)) and common[same] == path[same]:
            same += 1
        common = common[:same]
    return common


def _order(memory: GraphMemory) -> list[int]:
    """Node indices so that every edge points forward and a branch stays in one piece."""
    order: list[int] = []
    state = [0] * len(memory.nodes)  # 0 new, 1 entered, 2 done
    for root in range(len(memory.nodes)):
        stack = [root]
        while stack:
            index = stack[-1]
            if state[index] == 0:
                state[index] = 1
                stack.extend(after for after in memory.nodes[index].next if after is not None and not state[after])
            else:
                stack.pop()
                if state[index] == 1:
                    state[index] = 2
                    order.append(index)
    return order[::-1]


def _modules(memory: GraphMemory, order: list[int]) -> list[str]:
    """The module of each node, "" for none."""
    modules = [""] * len(memory.nodes)
    for index in reversed(order):  # from the leaves up
        node = memory.nodes[index]
        if node.leaf_shape is not None:
            modules[index] = node.tensor_name.rpartition(".")[0]
            continue
        following = [after for after in node.next if after is not None]
        uses = [after for after in following if _is_parameter(memory, after)]
        # What comes from other modules decides only where the node uses no parameter itself.
        paths = [_path(modules[after]) for after in uses or following if modules[after]]
        modules[index] = ".".join(_common(paths))
    return modules


def _is_parameter(memory: GraphMemory, index: int) -> bool:
    """Whether a node is a named leaf, or a reshaped or transposed one."""
    for _ in range(3):
        node = memory.nodes[index]
        if node.leaf_shape is not None:
            return "." in node.tensor_name
        following = [after for after in node.next if after is not None]
        if len(following) != 1 or node.kept:
            return False
        index = following[0]
    return False


def _runs(order: list[int], keys: list[tuple[str, ...]]) -> list[list[int]]:
    runs: list[list[int]] = []
    last: object = None
    for index in order:
        if keys[index] != last or not runs:
            runs.append([])
        runs[-1].append(index)
        last = keys[index]
    return runs


def _calls(memory: GraphMemory, run: list[int]) -> list[list[int]]:
    """A run cut where it repeats itself: one piece for each call of a module that is called several times."""
    names = [memory.nodes[index].name for index in run]
    best: list[int] = []
    for name, times in Counter(names).items():
        if 3 <= times <= _GOAL and times > len(best):
            places = [place for place, other in enumerate(names) if other == name]
            steps = Counter(b - a for a, b in zip(places, places[1:], strict=False))
            step, often = steps.most_common(1)[0]
            if step > 1 and often >= 0.8 * (times - 1):
                best = places
    if not best:
        return [run]
    cuts = [0, *best[1:], len(run)] if best[0] < best[1] - best[0] else [0, *best, len(run)]
    return [run[a:b] for a, b in zip(cuts, cuts[1:], strict=False) if a < b]


def _with_leaves(memory: GraphMemory, groups: list[Group]) -> Folding:
    """Puts each leaf into the one group that uses it; a leaf that several use, or that is far from small, stays out."""
    group_of = {node.index: position for position, group in enumerate(groups) for node in group.nodes}
    users: dict[int, list[int]] = {}
    for node in memory.nodes:
        for after in node.next:
            if after is not None and memory.nodes[after].leaf_shape is not None and node.index in group_of:
                users.setdefault(after, []).append(group_of[node.index])
    shared = [leaf for leaf, positions in users.items() if len(set(positions)) > 1]
    alone = set(shared if len(shared) <= _MOST_SHARED_LEAVES else ())
    members: dict[int, list[GraphNode]] = {}
    for leaf in memory.leaves:
        if leaf.index not in alone and leaf.index in users:
            members.setdefault(min(users[leaf.index]), []).append(leaf)
            group_of[leaf.index] = min(users[leaf.index])
    complete = [
        Group((*group.nodes, *members.get(position, [])), group.module, group.call, group.calls)
        for position, group in enumerate(groups)
    ]
    for leaf in memory.leaves:
        if leaf.index not in group_of:
            group_of[leaf.index] = len(complete)
            complete.append(Group((leaf,)))
    edges = {
        (group_of[upper], group_of[lower]): None
        for upper, lower in memory.edges
        # A leaf folded into the first of its users gets no arrow from the others: it would point upwards.
        if group_of[upper] < group_of[lower]
    }
    return Folding(tuple(complete), tuple(edges))
