"""How many references keep a thing alive, seen from outside: Python objects, tensors, storages and the nodes of the
recorded graph (``Holdings``); what lives at all (``living``); the references that PyTorch does not show
(``pack_hooks``); and what would be freed if references were dropped (``Release``).

PyTorch keeps a tensor, a storage or a node alive by two counters: the reference count of its Python object and the use
count of its C++ object. While both exist, each side also holds the other once. ``Holdings.count`` takes these mutual
references and the caller's own away, so that what is left is the number of holders somebody else would have to drop.
"""

import functools
import gc
import math
import sys
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import compress
from types import FunctionType, MethodType
from typing import Any

import torch

from course_utils.base.torch_private import (
    DisableTorchFunction,
    FunctionBase,
    SavedTensor,
    disable_dispatch_modes,
    is_functorch_wrapped,
    storage_use_count,
)
from course_utils.base.user_code import frames_of_all_threads
from course_utils.graph.recorded import (
    Node,
    Slot,
    inner_tensors,
    is_kind_of_node,
    is_node,
    read_saved,
    saved_slots,
    storages_of,
)
from course_utils.graph.steps import holds_nothing, local_variables


class Holdings:
    """Keeps each thing under study alive by exactly one reference, so that the others can be counted.

    Use one instance for one study and drop it: it keeps what was added to it alive.
    """

    def __init__(self) -> None:
        self._held: dict[int, list[Any]] = {}

    def add(self, thing: object) -> int:
        """Holds a thing once, however often it is added; returns the key to ask for it by."""
        key = id(thing)
        if key not in self._held:
            self._held[key] = [thing]
        return key

    def get(self, key: int) -> Any:
        """The thing itself. Drop what this returns before asking for its ``count``."""
        return self._held[key][0]

    def count(self, key: int) -> float:
        """The number of references to a thing that are not this object's: from variables, containers, tensors, nodes.
        PyTorch does not let those to a node be counted: infinitely many.
        """
        box = self._held[key]
        python = sys.getrefcount(box[0]) - _HELD_IN_A_BOX
        kind: Any = type(box[0])
        family = _family(kind)
        if family == "plain":
            return python
        if family == "node":
            return math.inf
        uses = box[0]._use_count() if family == "tensor" else storage_use_count(box[0]._cdata)
        # One use is the Python object's own; while there are others, they in turn hold the Python object.
        return python - (_owner_references()[family] if uses > 1 else 0) + uses - 1


# How often a thing that only a box holds is referenced while its count is asked for: the box, and the argument (which
# newer Pythons borrow).
_BOX = [object()]
_HELD_IN_A_BOX = sys.getrefcount(_BOX[0])


@functools.lru_cache(maxsize=4096)
def _family(kind: Any) -> str:
    # By type and not by isinstance: weak proxies pretend to be what they point at.
    if issubclass(kind, torch.Tensor):
        return "tensor"
    if issubclass(kind, torch.UntypedStorage):
        return "storage"
    return "node" if is_kind_of_node(kind) else "plain"


@contextmanager
def probing_alone() -> Iterator[None]:
    """Outside of whatever the caller is inside of: modes, transforms, saved-tensor hooks and devices."""
    from course_utils.base.torch_private import clear_functorch  # loads torch.func

    with (
        clear_functorch(),
        DisableTorchFunction(),
        disable_dispatch_modes(),
        torch.inference_mode(False),
        torch.enable_grad(),
    ):
        yield


@functools.cache
def _owner_references() -> dict[str, int]:
    """How many references the C++ side holds on the Python object while it has other users: 0 or 1, by PyTorch version.

    Found out on things whose holders are known.
    """
    with probing_alone():
        leaf = torch.zeros(1, requires_grad=True, device="cpu", dtype=torch.float32)
        keeps = [leaf + 1]  # its graph keeps the leaf from C++
        held: dict[str, list[Any]] = {"tensor": [leaf], "storage": [leaf.untyped_storage()]}
        del leaf
        owners = {family: sys.getrefcount(box[0]) - _HELD_IN_A_BOX for family, box in held.items()}
        keeps.clear()
    return owners


def living(wanted: Callable[[type], bool]) -> list[Any]:
    """All objects of some classes, those that ``gc.freeze()`` has put aside among them. Half a million others take
    a tenth of a second. The list is one more reference to each thing in it: drop it before counting.
    """
    # By type and not by isinstance: see ``_family``.
    every = _every_object()
    return list(compress(every, map(functools.cache(wanted), map(type, every))))


def living_tensors() -> list[torch.Tensor]:
    """Every tensor that has a Python object; those that only C++ holds are among them, since theirs live as long."""
    return living(lambda kind: issubclass(kind, torch.Tensor))


def _every_object() -> list[Any]:
    """All objects that the garbage collector knows of. What is put aside stands in no list of the collector's. It is
    found from the modules, the running functions and the objects that are not put aside, as far as something in Python
    leads to it.
    """
    found = gc.get_objects()
    if gc.get_freeze_count():
        new: list[Any] = [sys.modules, *map(local_variables, frames_of_all_threads()), *found]
        seen = set(map(id, new))
        while new := [thing for thing in gc.get_referents(*new) if gc.is_tracked(thing) and id(thing) not in seen]:
            new = list({id(thing): thing for thing in new}.values())
            seen.update(map(id, new))
            found += new
    return found


