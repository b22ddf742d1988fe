"""The recorded graph as plain data, and what it keeps alive (``graph_memory``).

Reading changes nothing: no hook is installed, no saved tensor is unpacked (a checkpointed forward is not re-run), the
in-place check stays on, and the result keeps no tensor, no node and no storage alive. Imports
``course_utils.recorded``, ``references``, ``release``, ``storages``, ``errors`` and ``text``.
"""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import torch

from course_utils.errors import explain
from course_utils.recorded import hides_saved_tensors, python_slots, saved_slots, tensors_inside
from course_utils.references import Holdings, can_count_nodes, is_node
from course_utils.release import Release
from course_utils.storages import storages_of
from course_utils.text import aligned, describe, dtype_name, format_bytes


@dataclass(frozen=True)
class SavedTensor:
    """One tensor that the graph holds, in one place.

    Attributes:
        node: the node that holds it, as ``grad_fn.name()`` says: ``"MulBackward0"``.
        slot: the place in the node: ``"self"``, ``"mat1"``, ``"ctx.cache[0]"``.
        shape: the tensor's shape.
        dtype: its dtype, in short: ``"f32"``.
        nbytes: bytes of its elements.
        storage_nbytes: bytes of the storages it stands on; a view keeps its whole base.
        storage: a number for the storage, equal for tensors that share it; -1 for a tensor without one.
        node_index: the node's place in ``GraphMemory.nodes``.
        exclusive: only the graph holds the storage: no variable, container or module does.
    """

    node: str
    slot: str
    shape: tuple[int, ...]
    dtype: str
    nbytes: int
    storage_nbytes: int
    storage: int
    node_index: int
    exclusive: bool

    def __str__(self) -> str:
        holder = "the graph alone" if self.exclusive else "variables too"
        shape = f"{self.dtype}[{', '.join(map(str, self.shape))}]"
        return f"{self.node}.{self.slot}: {shape}, {format_bytes(self.storage_nbytes)}, held by {holder}"


@dataclass(frozen=True)
class GraphNode:
    """One node of the recorded graph.

    Attributes:
        index: its place in ``GraphMemory.nodes``; the tensors asked about come first.
        name: as ``grad_fn.name()`` says, without namespace: ``"AddmmBackward0"``, ``"AccumulateGrad"``.
        next: indices of the nodes that its backward hands gradients to, in order; None where none is wanted.
        kept: bytes that only the graph holds and that no node before this one has counted.
        repeated: bytes that only the graph holds and that a node before this one has counted.
        shared: bytes it holds that variables hold too.
        leaf_shape: for a leaf: the shape of the tensor whose ``.grad`` it fills; None for other nodes.
        leaf_name: for a leaf: its name, where names were given; "" otherwise.
        freed: backward has freed what it had saved.
    """

    index: int
    name: str
    next: tuple[int | None, ...]
    kept: int = 0
    repeated: int = 0
    shared: int = 0
    leaf_shape: tuple[int, ...] | None = None
    leaf_name: str = ""
    freed: bool = False

    @property
    def label(self) -> str:
        """The operation's name alone: ``Addmm`` for ``AddmmBackward0``."""
        return operation_name(self.name)


