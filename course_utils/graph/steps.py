"""What a thing leads to: items of containers, attributes, variables of functions, hooks, and what recorded graphs save
(``steps``); the tensors in an object, whatever it is (``tensors_inside``).
"""

import contextvars
import functools
import gc
import inspect
import sys
import threading
import types
import weakref
from collections import OrderedDict, deque
from collections.abc import Iterator
from typing import Any, NamedTuple

import torch

from course_utils.base.user_code import is_user_file
from course_utils.graph.recorded import python_slots, read_saved, saved_slots
from course_utils.graph.references import SavedTensor, is_node

LARGE = 128
"""Of a container with more things in it, so many are looked at first: those that were put in last."""

_HOLDS_NOTHING = (
    str, int, float, bool, bytes, bytearray, complex, type(None), range, slice, types.ModuleType, types.CodeType,
    types.BuiltinFunctionType, torch.dtype, torch.device, torch.Size, torch.Generator, types.MappingProxyType,
)  # fmt: skip
_SEQUENCES = (list, tuple, deque, set, frozenset)
_ENTERED_BY_VARIABLES = (*_HOLDS_NOTHING, type, torch.nn.Module)
_GENERATORS = (types.GeneratorType, types.CoroutineType, types.AsyncGeneratorType)
_NEAR = (
    dict, *_SEQUENCES, *_GENERATORS, type, types.FunctionType, types.MethodType, types.FrameType, types.TracebackType,
    functools.partial, functools._lru_cache_wrapper, contextvars.ContextVar, BaseException, torch.nn.Module,
    threading.local,
)  # fmt: skip

_DEPTH = 8
"""Containers on a custom Function's ctx or in a packed object are searched this deep, and no further."""

_CHECKPOINT_INPUTS = "_NoopSaveInputsBackward"
"""Before 2.12 a checkpoint keeps its inputs in a node of this name, by an empty tensor that the node made."""

_HELD_BY_FRAME = 3  # references to a frame's dictionary of variables: the frame's, ours, and the argument of the count


class Edge(NamedTuple):
    """One step on the way to what is kept.

    Attributes:
        kind: "local", "global", "variable" (of a closure), "default" (of an argument), "item", "key" (of a dictionary),
            "attribute", "graph" (from a tensor to its history), "saved" (by a node), "next" (from node to node),
            "other".
        name: a variable's, attribute's or slot's name; an item's index or key.
    """

    kind: str
    name: Any


def holds_nothing(kind: type) -> bool:
    """Whether things of a class lead nowhere."""
    return issubclass(kind, _HOLDS_NOTHING)


def is_near(kind: type) -> bool:
    """Whether things of a class are the user's, or lead straight to what is, and are not inside of a library."""
    return issubclass(kind, _NEAR) or kind is _array() or is_users_class(kind)


def is_users_class(kind: type) -> bool:
    """Whether the user wrote a class."""
    if kind.__module__ == "__main__":
        return True
    file = getattr(sys.modules.get(kind.__module__), "__file__", None)
    return isinstance(file, str) and is_user_file(file)


def steps(thing: Any) -> Iterator[tuple[Edge, Any]]:
    """Everything that a thing refers to, with the step that leads there; of a large container the newest first."""
    kind = type(thing)
    if issubclass(kind, torch.Tensor):
        yield from _of_tensor(thing)
    elif is_node(thing):
        yield from _of_node(thing)
    elif issubclass(kind, SavedTensor):
        slot = read_saved("", thing)
        yield from ((Edge("attribute", "__self__"), inner) for inner in (slot.value, slot.unpack_hook))
    elif issubclass(kind, dict):
        yield from _of_dict(thing)
        if kind not in (dict, OrderedDict):
            yield from _attributes(thing)
    elif issubclass(kind, _SEQUENCES):
        yield from _of_sequence(list(thing) if kind in _SEQUENCES else list(kind.__iter__(thing)))
        if kind not in _SEQUENCES:
            yield from _attributes(thing)
    elif kind is types.FunctionType:
        yield from _of_function(thing)
    elif kind is types.MethodType:
        yield Edge("attribute", "__self__"), thing.__self__
        yield Edge("other", "function"), thing.__func__
    elif issubclass(kind, functools.partial):
        yield from ((Edge("attribute", "__self__"), part) for part in (thing.func, thing.args, thing.keywords))
        yield from _attributes(thing)
    elif kind in _GENERATORS:
        yield from _of_generator(thing)
    elif kind is types.FrameType:
        yield from ((Edge("local", name), value) for name, value in local_variables(thing).items())
    elif kind is types.TracebackType:
        yield Edge("other", "frame"), thing.tb_frame
        yield Edge("other", "traceback"), thing.tb_next
    elif kind is contextvars.ContextVar:
        yield Edge("other", "value"), thing.get(None)
    elif issubclass(kind, type):
        if is_users_class(thing):
            yield from ((Edge("attribute", name), value) for name, value in list(vars(thing).items()))
    elif kind is _array():
        yield from _of_array(thing)
    else:
        yield from _attributes(thing)
        own = getattr(thing, "__dict__", None) if is_users_class(kind) else None
        yield from ((Edge("other", ""), value) for value in gc.get_referents(thing) if value is not own)


