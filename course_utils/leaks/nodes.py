"""Graphs that lead from call to call (``Nodes``): how many nodes of each call a variable still leads to, and which
variable carries them over.

After ``backward()`` nodes hold no tensors, but stay as long as something leads to them: ``total += loss``. Of a state
and all that is computed from it, only the state has to be cut off: the one whose value, as it was when an earlier call
began, is part of the graph of a later call.
"""

import itertools
import statistics
import sys
import weakref
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from course_utils.base.user_code import Site, user_site
from course_utils.graph.recorded import Slot, is_node, saved_slots
from course_utils.holders import search_from_users_variables
from course_utils.holders.holder import Holder, Link
from course_utils.holders.search import Path, Search
from course_utils.holders.ways import link_of
from course_utils.leaks.births import Births, Thread
from course_utils.leaks.kept import LEAST_CALLS, LEAST_ROUND, NOTHING, Stretch, Way

NODE_BYTES = 700
"""What a node takes of host memory, with the tensor that it made, without what it saved: 640 to 980 bytes were measured
with linear, convolutional and attention layers and with plain arithmetic."""

_GAP = 4

Key = tuple[str, ...]
Name = tuple[int, str, int]
"""What tells a node from all others: its thread, its kind, its number in the thread."""


@dataclass
class Chain:
    """A variable whose graph leads back to many calls."""

    link: Link
    root: Name | None = None  # the node that it led to directly, at the last count
    stretch: Stretch = NOTHING
    leads_to: set[Key] = field(default_factory=set)  # keys of the holders whose graphs are part of it
    _mark: Any = None

    @property
    def rate(self) -> int:
        """Nodes a call."""
        return round(statistics.median(self.stretch.values.values()) / NODE_BYTES)

    def goes_on(self, graph: "_Graph", leads_to: set[Key], births: Births) -> None:
        """Takes over what a count has found, and waits for the end: what is tied to a node dies with it."""
        self.leads_to = self.leads_to | leads_to if self.stretch.goes_on else leads_to
        root, self.link = next(iter(graph.nodes)), graph.link
        self.root = _name(graph.thread, root)
        values = {call: NODE_BYTES * graph.counts[call] for call in sorted(graph.counts)}
        self.stretch = Stretch(values, sum(values.values()), times=self.stretch.times)
        mark = set[None]()  # anything that can be referred to weakly
        root.metadata.setdefault(__name__, []).append(mark)
        self._mark = weakref.ref(mark, lambda _: self.end(births, user_site(sys._getframe(1))))

    def end(self, births: Births, site: Site) -> None:
        """It is given back now; the calls since the last count added as much as the others."""
        calls, place_of = list(self.stretch.values), births.place_of
        every = min(after - before for before, after in itertools.pairwise(calls))
        since = range(calls[-1] + every, births.call + 1, every)
        more = [call for call in since if place_of[call] == place_of[calls[-1]]]
        values = {**self.stretch.values, **dict.fromkeys(more, NODE_BYTES * self.rate)}
        times, total = self.stretch.times + 1, sum(values.values())
        self.stretch = Stretch(values, total, False, births.call, given_back_at=site, times=times)


