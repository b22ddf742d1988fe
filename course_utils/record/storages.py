"""Births and deaths of storages, as operations make them and nothing holds them any more (``Recorder``)."""

import itertools
import sys
import weakref
from collections.abc import Callable, Iterable, Iterator
from time import perf_counter_ns
from typing import Any, NamedTuple

import torch

from course_utils.base import explain
from course_utils.base.torch_private import current_graph_task
from course_utils.base.user_code import NOWHERE, Site, user_site
from course_utils.graph.recorded import storages_of
from course_utils.record import UNCOMPILED
from course_utils.record.operations import OLD, UNDISPATCHED, OperationWatch, StorageWatcher, quick_storages


class Storage(weakref.ref):
    """A storage, referred to weakly, and its life. PyTorch keeps the Python object of a storage for as long as the
    storage lives, so that its ``id`` tells storages apart.

    Attributes:
        key: the storage's ``id``.
        number: in the order of appearance, over all devices.
        nbytes: its size.
        device: the name of the device that it lives on.
        op: the operation that made it, as PyTorch's object; or ``OLD``, ``UNDISPATCHED``.
        site: the user's line that made it, where lines are asked for.
        tensor: a weak reference to the first tensor on it, or None.
        born_task: the backward pass that ran at its birth; -1 outside of backward.
        died_task: likewise at its death.
        died: whether it has died.
        doubtful: it was taken for an old one when backward handed it on.
    """

    __slots__ = (
        *("born_task", "device", "died", "died_task", "doubtful", "key", "nbytes", "number", "op", "site", "tensor"),
    )
    key: int
    number: int
    nbytes: int
    device: str
    op: Any
    site: Site
    tensor: Any
    born_task: int
    died_task: int
    died: bool
    doubtful: bool

    @property
    def op_name(self) -> str:
        """The operation that made the storage, such as ``aten::addmm``."""
        schema = getattr(self.op, "_schema", None)
        return schema.name if schema is not None else str(self.op)


class Change(NamedTuple):
    """A storage gained or gave back bytes; or, where there is none, ``delta`` is a mark."""

    storage: Storage | None
    delta: Any
    time_ns: int
    task: int


class Listener(NamedTuple):
    """Somebody who is told of births and deaths as they happen.

    Attributes:
        kind: the class of the storages.
        born: called with a storage that was made or met, a tensor on it, and what the operation that made it was given.
        died: called with a storage as it dies, its last task noted.
    """

    kind: type[Storage]
    born: Callable[[Any, torch.Tensor, tuple], None]
    died: Callable[[Any], None]


