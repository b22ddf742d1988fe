"""The live engine: a dispatch mode that logs each storage's birth and death (``DispatchRecorder``).

Nothing here computes a sum while an operation runs. The mode and the weak references append to one list, and
``fold`` turns what is new in it into blocks and changes when somebody asks. Imports ``compile_guard``,
``errors``, ``memory_known``, ``memory_ledger`` and ``storages``.
"""

import threading
import weakref
from collections.abc import Callable, Iterable, Iterator
from time import perf_counter_ns
from types import MethodType
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode, _get_current_dispatch_mode_stack

from course_utils.compile_guard import ASKS_MODES, COMPILED_CODE_MESSAGE, frames_compiled, refuse_compiled_code
from course_utils.errors import explain
from course_utils.memory_known import alive
from course_utils.memory_ledger import OLD, Block, Change, PhaseMark
from course_utils.storages import inner_tensors, storages_of

# NOTE [The log]
# ``list.append`` is one step that no thread and no garbage collection can cut in two, so the hot path needs neither
# lock nor counter, though storages die on the engine's threads and in the middle of anything. Entries:
#   (reference, bytes, operation, time, graph task, device, reference to the tensor)   a storage was born
#   (reference, bytes, OLD, ...)                                                       older than the tracker: met now
#   (reference, bytes, _RESIZED, ...)                                                  its size was read again
#   (reference, time, graph task)                                                      it died
#   (PhaseMark,)
# A weak reference is the storage's identity: PyTorch keeps the Python object of a storage for as long as the storage
# lives, so its ``id`` tells storages apart, and a dead reference tells that an ``id`` has been taken over.
_RESIZED = "resized"
_UNDISPATCHED = "past the dispatcher"

_ALIASES, _FRESH, _RESIZES, _LIFTS, _SETS = range(5)
_PLAIN, _TENSOR, _SEQUENCE = range(3)
_RESIZING = {"aten::resize_", "aten::resize_as_", "aten::_resize_output_", "aten::set_", "aten::resize_as_sparse_"}


class DispatchRecorder(TorchDispatchMode):
    """Logs births and deaths of storages on every device, for ``MemoryTracker``.

    Limits: memory that PyTorch takes without dispatching an operation is not seen: scratch inside a kernel, Python
    scalars that autograd saves (8 bytes each), states of random generators (5056 bytes each), other Python threads.
    """

    supports_higher_order_operators = True
    live = True

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        # The default wraps __torch_dispatch__ in torch._dynamo.disable: it imports the compiler (seconds) on the
        # first operation and costs 0.7 us on each. Compiled code never gets here: it is refused (compile_guard).
        return False

    @classmethod
    def ignore_compile_internals(cls) -> bool:
        """Called when compiled code is about to run inside; refuses it.

        Raises:
            NotImplementedError: always.
        """
        raise NotImplementedError(COMPILED_CODE_MESSAGE)

    def __init__(self) -> None:
        super().__init__()
        self.lock = threading.RLock()
        self.start_ns = perf_counter_ns()
        self.ran_compiled_code = False
        self._log: list[tuple] = []
        self._stream: list[Change | PhaseMark] = []
        self._live: dict[int, weakref.ref] = {}
        self._blocks: dict[int, Block] = {}  # by the id of the weak reference, of living storages
        self._count = 0
        # Closures over locals, not methods: an attribute look-up less for each name on each operation.
        self._handle, self._meet = _handler(self._log, self._live)

    def __torch_dispatch__(self, func: Any, types: tuple, args: tuple = (), kwargs: dict | None = None) -> Any:
        return self._handle(self, func, types, args, kwargs)

    def __enter__(self) -> "DispatchRecorder":
        # An attribute of the instance, which is a cycle until __exit__, saves the frame that a method of the class
        # calling self._handle would cost; PyTorch insists that it is bound to the mode.
        vars(self)["__torch_dispatch__"] = MethodType(self._handle, self)
        # Not super().__enter__: that also sets process-wide flags, which a tracker abandoned in another thread would
        # leave set for ever. The stack of modes is the thread's own.
        self._frames = frames_compiled()
        self._guard = refuse_compiled_code(_compiled_code_found)
        self._guard.__enter__()
        torch._C._push_on_torch_dispatch_stack(self)
        return self

    def __exit__(self, exc_type: object, exc: object, traceback: object) -> None:
        _take_off_stack(self)
        self._guard.__exit__(None, None, None)
        if not ASKS_MODES and frames_compiled() != self._frames:
            self.ran_compiled_code = True
        del vars(self)["__torch_dispatch__"]

    def know(self, tensors: Iterable[torch.Tensor]) -> None:
        """Notes storages that are older than the tracker, so that their death counts."""
        for tensor in tensors:
            self._meet(tensor, OLD)

    def find(self, tensors: Iterable[torch.Tensor]) -> None:
        """Counts storages that came to be inside and that no operation made: gradients from a compiled backward.

        Args:
            tensors: gradients and states of known objects, all of whose older ones ``know`` was given.
        """
        for tensor in tensors:
            self._meet(tensor, _UNDISPATCHED)
            self.fold()
            for storage in storages_of(tensor):
                block = self._block(storage)
                # A first sight in a backward pass was taken for an old one: the engine only ever hands it on.
                if block is not None and block.is_old and block.born_task >= 0:
                    block.op = _UNDISPATCHED
                    self._stream.append(Change(block, block.nbytes, perf_counter_ns(), block.born_task))

    def mark(self, mark: PhaseMark) -> None:
        """Puts the beginning or end of a phase at this place of the stream."""
        self._log.append((mark,))

    def number(self, storage: torch.UntypedStorage) -> int | None:
        """The number of a living storage; None where the log has not met it."""
        self.fold()
        block = self._block(storage)
        return None if block is None else block.number

    def _block(self, storage: torch.UntypedStorage) -> Block | None:
        reference = self._live.get(id(storage))
        if reference is None or reference() is not storage:
            return None
        return self._blocks[id(reference)]

    def living_tensors(self) -> Iterator[torch.Tensor]:
        """For each living storage, the first tensor on it, where that is still alive."""
        self.fold()
        for block in list(self._blocks.values()):
            tensor = alive(block.tensor)
            if tensor is not None:
                yield tensor

    def refresh(self) -> None:
        """Reads the size of each living storage again: ``storage.resize_`` is no operation and leaves no trace."""
        self.fold()
        for key, reference in list(self._live.items()):
            storage = alive(reference)
            if storage is not None:
                block = self._blocks.get(id(reference))
                if block is not None and storage.nbytes() != block.nbytes:
                    self._log.append((reference, storage.nbytes(), _RESIZED, perf_counter_ns(), -1, None, None))
            elif self._live.get(key) is reference:
                del self._live[key]

    def fold(self) -> list[Change | PhaseMark]:
        """Turns new entries of the log into changes; returns the whole stream so far."""
        with self.lock:
            stop = len(self._log)
            for entry in self._log[:stop]:
                if len(entry) == 1:
                    self._stream.append(entry[0])
                elif len(entry) == 3:
                    self._fold_death(*entry)
                elif entry[2] is _RESIZED:
                    self._fold_size(*entry[:5])
                else:
                    self._fold_birth(*entry)
            del self._log[:stop]  # one step too: entries that came in meanwhile move to the front
            return self._stream

    def _fold_birth(
        self, reference: Any, nbytes: int, op: Any, time_ns: int, task: int, device: torch.device, tensor: Any
    ) -> None:
        block = self._blocks[id(reference)] = Block(self._count, nbytes, str(device), op, task, tensor)
        self._count += 1
        if op is not OLD and nbytes:
            self._stream.append(Change(block, nbytes, time_ns, task))

    def _fold_size(self, reference: Any, nbytes: int, _: str, time_ns: int, task: int) -> None:
        block = self._blocks[id(reference)]
        if nbytes != block.nbytes:
            self._stream.append(Change(block, nbytes - block.nbytes, time_ns, task))
            block.nbytes = nbytes

    def _fold_death(self, reference: Any, time_ns: int, task: int) -> None:
        block = self._blocks.pop(id(reference))
        block.died, block.died_task = True, task
        if block.nbytes:
            self._stream.append(Change(block, -block.nbytes, time_ns, task))

    def close(self) -> None:
        """Folds the rest and lets go of every reference: later deaths are not logged."""
        with self.lock:
            self.fold()
            self._live.clear()
            self._blocks.clear()
            self._log.clear()


