"""Births and deaths of storages, each known by its weak reference (``AllocationLog``)."""

import itertools
import weakref
from collections.abc import Callable, Iterable, Iterator
from time import perf_counter_ns
from typing import Any

import torch

from course_utils.base.torch_private import current_graph_task
from course_utils.graph.storages import storages_of
from course_utils.memory.ledger import OLD, Change, Engine, Life, PhaseMark

UNDISPATCHED = "past the dispatcher"
"""The ``op`` of a storage that came to be inside and that no operation made."""


class Storage(Life, weakref.ref):
    """A storage, referred to weakly, and its life. PyTorch keeps the Python object of a storage for as long as the
    storage lives, so that its ``id`` tells storages apart.
    """

    __slots__ = ("born_task", "device", "died", "died_task", "doubtful", "key", "nbytes", "number", "op", "tensor")
    key: int
    doubtful: bool  # taken for an old one when backward handed it on


class AllocationLog(Engine):
    """Births and deaths of storages on every device, as they happen.

    A change is one call of ``extend``, which no thread and no garbage collection can cut in two, so that logging needs
    no lock although storages die on autograd's threads and in the middle of anything. What it adds are no tuples: those
    would be one more object each for the collector to visit, which would then come more often than without a tracker.
    """

    def __init__(self) -> None:
        super().__init__()
        self._live: dict[int, Storage] = {}  # by the storage's id
        self._new: list[Any] = []  # four for each change: what a Change has; for a mark: None, the mark, 0, 0
        self._add, self._meet, self._size = _writers(self._new, self._live)

    def know(self, tensors: Iterable[torch.Tensor]) -> None:
        for tensor in tensors:
            self._meet(tensor, OLD)

    def note(self, place: str, tensors: Iterable[torch.Tensor], all_known: bool = False) -> None:
        found = self.places.setdefault(place, set())
        for tensor in tensors:
            for storage in _storages(tensor):
                known = self._known(storage)
                if known is None and all_known:
                    self._add(storage, tensor, UNDISPATCHED)
                    known = self._known(storage)
                elif known is not None and all_known and known.doubtful:
                    # Operations only ever pass such a one along, so it came to be inside.
                    known.doubtful, known.op = False, UNDISPATCHED
                    self._new.extend((known, known.nbytes, perf_counter_ns(), 0))
                if known is not None:  # else it is not PyTorch's memory, or not of interest
                    found.add(known.number)

    def refresh(self) -> None:
        # ``storage.resize_`` is no operation and leaves no trace.
        for known in list(self._live.values()):
            storage = known()
            if storage is not None:
                self._size(storage, known)

    def _known(self, storage: torch.UntypedStorage) -> Storage | None:
        known = self._live.get(id(storage))
        return known if known is not None and known() is storage else None

    def number(self, storage: torch.UntypedStorage) -> int | None:
        known = self._known(storage)
        return None if known is None else known.number

    def living_tensors(self) -> Iterator[torch.Tensor]:
        # Of storages made or met while gradients were recorded: they lead to graphs.
        for known in list(self._live.values()):
            tensor = known.tensor() if known.tensor is not None else None
            if tensor is not None:
                yield tensor

    def mark(self, mark: PhaseMark) -> None:
        self._new.extend((None, mark, 0, 0))

    def stream(self) -> list[Change | PhaseMark]:
        with self.lock:
            stop = len(self._new)
            new = self._new[:stop]
            del self._new[:stop]  # one step too: changes that came in meanwhile move to the front
            for at in range(0, stop, 4):
                self._stream.append(new[at + 1] if new[at] is None else Change(*new[at : at + 4]))
            return self._stream

    def close(self) -> None:
        self.stream()
        self._live.clear()


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


def _writers(new: list[Any], live: dict[int, Storage]) -> tuple[Callable, Callable, Callable]:
    """The functions that log a storage, a tensor, and a storage's size: closures, for fewer look-ups."""
    extend, known, name_of, count = new.extend, live.get, _Names(), itertools.count()
    clock, graph_task, records_gradients = perf_counter_ns, current_graph_task, torch.is_grad_enabled

    def died(storage: Storage) -> None:
        if known(storage.key) is storage:  # else the log is closed
            del live[storage.key]
            task = storage.died_task = graph_task()
            storage.died = True
            if storage.nbytes:
                extend((storage, -storage.nbytes, clock(), task))

    def add(storage: torch.UntypedStorage, tensor: torch.Tensor, op: Any) -> None:
        # Memory of NumPy or of a mapped file, and storages that only pretend to hold bytes.
        if not storage.resizable() or tensor._is_zerotensor():
            return
        born = Storage(storage, died)
        born.key, born.number, born.nbytes, born.op = id(storage), next(count), storage.nbytes(), op
        born.device, born.born_task = name_of[tensor.device], graph_task()
        born.died, born.died_task, born.doubtful = False, -1, op is OLD and born.born_task >= 0
        # The tensor leads to its graph, if it will have one.
        born.tensor = weakref.ref(tensor) if records_gradients() else None
        live[born.key] = born
        if born.nbytes and op is not OLD:
            extend((born, born.nbytes, clock(), born.born_task))

    def meet(tensor: torch.Tensor, op: Any) -> None:
        for storage in _storages(tensor):
            reference = known(id(storage))
            if reference is None or reference() is not storage:
                add(storage, tensor, op)

    def size(storage: torch.UntypedStorage, reference: Storage) -> None:
        nbytes = storage.nbytes()
        if reference.nbytes != nbytes:
            extend((reference, nbytes - reference.nbytes, clock(), graph_task()))
            reference.nbytes = nbytes

    return add, meet, size
