"""The live engine: a dispatch mode that watches what each operation made (``OperationWatch``) or logs it
(``DispatchRecorder``).
"""

import functools
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import MethodType
from typing import Any, Self

import torch

from course_utils.base.errors import explain
from course_utils.base.torch_private import (
    DispatchKey,
    TorchDispatchMode,
    disabled_torch_dispatch,
    get_dispatch_modes,
    pop_dispatch_mode,
    push_dispatch_mode,
    storage_use_count,
)
from course_utils.graph.storages import storages_of
from course_utils.memory.compile_guard import COMPILED_CODE_MESSAGE, refuse_compiled_code
from course_utils.memory.ledger import OLD
from course_utils.memory.log import AllocationLog

_ALIASES, _FRESH, _RESIZES, _LIFTS, _SETS = range(5)
_PLAIN, _TENSOR, _SEQUENCE = range(3)
_RESIZING = {"aten::resize_", "aten::resize_as_", "aten::_resize_output_", "aten::set_", "aten::resize_as_sparse_"}


class DispatchMode(TorchDispatchMode):
    """A dispatch mode whose first operation does not load the compiler."""

    supports_higher_order_operators = True

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        # The default wraps __torch_dispatch__ in torch._dynamo.disable: it imports the compiler (seconds) on the
        # first operation and costs 0.7 us on each. What becomes of compiled code is for each mode to say.
        return False


class OperationWatch(DispatchMode):
    """A dispatch mode that tells of each storage that operations make or meet. ``DispatchRecorder`` logs them.

    Args:
        handle: what ``handler`` returns.
    """

    def __init__(self, handle: Callable) -> None:
        super().__init__()
        self._handle = handle

    def __torch_dispatch__(self, func: Any, types: tuple, args: tuple = (), kwargs: dict | None = None) -> Any:
        return self._handle(self, func, types, args, kwargs)

    def __enter__(self) -> Self:
        # An attribute of the instance, which is a cycle until __exit__, saves the frame that a method of the class
        # calling self._handle would cost; PyTorch insists that it is bound to the mode.
        vars(self)["__torch_dispatch__"] = MethodType(self._handle, self)
        # Not super().__enter__: that also sets process-wide flags, which a tracker abandoned in another thread would
        # leave set for ever. The stack of modes is the thread's own.
        push_dispatch_mode(self)
        return self

    def __exit__(self, exc_type: object, exc: object, traceback: object) -> None:
        _take_off_stack(self)
        del vars(self)["__torch_dispatch__"]


class DispatchRecorder(AllocationLog, OperationWatch):
    """Logs births and deaths of storages on every device, for ``MemoryTracker``.

    Limits: memory that PyTorch takes without dispatching an operation is not seen: scratch inside a kernel, Python
    scalars that autograd saves (8 bytes each), states of random generators (5056 bytes each), other Python threads.
    While any dispatch mode is active PyTorch runs some formulas in a form without in-place operations, whose peak may
    be higher than that of the program alone.
    """

    @classmethod
    def ignore_compile_internals(cls) -> bool:
        """Called when compiled code is about to run inside; refuses it.

        Raises:
            NotImplementedError: always.
        """
        raise NotImplementedError(COMPILED_CODE_MESSAGE)

    def __init__(self) -> None:
        AllocationLog.__init__(self)
        OperationWatch.__init__(self, handler(self._add, self._meet, self._size, self._live))

    def __enter__(self) -> Self:
        self._guard = refuse_compiled_code(_compiled_code_found)
        self._guard.__enter__()
        return super().__enter__()

    def __exit__(self, exc_type: object, exc: object, traceback: object) -> None:
        super().__exit__(exc_type, exc, traceback)
        self._guard.__exit__(None, None, None)


def _take_off_stack(recorder: OperationWatch) -> None:
    """Removes a mode from this thread's stack, also where modes were not left in the reverse order of their entering.

    Raises:
        ValueError: it is not there: it was entered in another thread.
    """
    modes = get_dispatch_modes()
    if not any(mode is recorder for mode in modes):
        raise ValueError(
            explain(
                "A MemoryTracker was left in another thread than the one that entered it.",
                "a with block that begins and ends in one thread.",
                "PyTorch keeps a list of modes for each thread.",
            )
        )
    above = []
    while (mode := pop_dispatch_mode(None)) is not recorder:
        above.append(mode)
    for mode in reversed(above):
        push_dispatch_mode(mode)


def _compiled_code_found() -> bool:
    """Whether a tracker watches this thread."""
    return any(isinstance(mode, DispatchRecorder) for mode in get_dispatch_modes())


def handler(add: Callable, meet: Callable, size: Callable, live: Mapping[int, weakref.ref]) -> Callable:
    """What an ``OperationWatch`` does on each operation, as a closure: this is what every operation pays for.

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
            for storage in _storages_in(out):
                reference = known(id(storage))
                if reference is not None and reference() is storage:
                    size(storage, reference)
        return out

    return handle


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


def _is_wrapped(types: tuple) -> bool:
    """Whether an argument's class has operations of its own; a FakeTensor's storage is counted as it is."""
    plain = disabled_torch_dispatch
    return any(cls.__torch_dispatch__ is not plain and cls.__name__ != "FakeTensor" for cls in types)