def _take_off_stack(recorder: DispatchRecorder) -> None:
    """Removes a mode from this thread's stack, also where modes were not left in the reverse order of their entering.

    Raises:
        ValueError: it is not there: it was entered in another thread.
    """
    modes = _get_current_dispatch_mode_stack()
    if not any(mode is recorder for mode in modes):
        raise ValueError(
            explain(
                "A MemoryTracker was left in another thread than the one that entered it.",
                "a with block that begins and ends in one thread.",
                "PyTorch keeps a list of modes for each thread.",
            )
        )
    above = []
    while (mode := torch._C._pop_torch_dispatch_stack(None)) is not recorder:
        above.append(mode)
    for mode in reversed(above):
        torch._C._push_on_torch_dispatch_stack(mode)


def _compiled_code_found() -> bool:
    """Whether a tracker watches this thread; where PyTorch will not ask it, tells it that compiled code runs."""
    modes = _get_current_dispatch_mode_stack()
    watching = [mode for mode in modes if isinstance(mode, DispatchRecorder)]
    if not ASKS_MODES:
        for recorder in watching:
            recorder.ran_compiled_code = True
    return bool(watching)


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
        inside = inner_tensors(tensor)
        if inside:
            for inner in inside:
                meet(inner, op)
            return
        try:
            storage = tensor.untyped_storage()
        except (NotImplementedError, RuntimeError):  # opaque, as of oneDNN: nothing that PyTorch could show
            return
        reference = known(id(storage))
        if reference is None or reference() is not storage:
            add(storage, tensor, op)
        elif op is _RESIZED:
            append((reference, storage.nbytes(), _RESIZED, clock(), graph_task(), None, None))

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
            _meet_made_outside(plan, func, args, meet, add)
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
            meet_outputs(out, _RESIZED)
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


def _meet_made_outside(plan: int, func: Any, args: tuple, meet: Callable, add: Callable) -> None:
    """Two operations are handed storages that were made just now, past the dispatcher.

    ``torch.tensor([1.0])`` fills a storage and shows it first to ``lift_fresh``. Unpickling and ``deepcopy`` make an
    ``UntypedStorage`` in Python and give it to ``set_``: such a one has no other owner, unlike that of a tensor.
    """
    if plan == _LIFTS:
        meet(args[0], func)
        return
    source = args[1] if len(args) > 1 else None
    if isinstance(source, torch.UntypedStorage) and torch._C._storage_Use_Count(source._cdata) == 1:
        add(source, args[0], func)


def _is_wrapped(types: tuple) -> bool:
    """Whether an argument's class has operations of its own; a FakeTensor's storage is counted as it is."""
    plain = torch._C._disabled_torch_dispatch_impl
    return any(cls.__torch_dispatch__ is not plain and cls.__name__ != "FakeTensor" for cls in types)