class _Graph:
    """What is behind a variable that holds something with a history, and was not counted when it was last looked at."""

    def __init__(self, link: Link, tensor: torch.Tensor, births: Births, known: Chain | None) -> None:
        self.link, self.thread = link, births.thread_of(tensor)
        former = known.root if known is not None and known.stretch.goes_on else None
        first = former[2] if former is not None and former[0] == id(self.thread) else self.thread.first_of(1)
        self.nodes = _history(tensor.grad_fn, first)
        self.counts = Counter(self.thread.call_of(node._sequence_nr()) for node in self.nodes)  # nodes by call
        del self.counts[0]
        self._new = sorted(self.counts)
        self.names = {_name(self.thread, node) for node in self.nodes}
        if known is not None and former in self.names:
            self.counts[self.thread.call_of(first)] -= 1
            self.counts.update({call: nbytes // NODE_BYTES for call, nbytes in known.stretch.values.items()})
        # Of a graph over many calls, that one pass has gone through at last, nothing is left but the end.
        self.passes = len({at + births.trained[at] for at in self.counts if births.trained[at]})

    def is_freed(self) -> bool:
        """Whether backward has gone through the nodes of an earlier call: they hold nothing but single numbers."""
        earlier = self._new[len(self._new) // 2]
        nodes = [node for node in self.nodes if self.thread.call_of(node._sequence_nr()) == earlier]
        slots = [slot for node in nodes for slot in saved_slots(node)]
        held = any(_is_whole(slot) and not slot.freed and slot.value.grad_fn is not None for slot in slots)
        return not held and any(slot.freed for slot in slots)


class Nodes:
    """Counts the nodes behind the user's variables at a few calls, ever further apart. Nothing is kept alive."""

    def __init__(self, births: Births) -> None:
        self._births = births
        self.next_count = LEAST_ROUND + 1  # the call at which it is time to count again
        self.chains: dict[Key, Chain] = {}  # what led furthest back, by the holder's key
        self._carried: dict[Name, Holder] = {}  # who held the nodes when a call began

    def count(self) -> None:
        """Counts, as a call begins, the nodes behind every variable that holds something with a history."""
        # For no storage: up to every such variable.
        looking, call = search_from_users_variables(Search((-1,), graphs=False)), self._births.call
        self.next_count = call + max(_GAP, call // 2)
        self.note(looking)
        found: dict[Key, tuple[Link, torch.Tensor]] = {}
        for link, tensor in _variables(looking):
            found.setdefault(link.holder.key, (link, tensor))
        for key, (link, tensor) in found.items():
            graph = _Graph(link, tensor, self._births, self.chains.get(key))
            if len(graph.counts) < LEAST_ROUND or graph.passes < LEAST_CALLS or not graph.is_freed():
                continue
            carried = {self._carried[name].key for name in graph.names & self._carried.keys()} - {key}
            chain = self.chains.setdefault(key, Chain(graph.link))
            if len(chain.stretch.values) <= len(graph.counts):
                chain.goes_on(graph, carried, self._births)

    def note(self, looking: Search) -> None:
        """Notes the variables that hold something with a history now, as a call begins."""
        for link, tensor in _variables(looking):
            self._carried.setdefault(_name(self._births.thread_of(tensor), tensor.grad_fn), link.holder)

    def ways(self, paths: Mapping[int, Path], calls: Mapping[int, int]) -> dict[int, Way]:
        """What ways to storages say, by ``id``, given the calls that made these. In place of a variable that only leads
        to what another one carries over from call to call, that other one is told of.
        """
        ways = {key: self._way(path, calls[key]) for key, path in paths.items()}
        instead: dict[Key, Holder] = {}
        for key, way in ways.items():
            thread = self._births.thread_of_call(calls[key])
            names = [_name(thread, thing) for thing in paths[key].things if is_node(thing)]
            carriers = [self._carried[name] for name in names if name in self._carried]
            if way.holder.kind == "variable" and carriers:
                instead[way.holder.key] = carriers[0]
        return {key: replace(way, holder=instead.get(way.holder.key, way.holder)) for key, way in ways.items()}

    def _way(self, path: Path, call: int) -> Way:
        """What a way says, with what there is of graphs on it."""
        link = link_of(path)
        held = next((thing for thing in path.things if isinstance(thing, torch.Tensor) and thing.grad_fn), None)
        if held is None or call < 1 or not (link.history or link.graph):
            return Way(**vars(link))
        thread = self._births.thread_of_call(call)
        first = thread.first_of(call)
        nodes = _history(held.grad_fn, first)
        own = sum(thread.call_of(node._sequence_nr()) == call for node in nodes)
        saved = next((slots for node in nodes if (slots := [one for one in saved_slots(node) if _is_whole(one)])), [])
        used = bool(saved) and all(slot.freed for slot in saved)
        goes_back = any(thread.first_of(1) <= one._sequence_nr() < first for node in nodes for one in _behind(node))
        return Way(**(vars(link) | {"nodes": own}), goes_back=goes_back, used=used)


def _variables(looking: Search) -> Iterator[tuple[Link, torch.Tensor]]:
    """The variables that hold a tensor with a history."""
    for path in looking.with_history():
        link = link_of(path)
        if link.holder.kind == "variable":
            yield link, path.things[-1]


def _name(thread: Thread, node: Any) -> Name:
    return id(thread), type(node).__name__, node._sequence_nr()


def _is_whole(slot: Slot) -> bool:
    """Whether a slot holds more than a single number, or did before backward freed it."""
    return slot.freed or (isinstance(slot.value, torch.Tensor) and slot.value.numel() > 1)


def _behind(node: Any) -> Iterable[Any]:
    """The nodes that one leads to directly, but for leaves."""
    return [one for one, _ in node.next_functions if one is not None and type(one).__name__ != "AccumulateGrad"]


def _history(root: Any, first: int) -> dict[Any, None]:
    """The nodes that one leads to, itself included and leaves not, from some number on; the nearest first."""
    nodes, waiting = {root: None}, deque([root])
    while waiting:
        for node in _behind(waiting.popleft()):
            if node not in nodes and node._sequence_nr() >= first:
                nodes[node] = None
                waiting.append(node)
    return nodes
