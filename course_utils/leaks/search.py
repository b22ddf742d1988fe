"""Who keeps a storage: from the user's variables forwards to it, through containers, objects, hooks and recorded graphs
(``find``).
"""

import functools
import gc
import inspect
import sys
import types
from collections import OrderedDict, deque
from collections.abc import Iterable, Iterator
from time import thread_time
from typing import Any, NamedTuple

import torch

from course_utils.graph.recorded import python_slots, saved_slots
from course_utils.graph.references import SavedTensor, is_node, probing_alone
from course_utils.graph.storages import storages_of
from course_utils.leaks.user_code import is_user_file

_HOLDS_NOTHING = (
    str, int, float, bool, bytes, bytearray, complex, type(None), range, slice, types.ModuleType, types.CodeType,
    types.BuiltinFunctionType, torch.dtype, torch.device, torch.Size, torch.Generator, types.MappingProxyType,
)  # fmt: skip
_SEQUENCES = (list, tuple, deque, set, frozenset)

_HELD_BY_FRAME = 3  # references to a frame's dictionary of variables: the frame's, ours, and the argument of the count


@functools.cache
def _own_kinds() -> frozenset[type]:
    """Classes of this room: a search does not go through what was counted."""
    from course_utils.leaks.births import Birth, Births, Kept

    return frozenset({Birth, Births, Kept})


class Edge(NamedTuple):
    """One step on the way to what is kept.

    Attributes:
        kind: "local", "global", "variable" (of a closure), "default" (of an argument), "item", "attribute", "graph"
            (from a tensor to its history), "saved" (by a node), "next" (from node to node), "other".
        name: a variable's, attribute's or slot's name; an item's index or key.
    """

    kind: str
    name: Any


class Root(NamedTuple):
    """A variable to begin at.

    Attributes:
        kind: as of ``Edge``.
        name: the variable's name.
        where: the function that it belongs to; "" for a global.
        file: the file.
        line: where its function begins; 0 for a global.
        value: what it refers to.
    """

    kind: str
    name: str
    where: str
    file: str
    line: int
    value: Any


class Path(NamedTuple):
    """The way from a variable to a storage: the root, the steps, and the things after each (the root's value first)."""

    root: Root
    edges: tuple[Edge, ...]
    things: tuple[Any, ...]


class Search:
    """A forward search, breadth first, so that the shortest way to each storage is found.

    Args:
        targets: storages looked for, by ``id``.
        seconds: how long it may take, of the processor's time.

    Attributes:
        found: the way to each storage that was found.
        complete: everything that can be reached was looked at.
    """

    def __init__(self, targets: Iterable[int], seconds: float) -> None:
        self.found: dict[int, Path] = {}
        self.complete = True
        self._targets = set(targets)
        self._skip = {id(self._targets), id(self.found)}
        self._until = thread_time() + seconds
        self._seen: set[int] = set()
        # Every thing is kept until the end: an id stands for it in _seen, and nodes are made as they are looked at.
        self._things: list[Any] = []
        self._came: list[tuple[int, Edge | Root]] = []
        self._next = 0

    def run(self, roots: Iterable[Root]) -> None:
        """Searches from some variables, in this order where ways are of one length."""
        for root in roots:
            self._add(root.value, -1, root)
        while self._next < len(self._things) and self._targets:
            at = self._next
            self._next += 1
            if not at % 256 and thread_time() > self._until:
                self.complete = False
                return
            thing = self._things[at]
            for edge, inner in _steps(thing):
                self._add(inner, at, edge)

    def _add(self, thing: Any, parent: int, edge: Edge | Root) -> None:
        kind = type(thing)
        if issubclass(kind, _HOLDS_NOTHING) or id(thing) in self._seen or id(thing) in self._skip:
            return
        if kind in _own_kinds():
            return
        self._seen.add(id(thing))
        self._things.append(thing)
        self._came.append((parent, edge))
        if issubclass(kind, torch.Tensor):
            for storage in storages_of(thing):
                self._meet(storage, len(self._things) - 1)
        elif issubclass(kind, torch.UntypedStorage):
            self._meet(thing, len(self._things) - 1)

    def _meet(self, storage: torch.UntypedStorage, at: int) -> None:
        if id(storage) in self._targets:
            self._targets.discard(id(storage))
            self.found[id(storage)] = self._path(at)

    def _path(self, at: int) -> Path:
        edges: list[Edge] = []
        things: list[Any] = []
        while True:
            things.append(self._things[at])
            parent, edge = self._came[at]
            if isinstance(edge, Root):
                return Path(edge, tuple(reversed(edges)), tuple(reversed(things)))
            edges.append(edge)
            at = parent


