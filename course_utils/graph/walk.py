"""One reading of a recorded graph (``Reading``): which node holds what, and whose storages only the graph holds."""

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch

from course_utils.base.text import dtype_name
from course_utils.graph.packed import pack_hooks_among, possible_pack_hooks
from course_utils.graph.recorded import hides_saved_tensors, python_slots, saved_slots
from course_utils.graph.references import Holdings, can_count_nodes, is_node, live_objects
from course_utils.graph.release import Release
from course_utils.graph.steps import tensors_inside
from course_utils.graph.storages import storages_of


@dataclass
class Place:
    """One tensor in one place of a node; ``storages`` are keys in the reading's holdings."""

    node: int
    slot: str
    shape: tuple[int, ...]
    dtype: str
    nbytes: int
    storages: tuple[int, ...]


@dataclass
class NodeRead:
    """One node, as read: its name, where its gradients go, and whether backward has freed what it had saved."""

    name: str
    following: tuple[int | None, ...]
    leaf_shape: tuple[int, ...] | None = None
    tensor_name: str = ""
    freed: bool = False
    hides: bool = False


# NOTE [Holding by one reference]
# To tell what only the graph holds, the references of everybody else are counted, so ours must be known: each thing
# is held once, in Holdings, and spoken of by its key. No attribute, list or local of this class may hold a tensor,
# a node or a storage when references are counted.


