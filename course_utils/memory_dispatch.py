"""The live engine: a dispatch mode that logs each storage's birth and death (``DispatchRecorder``).

Nothing here computes a sum while an operation runs. The mode and the weak references append to one list, and
``fold`` turns what is new in it into blocks and changes when somebody asks. Imports ``errors``.
"""

import threading
import weakref
from collections.abc import Callable, Iterable
from time import perf_counter_ns
from types import MethodType
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

# NOTE [The log]
# ``list.append`` is one step that no thread and no garbage collection can cut in two, so the hot path needs neither
# lock nor counter, though storages die on the engine's threads and in the middle of anything. Entries:
#   (reference, bytes, operation, time, graph task, device, reference to the tensor)   a storage was born
#   (reference, bytes, OLD, ...)                                                       older than the tracker: met now
#   (reference, bytes, RESIZED, ...)                                                   its size changed
#   (reference, time, graph task)                                                      it died
# A weak reference is the storage's identity: PyTorch keeps the Python object of a storage for as long as the storage
# lives, so its ``id`` tells storages apart, and a dead reference tells that an ``id`` has been taken over.
OLD = "old"
RESIZED = "resized"

_ALIASES, _FRESH, _RESIZES, _LIFTS, _SETS = range(5)
_PLAIN, _TENSOR, _SEQUENCE = range(3)
_RESIZING = {"aten::resize_", "aten::resize_as_", "aten::_resize_output_", "aten::set_", "aten::resize_as_sparse_"}


class Block:
    """One storage: its number, size and life. ``born`` and ``died`` are positions in ``DispatchRecorder.changes``."""

    __slots__ = ("backward_task", "born", "device", "died", "died_task", "nbytes", "number", "op", "tensor")

    def __init__(self, nbytes: int, device: str, op: Any, task: int, tensor: Any) -> None:
        self.nbytes = nbytes
        self.device = device
        self.op = op
        self.backward_task = task
        self.tensor = tensor
        self.number = -1
        self.born = self.died = -1
        self.died_task = -1

    @property
    def is_old(self) -> bool:
        """Whether the storage existed before the tracker was entered."""
        return self.op is OLD

    @property
    def op_name(self) -> str:
        """The operation that made the storage, such as ``aten::addmm``."""
        if isinstance(self.op, str):
            return {OLD: "before the start"}.get(self.op, self.op)
        schema = getattr(self.op, "_schema", None)
        return schema.name if schema is not None else str(self.op)


