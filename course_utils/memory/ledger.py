"""What an engine sees (``Engine``): lives of storages, and changes of their bytes in the order in which they happened.
Their sums, peaks and phases on one device (``Ledger``).
"""

import threading
from collections.abc import Iterable, Iterator
from time import perf_counter_ns
from typing import Any, NamedTuple

import torch

from course_utils.memory.records import MemoryEvent, PhaseMemory

OLD = "before the start"
"""The ``op`` of a storage that existed before the tracker was entered."""


class Life:
    """One storage, from its birth to its death.

    Attributes:
        number: its place in the order of appearance, over all devices.
        nbytes: its size now, or when it died.
        device: where it lives.
        op: the operation that made it, as PyTorch's object or as text; ``OLD`` for one older than the tracker.
        born_task: the backward pass (autograd's number of it) that ran at its birth; -1 outside of backward.
        died: it is gone.
        died_task: as ``born_task``, at its death.
        tensor: a weak reference to the first tensor on it, or None.
    """

    __slots__ = ()
    number: int
    nbytes: int
    device: str
    op: Any
    born_task: int
    died: bool
    died_task: int
    tensor: Any

    @property
    def is_old(self) -> bool:
        """Whether the storage existed before the tracker was entered."""
        return self.op is OLD

    @property
    def op_name(self) -> str:
        """The operation that made the storage, such as ``aten::addmm``."""
        if isinstance(self.op, str):
            return self.op
        schema = getattr(self.op, "_schema", None)
        return schema.name if schema is not None else str(self.op)


class Block(Life):
    """A storage that an allocator tells of: its bytes are known, and no object to refer to."""

    __slots__ = ("born_task", "device", "died", "died_task", "nbytes", "number", "op", "tensor")

    def __init__(self, number: int, nbytes: int, device: str, op: Any, task: int, tensor: Any = None) -> None:
        self.number, self.nbytes, self.device, self.op = number, nbytes, device, op
        self.born_task, self.tensor = task, tensor
        self.died, self.died_task = False, -1


class Change(NamedTuple):
    """A storage gained or gave back bytes."""

    block: Life
    delta: int
    time_ns: int
    task: int


class Phase:
    """A phase while it is counted; ``record`` gives what a reader gets."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.begun = self.ended = False
        self.start = self.end = self.peak = self.first_event = self.last_event = 0
        self.peak_block: Life | None = None

    def record(self) -> PhaseMemory:
        """The phase as plain data."""
        op = self.peak_block.op_name if self.peak_block is not None else ""
        return PhaseMemory(self.name, self.start, self.end, self.peak, op, self.first_event, self.last_event)


class PhaseMark(NamedTuple):
    """A phase began, or ended."""

    phase: Phase
    begins: bool


class Engine:
    """Watches a block of code. What an engine cannot know, it leaves at nothing, as here.

    Attributes:
        live: figures can be asked for while the block runs.
        places: for the name of a place such as "gradients": numbers of the storages found there so far.
        start_ns: when watching began, on the clock of the times.
        lock: held while the stream is read and added up.
    """

    live = True

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.start_ns = perf_counter_ns()
        self.places: dict[str, set[int]] = {}
        self._stream: list[Change | PhaseMark] = []

    def know(self, tensors: Iterable[torch.Tensor]) -> None:
        """Is told of storages that are older than the block, so that their death counts."""

    def note(self, place: str, tensors: Iterable[torch.Tensor], all_known: bool = False) -> None:
        """Is told that the storages of some tensors are in a named place now.

        Args:
            place: the name: ``gradients``.
            tensors: the tensors found there.
            all_known: ``know`` was given every older tensor of that place. One that the engine has not met then came to
                be inside and past the dispatcher, as gradients from a compiled backward do, and is counted.
        """

    def mark(self, mark: PhaseMark) -> None:
        """Puts the beginning or end of a phase at this place of the stream."""
        self._stream.append(mark)

    def refresh(self) -> None:
        """Reads again what may have changed without being seen."""

    def stream(self) -> list[Change | PhaseMark]:
        """What happened so far, in order."""
        return self._stream

    def number(self, storage: torch.UntypedStorage) -> int | None:
        """The number of a living storage; None for one that the engine has not met."""
        return None

    def living_tensors(self) -> Iterator[torch.Tensor]:
        """Tensors on the living storages that the engine has met, as far as it knows any."""
        return iter(())

    def close(self) -> None:
        """Lets go of every reference: what happens from now on is not counted."""


class Ledger:
    """Takes the stream of one engine and keeps the sums of one device.

    Attributes:
        current: bytes alive above the start.
        peak: the most of them so far, at least 0.
        peak_block: the storage whose birth or growth reached the peak.
        peak_event: the number of events up to and including that one.
        changes: the changes on this device, with the bytes alive after each and the phase's name.
        elsewhere: bytes alive above the start on other devices.
    """

    def __init__(self, device: str) -> None:
        self.device = device
        self.current = self.peak = self.peak_event = 0
        self.peak_block: Life | None = None
        self.changes: list[tuple[Change, int, str]] = []
        self.elsewhere: dict[str, int] = {}
        self._open: list[Phase] = []
        self._phases: list[Phase] = []
        self._numbers: dict[int, int] = {}
        self._events: tuple[MemoryEvent, ...] = ()

    def take(self, stream: Iterable[Change | PhaseMark]) -> None:
        """Counts the next part of the stream."""
        device, changes, elsewhere = self.device, self.changes, self.elsewhere
        current, open_phases = self.current, self._open
        name = open_phases[-1].name if open_phases else ""
        for item in stream:
            if isinstance(item, PhaseMark):
                self.current = current
                self._mark(item.phase, item.begins)
                name = open_phases[-1].name if open_phases else ""
                continue
            block, delta, _, _ = item
            if block.device != device:
                elsewhere[block.device] = elsewhere.get(block.device, 0) + delta
                continue
            current += delta
            changes.append((item, current, name))
            if current > self.peak:
                self.peak, self.peak_block, self.peak_event = current, block, len(changes)
            for phase in open_phases:
                if current > phase.peak:
                    phase.peak, phase.peak_block = current, block
        self.current = current

    def _mark(self, phase: Phase, begins: bool) -> None:
        if begins:
            phase.start = phase.end = phase.peak = self.current
            phase.first_event = phase.last_event = len(self.changes)
            self._open.append(phase)
            self._phases.append(phase)
        elif phase in self._open:
            self._open.remove(phase)
            phase.end, phase.last_event, phase.ended = self.current, len(self.changes), True

    def phases(self) -> tuple[PhaseMemory, ...]:
        """The phases that have ended, in order of their start."""
        return tuple(phase.record() for phase in self._phases if phase.ended)

    def events(self, start_ns: int) -> tuple[MemoryEvent, ...]:
        """The changes as plain data, with times counted from ``start_ns``."""
        done = len(self._events)
        if done < len(self.changes):
            new = []
            for t, (change, current, phase) in enumerate(self.changes[done:], done):
                block, delta, time_ns, task = change
                number = self._numbers.setdefault(block.number, len(self._numbers))
                name, since = block.op_name, time_ns - start_ns
                new.append(MemoryEvent(t, name, phase, delta, current, number, block.device, task >= 0, since))
            self._events += tuple(new)
        return self._events
