"""Shows each operation that runs to whoever watches (``OperationWatch``), and which storages it makes, resizes or is
given (``StorageWatcher``).
"""

import functools
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MethodType
from typing import Any

import torch

from course_utils.base.torch_private import (
    DispatchKey,
    TorchDispatchMode,
    disabled_torch_dispatch,
    get_dispatch_modes,
    pop_dispatch_mode,
    push_dispatch_mode,
    storage_use_count,
)
from course_utils.graph.recorded import storages_of

Run = Callable[[Any, tuple, dict], Any]
"""Runs an operation with its positional arguments and those by name, and returns the result."""

Watcher = Callable[[Run, Any, tuple, dict], Any]
"""Somebody who is shown operations: calls ``run(func, args, kwargs)``, looks before and after, returns the result."""


@dataclass(frozen=True, eq=False)
class StorageWatcher:
    """Somebody who is told of storages. Those that share a mode are told by one look at what an operation is given and
    returns, which comes before any ``Watcher`` is shown the operation's result.

    Attributes:
        add: called with a storage that ``live`` does not have, a tensor on it, and the operation that made it with its
            positional arguments, or ``OLD`` and none where an operation was given it.
        meet: called in place of ``add`` with a tensor that has no storage of its own, and the same.
        size: called with a storage that may have another size than before, and its reference.
        live: the known storages' references, by the storage's ``id``.
    """

    add: Callable
    meet: Callable
    size: Callable
    live: Mapping[int, Any]


class DispatchMode(TorchDispatchMode):
    """A dispatch mode whose first operation does not load the compiler, and that lets compiled code be."""

    supports_higher_order_operators = True

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        # The default wraps __torch_dispatch__ in torch._dynamo.disable: it imports the compiler (seconds) on the
        # first operation and costs 0.7 us on each.
        return False

    @classmethod
    def ignore_compile_internals(cls) -> bool:
        """Told to PyTorch's compiler: code that is compiled below this mode stays as it is."""
        return True


class OperationWatch(DispatchMode):
    """The mode. Watchers that come one directly inside the other share one, for what a mode itself costs."""

    def __init__(self, *watchers: Watcher | StorageWatcher) -> None:
        super().__init__()
        self._set(watchers)

    def _set(self, watchers: tuple[Watcher | StorageWatcher, ...]) -> None:
        of_storages = [one for one in watchers if isinstance(one, StorageWatcher)]
        self._watchers, self._run = watchers, _looking(of_storages) if of_storages else _run
        for watcher in watchers:  # each runs what those before it run
            if not isinstance(watcher, StorageWatcher):
                self._run = functools.partial(watcher, self._run)

    def __enter__(self) -> "OperationWatch":
        # An attribute of the instance, a cycle until __exit__, saves a frame; PyTorch insists that it is bound.
        vars(self)["__torch_dispatch__"] = MethodType(_show, self)
        # Not super().__enter__: that also sets process-wide flags, which a watch abandoned in another thread would
        # leave set for ever. The stack of modes is the thread's own.
        push_dispatch_mode(self)
        self._in_inference = torch.is_inference_mode_enabled()
        return self

    def __exit__(self, exc_type: object, exc: object, traceback: object) -> None:
        self._set(())
        # When inference mode is left, PyTorch dispatches to what it dispatched to before, modes or none: where the
        # stack has changed meanwhile, the next operation is an internal error. So the mode stays, and shows nothing.
        if torch.is_inference_mode_enabled() != self._in_inference:
            return
        above = []
        while (mode := pop_dispatch_mode(None)) is not self:  # modes may be left in any order
            above.append(mode)
        for mode in reversed(above):
            push_dispatch_mode(mode)
        del vars(self)["__torch_dispatch__"]

    def __torch_dispatch__(self, func: Any, types: tuple, args: tuple = (), kwargs: dict | None = None) -> Any:
        return _show(self, func, types, args, kwargs)

    @classmethod
    def enter(cls, *watchers: Watcher | StorageWatcher) -> "OperationWatch":
        """Shows watchers the operations of this thread, and those of autograd's threads on its behalf; returns the mode
        that does, to be left with ``leave``.
        """
        modes = get_dispatch_modes()
        if modes and type(modes[-1]) is cls:
            mode = modes[-1]
            mode._set((*mode._watchers, *watchers))
            return mode
        return cls(*watchers).__enter__()

    def leave(self, *watchers: Watcher | StorageWatcher) -> bool:
        """Shows watchers no more; returns whether it is this thread's operations that they were shown."""
        here = any(mode is self for mode in get_dispatch_modes())
        left = tuple(one for one in self._watchers if one not in watchers)
        if here and not left:
            self.__exit__(None, None, None)
        self._set(left)
        return here


def _show(mode: OperationWatch, func: Any, types: tuple, args: tuple = (), kwargs: dict | None = None) -> Any:
    if types and _is_wrapped(types):
        return NotImplemented  # then the subclass runs its own operations, and they come here
    return mode._run(func, args, kwargs or {})


