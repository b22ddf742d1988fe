"""What a watch has seen: plain numbers and lines, and no tensor is kept (``Log``)."""

import re
import time
import weakref
from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch

from course_utils.base.user_code import Site
from course_utils.graph.report import operation_name
from course_utils.record.storages import OLD, Listener, Recorder, Storage

_MOST = 200_000
"""Of the calls that recorded nodes, so many are remembered in each thread; then the older half is forgotten."""


@dataclass(frozen=True)
class Call:
    """One call of an operation: what PyTorch calls it below autograd, and the user's line."""

    name: str
    site: Site


@dataclass(frozen=True)
class Edited(Call):
    """An edit in place."""

    version: int  # the memory's counter after it
    by: str  # the library's function that did it for the line, "embedding"
    steps: bool  # an optimizer did it
    recording: bool
    view: bool  # through a view of the tensor


@dataclass(frozen=True)
class Switch:
    """Who switched recording off: "block", "decorator", "checkpoint", and where."""

    how: str
    site: Site


@dataclass(frozen=True)
class Cut(Call):
    """Where a history ended: by "detach", a "number", a "dtype", "data", a "mode" (recording was off), an "operation"
    (it has no derivative); of a "gradient", or where a new tensor was made of plain "values", there never was one.
    """

    how: str
    leaves: frozenset[int] = frozenset()  # the numbers of the memory of those that the history led to
    node: int = -1  # the number of the node behind which it ended
    switch: Switch | None = None  # who switched recording off


@dataclass(frozen=True)
class Recorded(Call):
    """A call that recorded nodes; ``entered`` is where the history of something that it was given had ended."""

    entered: Cut | None = None


@dataclass(frozen=True)
class NotFinite(Call):
    """The call that first made a NaN or an infinity."""

    what: str  # "nan" or "inf"
    inputs: tuple[str, ...] = ()  # the ranges of what it was given, in words
    backward: bool = False
    given: bool = False  # what it was given had one already: the data or, where ``edited`` says so, a weight
    before: "NotFinite | None" = None  # what made the infinity that became a NaN here
    edited: Edited | None = None


@dataclass(eq=False)
class Pass:
    """One backward pass."""

    stack: tuple[Site, ...]  # the user's lines that were running, innermost first
    order: int  # when it began, as of ``Log.tick``
    at: int  # the number that the next node would have got
    roots: frozenset[int]  # the numbers of the nodes that it began at
    nodes: frozenset[tuple[str, int]]  # those that it went through, by name and number
    keeps: bool  # what they had saved
    leaves: frozenset[int]  # the numbers of their memory
    failed: bool = False
    bad: NotFinite | None = None  # the first in it