def _steps(thing: Any) -> Iterator[tuple[Edge, Any]]:
    kind = type(thing)
    if issubclass(kind, torch.Tensor):
        yield from _of_tensor(thing)
    elif is_node(thing):
        yield from _of_node(thing)
    elif issubclass(kind, SavedTensor):
        return
    elif issubclass(kind, dict):
        for key, value in list(dict.items(thing)):
            yield Edge("item", key), value
        if kind not in (dict, OrderedDict):
            yield from _attributes(thing)
    elif issubclass(kind, _SEQUENCES):
        for position, value in enumerate(list(thing) if kind in _SEQUENCES else list(kind.__iter__(thing))):
            yield Edge("item", position), value
        if kind not in _SEQUENCES:
            yield from _attributes(thing)
    elif kind is types.FunctionType:
        yield from _of_function(thing)
    elif kind is types.MethodType:
        yield Edge("attribute", "__self__"), thing.__self__
        yield Edge("other", "function"), thing.__func__
    elif kind is functools.partial:
        yield from ((Edge("other", "arguments"), part) for part in (thing.func, thing.args, thing.keywords))
    elif kind in (types.GeneratorType, types.CoroutineType, types.AsyncGeneratorType):
        yield from _of_generator(thing)
    elif kind is types.FrameType:
        for name, value in local_variables(thing).items():
            yield Edge("local", name), value
    elif kind is types.TracebackType:
        yield Edge("other", "frame"), thing.tb_frame
        yield Edge("other", "traceback"), thing.tb_next
    elif issubclass(kind, type):
        module = getattr(sys.modules.get(thing.__module__), "__file__", None)
        if thing.__module__ == "__main__" or (module and is_user_file(module)):
            for name, value in list(vars(thing).items()):
                yield Edge("attribute", name), value
    else:
        yield from _attributes(thing)
        for value in gc.get_referents(thing):
            yield Edge("other", ""), value


def _attributes(thing: Any) -> Iterator[tuple[Edge, Any]]:
    try:
        own = object.__getattribute__(thing, "__dict__")
    except AttributeError:
        own = None
    for name, value in list(own.items()) if isinstance(own, dict) else ():
        yield Edge("attribute", name), value
    for base in type(thing).__mro__:
        for name, slot in list(vars(base).items()):
            if type(slot) is types.MemberDescriptorType and base.__module__ != "builtins":
                try:
                    yield Edge("attribute", name), slot.__get__(thing)
                except AttributeError:
                    continue
    if issubclass(type(thing), BaseException):
        for name in ("__traceback__", "__context__", "__cause__", "args"):
            yield Edge("attribute", name), getattr(thing, name)


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
    frame = getattr(generator, "gi_frame", None) or getattr(generator, "cr_frame", None)
    if frame is not None:
        for name, value in local_variables(frame).items():
            yield Edge("local", name), value


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


def search(targets: Iterable[int], roots: Iterable[Root], seconds: float) -> Search:
    """Searches once; no mode of the caller's sees it."""
    looking = Search(targets, seconds)
    with probing_alone():
        looking.run(roots)
    return looking


def reachable_from(start: Any, wanted: Any, most: int = 10_000) -> bool:
    """Whether a thing leads to another, or back to itself; looks at so many things at most."""
    waiting = deque(inner for _, inner in _steps(start))
    seen: set[int] = set()
    keep = []
    while waiting and len(seen) < most:
        thing = waiting.popleft()
        if thing is wanted:
            return True
        if issubclass(type(thing), _HOLDS_NOTHING) or id(thing) in seen or type(thing) is types.FrameType:
            continue
        seen.add(id(thing))
        keep.append(thing)
        waiting.extend(inner for _, inner in _steps(thing))
    return False
