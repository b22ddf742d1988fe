"""The log of storages' births and deaths (``AllocationLog``): appended to at any moment, added up when asked."""

import threading
import weakref
from collections.abc import Callable, Iterable, Iterator
from time import perf_counter_ns
from typing import Any

import torch

from course_utils.graph.storages import storages_of
from course_utils.memory.ledger import OLD, Block, Change, PhaseMark

# NOTE [The log]
# A list of plain things, to which one call of ``extend`` adds an entry. That is one step which no thread and no garbage
# collection can cut in two, so logging needs neither lock nor counter, though storages die on the engine's threads and
# in the middle of anything. Entries are not tuples: those would be one more object each for the collector to visit.
# An entry is a code and as many things as it has:
_BORN = 0  # reference, bytes, operation or OLD, time, graph task, device, reference to the tensor or None
_DIED = 1  # reference, time, graph task
_SIZED = 2  # reference, bytes, time, graph task: its size was read again
_NOT_OLD = 3  # reference, time, graph task: it had been logged as OLD, and came to be inside
_MARK = 4  # PhaseMark
_PLACE = 5  # name of a place, references to the storages found there
_LENGTHS = (8, 4, 5, 4, 2, 3)
# A weak reference is the storage's identity: PyTorch keeps the Python object of a storage for as long as the storage
# lives, so its ``id`` tells storages apart, and a dead reference tells that an ``id`` has been taken over.

UNDISPATCHED = "past the dispatcher"
"""The ``op`` of a storage that came to be inside and that no operation made."""


class AllocationLog:
    """Births and deaths of storages on every device, and the blocks and changes that they add up to.

    Attributes:
        places: for the name of a place such as "gradients": numbers of the storages found there so far.
        start_ns: when the log was made, on the clock of its times.
        lock: held while the log is added up.
    """

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.start_ns = perf_counter_ns()
        self.places: dict[str, set[int]] = {}
        self._entries: list[Any] = []
        self._live: dict[int, weakref.ref] = {}  # by the storage's id, as the next two
        self._sizes: dict[int, int] = {}
        self._doubtful: dict[int, weakref.ref] = {}  # logged as OLD in a backward pass
        self._stream: list[Change | PhaseMark] = []
        self._blocks: dict[int, Block] = {}  # of living storages, by the id of the weak reference
        self._count = 0
        self._device_names = _Names()
        self._add, self._meet, self._size = _writers(self._entries, self._live, self._sizes, self._doubtful)

    def know(self, tensors: Iterable[torch.Tensor]) -> None:
        """Notes storages that are older than the tracker, so that their death counts."""
        for tensor in tensors:
            self._meet(tensor, OLD)

    def mark(self, mark: PhaseMark) -> None:
        """Puts the beginning or end of a phase at this place of the stream."""
        self._entries.extend((_MARK, mark))

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
                key = id(storage)
                reference = self._live.get(key)
                if reference is None or reference() is not storage:
                    if not all_known:
                        continue
                    self._add(storage, tensor, UNDISPATCHED)
                    reference = self._live.get(key)
                    if reference is None:  # not PyTorch's memory
                        continue
                elif all_known and self._doubtful.get(key) is reference:
                    # Taken for an old one when backward handed it on: operations only ever pass such a one along.
                    del self._doubtful[key]
                    self._entries.extend((_NOT_OLD, reference, perf_counter_ns(), 0))
                references.append(reference)
        self._entries.extend((_PLACE, place, references))

    def refresh(self) -> None:
        """Reads the size of each living storage again: ``storage.resize_`` is no operation and leaves no trace."""
        for key, reference in list(self._live.items()):
            storage = reference()
            if storage is not None:
                self._size(storage, reference)
            elif self._live.get(key) is reference:
                del self._live[key]

    def number(self, storage: torch.UntypedStorage) -> int | None:
        """The number of a living storage; None where the log, as added up last, has not met it."""
        reference = self._live.get(id(storage))
        if reference is None or reference() is not storage:
            return None
        block = self._blocks.get(id(reference))
        return None if block is None else block.number

    def living_tensors(self) -> Iterator[torch.Tensor]:
        """For each living storage made or met while gradients were recorded, the first tensor on it, if it is alive."""
        self.fold()
        for block in list(self._blocks.values()):
            if block.tensor is not None:
                tensor = block.tensor()
                if tensor is not None:
                    yield tensor

    def fold(self) -> list[Change | PhaseMark]:
        """Adds up what is new in the log; returns the whole stream so far."""
        with self.lock:
            stop = len(self._entries)
            entries = self._entries[:stop]
            del self._entries[:stop]  # one step too: entries that came in meanwhile move to the front
            at = 0
            while at < stop:
                code = entries[at]
                if code == _BORN:
                    self._fold_birth(*entries[at + 1 : at + 8])
                elif code == _DIED:
                    self._fold_death(*entries[at + 1 : at + 4])
                else:
                    self._fold_rest(code, *entries[at + 1 : at + _LENGTHS[code]])
                at += _LENGTHS[code]
            return self._stream

    def _fold_birth(
        self, reference: Any, nbytes: int, op: Any, time_ns: int, task: int, device: torch.device, tensor: Any
    ) -> None:
        block = Block(self._count, nbytes, self._device_names[device], op, task, tensor)
        self._blocks[id(reference)] = block
        self._count += 1
        if nbytes and op is not OLD:
            self._stream.append(Change(block, nbytes, time_ns, task))

    def _fold_death(self, reference: Any, time_ns: int, task: int) -> None:
        block = self._blocks.pop(id(reference))
        block.died, block.died_task = True, task
        if block.nbytes:
            self._stream.append(Change(block, -block.nbytes, time_ns, task))

    def _fold_rest(self, code: int, what: Any, *rest: Any) -> None:
        if code == _MARK:
            self._stream.append(what)
        elif code == _PLACE:
            found = (self._blocks.get(id(reference)) for reference in rest[0])
            self.places.setdefault(what, set()).update(block.number for block in found if block is not None)
        elif code == _SIZED:
            nbytes, time_ns, task = rest
            block = self._blocks[id(what)]
            self._stream.append(Change(block, nbytes - block.nbytes, time_ns, task))
            block.nbytes = nbytes
        else:
            block = self._blocks[id(what)]
            block.op = UNDISPATCHED
            self._stream.append(Change(block, block.nbytes, *rest))

    def close(self) -> None:
        """Adds up the rest and lets go of every reference: later deaths are not logged."""
        with self.lock:
            self.fold()
            self._live.clear()
            self._sizes.clear()
            self._doubtful.clear()
            self._blocks.clear()
            self._entries.clear()


