"""What a node of the recorded graph holds, read without disturbing it (``saved_slots``, ``python_slots``), and the
nodes that there are (``nodes_behind``).

Only raw slots are read (``_raw_saved_*``, ``SavedTensor.data``): the ``_saved_*`` attributes and ``unpack`` run unpack
hooks, which re-run a checkpointed forward. A ``SavedTensor`` read from a node is a pointer into the node: it is never
kept.
"""

import functools
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch

from course_utils.base.torch_private import FunctionBase, SavedTensor

# Nodes of these names, and nodes without a Python type of their own, hold tensors that Python cannot see.
_HIDES_WHAT_IT_SAVES = ("CopySlices", "CppFunction")


@dataclass
class Slot:
    """One place in a node that may hold a tensor or, where hooks packed it, any object.

    Attributes:
        name: ``self``, ``mat1``, ``result``; ``saved_tensors[0]`` for a custom Function; ``variable`` for a leaf.
        value: what is in it; None where nothing was saved or backward has freed it.
        packed: a saved-tensor hook put ``value`` there.
        unpack_hook: the function that would unpack it, None without hooks.
        freed: backward has freed it.
    """

    name: str
    value: Any
    packed: bool = False
    unpack_hook: Any = None
    freed: bool = False


@functools.lru_cache(maxsize=1024)
def _raw_names(kind: Any) -> tuple[str, ...]:
    return tuple(name for name in dir(kind) if name.startswith("_raw_saved_"))


def nodes_behind(tensor: torch.Tensor) -> Iterator[Any]:
    """The nodes of the graph that was recorded behind a tensor, the nearest first, each once."""
    waiting, seen = deque([tensor.grad_fn]), set[Any]()
    while waiting:
        node = waiting.popleft()
        if node is not None and node not in seen:
            seen.add(node)
            yield node
            waiting.extend(following for following, _ in node.next_functions)


def hides_saved_tensors(node: Any) -> bool:
    """Whether a node is of a kind that saves tensors where Python cannot see them."""
    return type(node).__name__ in _HIDES_WHAT_IT_SAVES


def saved_slots(node: Any) -> Iterator[Slot]:
    """Everything a node saved through PyTorch's own slots, in alphabetical order of their names."""
    if type(node).__name__ == "AccumulateGrad":
        yield Slot("variable", node.variable)
        return
    kind: Any = type(node)
    for name in _raw_names(kind):
        short = name.removeprefix("_raw_saved_")
        if short == "tensors" and isinstance(node, FunctionBase):
            short = "saved_tensors"
        try:
            raw = getattr(node, name)
        except RuntimeError:  # a list of saved tensors says in this way that backward has freed it
            yield Slot(short, None, freed=True)
            continue
        several = isinstance(raw, (tuple, list))
        raws = [item for item in raw if isinstance(item, SavedTensor)] if several else [raw]
        names = [f"{short}[{position}]" for position in range(len(raws))] if several else [short]
        yield from map(read_saved, names, raws)


def read_saved(name: str, raw: Any) -> Slot:
    """Reads a ``SavedTensor`` as it is, without unpacking it."""
    value, hook = raw.data, raw.unpack_hook
    if value is not None or hook is not None:
        return Slot(name, value, packed=hook is not None, unpack_hook=hook)
    # Nothing in it and no hook to run: it was never filled, or backward has freed it. A hook is refused in either case,
    # and the reason tells which, in every release; that unpack raises in one case alone is so since 2.12.
    try:
        raw.register_hooks(_same, _same)
    except RuntimeError as error:
        return Slot(name, None, freed="freed" in str(error))
    return Slot(name, None)


def _same(value: Any) -> Any:
    return value


def python_slots(node: Any) -> Iterator[tuple[str, Any]]:
    """What a custom Function keeps as attributes of ``ctx``, by name; nothing for a built-in node."""
    if isinstance(node, FunctionBase):
        for name, value in vars(node).items():
            yield f"ctx.{name}", value
        forward = getattr(node, "saved_for_forward", None)
        if forward:
            yield "saved_for_forward", forward
