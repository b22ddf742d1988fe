"""What a storage was for (``categorise``), from its life and from where it was found; what graphs hold
(``held_by_graphs``, ``look_at_graphs``).
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet

import torch

from course_utils.graph.recorded import python_slots, saved_slots
from course_utils.graph.steps import tensors_inside
from course_utils.graph.storages import storages_of
from course_utils.memory.ledger import Life
from course_utils.memory.records import CATEGORIES, SAVED

Number = Callable[[torch.UntypedStorage], "int | None"]
"""Tells the number of a storage that an engine has met."""


def look_at_graphs(
    tensors: Iterable[torch.Tensor], number: Number, device: str, since: int
) -> tuple[list[torch.Tensor], dict[str, int]]:
    """What the graphs behind some tensors hold now, without unpacking anything.

    Args:
        tensors: results of recorded operations, and others.
        number: tells which storages an engine has met.
        device: whose bytes are meant.
        since: the first node of interest, see ``held_by_graphs``.

    Returns:
        The tensors held whose storage the engine has met; bytes of the other storages on the device, by name.
    """
    met: list[torch.Tensor] = []
    unmet: dict[int, tuple[str, int]] = {}
    for tensor in held_by_graphs(tensors, since):
        for storage in storages_of(tensor):
            if number(storage) is not None:
                met.append(tensor)
            elif storage.resizable() and str(storage.device) == device:
                unmet[storage._cdata] = _origin(tensor), storage.nbytes()
    unseen: dict[str, int] = {}
    for name, nbytes in unmet.values():
        unseen[name] = unseen.get(name, 0) + nbytes
    return met, unseen


def held_by_graphs(tensors: Iterable[torch.Tensor], since: int = 0) -> Iterator[torch.Tensor]:
    """Tensors that nodes behind some tensors hold for backward, leaves aside; one may come more than once.

    Args:
        tensors: where to start.
        since: PyTorch numbers the nodes of a thread; those with a lower number are older, and are not looked at.
    """
    waiting = [tensor.grad_fn for tensor in tensors if tensor.grad_fn is not None]
    seen: set[int] = set()  # of nodes and of containers
    kept: list[object] = []  # what is in ``seen`` must not die, or its id would go to the next one
    while waiting:
        node = waiting.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        kept.append(node)
        if type(node).__name__ == "AccumulateGrad" or node._sequence_nr() < since:
            continue
        waiting.extend(following for following, _ in node.next_functions if following is not None)
        for place in _places(node):
            kept.append(place)
            for _, found in tensors_inside(place, "", seen):
                if isinstance(found, torch.Tensor):
                    yield found
                else:
                    waiting.append(found)


def _places(node: torch.autograd.graph.Node) -> Iterator[object]:
    """What a node holds, packed or not, and the hooks that would unpack it."""
    for slot in saved_slots(node):
        yield slot.value
        yield slot.unpack_hook
    for _, value in python_slots(node):
        yield value


def _origin(tensor: torch.Tensor) -> str:
    """What kind of thing PyTorch allocates past its dispatcher and a graph keeps."""
    if tensor.dim() == 0 and tensor.device.type == "cpu":
        return "boxed scalars"
    if tensor.dtype is torch.uint8 and tensor.dim() == 1:
        return "RNG states"
    return "other memory held by graphs"


def categorise(blocks: Iterable[Life], places: Mapping[str, AbstractSet[int]]) -> dict[int, str]:
    """The category of each storage by its number; "older" for those that existed before the start.

    Args:
        blocks: the storages.
        places: category -> numbers of storages that were found in its place at the end of a phase or of the block.
    """
    return {block.number: _category(block, places) for block in blocks}


def _category(block: Life, places: Mapping[str, AbstractSet[int]]) -> str:
    if block.is_old:
        return "older"
    for name in CATEGORIES:
        if block.number in places.get(name, ()):
            return name
    if block.died and block.died_task >= 0 and block.died_task != block.born_task:
        return SAVED  # born in forward, or in another backward pass, and gone in this one
    if block.born_task >= 0 and block.died_task != block.born_task:
        return "gradients"  # what outlives the backward pass that made it
    return "temporary" if block.died else "other"
