"""Who keeps a storage: from the user's variables forwards to it (``Search``).

What is nearest to the user is looked at first, so that the time it takes hangs on what the script holds, and not on
what the process does: containers and objects of the user's own, then recorded graphs, then the insides of libraries.
"""

from collections import deque
from collections.abc import Iterable, Iterator
from itertools import islice
from time import thread_time
from typing import Any, NamedTuple

import torch

from course_utils.base.torch_private import FunctionBase
from course_utils.graph.recorded import Node, is_node, storages_of
from course_utils.graph.steps import LARGE, Edge, holds_nothing, is_near, steps

_LOOKS = 32
"""The time is asked for after so many things."""


_WHO_LOOKS = ("course_utils.holders.", "course_utils.leaks.")
"""Rooms whose objects a search does not go through."""


class Root(NamedTuple):
    """A variable to begin at.

    Attributes:
        kind: as of ``Edge``; or "cycle", "building", for holders that no variable leads to.
        name: the variable's name.
        where: the function that it belongs to; "" for a global.
        file: the file.
        line: where its function begins; 0 for a global.
        value: what it refers to.
    """

    kind: str
    name: str
    where: str
    file: str
    line: int
    value: Any


class Path(NamedTuple):
    """The way from a variable to a storage: the root, the steps, and the things after each (the root's value first)."""

    root: Root
    edges: tuple[Edge, ...]
    things: tuple[Any, ...]


class Search:
    """A forward search, breadth first. Of the ways to a storage it finds one with the fewest steps through graphs.

    Args:
        targets: storages looked for, by ``id``.
        barred: things that no way may lead through, by ``id``.
        graphs: goes on into tensors and graphs, too.

    Attributes:
        found: the way to each storage that was found.
        missing: the others.
    """

    def __init__(self, targets: Iterable[int], barred: Iterable[int] = (), graphs: bool = True) -> None:
        self.found: dict[int, Path] = {}
        self.missing = set(targets)
        self._skip = {id(self.missing), id(self.found), id(self), *barred}
        self._seen: set[int] = set()
        # Every thing is kept until the end: an id stands for it in _seen, and nodes are made as they are looked at.
        self._things: list[Any] = []
        self._came: list[tuple[int, Edge | Root]] = []
        self._near: deque[int] = deque()
        self._graph: deque[int] = deque(maxlen=None if graphs else 0)
        self._rest: deque[tuple[int, Iterator[tuple[Edge, Any]]]] = deque()
        self._far: deque[int] = deque()
        self._held: list[int] = []
        self._queues: dict[type, deque[int] | None] = {}

    def run(self, roots: Iterable[Root], seconds: float, most_far: int = 0) -> None:
        """Searches on from some more variables, in this order where ways are of one length, for so many seconds of the
        processor's time, and looks into so many objects of libraries at most.
        """
        for root in roots:
            self._add(root.value, -1, root)
        until, looked = thread_time() + seconds, 0
        while self.missing:
            looked += 1
            if not looked % _LOOKS and thread_time() > until:
                # What comes with other variables is looked at before what is left over.
                self._far.extendleft((*self._graph, *self._near))
                self._graph.clear()
                self._near.clear()
                return
            if self._near or self._graph:
                at = (self._near or self._graph).popleft()
                self._take(at, steps(self._things[at]))
            elif self._rest:
                self._take(*self._rest.popleft())
            elif self._far and most_far:
                most_far -= 1
                at = self._far.popleft()
                self._take(at, steps(self._things[at]))
            else:
                return

    def with_history(self) -> Iterator[Path]:
        """The ways to tensors that have a history, and that variables lead to past all graphs."""
        return (self._path(at) for at in self._held)

    def met(self, *kinds: type) -> Iterator[Path]:
        """The ways to all things of some classes that were met."""
        return (self._path(at) for at, thing in enumerate(self._things) if issubclass(type(thing), kinds))

    def _take(self, at: int, onwards: Iterator[tuple[Edge, Any]]) -> None:
        taken = 0
        for edge, inner in islice(onwards, LARGE):
            self._add(inner, at, edge)
            taken += 1
        if taken == LARGE:
            self._rest.append((at, onwards))

    def _add(self, thing: Any, parent: int, edge: Edge | Root) -> None:
        kind = type(thing)
        queue = self._queues[kind] if kind in self._queues else self._queue(kind)
        if queue is None or id(thing) in self._seen or id(thing) in self._skip:
            return
        self._seen.add(id(thing))
        at = len(self._things)
        self._things.append(thing)
        self._came.append((parent, edge))
        queue.append(at)
        if queue is not self._graph:
            return
        if issubclass(kind, torch.UntypedStorage):
            self._meet(thing, at)
        elif issubclass(kind, torch.Tensor):
            for storage in storages_of(thing):
                self._meet(storage, at)
            by_variable = parent < 0 or not is_node(self._things[parent])
            if thing.grad_fn is not None and by_variable and edge.name not in ("_base", "grad"):
                self._held.append(at)

    def _queue(self, kind: type) -> deque[int] | None:
        queue: deque[int] | None
        if holds_nothing(kind) or kind.__module__.startswith(_WHO_LOOKS):
            queue = None
        elif issubclass(kind, (torch.Tensor, torch.UntypedStorage, FunctionBase, Node)):
            queue = self._graph
        else:
            queue = self._near if is_near(kind) else self._far
        self._queues[kind] = queue
        return queue

    def _meet(self, storage: torch.UntypedStorage, at: int) -> None:
        if id(storage) in self.missing:
            self.missing.discard(id(storage))
            self.found[id(storage)] = self._path(at)

    def _path(self, at: int) -> Path:
        edges: list[Edge] = []
        things: list[Any] = []
        while True:
            things.append(self._things[at])
            parent, edge = self._came[at]
            if isinstance(edge, Root):
                return Path(edge, tuple(reversed(edges)), tuple(reversed(things)))
            edges.append(edge)
            at = parent
