"""The recorded graph as plain data, and what it keeps alive (``graph_memory``).

Reading changes nothing: no hook is installed, no saved tensor is unpacked (a checkpointed forward is not re-run), the
in-place check stays on, and the result keeps no tensor, no node and no storage alive.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import torch

from course_utils.base.errors import explain
from course_utils.base.text import aligned, count_of, describe, format_bytes
from course_utils.graph.names import tensor_names
from course_utils.graph.walk import Reading


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
        exclusive: only the graph holds the storage: no variable, container, module or other graph does.
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
        holder = "the graph alone" if self.exclusive else "others too"
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
        shared: bytes it holds that something outside the graph holds too.
        leaf_shape: for a leaf: the shape of the tensor whose ``.grad`` it fills; None for other nodes.
        tensor_name: the name of the leaf, or of the tensor that the node made, where names were given; "" otherwise.
        freed: backward has freed what it had saved.
    """

    index: int
    name: str
    next: tuple[int | None, ...]
    kept: int = 0
    repeated: int = 0
    shared: int = 0
    leaf_shape: tuple[int, ...] | None = None
    tensor_name: str = ""
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
        shared: those of them that something else holds too: a variable, a container, a module, another graph.
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
            ("held for backward", f"{format_bytes(self.total)} in {count_of(len(self.saved), 'saved tensor')}"),
            ("by the graph alone", format_bytes(self.exclusive)),
            ("by others too", format_bytes(self.shared)),
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
            f"GraphMemory({len(self.nodes)} nodes, {count_of(len(self.saved), 'saved tensor')}, total={self.total},"
            f" shared={self.shared}, exclusive={self.exclusive})"
        )


def operation_name(name: str) -> str:
    """``Addmm`` for ``AddmmBackward0``: a node's name without what every node's name has.

    Example:
        >>> operation_name("MaxPool2DWithIndicesBackward0"), operation_name("AccumulateGrad")
        ('MaxPool2DWithIndices', 'AccumulateGrad')
    """
    bare = name.rsplit("::", 1)[-1].rstrip("0123456789")
    return bare.removesuffix("Backward") or name


def graph_memory(*tensors: torch.Tensor, names: Mapping[str, Any] | None = None) -> GraphMemory:
    """What the graph recorded behind some tensors holds for backward, and what only it holds.

    Args:
        *tensors: results of recorded operations, of any shape, typically one loss; several count as one graph.
        names: tensors, or modules, by name, for the nodes that make them or fill their ``.grad``.

    Returns:
        Plain numbers, read now: the result keeps nothing alive and does not change later.

    Raises:
        TypeError: something given is no tensor, or something named neither a tensor nor a module.
        ValueError: no tensor was given, or one has no history.

    Limits: what ``CopySlices`` and nodes written in C++ save is not visible from Python (``hidden`` names them); nor
    is what tensor hooks keep. After backward nodes remain and hold nothing: 0 bytes.

    Example:
        >>> x = torch.ones(256, requires_grad=True)
        >>> graph_memory((x.exp() * 2).sum())
        GraphMemory(4 nodes, 2 saved tensors, total=1032, shared=0, exclusive=1032)
    """
    _check(tensors)
    return _summary(Reading(tensors, tensor_names(names or {})))


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
                    "graph_memory(*losses)"
                    if isinstance(tensor, (list, tuple))
                    else "give the loss itself, not .item().",
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


def _summary(reading: Reading) -> GraphMemory:
    sizes, exclusive = reading.storage_bytes, reading.exclusive
    held = {key for place in reading.places for key in place.storages}
    return GraphMemory(
        nodes=_nodes(reading),
        saved=_saved(reading),
        total=sum(sizes[key] for key in held),
        shared=sum(sizes[key] for key in held if key not in exclusive),
        exclusive=sum(exclusive.values()),
        freed=sum(reading.freed.values()),
        result=sum(reading.freed.get(key, 0) for key in reading.result_keys),
        hidden=tuple(dict.fromkeys(read.name for read in reading.nodes if read.hides)),
    )


def _nodes(reading: Reading) -> tuple[GraphNode, ...]:
    kept, repeated, shared = ([0] * len(reading.nodes) for _ in range(3))
    counted: set[int] = set()
    counted_here: set[tuple[int, int]] = set()
    for place in reading.places:
        for key in place.storages:
            if (place.node, key) in counted_here:
                continue
            counted_here.add((place.node, key))
            column = shared if key not in reading.exclusive else repeated if key in counted else kept
            column[place.node] += reading.storage_bytes[key]
            counted.add(key)
    return tuple(
        GraphNode(
            index=index,
            name=read.name,
            next=read.following,
            kept=kept[index],
            repeated=repeated[index],
            shared=shared[index],
            leaf_shape=read.leaf_shape,
            tensor_name=read.tensor_name,
            freed=read.freed,
        )
        for index, read in enumerate(reading.nodes)
    )


def _saved(reading: Reading) -> tuple[SavedTensor, ...]:
    numbers: dict[int, int] = {}
    saved = []
    for place in reading.places:
        storages = [numbers.setdefault(key, len(numbers)) for key in place.storages]
        saved.append(
            SavedTensor(
                node=reading.nodes[place.node].name,
                slot=place.slot,
                shape=place.shape,
                dtype=place.dtype,
                nbytes=place.nbytes,
                storage_nbytes=sum(reading.storage_bytes[key] for key in place.storages),
                storage=storages[0] if storages else -1,
                node_index=place.node,
                exclusive=bool(storages) and all(key in reading.exclusive for key in place.storages),
            )
        )
    return tuple(saved)
