"""Graphs that lead from call to call: how many nodes of each call a variable still leads to (``Nodes``), and which
variable carries them over (``Nodes.carrier``).

After ``backward()`` the nodes of a graph hold no tensors any more, but they are there as long as something leads to
them: ``total += loss``. A recurrent state, and all that is computed from it, lead to every call before:
``output, state = rnn(x, state)``. Only the state is what has to be cut off: the one whose value, as it was when an
earlier call began, is part of the graph of a later call.
"""

import statistics
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from course_utils.graph.recorded import is_node, saved_slots
from course_utils.holders.holder import Holder, Link
from course_utils.holders.search import Path, Search
from course_utils.holders.ways import link_of

NODE_BYTES = 700
"""What a node takes of host memory, with the tensor that it made, without what it saved: 640 to 980 bytes were measured
with linear, convolutional and attention layers and with plain arithmetic."""

LEAST_CALLS = 11
"""A graph that leads to so many calls, which backward has gone through, is no graph of this call any more."""

_FIRST, _GAP, _MOST_NODES, _MOST_NAMES = 12, 4, 30_000, 2000


@dataclass(frozen=True)
class Chain:
    """A variable whose graph led back to so many calls.

    Attributes:
        link: the variable, and how it leads there.
        counts: nodes of each call, by call.
        goes_on: it did so when nodes were counted last.
        leads_to: keys of the holders whose graphs are part of it.
    """

    link: Link
    counts: Mapping[int, int]
    goes_on: bool
    leads_to: frozenset[tuple[str, ...]]

    @property
    def rate(self) -> int:
        """Nodes a call."""
        return round(statistics.median(self.counts.values()))


class Nodes:
    """Counts the nodes behind the user's variables at a few calls, ever further apart, up to a limit. Nothing is kept
    alive.

    Attributes:
        next_count: the call at which it is time to count again.
        chains: what led furthest back, by the holder's key.
    """

    def __init__(self) -> None:
        self.next_count = _FIRST
        self.chains: dict[tuple[str, ...], Chain] = {}
        self._carried: dict[tuple[str, int], Holder] = {}

    def count(self, call: int, nodes_from: Sequence[int], trained: Sequence[int], looking: Search) -> None:
        """Counts, as a call begins, the nodes behind every variable that holds something with a history.

        Args:
            call: the call's number.
            nodes_from: for each call, autograd's number of the first node that it recorded.
            trained: for each call, how many had begun when a backward pass came; 0 where none did.
            looking: a search that has been run.
        """
        self.next_count = call + max(_GAP, call // 3)
        found: dict[tuple[str, ...], tuple[Link, Any]] = {}
        for path in looking.with_history():
            link = link_of(path)
            if link.holder.kind == "variable":
                found.setdefault(link.holder.key, (link, path.things[-1].grad_fn))
        for key in self.chains.keys() - found.keys():
            self.chains[key] = Chain(**{**vars(self.chains[key]), "goes_on": False})
        for place, (key, (link, root)) in enumerate(found.items()):
            nodes = _history(root)
            calls = Counter(bisect_right(nodes_from, node._sequence_nr()) - 1 for node in nodes)
            counts = {at: calls[at] for at in sorted(calls) if 0 < at < call}
            known = self.chains.get(key)
            # Of a graph over many calls, that one backward pass has gone through at last, nothing is left but the end.
            waited = [trained[at] for at in counts if trained[at]]
            at_once = bool(waited) and statistics.median(waited) <= 2
            if len(counts) < LEAST_CALLS or not at_once or not _is_freed(nodes, nodes_from, sorted(counts)):
                if known is not None:
                    self.chains[key] = Chain(known.link, known.counts, False, known.leads_to)
                continue
            # Of two names for one tensor, the first counts.
            leads_to = (
                other
                for before, (other, (_, node)) in enumerate(found.items())
                if node in nodes and (node is not root or before < place)
            )
            if known is None or len(known.counts) <= len(counts):
                self.chains[key] = Chain(link, counts, True, frozenset(leads_to))

    def note(self, looking: Search) -> None:
        """Notes the variables that hold something with a history now, as a call begins."""
        for path in looking.with_history():
            tensor = path.things[-1]
            holder = link_of(path).holder
            if holder.kind == "variable" and isinstance(tensor, torch.Tensor):
                self._carried.setdefault(_name(tensor.grad_fn), holder)
        for old in list(self._carried)[:-_MOST_NAMES]:
            del self._carried[old]

    def correct(self, links: Mapping[int, tuple[Path, Link]]) -> dict[int, Holder]:
        """For ways that begin at a variable which only leads to what another one carries over: that other one."""
        instead: dict[tuple[str, ...], Holder] = {}
        for path, link in links.values():
            if link.holder.kind == "variable" and (carrier := self.carrier(path)) is not None:
                instead[link.holder.key] = carrier
        return {key: instead[link.holder.key] for key, (_, link) in links.items() if link.holder.key in instead}

    def carrier(self, path: Path) -> Holder | None:
        """The variable that carries over what a way leads through; None where none is known."""
        for thing in path.things:
            if is_node(thing) and (holder := self._carried.get(_name(thing))) is not None:
                return holder
        return None


def nodes_of_call(path: Path, nodes_from: Sequence[int], call: int) -> int:
    """How many nodes that one call recorded lie behind the first tensor on a way."""
    held = next((thing for thing in path.things if isinstance(thing, torch.Tensor) and thing.grad_fn is not None), None)
    if held is None or call < 1:
        return 0
    until = nodes_from[call + 1] if call + 1 < len(nodes_from) else float("inf")
    return sum(nodes_from[call] <= node._sequence_nr() < until for node in _history(held.grad_fn, nodes_from[call]))


def _name(node: Any) -> tuple[str, int]:
    """What tells a node from all others of its thread."""
    return type(node).__name__, node._sequence_nr()


def _is_freed(nodes: set[Any], nodes_from: Sequence[int], calls: Sequence[int]) -> bool:
    """Whether backward has gone through the nodes of an earlier call: they hold nothing but single numbers."""
    earlier = calls[len(calls) // 2]
    freed = 0
    for slot in _slots(nodes, nodes_from[earlier], nodes_from[earlier + 1]):
        freed += slot.freed
        if isinstance(slot.value, torch.Tensor) and slot.value.numel() > 1 and slot.value.grad_fn is not None:
            return False
    return freed > 0


def _slots(nodes: set[Any], first: int, until: int) -> Iterator[Any]:
    return (slot for node in nodes if first <= node._sequence_nr() < until for slot in saved_slots(node))


def _history(root: Any, first: int = 0) -> set[Any]:
    """The nodes that one leads to, itself included and leaves not, from some number on; a few more than the limit at
    most.
    """
    nodes, waiting = {root}, [root]
    while waiting and len(nodes) <= _MOST_NODES:
        following = {node for node, _ in waiting.pop().next_functions if node is not None} - nodes
        following = {node for node in following if type(node).__name__ != "AccumulateGrad"}
        following = {node for node in following if node._sequence_nr() >= first}
        nodes |= following
        waiting.extend(following)
    return nodes
