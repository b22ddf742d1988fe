"""Births and deaths of storages, as operations make them and nothing holds them any more (``Recorder``)."""

import functools
import itertools
import sys
import weakref
from collections.abc import Callable, Iterable, Iterator
from time import perf_counter_ns
from typing import Any, NamedTuple

import torch

from course_utils.base.errors import explain
from course_utils.base.torch_private import DispatchKey, current_graph_task, storage_use_count
from course_utils.base.user_code import NOWHERE, Site, user_site
from course_utils.graph.storages import storages_of
from course_utils.record.operations import OperationWatch, Run, Watcher
from course_utils.record.process import UNCOMPILED

OLD = "before the start"
UNDISPATCHED = "past the dispatcher"
"""The ``op`` of a storage that is older than the recorder; and of one that came to be inside and no operation made."""

_ALIASES, _FRESH, _RESIZES, _LIFTS, _SETS = range(5)
_PLAIN, _TENSOR, _SEQUENCE, _SUBCLASS = range(4)
_RESIZING = {"aten::resize_", "aten::resize_as_", "aten::_resize_output_", "aten::set_", "aten::resize_as_sparse_"}


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
        born: called with a storage that was made or met, and a tensor on it.
        died: called with a storage as it dies, its last task noted.
    """

    kind: type[Storage]
    born: Callable[[Any, torch.Tensor], None]
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
        watcher: who is shown the operations.
        places: for the name of a place such as "gradients": numbers of the storages found there so far.
    """

    def __init__(self, lines: bool = False, listener: Listener | None = None) -> None:
        self.start_ns = perf_counter_ns()
        self.places: dict[str, set[int]] = {}
        self.live: dict[int, Storage] = {}
        self._new: list[Any] = []  # four for each change
        self._add, self._meet, self._size = _writers(self._new.extend, self.live, lines, listener)
        self.watcher = _watcher(self._add, self._meet, self._size, self.live)

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
        """Is told that the storages of some tensors are in a named place now.

        Args:
            place: the name: ``gradients``.
            tensors: the tensors found there.
            all_known: ``know`` was given every older tensor of that place. One that is not known then came to be inside
                and past the dispatcher, and is counted.
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
        return [known for storage in _storages(tensor) if (known := self.known(storage)) is not None]

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


def _storages(tensor: torch.Tensor) -> Iterable[torch.UntypedStorage]:
    """``storages_of``, quicker for a tensor that has a storage of its own."""
    if type(tensor) in (torch.Tensor, torch.nn.Parameter):
        try:
            return (tensor.untyped_storage(),)
        except (NotImplementedError, RuntimeError):  # sparse, opaque, inside torch.func
            return storages_of(tensor)
    return storages_of(tensor)


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

    def add(storage: torch.UntypedStorage, tensor: torch.Tensor, op: Any) -> None:
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
            listener.born(born, tensor)
        elif born.nbytes and op is not OLD:
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


def _watcher(add: Callable, meet: Callable, size: Callable, live: dict[int, Storage]) -> Watcher:
    """Tells of each storage that operations make or meet; closures, since every operation pays for them.

    Args:
        add: called with a storage that ``live`` does not have, a tensor on it, and the operation that made it, or
            ``OLD`` where an operation was given it.
        meet: called in place of ``add`` with a tensor that has no storage of its own, and the same.
        size: called with a storage that may have another size than before, and its reference.
        live: the known storages' references, by the storage's ``id``.
    """
    plans: dict[Any, int] = {}
    kinds: dict[type, int] = {torch.Tensor: _TENSOR, torch.nn.Parameter: _TENSOR, list: _SEQUENCE, tuple: _SEQUENCE}
    known, plan_of, kind_of = live.get, plans.get, kinds.get

    def meet_all(values: Iterable[Any], op: Any) -> None:
        for value in values:
            kind = kind_of(type(value))
            if kind is None:
                kind = kinds[type(value)] = _SUBCLASS if isinstance(value, torch.Tensor) else _PLAIN
            if kind == _TENSOR:
                try:
                    storage = value.untyped_storage()
                except (NotImplementedError, RuntimeError):  # no storage of its own: sparse, opaque
                    meet(value, op)
                    continue
                reference = known(id(storage))
                if reference is None or reference() is not storage:
                    add(storage, value, op)
            elif kind == _SEQUENCE:
                meet_all(value, op)
            elif kind == _SUBCLASS:
                meet(value, op)

    def watch(run: Run, func: Any, args: tuple, kwargs: dict) -> Any:
        call = getattr(func, "_op", func)  # its hash is quicker
        plan = plan_of(call)
        if plan is None:
            plan = plans[call] = _plan(func)
        if plan > _RESIZES:
            _meet_made_outside(plan, func, args, meet, add)
        # Whatever storage an operation is given and the log does not know is older than the recorder.
        meet_all(args, OLD)
        if kwargs:
            meet_all(kwargs.values(), OLD)
        out = run(func, args, kwargs)
        if plan != _ALIASES:
            meet_all((out,), func)
            if plan >= _RESIZES:
                for storage in _storages_in(out):
                    reference = known(id(storage))
                    if reference is not None and reference() is storage:
                        size(storage, reference)
        return out

    return watch


def _storages_in(out: Any) -> Iterator[torch.UntypedStorage]:
    """The storages of an operation's results."""
    if isinstance(out, torch.Tensor):
        yield from storages_of(out)
    elif isinstance(out, (tuple, list)):
        for item in out:
            yield from _storages_in(item)


@functools.cache
def _plan(func: Any) -> int:
    """What an operation's schema says about its results."""
    schema = getattr(func, "_schema", None)
    if schema is None:  # a higher-order operator
        return _FRESH
    if schema.name == "aten::lift_fresh":
        return _LIFTS
    if schema.name == "aten::set_":
        return _SETS
    if schema.name in _RESIZING or any(argument.is_out for argument in schema.arguments):
        return _RESIZES
    returns = schema.returns
    if not returns or any(value.alias_info is None for value in returns):
        return _FRESH
    # In inference mode composite ones come whole: what ``to`` or ``reshape`` returns may be an alias, and may be new.
    return _FRESH if func.has_kernel_for_dispatch_key(DispatchKey.CompositeImplicitAutograd) else _ALIASES


def _meet_made_outside(plan: int, func: Any, args: tuple, meet: Callable, add: Callable) -> None:
    """Two operations are handed storages that were made just now, past the dispatcher.

    ``torch.tensor([1.0])`` fills a storage and shows it first to ``lift_fresh``. Unpickling and ``deepcopy`` make an
    ``UntypedStorage`` in Python and give it to ``set_``: such a one has no other owner, unlike that of a tensor.
    """
    if plan == _LIFTS:
        meet(args[0], func)
        return
    source = args[1] if len(args) > 1 else None
    if isinstance(source, torch.UntypedStorage) and storage_use_count(source._cdata) == 1:
        add(source, args[0], func)