@dataclass(frozen=True)
class GraphMemory:
    """What a recorded graph holds, in bytes; each storage counts once, however many nodes saved it.

    Attributes:
        nodes: the nodes, the given tensors' first, then what they lead to.
        saved: every tensor that is held, place by place; the same storage may stand in several places.
        total: bytes that the graph holds for backward.
        shared: those of them that variables, containers or modules hold too.
        exclusive: those of them that only the graph holds: ``total - shared``.
        freed: bytes that deleting the given tensors gives back at once. Where nothing else leads into the graph this
            is ``exclusive`` and ``result``; less where another tensor's history, or a circle of references, keeps part
            of it.
        result: bytes of the given tensors themselves that go with them (4 for a float32 loss).
        hidden: nodes of these names hold tensors that Python cannot see, so that the bytes may be too few.
    """

    nodes: tuple[GraphNode, ...]
    saved: tuple[SavedTensor, ...]
    total: int
    shared: int
    exclusive: int
    freed: int
    result: int
    hidden: tuple[str, ...] = ()

    @property
    def kept_by_others(self) -> int:
        """Bytes only the graph holds that deleting the given tensors would not free: something else leads to it."""
        return self.exclusive + self.result - self.freed

    @property
    def leaves(self) -> tuple[GraphNode, ...]:
        """The nodes that fill a ``.grad``."""
        return tuple(node for node in self.nodes if node.leaf_shape is not None)

    @property
    def edges(self) -> tuple[tuple[int, int], ...]:
        """Pairs of node indices: from the node whose backward runs first to the one that gets its result."""
        return tuple((node.index, following) for node in self.nodes for following in node.next if following is not None)

    def to_dict(self) -> dict[str, Any]:
        """The same as plain dicts, lists and numbers, for JSON."""
        return asdict(self)

    def __str__(self) -> str:
        count = len(self.nodes)
        rows = [
            ("nodes", f"{count}"),
            ("held for backward", f"{format_bytes(self.total)} in {_count(self.saved, 'saved tensor')}"),
            ("by the graph alone", format_bytes(self.exclusive)),
            ("by variables too", format_bytes(self.shared)),
        ]
        if self.kept_by_others:
            rows.append(("freed by deleting", f"{format_bytes(self.freed)}; something else leads to the rest"))
        freed = sum(node.freed for node in self.nodes)
        if freed:
            rows.append(("freed by backward", f"what {freed} of the nodes had saved"))
        if self.hidden:
            rows.append(("not visible", "what these saved: " + ", ".join(self.hidden)))
        return aligned(rows)

    def __repr__(self) -> str:
        return (
            f"GraphMemory({len(self.nodes)} nodes, {_count(self.saved, 'saved tensor')}, total={self.total},"
            f" shared={self.shared}, exclusive={self.exclusive})"
        )


def _count(things: Iterable, noun: str) -> str:
    count = len(tuple(things))
    return f"{count} {noun}" + ("" if count == 1 else "s")


def operation_name(name: str) -> str:
    """``Addmm`` for ``AddmmBackward0``: a node's name without what every node's name has.

    Example:
        >>> operation_name("MaxPool2DWithIndicesBackward0"), operation_name("AccumulateGrad")
        ('MaxPool2DWithIndices', 'AccumulateGrad')
    """
    bare = name.rsplit("::", 1)[-1].rstrip("0123456789")
    return bare.removesuffix("Backward") or name


def graph_memory(*tensors: torch.Tensor, names: dict[int, str] | None = None) -> GraphMemory:
    """What the graph recorded behind some tensors holds for backward, and what only it holds.

    Args:
        tensors: results of recorded operations, typically one loss; several count as one graph.
        names: names for leaves, by ``id``; see ``leaf_names``.

    Returns:
        Plain numbers, read now: the result keeps nothing alive and does not change later.

    Raises:
        TypeError: something given is no tensor.
        ValueError: no tensor was given, or one has no history.

    Limits: what ``CopySlices`` and nodes written in C++ save is not visible from Python (``hidden`` names them); nor
    is what tensor hooks keep. After backward nodes remain and hold nothing: 0 bytes.

    Example:
        >>> x = torch.ones(256, requires_grad=True)
        >>> graph_memory((x.exp() * 2).sum())
        GraphMemory(4 nodes, 2 saved tensors, total=1032, shared=0, exclusive=1032)
    """
    _check(tensors)
    return _Walk(tensors, names or {}).result()


def leaf_names(*named: Any, **more: Any) -> dict[int, str]:
    """Names for leaves, by ``id``: for ``graph_memory(..., names=...)`` and ``plot_graph``.

    Args:
        named: modules (their parameters and buffers, by qualified name) and mappings of name to tensor or module.
        more: the same by keyword: ``leaf_names(w=w, net=net)``; a module's parameters then start with its name.

    Raises:
        TypeError: something is neither.

    Example:
        >>> w = torch.ones(2, requires_grad=True)
        >>> list(leaf_names(torch.nn.Linear(2, 1), w=w).values())
        ['weight', 'bias', 'w']
    """
    names: dict[int, str] = {}
    for source in named:
        if isinstance(source, torch.nn.Module):
            _name_module(names, source, "")
        elif isinstance(source, Mapping):
            _name_items(names, source)
        else:
            raise TypeError(
                explain(
                    f"Names were asked of {describe(source)}.",
                    "a module, or a dictionary of name and tensor.",
                    try_this='plot_graph(loss, model) or plot_graph(loss, {"w": w})',
                )
            )
    _name_items(names, more)
    return names