class Nodes:
    """The calls that recorded nodes in one thread, by the nodes' numbers, which are that thread's own."""

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._ends: list[int] = []
        self._calls: list[Recorded] = []

    def add(self, start: int, end: int, call: Recorded) -> None:
        """A call recorded the nodes from a number up to another."""
        self._starts.append(start)
        self._ends.append(end)
        self._calls.append(call)
        if len(self._ends) > _MOST:
            for known in (self._starts, self._ends, self._calls):
                del known[: _MOST // 2]

    def get(self, number: int) -> Recorded | None:
        """The call that recorded a node; None where none is known."""
        at = bisect_right(self._ends, number)
        return self._calls[at] if at < len(self._ends) and number >= self._starts[at] else None

    def ran_since(self, site: Site, number: int) -> bool:
        """Whether a line has recorded something since a node had a number."""
        return any(call.site == site for call in self._calls[bisect_left(self._starts, number) :])


class Memory(Storage):
    """A storage, and what became of it."""

    __slots__ = ("bad", "cut", "edits", "plain", "recorded", "stepped")
    edits: list[Edited] | None  # the first one first; None before it
    cut: Cut | None  # where the history ended of what is in it, or of what that was computed from
    bad: NotFinite | None  # what first made one that is in it
    stepped: bool  # an optimizer has changed it
    recorded: bool  # what is in it has a history
    plain: Call | None  # the first that was given it without


def _born(memory: Memory, tensor: torch.Tensor) -> None:
    memory.edits = memory.cut = memory.bad = memory.plain = None
    memory.stepped = memory.recorded = False


class Log:
    """What happened: to memory, by its record, which ends with it; to nodes, by their thread and number."""

    def __init__(self) -> None:
        self.recorder = Recorder(lines=True, listener=Listener(Memory, _born, lambda memory: None))
        self.threads: list[Nodes] = []
        self.cut_at: dict[tuple[Site, str], Cut] = {}
        self.switches: dict[int, Switch] = {}
        self.passes: deque[Pass] = deque(maxlen=64)
        self.running: list[Pass] = []
        self.done: weakref.WeakKeyDictionary[Any, dict[str, tuple[int, Site]]] = weakref.WeakKeyDictionary()
        self.first_bad: NotFinite | None = None
        self.many_bad = self.failed = self._ticks = 0
        self.ended: float | None = None

    def tick(self) -> int:
        """Counts what happens."""
        self._ticks += 1
        return self._ticks

    def age(self) -> str:
        """How long ago the watch ended, in words; "" where it goes on, or ended just now."""
        seconds = 0 if self.ended is None else time.monotonic() - self.ended
        return f"{seconds / 60:.0f} minutes" if seconds > 90 else f"{seconds:.0f} s" if seconds > 10 else ""

    def memory(self, tensor: torch.Tensor) -> list[Memory]:
        """The records of a tensor's memory; none where nobody met it."""
        return self.recorder.records(tensor)

    def numbers_of(self, tensor: torch.Tensor) -> list[int]:
        """The numbers of a tensor's memory."""
        return [memory.number for memory in self.memory(tensor)]

    def cut(self, tensor: torch.Tensor) -> Cut | None:
        """Where the history of a tensor ended, or of what it was computed from."""
        if tensor.requires_grad:
            return None
        gradients = (memory for memory in self.memory(tensor) if memory.born_task >= 0)
        gradient = next((Cut("grad", memory.site, "gradient") for memory in gradients), None)
        return self._first(tensor, "cut") or gradient

    def cuts_in(self, nodes: Iterable[Any], leaf: torch.Tensor) -> list[Cut]:
        """Where the ways from a leaf to some nodes were cut."""
        found = (call.entered for node in nodes if (call := self.node(node)) is not None)
        wanted = set(self.numbers_of(leaf))
        return [cut for cut in dict.fromkeys(found) if cut is not None and wanted & cut.leaves]

    def cuts_not_followed(self, leaf: torch.Tensor | None = None) -> list[Cut]:
        """The latest cuts of what comes from a leaf, or from any, by which a value may have gone on unseen: through a
        number or an array. A loss that went to the log as a number is none.
        """
        roots = {number for one in self.passes for number in one.roots}
        wanted = set(self.numbers_of(leaf)) if leaf is not None else set()
        return [
            cut for cut in reversed(self.cut_at.values())
            if cut.how in ("detach", "number", "data", "dtype") and cut.node not in roots
            and (leaf is None or wanted & cut.leaves)
        ]  # fmt: skip

    def node(self, node: Any) -> Recorded | None:
        """The call that recorded a node; None where none is known, or several in several threads may have."""
        number = node._sequence_nr()
        found = [call for nodes in self.threads if (call := nodes.get(number)) is not None]
        if len(found) > 1:
            found = [call for call in found if _fits(call.name, operation_name(node.name()))]
        return found[0] if len({call.site for call in found}) == 1 else None

    def ran_since(self, site: Site, number: int) -> bool:
        """Whether a line has recorded something since a node had a number."""
        return any(nodes.ran_since(site, number) for nodes in self.threads)

    def made(self, tensor: torch.Tensor) -> Call | None:
        """The call that made a tensor's memory."""
        made = (memory for memory in self.memory(tensor) if memory.op is not OLD and memory.born_task < 0)
        return next((Call(memory.op_name.partition("::")[2], memory.site) for memory in made), None)

    def edits(self, tensor: torch.Tensor) -> list[Edited]:
        """The edits of a tensor's memory, the first one first."""
        return [edit for memory in self.memory(tensor) for edit in memory.edits or ()]

    def freed(self, node: Any) -> Pass | None:
        """The backward pass that freed what a node had saved."""
        told = node.name(), node._sequence_nr()
        return next((one for one in self.passes if told in one.nodes and not one.keeps and not one.failed), None)

    def passed(self, tensor: torch.Tensor) -> Pass | None:
        """The latest backward pass that led to a leaf."""
        numbers = set(self.numbers_of(tensor))
        return next((one for one in reversed(self.passes) if numbers & one.leaves and not one.failed), None)

    def not_finite(self, tensor: torch.Tensor) -> NotFinite | None:
        """What first made a NaN or an infinity that got into a tensor."""
        return self._first(tensor, "bad")

    def plain(self, tensor: torch.Tensor) -> Call | None:
        """The first call that was given a tensor's memory without a history."""
        return self._first(tensor, "plain")

    def stepped(self, tensor: torch.Tensor) -> bool:
        """Whether an optimizer has changed a tensor."""
        return bool(self._first(tensor, "stepped"))

    def _first(self, tensor: torch.Tensor, what: str) -> Any:
        return next((found for memory in self.memory(tensor) if (found := getattr(memory, what))), None)

    def note(self, owner: Any, what: str, site: Site) -> None:
        """An optimizer or a module has done something: "step", "zero_grad"."""
        self.done.setdefault(owner, {})[what] = self.tick(), site

    def last(self, owner: Any, what: str) -> tuple[int, Site] | None:
        """When and where it last did so."""
        return self.done.get(owner, {}).get(what)


def _fits(op: str, node: str) -> bool:
    """Whether a node may be an operation's, whose name may end in a word more."""
    first, second = (re.sub(r"[\W_]", "", name).lower() for name in (op, node))
    return first.startswith(second) or second.startswith(first)