def pack_hooks(holdings: Holdings, uses: Mapping[int, int]) -> dict[int, int]:
    """The pack hooks by their unpack hooks, both by their keys.

    A slot packed by hooks holds three Python objects, and PyTorch shows two: what the pack hook returned, and the
    unpack hook. The pack hook mostly shares its variables with the other: while it lives, so do they. It is taken to be
    the function that shares a closure variable (or, for methods, the object) with an unpack hook, and has just as many
    references as there are slots. One that something else holds too, or that shares nothing, keeps nothing alive here.

    Args:
        holdings: holds the unpack hooks; functions that may be pack hooks are added to it.
        uses: the number of slots that hold each unpack hook.
    """
    owner = {anchor: key for key in uses for anchor in _anchors(holdings.get(key))}
    functions = living((FunctionType, MethodType).__contains__) if owner else []
    candidates = {
        (owner[anchor], holdings.add(function))
        for function in functions
        for anchor in _anchors(function)
        if owner.get(anchor, id(function)) != id(function)
    }
    del functions
    return {key: partner for key, partner in candidates if holdings.count(partner) == uses[key]}


def _anchors(hook: object) -> list[int]:
    """The ``id`` of what a function's variables live in, or of a method's object."""
    if type(hook) is FunctionType:
        return [id(cell) for cell in hook.__closure__ or ()]
    return [id(hook.__self__)] if type(hook) is MethodType else []


class Release:
    """References dropped in thought, one by one, as Python and PyTorch would: nodes die, whoever else holds them, and
    then what dies of that.

    Each thing dies when as many of its references have been dropped as it has, and then drops what it holds in turn. So
    only dying things are looked into, and nothing is changed. A circle of references stays, as it would stay without
    ``gc.collect()``.

    Args:
        holdings: keeps the things under study.
        nodes: the keys of the nodes.
        hooks: the key of the pack hook by that of its unpack hook; see ``pack_hooks``.

    Attributes:
        bytes_by_storage: bytes of each storage that has died, by its key, in the order of their deaths.
    """

    def __init__(self, holdings: Holdings, nodes: Iterable[int], hooks: Mapping[int, int]) -> None:
        self.bytes_by_storage: dict[int, int] = {}
        self._holdings, self._pack_hooks = holdings, hooks
        self._dropped, self._waiting = Counter[int](), deque[int]()
        self._dead, self._killer, self._dying = set[int](), dict[int, int](), 0
        for key in nodes:
            self._die(key)
        while self._waiting:
            key = self._waiting.popleft()
            if key not in self._dead and self._dropped[key] >= holdings.count(key):
                self._die(key)

    def _drop(self, thing: object) -> None:
        """Drops a reference to a thing."""
        # type(...) and not isinstance: asking a dead weak proxy for its class raises.
        if not issubclass(type(thing), type) and not holds_nothing(type(thing)):
            key = self._holdings.add(thing)
            self._dropped[key] += 1
            self._waiting.append(key)
            self._killer[key] = self._dying

    def causes(self, key: int) -> list[int]:
        """Keys of the things whose deaths led to this one's, the nearest first."""
        chain = []
        while (key := self._killer.get(key, 0)) and key not in chain:
            chain.append(key)
        return chain

    def _die(self, key: int) -> None:
        self._dead.add(key)
        self._dying = key
        thing = self._holdings.get(key)
        kind = type(thing)
        if issubclass(kind, torch.Tensor):
            self._drop_contents_of_tensor(thing)
        elif issubclass(kind, torch.UntypedStorage):
            self.bytes_by_storage[key] = thing.nbytes()
        elif is_node(thing):
            self._drop_contents_of_node(thing)
        elif issubclass(kind, SavedTensor):
            self._drop_slot(read_saved("", thing))
        else:
            self._drop_referents(thing)
        self._dying = 0

    def _drop_contents_of_tensor(self, tensor: torch.Tensor) -> None:
        if is_functorch_wrapped(tensor):
            self._drop(inner_tensors(tensor)[0])
        elif tensor.layout is not torch.strided or not inner_tensors(tensor):
            # The tensors inside a sparse one are shown as new tensors each time, so its storages are dropped instead.
            for storage in storages_of(tensor):
                self._drop(storage)
        if tensor.grad_fn is not None:
            self._drop(tensor.grad_fn)
        if tensor._is_view():
            self._drop(tensor._base)
        if tensor.is_leaf and tensor.grad is not None:
            self._drop(tensor.grad)
        for value in vars(tensor).values():
            self._drop(value)
        self._drop(tensor._backward_hooks)

    def _drop_contents_of_node(self, node: Node) -> None:
        for slot in saved_slots(node):
            self._drop_slot(slot)
        for following, _ in node.next_functions:
            if following is not None:
                self._drop(following)
        if isinstance(node, FunctionBase):
            self._drop_referents(node)

    def _drop_slot(self, slot: Slot) -> None:
        self._drop(slot.value)
        self._drop(slot.unpack_hook)
        pack_hook = self._pack_hooks.get(id(slot.unpack_hook))
        if pack_hook is not None:
            self._drop(self._holdings.get(pack_hook))

    def _drop_referents(self, thing: object) -> None:
        for inner in gc.get_referents(thing):
            self._drop(inner)