class DispatchRecorder(TorchDispatchMode):
    """Logs births and deaths of storages on every device, for ``MemoryTracker``.

    Limits: memory that PyTorch takes without dispatching an operation is not seen: scratch inside a kernel, Python
    scalars that autograd saves (8 bytes each), states of random generators (5056 bytes each), other Python threads.
    """

    supports_higher_order_operators = True

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        # The default wraps __torch_dispatch__ in torch._dynamo.disable: it imports the compiler (seconds) on the
        # first operation and costs 0.7 us on each. Compiled code never gets here: it is refused (compile_guard).
        return False

    @classmethod
    def is_infra_mode(cls) -> bool:
        return False

    def __init__(self) -> None:
        super().__init__()
        self.log: list[tuple] = []
        self.blocks: list[Block] = []
        self.changes: list[tuple[Block, int, int, int]] = []  # block, delta, time_ns, graph task
        self.start_ns = perf_counter_ns()
        self._live: dict[int, weakref.ref] = {}
        self._by_reference: dict[int, Block] = {}
        self._cursor = 0
        self._folding = threading.RLock()
        # Closures over locals, not methods: an attribute look-up less for each name on each operation.
        self._handle, self._meet = _handler(self.log, self._live)

    def __torch_dispatch__(self, func: Any, types: tuple, args: tuple = (), kwargs: dict | None = None) -> Any:
        return self._handle(self, func, types, args, kwargs)

    def __enter__(self) -> "DispatchRecorder":
        # An attribute of the instance, which is a cycle until __exit__, saves the frame that a method of the class
        # calling self._handle would cost; PyTorch insists that it is bound to the mode.
        self.__torch_dispatch__ = MethodType(self._handle, self)
        # Not super().__enter__: that also sets process-wide flags, which a tracker abandoned in another thread would
        # leave set for ever. The stack of modes is the thread's own.
        torch._C._push_on_torch_dispatch_stack(self)
        return self

    def __exit__(self, exc_type: object, exc: object, traceback: object) -> None:
        torch._C._pop_torch_dispatch_stack(None)
        del self.__torch_dispatch__

    def know(self, tensors: Iterable[torch.Tensor]) -> None:
        """Notes storages that are older than the tracker, so that their death counts."""
        for tensor in tensors:
            self._meet(tensor, OLD)

    def holds(self, storage: torch.UntypedStorage) -> bool:
        """Whether a storage is in the log, as old or as new."""
        reference = self._live.get(id(storage))
        return reference is not None and reference() is storage

    def block(self, storage: torch.UntypedStorage) -> Block | None:
        """The block of a living storage; None where the log has not met it."""
        self.fold()
        reference = self._live.get(id(storage))
        if reference is None or reference() is not storage:
            return None
        return self._by_reference.get(id(reference))

    def refresh(self) -> None:
        """Reads the size of each living storage again: ``storage.resize_`` is no operation and leaves no trace."""
        self.fold()
        for key, reference in list(self._live.items()):
            storage = reference()
            if storage is None:
                if self._live.get(key) is reference:
                    del self._live[key]
                continue
            block = self._by_reference[id(reference)]
            if storage.nbytes() != block.nbytes:
                self.log.append((reference, storage.nbytes(), RESIZED, perf_counter_ns(), -1, None, None))
        self.fold()

    def fold(self) -> int:
        """Turns new entries of the log into ``blocks`` and ``changes``; returns the number of changes."""
        with self._folding:
            log, blocks, changes, by_reference = self.log, self.blocks, self.changes, self._by_reference
            stop = len(log)
            for entry in log[self._cursor : stop]:
                reference = entry[0]
                if len(entry) == 3:  # died
                    block = by_reference[id(reference)]
                    block.died, block.died_task = len(changes), entry[2]
                    if block.nbytes:
                        changes.append((block, -block.nbytes, entry[1], entry[2]))
                    continue
                _, nbytes, op, time_ns, task, device, tensor = entry
                if op is RESIZED:
                    block = by_reference[id(reference)]
                    if nbytes != block.nbytes:
                        changes.append((block, nbytes - block.nbytes, time_ns, task))
                        block.nbytes = nbytes
                    continue
                block = by_reference[id(reference)] = Block(nbytes, str(device), op, task, tensor)
                block.number, block.born = len(blocks), len(changes)
                blocks.append(block)
                if op is not OLD and nbytes:
                    changes.append((block, nbytes, time_ns, task))
            self._cursor = stop
            return len(changes)

    def close(self) -> None:
        """Folds the rest and lets go of every reference: later deaths are not logged."""
        self.fold()
        self.log.clear()
        self._live.clear()
        self._by_reference.clear()
        self._cursor = 0


