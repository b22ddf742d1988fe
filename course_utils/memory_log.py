"""The log of storages' births and deaths (``AllocationLog``): appended to at any moment, added up when somebody asks.

Imports ``memory_known``, ``memory_ledger`` and ``storages``.
"""

import threading
import weakref
from collections.abc import Callable, Iterable, Iterator
from time import perf_counter_ns
from typing import Any

import torch

from course_utils.memory_known import alive
from course_utils.memory_ledger import OLD, Block, Change, PhaseMark
from course_utils.storages import inner_tensors, storages_of

# NOTE [The log]
# ``list.append`` is one step that no thread and no garbage collection can cut in two, so logging needs neither lock nor
# counter, though storages die on the engine's threads and in the middle of anything. Entries, told apart by length:
#   (PhaseMark,)
#   (name of a place, references)                                                      storages found in ``.grad``, say
#   (reference, time, graph task)                                                      it died
#   (reference, bytes, operation, time, graph task, device, reference to the tensor)   a storage was born
# In the last one the operation may also be OLD (older than the tracker and met now), RESIZED (its size was read again)
# or TAKEN_FOR_OLD (it had been logged as OLD, and was not).
# A weak reference is the storage's identity: PyTorch keeps the Python object of a storage for as long as the storage
# lives, so its ``id`` tells storages apart, and a dead reference tells that an ``id`` has been taken over.
RESIZED = "resized"
TAKEN_FOR_OLD = "taken for old"
UNDISPATCHED = "past the dispatcher"


class AllocationLog:
    """Births and deaths of storages on every device, and the blocks and changes that they add up to.

    Attributes:
        places: for the name of a place such as "gradients": numbers of the storages found there so far.
        start_ns: when the log was made, on the clock of its times.
        lock: held while the log is added up.
    """

    def __init__(self) -> None:
        super().__init__()
        self.lock = threading.RLock()
        self.start_ns = perf_counter_ns()
        self.places: dict[str, set[int]] = {}
        self._entries: list[tuple] = []
        self._live: dict[int, tuple] = {}  # the birth or last size of each living storage, by the storage's id
        self._stream: list[Change | PhaseMark] = []
        self._blocks: dict[int, Block] = {}  # of living storages, by the id of the weak reference
        self._count = 0
        self._add, self._meet = _writers(self._entries, self._live)

    def know(self, tensors: Iterable[torch.Tensor]) -> None:
        """Notes storages that are older than the tracker, so that their death counts."""
        for tensor in tensors:
            self._meet(tensor, OLD)

    def mark(self, mark: PhaseMark) -> None:
        """Puts the beginning or end of a phase at this place of the stream."""
        self._entries.append((mark,))

    def note(self, place: str, tensors: Iterable[torch.Tensor], all_known: bool = False) -> None:
        """Notes that the storages of some tensors are in a named place now.

        Args:
            place: the name: ``gradients``.
            tensors: the tensors found there.
            all_known: ``know`` was given every older tensor of that place. One that the log has not met then came to
                be inside and past the dispatcher, as gradients from a compiled backward do, and is counted.
        """
        references = []
        for tensor in tensors:
            for storage in _storages(tensor):
                entry = self._live.get(id(storage))
                if entry is None or entry[0]() is not storage:
                    if not all_known:
                        continue
                    self._add(storage, tensor, UNDISPATCHED)
                    entry = self._live.get(id(storage))
                    if entry is None:  # not PyTorch's memory
                        continue
                elif all_known and entry[2] is OLD and entry[4] >= 0:
                    # Met in a backward pass and taken for an old one: the engine's own hand it on, nothing makes it.
                    entry = self._live[id(storage)] = (entry[0], entry[1], TAKEN_FOR_OLD, *entry[3:])
                    self._entries.append(entry)
                references.append(entry[0])
        self._entries.append((place, references))

    def refresh(self) -> None:
        """Reads the size of each living storage again: ``storage.resize_`` is no operation and leaves no trace."""
        for key, entry in list(self._live.items()):
            storage = entry[0]()
            if storage is None:
                if self._live.get(key) is entry:
                    del self._live[key]
            elif storage.nbytes() != entry[1]:
                now = (entry[0], storage.nbytes(), RESIZED, perf_counter_ns(), -1, None, None)
                self._live[key] = now
                self._entries.append(now)

    def number(self, storage: torch.UntypedStorage) -> int | None:
        """The number of a living storage; None where the log, as added up last, has not met it."""
        entry = self._live.get(id(storage))
        if entry is None or entry[0]() is not storage:
            return None
        block = self._blocks.get(id(entry[0]))
        return None if block is None else block.number

    def living_tensors(self) -> Iterator[torch.Tensor]:
        """For each living storage, the first tensor on it, where that is still alive."""
        self.fold()
        for block in list(self._blocks.values()):
            tensor = alive(block.tensor)
            if tensor is not None:
                yield tensor

    def fold(self) -> list[Change | PhaseMark]:
        """Adds up what is new in the log; returns the whole stream so far."""
        with self.lock:
            stop = len(self._entries)
            for entry in self._entries[:stop]:
                length = len(entry)
                if length == 3:
                    self._fold_death(*entry)
                elif length > 3:
                    self._fold_bytes(*entry)
                elif length == 1:
                    self._stream.append(entry[0])
                else:
                    found = (self._blocks.get(id(reference)) for reference in entry[1])
                    numbers = {block.number for block in found if block is not None}
                    self.places.setdefault(entry[0], set()).update(numbers)
            del self._entries[:stop]  # one step too: entries that came in meanwhile move to the front
            return self._stream

    def _fold_bytes(
        self, reference: Any, nbytes: int, op: Any, time_ns: int, task: int, device: torch.device | None, tensor: Any
    ) -> None:
        if op is RESIZED:
            block = self._blocks[id(reference)]
            delta = nbytes - block.nbytes
            block.nbytes = nbytes
        elif op is TAKEN_FOR_OLD:
            block = self._blocks[id(reference)]
            block.op, delta = UNDISPATCHED, nbytes
        else:
            block = self._blocks[id(reference)] = Block(self._count, nbytes, str(device), op, task, tensor)
            self._count += 1
            delta = 0 if op is OLD else nbytes
        if delta:
            self._stream.append(Change(block, delta, time_ns, task))

    def _fold_death(self, reference: Any, time_ns: int, task: int) -> None:
        block = self._blocks.pop(id(reference))
        block.died, block.died_task = True, task
        if block.nbytes:
            self._stream.append(Change(block, -block.nbytes, time_ns, task))

    def close(self) -> None:
        """Adds up the rest and lets go of every reference: later deaths are not logged."""
        with self.lock:
            self.fold()
            self._live.clear()
            self._blocks.clear()
            self._entries.clear()