def _name_items(names: dict[int, str], items: Mapping[str, Any]) -> None:
    for name, value in items.items():
        if isinstance(value, torch.nn.Module):
            _name_module(names, value, f"{name}.")
        elif isinstance(value, torch.Tensor):
            names.setdefault(id(value), str(name))
        else:
            raise TypeError(
                explain(f"The name {name!r} was given to {describe(value)}.", "a tensor or a module for each name.")
            )


def _name_module(names: dict[int, str], module: torch.nn.Module, prefix: str) -> None:
    for name, tensor in [*module.named_parameters(), *module.named_buffers()]:
        names.setdefault(id(tensor), prefix + name)


def _check(tensors: tuple[object, ...]) -> None:
    if not tensors:
        raise ValueError(
            explain(
                "graph_memory() was called with nothing.",
                "one or more tensors that recorded operations led to, such as a loss.",
                try_this="graph_memory(loss)",
            )
        )
    for tensor in tensors:
        if not isinstance(tensor, torch.Tensor):
            raise TypeError(
                explain(
                    f"graph_memory was given {describe(tensor)}.",
                    "a tensor.",
                    "the graph hangs on the tensors that operations return.",
                    "give the loss itself, before .item() or float().",
                )
            )
        if tensor.grad_fn is None:
            raise ValueError(
                explain(f"graph_memory was given {describe(tensor)}, which has no history.", *_why(tensor))
            )


def _why(tensor: torch.Tensor) -> tuple[str, str, str]:
    expected = "a tensor with a grad_fn: the result of an operation on something that requires grad."
    if tensor.requires_grad:
        why = "this one is a leaf: gradients end here, no operation made it, so no graph hangs on it."
        return expected, why, "give what was computed from it, such as the loss."
    why = "no graph was recorded for it, so none holds memory."
    return (
        expected,
        why,
        "look for no_grad, inference_mode, detach or .item() on the way, or for inputs that are not flagged.",
    )


@dataclass
class _Place:
    """One tensor in one place of a node, while walking."""

    node: int
    slot: str
    shape: tuple[int, ...]
    dtype: str
    nbytes: int
    storages: tuple[int, ...]


