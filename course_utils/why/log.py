"""What a watch has seen: plain numbers and lines, and no tensor is kept (``Log``)."""

import weakref
from bisect import bisect_right
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import torch

from course_utils.base.user_code import Site
from course_utils.graph.storages import storages_of

_MOST = 200_000
"""Of calls that recorded nodes, and of backward's nodes, so many are remembered; then the older half is forgotten."""


@dataclass(frozen=True)
class Call:
    """One call of an operation: what it is called, and the user's line."""

    name: str
    site: Site


@dataclass(frozen=True)
class Edited(Call):
    """An edit in place; ``version`` is the memory's counter after it."""

    version: int


@dataclass(frozen=True)
class Cut(Call):
    """Where a history ended.

    Attributes:
        how: "detach", "data", "number", "numpy", "copy" (``torch.tensor(x)``), "dtype", "mode" (recording was off),
            "operation" (it has no derivative).
        switched: the line that switched recording off.
        leaves: the memory of the leaves that the history led to, where that was looked up.
    """

    how: str
    switched: Site | None = None
    leaves: frozenset[int] = frozenset()


@dataclass(frozen=True)
class NotFinite(Call):
    """The call that first made a NaN or an infinity.

    Attributes:
        what: "nan" or "inf".
        inputs: the ranges of what it was given, in words.
        backward: it was made on the way back.
        given: what it was given had one already: the data or, where ``edited`` says so, a weight.
        before: what made the infinity that became a NaN here.
        edited: the edit that made a weight so.
    """

    what: str
    inputs: tuple[str, ...] = ()
    backward: bool = False
    given: bool = False
    before: "NotFinite | None" = None
    edited: Edited | None = None


@dataclass(eq=False)
class Pass:
    """One backward pass: the numbers of the nodes that it went through, and whether they were kept."""

    site: Site
    nodes: frozenset[int]
    keeps: bool
    leaves: frozenset[int]
    failed: bool = False
    cleared: list[Site] = field(default_factory=list)


class Log:
    """What happened, by what it happened to: a node's number, a storage's address, a tensor's ``id``."""

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._ends: list[int] = []
        self._calls: list[Call] = []
        self._made: dict[int, Call] = {}
        self._edits: dict[int, list[Edited]] = {}
        self._cuts: dict[int, tuple[weakref.ref, Cut]] = {}
        self._numbers: dict[object, Cut] = {}
        self.cut_at: dict[tuple[Site, str], Cut] = {}
        self.entered: dict[int, Cut] = {}
        self.bad: dict[int, NotFinite] = {}
        self.passes: deque[Pass] = deque(maxlen=64)
        self.cleared: dict[int, Call] = {}
        self.steps: dict[int, Site] = {}
        self.first_backward: NotFinite | None = None
        self.last_bad: NotFinite | None = None
        self.failed = 0

    # Written by the watch

    def add_nodes(self, start: int, end: int, call: Call) -> None:
        self._starts.append(start)
        self._ends.append(end)
        self._calls.append(call)
        if len(self._ends) > _MOST:
            for known in (self._starts, self._ends, self._calls):
                del known[: _MOST // 2]

    def add_made(self, key: int, call: Call) -> None:
        if len(self._made) > _MOST:
            self._made.clear()
            self._edits.clear()
        self._made[key] = call
        self._edits.pop(key, None)
        self.bad.pop(key, None)

    def add_edit(self, key: int, edit: Edited) -> None:
        known = self._edits.setdefault(key, [])
        known.append(edit)
        if len(known) > 24:
            del known[4:14]

    def add_cut(self, tensor: torch.Tensor, cut: Cut) -> None:
        if len(self._cuts) > _MOST:
            self._cuts = {key: pair for key, pair in self._cuts.items() if pair[0]() is not None}
        self._cuts[id(tensor)] = weakref.ref(tensor), cut

    def add_entered(self, numbers: range, cut: Cut) -> None:
        """What lost its history was given to the operations that recorded some nodes."""
        if len(self.entered) > _MOST:
            self.entered.clear()
        self.entered.update(dict.fromkeys(numbers, cut))

    def add_number(self, number: object, cut: Cut) -> None:
        if len(self._numbers) > 4096:
            self._numbers.clear()
        self._numbers[number] = cut

    # Read by everybody

    def cut(self, tensor: torch.Tensor) -> Cut | None:
        """Where the history of a tensor ended, or of what it was computed from."""
        reference, cut = self._cuts.get(id(tensor), (None, None))
        return cut if reference is not None and reference() is tensor else None

    def cuts_in(self, nodes: Iterable[Any], leaf: torch.Tensor) -> list[Cut]:
        """Where the ways from a leaf to some nodes were cut."""
        found = (self.entered.get(node._sequence_nr()) for node in nodes)
        wanted = set(keys_of(leaf))
        return [cut for cut in dict.fromkeys(found) if cut is not None and wanted & cut.leaves]

    def number(self, number: object) -> Cut | None:
        """Where a number or an array was taken out of a tensor with a history."""
        try:
            return self._numbers.get(number)
        except TypeError:
            return None

    def node(self, node: Any) -> Call | None:
        """The call that recorded a node."""
        number = node._sequence_nr()
        at = bisect_right(self._ends, number)
        return self._calls[at] if at < len(self._ends) and number < self._ends[at] else None

    def made(self, tensor: torch.Tensor) -> Call | None:
        """The call that made a tensor's memory."""
        return next((self._made[key] for key in keys_of(tensor) if key in self._made), None)

    def edits(self, tensor: torch.Tensor) -> list[Edited]:
        """The edits of a tensor's memory, the first one first."""
        return [edit for key in keys_of(tensor) for edit in self._edits.get(key, ())]

    def freed(self, node: Any) -> Pass | None:
        """The backward pass that freed what a node had saved."""
        number = node._sequence_nr()
        found = (one for one in self.passes if number in one.nodes and not one.keeps and not one.failed)
        return next(found, None)

    def not_finite(self, tensor: torch.Tensor) -> NotFinite | None:
        """What first made a NaN or an infinity that got into a tensor."""
        return next((self.bad[key] for key in keys_of(tensor) if key in self.bad), None)


def keys_of(tensor: torch.Tensor) -> list[int]:
    """What tells a tensor's memory from all other that is there."""
    return [storage._cdata for storage in storages_of(tensor)]