def _of_dict(thing: dict) -> Iterator[tuple[Edge, Any]]:
    pairs = list(dict.items(thing))
    if len(pairs) > LARGE:
        if all(map(holds_nothing, {*map(type, dict.values(thing)), *map(type, thing)})):
            return
        pairs.reverse()
    for key, value in pairs:
        yield Edge("item", key), value
        if not holds_nothing(type(key)):
            yield Edge("key", None), key


def _of_sequence(values: list) -> Iterator[tuple[Edge, Any]]:
    if len(values) <= LARGE:
        yield from ((Edge("item", position), value) for position, value in enumerate(values))
    elif not all(map(holds_nothing, set(map(type, values)))):
        yield from ((Edge("item", place), values[place]) for place in range(len(values) - 1, -1, -1))


def _array() -> Any:
    return getattr(sys.modules.get("numpy"), "ndarray", _array)


def _of_array(array: Any) -> Iterator[tuple[Edge, Any]]:
    """The garbage collector does not know what NumPy's arrays refer to."""
    if array.base is not None:
        yield Edge("attribute", "base"), array.base
    if array.dtype.hasobject:
        yield from _of_sequence(array.ravel().tolist())


def _attributes(thing: Any) -> Iterator[tuple[Edge, Any]]:
    try:
        own = thing.__dict__ if issubclass(type(thing), threading.local) else object.__getattribute__(thing, "__dict__")
    except AttributeError:
        own = None
    for name, value in list(own.items()) if isinstance(own, dict) else ():
        yield Edge("attribute", name), value
    for name, slot in _slots(type(thing)):
        try:
            yield Edge("attribute", name), slot.__get__(thing)
        except AttributeError:
            continue
    if issubclass(type(thing), BaseException):
        for name in ("__traceback__", "__context__", "__cause__", "args"):
            yield Edge("attribute", name), getattr(thing, name)


_slots_of: weakref.WeakKeyDictionary[type, tuple[tuple[str, Any], ...]] = weakref.WeakKeyDictionary()


def _slots(kind: type) -> tuple[tuple[str, Any], ...]:
    """The ``__slots__`` of a class, and what reads them."""
    found = _slots_of.get(kind)
    if found is None:
        bases = [base for base in kind.__mro__ if base.__module__ != "builtins"]
        every = [(name, slot) for base in bases for name, slot in list(vars(base).items())]
        found = _slots_of[kind] = tuple(pair for pair in every if type(pair[1]) is types.MemberDescriptorType)
    return found


def _of_tensor(tensor: torch.Tensor) -> Iterator[tuple[Edge, Any]]:
    if tensor.grad_fn is not None:
        yield Edge("graph", "grad_fn"), tensor.grad_fn
    if tensor._is_view() and tensor._base is not None:
        yield Edge("attribute", "_base"), tensor._base
    if tensor.is_leaf and tensor.grad is not None:
        yield Edge("attribute", "grad"), tensor.grad
    for name, value in list(vars(tensor).items()):
        yield Edge("attribute", name), value
    if tensor._backward_hooks:
        yield Edge("attribute", "_backward_hooks"), tensor._backward_hooks