def _storages(tensor: torch.Tensor) -> Iterable[torch.UntypedStorage]:
    """``storages_of``, quicker for a tensor that has a storage of its own."""
    if type(tensor) in (torch.Tensor, torch.nn.Parameter):
        try:
            return (tensor.untyped_storage(),)
        except (NotImplementedError, RuntimeError):  # sparse, opaque, inside torch.func
            return storages_of(tensor)
    return storages_of(tensor)


def _writers(entries: list[tuple], live: dict[int, tuple]) -> tuple[Callable, Callable]:
    """The functions that log a storage, and a tensor, as closures: fewer look-ups on each operation."""
    append, known = entries.append, live.get
    clock, graph_task, reference_to = perf_counter_ns, torch._C._current_graph_task_id, weakref.ref

    def died(reference: weakref.ref) -> None:
        append((reference, clock(), graph_task()))

    def add(storage: torch.UntypedStorage, tensor: torch.Tensor, op: Any) -> None:
        # Memory of NumPy or of a mapped file, and storages that only pretend to hold bytes.
        if not storage.resizable() or tensor._is_zerotensor():
            return
        reference = reference_to(storage, died)
        entry = (reference, storage.nbytes(), op, clock(), graph_task(), tensor.device, reference_to(tensor))
        live[id(storage)] = entry
        append(entry)

    def meet(tensor: torch.Tensor, op: Any) -> None:
        inside = inner_tensors(tensor)
        if inside:
            for inner in inside:
                meet(inner, op)
            return
        try:
            storage = tensor.untyped_storage()
        except (NotImplementedError, RuntimeError):  # opaque, as of oneDNN: nothing that PyTorch could show
            return
        entry = known(id(storage))
        if entry is None or entry[0]() is not storage:
            add(storage, tensor, op)
        elif op is RESIZED and entry[1] != storage.nbytes():
            entry = live[id(storage)] = (entry[0], storage.nbytes(), RESIZED, clock(), graph_task(), None, None)
            append(entry)

    return add, meet