class Recorder:
    """Births and deaths of storages on every device, as they happen.

    A change is one call of ``extend``, which no thread and no garbage collection can cut in two, so that logging needs
    no lock although storages die on autograd's threads and in the middle of anything. What it adds are no tuples: those
    would be one more object each for the collector to visit, which would then come more often than without a tracker.

    Args:
        lines: notes the user's line that makes each storage.
        listener: is told at once, in place of the log.

    Attributes:
        live: the known storages by ``id``.
        watcher: who is told of what operations make and meet.
        places: for the name of a place such as "gradients": numbers of the storages found there so far.
    """

    def __init__(self, lines: bool = False, listener: Listener | None = None) -> None:
        self.start_ns = perf_counter_ns()
        self.places: dict[str, set[int]] = {}
        self.live: dict[int, Any] = {}  # of the kind that a listener asks for
        self._new: list[Any] = []  # four for each change
        self._add, self._meet, self._size = _writers(self._new.extend, self.live, lines, listener)
        self.watcher = StorageWatcher(self._add, self._meet, self._size, self.live)

    def __enter__(self) -> "Recorder":
        UNCOMPILED.add(self.watcher)
        self._forget = weakref.finalize(self, UNCOMPILED.remove, self.watcher)  # where nobody leaves it
        self._mode = OperationWatch.enter(self.watcher)
        return self

    def __exit__(self, exc_type: object, exc: object, traceback: object) -> None:
        self._forget()
        if not self._mode.leave(self.watcher):
            raise ValueError(
                explain(
                    "A MemoryTracker was left in another thread than the one that entered it.",
                    "a with block that begins and ends in one thread.",
                    "PyTorch keeps a list of modes for each thread.",
                )
            )

    def know(self, tensors: Iterable[torch.Tensor]) -> None:
        """Is told of storages that are older than the block, so that their death counts."""
        for tensor in tensors:
            self._meet(tensor, OLD)

    def note(self, place: str, tensors: Iterable[torch.Tensor], all_known: bool = False) -> None:
        """Is told that the storages of some tensors are in a named place now, such as ``gradients``. Where ``know`` was
        given every older tensor of that place, one that is not known came to be inside and past the dispatcher, and is
        counted.
        """
        found = self.places.setdefault(place, set())
        for storage, tensor in [(storage, one) for one in tensors for storage in storages_of(one)]:
            known = self.known(storage)
            if known is None and all_known:
                self._add(storage, tensor, UNDISPATCHED)
                known = self.known(storage)
            elif known is not None and all_known and known.doubtful:
                # Operations only ever pass such a one along, so it came to be inside.
                known.doubtful, known.op = False, UNDISPATCHED
                self._new.extend((known, known.nbytes, perf_counter_ns(), 0))
            if known is not None:  # else it is not PyTorch's memory, or not of interest
                found.add(known.number)

    def mark(self, mark: object) -> None:
        """Puts something of the caller's at this place of the stream."""
        self._new.extend((None, mark, 0, 0))

    def refresh(self) -> None:
        """Reads sizes again: ``storage.resize_`` is no operation and leaves no trace."""
        for known in list(self.live.values()):
            storage = known()
            if storage is not None:
                self._size(storage, known)

    def known(self, storage: torch.UntypedStorage) -> Any:
        """The record of a living storage; None for one that the recorder has not met."""
        known = self.live.get(id(storage))
        return known if known is not None and known() is storage else None

    def records(self, tensor: torch.Tensor) -> list[Any]:
        """The records of a tensor's storages; none where the recorder has not met them."""
        return [known for storage in quick_storages(tensor) if (known := self.known(storage)) is not None]

    def number(self, storage: torch.UntypedStorage) -> int | None:
        """The number of a living storage; None for one that the recorder has not met."""
        known = self.known(storage)
        return None if known is None else known.number

    def living_tensors(self) -> Iterator[torch.Tensor]:
        """Tensors on living storages that were made or met while gradients were recorded: they lead to graphs."""
        for known in list(self.live.values()):
            tensor = known.tensor() if known.tensor is not None else None
            if tensor is not None:
                yield tensor

    def changes(self) -> Iterator[Change]:
        """What happened since it was asked last, in order."""
        stop = len(self._new)
        new = self._new[:stop]
        del self._new[:stop]  # one step too: changes that came in meanwhile move to the front
        return (Change(*new[at : at + 4]) for at in range(0, stop, 4))

    def close(self) -> None:
        """Lets go of every reference: what happens from now on is not counted."""
        self.live.clear()


class _Names(dict):
    """The name of a device, made once: ``str`` of a device is slow."""

    def __missing__(self, device: torch.device) -> str:
        name = self[device] = str(device)
        return name


def _writers(
    extend: Callable, live: dict[int, Storage], lines: bool, listener: Listener | None
) -> tuple[Callable, Callable, Callable]:
    """The functions that log a storage, a tensor, and a storage's size: closures, for fewer look-ups."""
    known, name_of, count = live.get, _Names(), itertools.count()
    clock, graph_task, records_gradients = perf_counter_ns, current_graph_task, torch.is_grad_enabled
    kind = Storage if listener is None else listener.kind

    def died(storage: Storage) -> None:
        if known(storage.key) is storage:  # else the log is closed
            del live[storage.key]
            task = storage.died_task = graph_task()
            storage.died = True
            if listener is not None:
                listener.died(storage)
            elif storage.nbytes:
                extend((storage, -storage.nbytes, clock(), task))

    def add(storage: torch.UntypedStorage, tensor: torch.Tensor, op: Any, given: tuple = ()) -> None:
        # Memory of NumPy or of a mapped file, and storages that only pretend to hold bytes.
        if not storage.resizable() or tensor._is_zerotensor():
            return
        born = kind(storage, died)
        born.key, born.number, born.nbytes, born.op = id(storage), next(count), storage.nbytes(), op
        born.device, born.born_task = name_of[tensor.device], graph_task()
        born.died, born.died_task, born.doubtful = False, -1, op is OLD and born.born_task >= 0
        # The tensor leads to its graph, if it will have one.
        born.tensor = weakref.ref(tensor) if records_gradients() else None
        born.site = user_site(sys._getframe(1)) if lines else NOWHERE
        live[born.key] = born
        if listener is not None:
            listener.born(born, tensor, given)
        elif born.nbytes and op is not OLD:
            extend((born, born.nbytes, clock(), born.born_task))

    def meet(tensor: torch.Tensor, op: Any, given: tuple = ()) -> None:
        for storage in quick_storages(tensor):
            reference = known(id(storage))
            if reference is None or reference() is not storage:
                add(storage, tensor, op, given)

    def size(storage: torch.UntypedStorage, reference: Storage) -> None:
        nbytes = storage.nbytes()
        if reference.nbytes != nbytes:
            extend((reference, nbytes - reference.nbytes, clock(), graph_task()))
            reference.nbytes = nbytes

    return add, meet, size
