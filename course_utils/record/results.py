"""Which storages an operation makes, resizes or is given (``watcher``)."""

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import torch

from course_utils.base.torch_private import DispatchKey, storage_use_count
from course_utils.graph.storages import storages_of
from course_utils.record.operations import Run, Watcher

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


def watcher(add: Callable, meet: Callable, size: Callable, live: Mapping[int, Any]) -> Watcher:
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