class _Names(dict):
    """The name of a device, made once: ``str`` of a device is slow."""

    def __missing__(self, device: torch.device) -> str:
        name = self[device] = str(device)
        return name


def _storages(tensor: torch.Tensor) -> Iterable[torch.UntypedStorage]:
    """``storages_of``, quicker for a tensor that has a storage of its own."""
    if type(tensor) in (torch.Tensor, torch.nn.Parameter):
        try:
            return (tensor.untyped_storage(),)
        except (NotImplementedError, RuntimeError):  # sparse, opaque, inside torch.func
            return storages_of(tensor)
    return storages_of(tensor)


def _writers(
    entries: list, live: dict[int, weakref.ref], sizes: dict[int, int], doubtful: dict[int, weakref.ref]
) -> tuple[Callable, Callable, Callable]:
    """The functions that log a storage, a tensor, and a storage's size: closures, for fewer look-ups."""
    extend, known = entries.extend, live.get
    clock, graph_task, reference_to = perf_counter_ns, torch._C._current_graph_task_id, weakref.ref
    records_gradients = torch.is_grad_enabled

    def died(reference: weakref.ref) -> None:
        extend((_DIED, reference, clock(), graph_task()))

    def add(storage: torch.UntypedStorage, tensor: torch.Tensor, op: Any) -> None:
        # Memory of NumPy or of a mapped file, and storages that only pretend to hold bytes.
        if not storage.resizable() or tensor._is_zerotensor():
            return
        key, task = id(storage), graph_task()
        reference = live[key] = reference_to(storage, died)
        nbytes = sizes[key] = storage.nbytes()
        if op is OLD and task >= 0:
            doubtful[key] = reference
        # The tensor leads to its graph, if it will have one.
        holder = reference_to(tensor) if records_gradients() else None
        extend((_BORN, reference, nbytes, op, clock(), task, tensor.device, holder))

    def meet(tensor: torch.Tensor, op: Any) -> None:
        for storage in _storages(tensor):
            reference = known(id(storage))
            if reference is None or reference() is not storage:
                add(storage, tensor, op)

    def size(storage: torch.UntypedStorage, reference: weakref.ref) -> None:
        nbytes = storage.nbytes()
        if sizes[id(storage)] != nbytes:
            sizes[id(storage)] = nbytes
            extend((_SIZED, reference, nbytes, clock(), graph_task()))

    return add, meet, size