class _Walk:
    """One reading of a graph. Holds each thing by one reference in ``Holdings`` and speaks of it by key, so that the
    references of everybody else can be counted.
    """

    def __init__(self, tensors: tuple[torch.Tensor, ...], names: dict[int, str]) -> None:
        self._names = names
        self._holdings = Holdings()
        self._keys: list[int] = []
        self._index: dict[int, int] = {}
        self._next: list[tuple[int | None, ...]] = []
        self._freed: set[int] = set()
        self._leaves: dict[int, tuple[tuple[int, ...], str]] = {}
        self._places: list[_Place] = []
        self._leaf_places: list[_Place] = []
        self._storage_bytes: dict[int, int] = {}
        self._roots = list(dict.fromkeys(self._holdings.add(tensor) for tensor in tensors))
        self._root_storages = {
            self._holdings.add(storage) for root in self._roots for storage in storages_of(self._holdings.get(root))
        }
        for root in self._roots:
            self._visit(self._holdings.get(root).grad_fn)
        self._walk()

    def _visit(self, node: Any) -> int:
        key = self._holdings.add(node)
        if key not in self._index:
            self._index[key] = len(self._keys)
            self._keys.append(key)
        return self._index[key]

    def _walk(self) -> None:
        at = 0
        while at < len(self._keys):
            self._read(at, self._holdings.get(self._keys[at]))
            at += 1

    def _read(self, index: int, node: Any) -> None:
        following = node.next_functions
        self._next.append(tuple(None if after is None else self._visit(after) for after, _ in following))
        is_leaf = type(node).__name__ == "AccumulateGrad"
        for slot in saved_slots(node):
            if slot.freed:
                self._freed.add(index)
            elif isinstance(slot.value, torch.Tensor):
                places = self._leaf_places if is_leaf else self._places
                places.append(self._place(index, slot.name, slot.value))
                if is_leaf:
                    self._leaves[index] = (tuple(slot.value.shape), self._names.get(id(slot.value), ""))
            elif slot.value is not None:
                self._search(index, f"{slot.name} (packed)", slot.value)
            if slot.unpack_hook is not None:
                self._search(index, f"{slot.name} (unpack_hook)", slot.unpack_hook)
        for name, value in python_slots(node):
            self._search(index, name, value)

    def _search(self, index: int, name: str, value: object) -> None:
        for path, found in tensors_inside(value, name):
            if is_node(found):
                self._visit(found)
            else:
                self._places.append(self._place(index, path, found))

    def _place(self, index: int, slot: str, tensor: torch.Tensor) -> _Place:
        storages = []
        for storage in storages_of(tensor):
            key = self._holdings.add(storage)
            self._storage_bytes[key] = storage.nbytes()
            storages.append(key)
        nbytes = (
            tensor.numel() * tensor.element_size()
            if tensor.layout is torch.strided
            else sum(self._storage_bytes[key] for key in storages)
        )
        return _Place(
            index, slot, tuple(tensor.shape), dtype_name(tensor.dtype), nbytes, tuple(dict.fromkeys(storages))
        )

    def result(self) -> GraphMemory:
        release = Release(self._holdings)
        freed = self._release_roots(release)
        for key in self._keys:
            release.kill(self._holdings.get(key))
        release.settle()
        exclusive = {key: size for key, size in release.bytes_by_storage.items() if key not in self._root_storages}
        result = sum(freed.get(key, 0) for key in self._root_storages)
        places = self._places + [
            place for place in self._leaf_places if any(key in exclusive for key in place.storages)
        ]
        places.sort(key=lambda place: place.node)
        listed = {key for place in places for key in place.storages}
        places += self._unlisted(release, [key for key in exclusive if key not in listed])
        total = {key: self._storage_bytes[key] for place in places for key in place.storages}
        return GraphMemory(
            nodes=self._nodes(places, exclusive),
            saved=self._saved(places, exclusive),
            total=sum(total.values()),
            shared=sum(size for key, size in total.items() if key not in exclusive),
            exclusive=sum(exclusive.values()),
            freed=sum(freed.values()),
            result=result,
            hidden=tuple(
                dict.fromkeys(
                    self._holdings.get(key).name() for key in self._keys if hides_saved_tensors(self._holdings.get(key))
                )
            ),
        )

    def _release_roots(self, release: Release) -> dict[int, int]:
        for root in self._roots:
            release.drop(self._holdings.get(root), times=self._holdings.count(root))
        release.settle()
        return dict(release.bytes_by_storage)

    def _unlisted(self, release: Release, keys: list[int]) -> list[_Place]:
        places = []
        for key in keys:
            size = self._holdings.get(key).nbytes()
            self._storage_bytes[key] = size
            index = next((self._index[cause] for cause in release.causes(key) if cause in self._index), 0)
            places.append(_Place(index, "(inside a Python object)", (size,), "u8", size, (key,)))
        return places

    def _nodes(self, places: list[_Place], exclusive: dict[int, int]) -> tuple[GraphNode, ...]:
        kept, repeated, shared = [0] * len(self._keys), [0] * len(self._keys), [0] * len(self._keys)
        counted: set[int] = set()
        counted_here: set[tuple[int, int]] = set()
        for place in places:
            for key in place.storages:
                if (place.node, key) in counted_here:
                    continue
                counted_here.add((place.node, key))
                column = shared if key not in exclusive else repeated if key in counted else kept
                column[place.node] += self._storage_bytes[key]
                counted.add(key)
        nodes = []
        for index, key in enumerate(self._keys):
            shape, name = self._leaves.get(index, (None, ""))
            full = self._holdings.get(key).name().rsplit("::", 1)[-1]
            nodes.append(
                GraphNode(
                    index,
                    full,
                    self._next[index],
                    kept[index],
                    repeated[index],
                    shared[index],
                    shape,
                    name,
                    index in self._freed,
                )
            )
        return tuple(nodes)

    def _saved(self, places: list[_Place], exclusive: dict[int, int]) -> tuple[SavedTensor, ...]:
        numbers: dict[int, int] = {}
        saved = []
        for place in places:
            storages = [numbers.setdefault(key, len(numbers)) for key in place.storages]
            saved.append(
                SavedTensor(
                    node=self._holdings.get(self._keys[place.node]).name().rsplit("::", 1)[-1],
                    slot=place.slot,
                    shape=place.shape,
                    dtype=place.dtype,
                    nbytes=place.nbytes,
                    storage_nbytes=sum(self._storage_bytes[key] for key in place.storages),
                    storage=storages[0] if storages else -1,
                    node_index=place.node,
                    exclusive=bool(storages) and all(key in exclusive for key in place.storages),
                )
            )
        return tuple(saved)