def _of_node(node: Any) -> Iterator[tuple[Edge, Any]]:
    for slot in saved_slots(node):
        yield Edge("saved", slot.name), slot.value
        if slot.unpack_hook is not None:
            yield Edge("saved", f"{slot.name}, unpack hook"), slot.unpack_hook
    for name, value in python_slots(node):
        yield Edge("saved", name), value
    for following, _ in node.next_functions:
        if following is not None:
            yield Edge("next", ""), following
    for value in gc.get_referents(node):
        if not isinstance(value, type):
            yield Edge("other", ""), value


def _of_function(function: types.FunctionType) -> Iterator[tuple[Edge, Any]]:
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            yield Edge("variable", name), cell.cell_contents
        except ValueError:
            continue
    defaults, code = function.__defaults__ or (), function.__code__
    for name, value in zip(
        code.co_varnames[code.co_argcount - len(defaults) : code.co_argcount], defaults, strict=False
    ):
        yield Edge("default", name), value
    for name, value in (function.__kwdefaults__ or {}).items():
        yield Edge("default", name), value
    for name, value in list(vars(function).items()):
        yield Edge("attribute", name), value


def _of_generator(generator: Any) -> Iterator[tuple[Edge, Any]]:
    frame = frame_of(generator)
    if frame is not None:
        for name, value in local_variables(frame).items():
            yield Edge("local", name), value


def frame_of(generator: Any) -> types.FrameType | None:
    """Where a generator or coroutine stands; None once it has ended."""
    for name in ("gi_frame", "cr_frame", "ag_frame"):
        frame = getattr(generator, name, None)
        if frame is not None:
            return frame
    return None


def local_variables(frame: types.FrameType) -> dict[str, Any]:
    """A function's variables now, without leaving anything behind."""
    shown = frame.f_locals
    found = dict(shown)
    # Up to Python 3.12 a function's frame keeps the dictionary that it hands out, and all that is in it. Where somebody
    # else has it too, from a call of locals(), it is theirs.
    mine = type(shown) is dict and frame.f_code.co_flags & inspect.CO_OPTIMIZED
    if mine and sys.getrefcount(shown) == _HELD_BY_FRAME:
        shown.clear()
    return found


def reaches_itself(start: Any, most: int = 10_000) -> bool:
    """Whether a thing leads back to itself; looks at so many things at most."""
    waiting: deque[Any] = deque([start])
    seen: set[int] = set()
    keep = []
    while waiting and len(seen) < most:
        for _, inner in steps(waiting.popleft()):
            if inner is start:
                return True
            if not holds_nothing(type(inner)) and id(inner) not in seen and type(inner) is not types.FrameType:
                seen.add(id(inner))
                keep.append(inner)
                waiting.append(inner)
    return False


def tensors_inside(value: Any, name: str, seen: set[int]) -> Iterator[tuple[str, Any]]:
    """Tensors and nodes in an object, with the path that leads to them: ``ctx.cache['key'][0]``.

    Modules, classes and ``torch.nn.Module`` are not entered: variables hold them.

    Args:
        value: where to start.
        name: what the path starts with.
        seen: the ``id`` of every container looked into, so that each is looked into once; added to. The caller keeps
            the containers alive meanwhile.
    """
    waiting = [(name, value, 0)]
    while waiting:
        path, thing, depth = waiting.pop()
        kind = type(thing)
        if issubclass(kind, torch.Tensor) or is_node(thing):
            yield path, thing
            if issubclass(kind, torch.Tensor) and type(thing.grad_fn).__name__ == _CHECKPOINT_INPUTS:
                yield path, thing.grad_fn
        elif depth <= _DEPTH and id(thing) not in seen and not issubclass(kind, _ENTERED_BY_VARIABLES):
            seen.add(id(thing))
            found = [(path + _written(edge), inner, depth + 1) for edge, inner in steps(thing) if edge.kind != "other"]
            waiting.extend(reversed(found))


def _written(edge: Edge) -> str:
    if edge.kind in ("attribute", "variable", "default"):
        return "" if edge.name == "__self__" else f".{edge.name}"
    return f"[{edge.name!r}]" if edge.kind == "item" and isinstance(edge.name, (str, int)) else "[...]"
