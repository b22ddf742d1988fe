"""Graphs that grow though backward has freed what they saved (``Chains``): ``total += loss`` beside ``backward()``."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import pairwise
from typing import Any, NamedTuple

import torch

from course_utils.graph.recorded import saved_slots
from course_utils.graph.storages import storages_of
from course_utils.holders.holder import Link
from course_utils.holders.lines import as_written, keeping_line
from course_utils.holders.search import Search
from course_utils.holders.ways import link_of
from course_utils.leaks.findings import Finding
from course_utils.leaks.verdict import LEAST_CALLS, Rate

_FIRST, _GAP, _MOST_NODES = 8, 4, 30_000


class _Count(NamedTuple):
    call: int
    nodes: int
    freed: int
    holding: int


class Chains:
    """Counts the nodes behind the user's variables at a few calls, ever further apart, up to a limit.

    Attributes:
        next_count: the call at which it is time to count again.
    """

    def __init__(self) -> None:
        self.next_count = _FIRST
        self._counts: dict[tuple[str, ...], list[_Count]] = {}
        self._links: dict[tuple[str, ...], Link] = {}
        self._leads: dict[tuple[str, ...], set[tuple[str, ...]]] = {}
        self._too_long: set[tuple[str, ...]] = set()

    def count(self, call: int, looking: Search) -> None:
        """Counts, as a call begins, the nodes behind every variable that holds something with a history."""
        self.next_count = call + max(_GAP, call // 4)
        found: dict[tuple[str, ...], tuple[Link, Any]] = {}
        for path in looking.with_history():
            link = link_of(path)
            if link.holder.kind == "variable" and link.holder.key not in self._too_long:
                found.setdefault(link.holder.key, (link, path.things[-1].grad_fn))
        for place, (key, (link, root)) in enumerate(found.items()):
            nodes = _history(root)
            if len(nodes) > _MOST_NODES:
                self._too_long.add(key)
                continue
            self._counts.setdefault(key, []).append(_Count(call, len(nodes), *_saved(nodes)))
            self._links[key] = link
            # Of two names for one tensor, the first counts.
            self._leads[key] = {
                other
                for before, (other, (_, node)) in enumerate(found.items())
                if node in nodes and (node is not root or before < place)
            }

    def findings(self, said: Iterable[Finding]) -> Iterator[Finding]:
        """The variables whose graph has grown evenly, and that no finding on bytes names."""
        named = {(one.tail, one.file) for found in said for one in (found.holder, *(other for other, _ in found.also))}
        growing = {key: rate for key, counts in self._counts.items() if (rate := _rate(counts))}
        for key, rate in growing.items():
            link = self._links[key]
            if (link.holder.tail, link.holder.file) in named or self._leads[key] & growing.keys():
                continue
            line = keeping_line(link.holder)
            yield Finding(
                holder=replace(link.holder, name=as_written(link.holder, line)), line=line, made=(),
                rate=Rate(0, 0, 0, self._counts[key][-1].call), graph_bytes=0, saved=(), training=True,
                scalar=link.scalar, direct=link.direct, history=True, nodes=rate,
            )  # fmt: skip


def _rate(counts: list[_Count]) -> int:
    """Nodes a call; 0 where they do not grow evenly to the end, were let go before, or tensors grow with them."""
    last = counts[-LEAST_CALLS:]
    rates = [(after.nodes - before.nodes) / (after.call - before.call) for before, after in pairwise(last)]
    let_go = any(after.nodes < before.nodes for before, after in pairwise(counts))
    if len(last) < LEAST_CALLS or let_go or min(rates) < 0.5 * max(rates):
        return 0
    if last[-1].freed <= last[0].freed or last[-1].holding > last[0].holding:
        return 0
    return round((last[-1].nodes - last[0].nodes) / (last[-1].call - last[0].call))


def _saved(nodes: set[Any]) -> tuple[int, int]:
    """How many slots backward has freed, and how many storages the others hold; single numbers are not counted."""
    freed, storages = 0, set[int]()
    for slot in (slot for node in nodes for slot in saved_slots(node)):
        freed += slot.freed
        if isinstance(slot.value, torch.Tensor) and slot.value.numel() > 1:
            storages.update(storage._cdata for storage in storages_of(slot.value))
    return freed, len(storages)


def _history(root: Any) -> set[Any]:
    """The nodes that one leads to, itself included: all, or a few more than the limit."""
    nodes, waiting = {root}, [root]
    while waiting and len(nodes) <= _MOST_NODES:
        following = {node for node, _ in waiting.pop().next_functions if node is not None} - nodes
        nodes |= following
        waiting.extend(following)
    return nodes