def _run(func: Any, args: tuple, kwargs: dict) -> Any:
    return getattr(func, "_op", func)(*args, **kwargs)


def _is_wrapped(types: tuple) -> bool:
    """Whether an argument's class has operations of its own; a FakeTensor's storage is counted as it is."""
    plain = disabled_torch_dispatch
    return any(cls.__torch_dispatch__ is not plain and cls.__name__ != "FakeTensor" for cls in types)


OLD = "before the start"
UNDISPATCHED = "past the dispatcher"
"""The ``op`` of a storage that is older than the recorder; and of one that came to be inside and no operation made."""

_ALIASES, _FRESH, _RESIZES, _LIFTS, _SETS = range(5)
_PLAIN, _TENSOR, _SEQUENCE, _SUBCLASS = range(4)
_RESIZING = {"aten::resize_", "aten::resize_as_", "aten::_resize_output_", "aten::set_", "aten::resize_as_sparse_"}


def quick_storages(tensor: torch.Tensor) -> Iterable[torch.UntypedStorage]:
    """``storages_of``, quicker for a tensor that has a storage of its own."""
    if type(tensor) in (torch.Tensor, torch.nn.Parameter):
        try:
            return (tensor.untyped_storage(),)
        except (NotImplementedError, RuntimeError):  # sparse, opaque, inside torch.func
            return storages_of(tensor)
    return storages_of(tensor)


def _looking(watchers: Sequence[StorageWatcher]) -> Callable[[Any, tuple, dict], Any]:
    """Runs operations, and tells of each storage that they make or meet; closures, since every operation pays."""
    plans: dict[Any, int] = {}
    kinds: dict[type, int] = {torch.Tensor: _TENSOR, torch.nn.Parameter: _TENSOR, list: _SEQUENCE, tuple: _SEQUENCE}
    told = [(one.live.get, one.add) for one in watchers]
    plan_of, kind_of = plans.get, kinds.get

    def meet_all(values: Iterable[Any], op: Any, given: tuple) -> None:
        for value in values:
            kind = kind_of(type(value))
            if kind is None:
                kind = kinds[type(value)] = _SUBCLASS if isinstance(value, torch.Tensor) else _PLAIN
            if kind == _TENSOR:
                try:
                    storage = value.untyped_storage()
                except (NotImplementedError, RuntimeError):  # no storage of its own: sparse, opaque
                    meet(value, op, given)
                    continue
                for known, add in told:
                    reference = known(id(storage))
                    if reference is None or reference() is not storage:
                        add(storage, value, op, given)
            elif kind == _SEQUENCE:
                meet_all(value, op, given)
            elif kind == _SUBCLASS:
                meet(value, op, given)

    def meet(tensor: torch.Tensor, op: Any, given: tuple) -> None:
        for one in watchers:
            one.meet(tensor, op, given)

    def look(func: Any, args: tuple, kwargs: dict) -> Any:
        call = getattr(func, "_op", func)  # its hash is quicker
        plan = plan_of(call)
        if plan is None:
            plan = plans[call] = _plan(func)
        if plan > _RESIZES:
            for one in watchers:
                _meet_made_outside(plan, func, args, one)
        # Whatever storage an operation is given and the log does not know is older than the recorder.
        meet_all(args, OLD, ())
        if kwargs:
            meet_all(kwargs.values(), OLD, ())
        out = call(*args, **kwargs)
        if plan != _ALIASES:
            meet_all((out,), func, args)
            if plan >= _RESIZES:
                resized = [storage for tensor in tensors_in((out,)) for storage in storages_of(tensor)]
                for storage, one in itertools.product(resized, watchers):
                    reference = one.live.get(id(storage))
                    if reference is not None and reference() is storage:
                        one.size(storage, reference)
        return out

    return look


def tensors_in(values: Iterable[Any]) -> Iterator[torch.Tensor]:
    """The tensors in some values, and in lists and tuples among them."""
    for value in values:
        if isinstance(value, torch.Tensor):
            yield value
        elif type(value) in (list, tuple):
            yield from tensors_in(value)


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


def _meet_made_outside(plan: int, func: Any, args: tuple, watcher: StorageWatcher) -> None:
    """Two operations are handed storages that were made just now, past the dispatcher.

    ``torch.tensor([1.0])`` fills a storage and shows it first to ``lift_fresh``. Unpickling and ``deepcopy`` make an
    ``UntypedStorage`` in Python and give it to ``set_``: such a one has no other owner, unlike that of a tensor.
    """
    if plan == _LIFTS:
        watcher.meet(args[0], func, ())
        return
    source = args[1] if len(args) > 1 else None
    if isinstance(source, torch.UntypedStorage) and storage_use_count(source._cdata) == 1:
        watcher.add(source, args[0], func, ())
