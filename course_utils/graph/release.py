"""What would be freed: dropping references in thought (``Release``), one by one, as Python and PyTorch would.

Each thing dies when as many of its references have been dropped as it has, and then drops what it holds in turn. So
only dying things are looked into, and nothing is changed. A circle of references stays, as it would stay without
``gc.collect()``.
"""

import gc
import math
import types
from collections import Counter, deque
from collections.abc import Mapping

import torch

from course_utils.base.torch_private import FunctionBase, SavedTensor, is_functorch_wrapped
from course_utils.graph.recorded import Slot, read_saved, saved_slots
from course_utils.graph.references import Holdings, Node, is_node
from course_utils.graph.storages import inner_tensors, storages_of

_HOLDS_NOTHING = (str, int, float, bool, bytes, type(None), type, types.ModuleType, types.CodeType)


class Release:
    """References dropped in thought, and what dies of it.

    Args:
        holdings: keeps the things under study.
        counts: references to certain things, by key, where counting them is not possible or not wanted.
        pack_hooks: the key of the pack hook by that of its unpack hook; see ``course_utils.graph.packed``.

    Attributes:
        bytes_by_storage: bytes of each storage that has died, by its key, in the order of their deaths.
    """

    def __init__(self, holdings: Holdings, counts: Mapping[int, float], pack_hooks: Mapping[int, int]) -> None:
        self.bytes_by_storage: dict[int, int] = {}
        self._holdings = holdings
        self._counts = counts
        self._pack_hooks = pack_hooks
        self._dropped: Counter[int] = Counter()
        self._dead: set[int] = set()
        self._waiting: deque[int] = deque()
        self._killer: dict[int, int] = {}
        self._dying = 0

    def drop(self, thing: object, times: int = 1) -> None:
        """Drops references to a thing; what dies of it is found by ``settle``."""
        # type(...) and not isinstance: asking a dead weak proxy for its class raises.
        if issubclass(type(thing), _HOLDS_NOTHING) or not times:
            return
        key = self._holdings.add(thing)
        self._dropped[key] += times
        self._waiting.append(key)
        self._killer[key] = self._dying

    def kill(self, thing: object) -> None:
        """Lets a thing die, whoever else holds it."""
        key = self._holdings.add(thing)
        del thing
        if key not in self._dead:
            self._die(key)

    def settle(self) -> None:
        """Follows every consequence of what has been dropped and killed."""
        while self._waiting:
            key = self._waiting.popleft()
            if key not in self._dead and self._dropped[key] >= self._count(key):
                self._die(key)

    def _count(self, key: int) -> float:
        known = self._counts.get(key)
        if known is not None:
            return known
        try:
            return self._holdings.count(key)
        except NotImplementedError:  # a node of another graph, where nodes cannot be counted: it lives
            return math.inf

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
            self.drop(inner_tensors(tensor)[0])
        elif tensor.layout is not torch.strided or not inner_tensors(tensor):
            # The tensors inside a sparse one are shown as new tensors each time, so its storages are dropped instead.
            for storage in storages_of(tensor):
                self.drop(storage)
        if tensor.grad_fn is not None:
            self.drop(tensor.grad_fn)
        if tensor._is_view():
            self.drop(tensor._base)
        if tensor.is_leaf and tensor.grad is not None:
            self.drop(tensor.grad)
        for value in vars(tensor).values():
            self.drop(value)
        self.drop(tensor._backward_hooks)

    def _drop_contents_of_node(self, node: Node) -> None:
        for slot in saved_slots(node):
            self._drop_slot(slot)
        for following, _ in node.next_functions:
            if following is not None:
                self.drop(following)
        if isinstance(node, FunctionBase):
            self._drop_referents(node)

    def _drop_slot(self, slot: Slot) -> None:
        self.drop(slot.value)
        self.drop(slot.unpack_hook)
        pack_hook = self._pack_hooks.get(id(slot.unpack_hook))
        if pack_hook is not None:
            self.drop(self._holdings.get(pack_hook))

    def _drop_referents(self, thing: object) -> None:
        for inner in gc.get_referents(thing):
            self.drop(inner)