class Reading:
    """Reads the graph behind some tensors.

    Attributes:
        nodes: the nodes, the tensors' own first, then what they lead to, breadth first.
        places: where tensors are held, in the order of the nodes.
        storage_bytes: bytes of each storage in ``places``, by key.
        exclusive: bytes of the storages that only the graph holds, by key.
        freed: bytes of the storages that go when the variables of the given tensors go, by key.
        result_keys: keys of the storages of the given tensors.
    """

    def __init__(self, tensors: tuple[torch.Tensor, ...], names: Mapping[str, torch.Tensor]) -> None:
        self.nodes: list[NodeRead] = []
        self.places: list[Place] = []
        self.storage_bytes: dict[int, int] = {}
        self._holdings = Holdings()
        self._keys: list[int] = []
        self._index: dict[int, int] = {}
        self._unpack_hooks: Counter[int] = Counter()
        self._doubtful: set[int] = set()
        self._looked_into: set[int] = set()
        self._found_in_python: Counter[int] = Counter()
        self._leaf_places: list[Place] = []
        self._name_of: dict[int, str] = {}
        self._roots = list(dict.fromkeys(self._holdings.add(tensor) for tensor in tensors))
        self.result_keys = {
            self._holdings.add(storage) for root in self._roots for storage in storages_of(self._holdings.get(root))
        }
        self._take_names(names)
        for root in self._roots:
            self._number(self._holdings.get(root).grad_fn)
        while len(self.nodes) < len(self._keys):
            self._read(len(self.nodes))
        self.exclusive, self.freed = self._release()
        self._add_places_of_the_dead()

    def _take_names(self, names: Mapping[str, torch.Tensor]) -> None:
        for name, tensor in names.items():
            self._name_of.setdefault(self._holdings.add(tensor), name)
            if tensor.grad_fn is not None:
                self._name_of.setdefault(self._holdings.add(tensor.grad_fn), name)

    def _number(self, node: Any) -> int:
        key = self._holdings.add(node)
        if key not in self._index:
            self._index[key] = len(self._keys)
            self._keys.append(key)
        return self._index[key]

    def _read(self, index: int) -> None:
        key = self._keys[index]
        node: Any = self._holdings.get(key)
        following = tuple(None if after is None else self._number(after) for after, _ in node.next_functions)
        read = NodeRead(node.name().rsplit("::", 1)[-1], following, tensor_name=self._name_of.get(key, ""))
        read.hides = hides_saved_tensors(node)
        if read.hides:
            self._doubtful.update(after for after in following if after is not None)
        self.nodes.append(read)
        is_leaf = type(node).__name__ == "AccumulateGrad"
        for slot in saved_slots(node):
            read.freed |= slot.freed
            if is_leaf:
                read.leaf_shape = tuple(slot.value.shape)
                read.tensor_name = self._name_of.get(id(slot.value), "")
                self._leaf_places.append(self._place(index, slot.name, slot.value))
            elif slot.packed:
                self._doubtful.update(after for after in following if after is not None)
                self._search(index, f"{slot.name}, packed", slot.value)
                if slot.unpack_hook is not None:
                    self._unpack_hooks[self._holdings.add(slot.unpack_hook)] += 1
                    self._search(index, f"{slot.name}, unpack_hook", slot.unpack_hook)
            elif isinstance(slot.value, torch.Tensor):
                self._hold(slot.value)
                self.places.append(self._place(index, slot.name, slot.value))
        for name, value in python_slots(node):
            self._search(index, name, value)

    def _hold(self, tensor: torch.Tensor) -> int:
        if tensor._is_view() and tensor._base is not None:
            self._holdings.add(tensor._base)  # a view holds the tensor that it looks at
        return self._holdings.add(tensor)

    def _search(self, index: int, name: str, value: object) -> None:
        for path, found in tensors_inside(value, name, self._looked_into):
            if is_node(found):
                self._number(found)
            else:
                self._found_in_python[self._hold(found)] += 1
                self.places.append(self._place(index, path, found))

    def _place(self, index: int, slot: str, tensor: torch.Tensor) -> Place:
        keys = []
        for storage in storages_of(tensor):
            key = self._holdings.add(storage)
            self.storage_bytes[key] = storage.nbytes()
            keys.append(key)
        dense = tensor.layout is torch.strided
        nbytes = tensor.numel() * tensor.element_size() if dense else sum(self.storage_bytes[key] for key in keys)
        return Place(index, slot, tuple(tensor.shape), dtype_name(tensor.dtype), nbytes, tuple(dict.fromkeys(keys)))

    def _release(self) -> tuple[dict[int, int], dict[int, int]]:
        pack_hooks, counts = self._what_counting_gets_wrong()
        release = Release(self._holdings, counts, pack_hooks)
        for root in self._roots:
            variables, _ = self._holdings.python_and_other(root)
            release.drop(self._holdings.get(root), times=max(0, variables - self._found_in_python[root]))
        release.settle()
        freed = dict(release.bytes_by_storage)
        for key in self._keys:
            release.kill(self._holdings.get(key))
        release.settle()
        self._cause_of = release.causes
        exclusive = {key: size for key, size in release.bytes_by_storage.items() if key not in self.result_keys}
        return exclusive, freed

    def _what_counting_gets_wrong(self) -> tuple[dict[int, int], dict[int, float]]:
        """The pack hooks by their unpack hooks, and the references to nodes that cannot be counted.

        A slot packed by hooks holds, beside both hooks, the node that made the tensor or the leaf's node, and does not
        say so; what CopySlices holds is hidden as a whole. There, and where nodes cannot be counted at all, the
        references are those that were found, if nothing else leads to the node.
        """
        doubtful = self._doubtful if can_count_nodes() else set(range(len(self._keys)))
        if not doubtful and not self._unpack_hooks:
            return {}, {}
        tensors, functions = live_objects()
        candidates = possible_pack_hooks(self._holdings, self._unpack_hooks, functions)
        entered = self._entered_from_outside(tensors)
        del tensors, functions  # they are references, too
        found = Counter(after for read in self.nodes for after in read.following if after is not None)
        for key in self._holdings:
            thing = self._holdings.get(key)
            if isinstance(thing, torch.Tensor) and thing.grad_fn is not None and id(thing.grad_fn) in self._index:
                found[self._index[id(thing.grad_fn)]] += 1
            del thing
        counts = {self._keys[index]: math.inf if index in entered else found[index] for index in doubtful}
        return pack_hooks_among(self._holdings, self._unpack_hooks, candidates), counts

    def _entered_from_outside(self, tensors: list[torch.Tensor]) -> set[int]:
        """The nodes that the history of a tensor unknown to this reading leads to first."""
        entered: set[int] = set()
        seen: set[int] = set()
        keep = []  # while an id is in seen, its node has to live
        for tensor in tensors:
            if id(tensor) in self._holdings or tensor.grad_fn is None:
                continue
            waiting = [tensor.grad_fn]
            while waiting:
                node = waiting.pop()
                if id(node) in self._index:
                    entered.add(self._index[id(node)])
                elif id(node) not in seen:
                    seen.add(id(node))
                    keep.append(node)
                    waiting.extend(after for after, _ in node.next_functions if after is not None)
        return entered

    def _add_places_of_the_dead(self) -> None:
        """Leaves that no variable holds any more, and what only the deaths of Python objects brought to light."""
        self.places += [place for place in self._leaf_places if any(key in self.exclusive for key in place.storages)]
        listed = {key for place in self.places for key in place.storages}
        for key, size in self.exclusive.items():
            if key not in listed:
                self.storage_bytes[key] = size
                index = next((self._index[cause] for cause in self._cause_of(key) if cause in self._index), 0)
                self.places.append(Place(index, "inside a Python object", (size,), "u8", size, (key,)))
        self.places.sort(key=lambda place: place.node)