def _handler(log: list[tuple], live: dict[int, weakref.ref]) -> tuple[Callable, Callable]:
    """The mode's handler and the function that meets a tensor, as closures over the log."""
    plans: dict[Any, int] = {}
    kinds: dict[type, int] = {torch.Tensor: _TENSOR, torch.nn.Parameter: _TENSOR, list: _SEQUENCE, tuple: _SEQUENCE}
    append, known, plan_of, kind_of = log.append, live.get, plans.get, kinds.get
    clock, graph_task, reference_to = perf_counter_ns, torch._C._current_graph_task_id, weakref.ref

    def died(reference: weakref.ref) -> None:
        append((reference, clock(), graph_task()))

    def add(storage: torch.UntypedStorage, tensor: torch.Tensor, op: Any) -> None:
        # Memory of NumPy or of a mapped file, and storages that only pretend to hold bytes.
        if not storage.resizable() or tensor._is_zerotensor():
            return
        reference = reference_to(storage, died)
        live[id(storage)] = reference
        append((reference, storage.nbytes(), op, clock(), graph_task(), tensor.device, reference_to(tensor)))

    def meet(tensor: torch.Tensor, op: Any) -> None:
        for part in _dense_parts(tensor):
            storage = part.untyped_storage()
            reference = known(id(storage))
            if reference is None or reference() is not storage:
                add(storage, part, op)
            elif op is RESIZED:
                append((reference, storage.nbytes(), RESIZED, clock(), graph_task(), None, None))

    def meet_all(values: Iterable[Any], op: Any) -> None:
        for value in values:
            kind = kind_of(type(value))
            if kind is None:
                kind = kinds[type(value)] = _TENSOR if isinstance(value, torch.Tensor) else _PLAIN
            if kind == _TENSOR:
                meet(value, op)
            elif kind == _SEQUENCE:
                meet_all(value, op)

    def meet_outputs(out: Any, op: Any) -> None:
        if isinstance(out, torch.Tensor):
            meet(out, op)
        elif isinstance(out, (tuple, list)):
            meet_all(out, op)

    def handle(mode: TorchDispatchMode, func: Any, types: tuple, args: tuple = (), kwargs: dict | None = None) -> Any:
        if types and _is_wrapped(types):
            return NotImplemented  # then the subclass runs its own operations, and they come here
        call = getattr(func, "_op", func)
        plan = plan_of(call)
        if plan is None:
            plan = plans[call] = _plan(func)
        if plan > _RESIZES:
            _meet_made_outside(plan, func, args, meet)
        # Whatever storage an operation is given and the log does not know is older than the tracker.
        for value in args:
            kind = kind_of(type(value))
            if kind == _TENSOR:
                try:
                    storage = value.untyped_storage()
                except (NotImplementedError, RuntimeError):  # no storage of its own: sparse, opaque
                    meet(value, OLD)
                    continue
                reference = known(id(storage))
                if reference is None or reference() is not storage:
                    add(storage, value, OLD)
            elif kind != _PLAIN:
                meet_all((value,), OLD)
        if kwargs:
            meet_all(kwargs.values(), OLD)
            out = call(*args, **kwargs)
        else:
            out = call(*args)
        if plan == _ALIASES:
            return out
        if type(out) is torch.Tensor:
            try:
                storage = out.untyped_storage()
            except (NotImplementedError, RuntimeError):
                meet(out, func)
                return out
            reference = known(id(storage))
            if reference is None or reference() is not storage:
                add(storage, out, func)
        else:
            meet_outputs(out, func)
        if plan >= _RESIZES:
            meet_outputs(out, RESIZED)
        return out

    return handle, meet


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
    if returns and all(value.alias_info is not None for value in returns):
        return _ALIASES
    return _FRESH


def _meet_made_outside(plan: int, func: Any, args: tuple, meet: Callable) -> None:
    """Two operations are handed storages that were made just now, past the dispatcher.

    ``torch.tensor([1.0])`` fills a storage and shows it first to ``lift_fresh``. Unpickling and ``deepcopy`` make an
    ``UntypedStorage`` in Python and give it to ``set_``: such a one has no other owner, unlike that of a tensor.
    """
    if plan == _LIFTS:
        meet(args[0], func)
        return
    source = args[1] if len(args) > 1 else None
    if isinstance(source, torch.UntypedStorage) and torch._C._storage_Use_Count(source._cdata) == 1:
        meet(_StorageOnly(source), func)


class _StorageOnly:
    """A storage without a tensor, in the shape that ``meet`` asks for."""

    layout = torch.strided

    def __init__(self, storage: torch.UntypedStorage) -> None:
        self._storage = storage
        self.device = storage.device

    def untyped_storage(self) -> torch.UntypedStorage:
        return self._storage

    def _is_zerotensor(self) -> bool:
        return False


def _is_wrapped(types: tuple) -> bool:
    """Whether an argument's class has operations of its own; a FakeTensor's storage is counted as it is."""
    plain = torch._C._disabled_torch_dispatch_impl
    return any(cls.__torch_dispatch__ is not plain and cls.__name__ != "FakeTensor" for cls in types)


def _dense_parts(tensor: Any) -> tuple[Any, ...]:
    """The tensors that own a tensor's storages: itself, or the indices and values of a sparse one."""
    layout = tensor.layout
    if layout is torch.strided or layout is torch.jagged:
        return (tensor,)
    with torch.no_grad():
        if layout is torch.sparse_coo:
            return (tensor._indices(), tensor._values())
        if layout in (torch.sparse_csr, torch.sparse_bsr):
            return (tensor.crow_indices(), tensor.col_indices(), tensor.values())
        if layout in (torch.sparse_csc, torch.sparse_bsc):
            return (tensor.ccol_indices(), tensor.row_indices(), tensor.values())
    return ()  # opaque, as of oneDNN: no storage that PyTorch could show
