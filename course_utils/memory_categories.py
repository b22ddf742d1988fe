"""What a storage was for (``categorise``), from its life and from what a tracker noted on the way (``Marks``).

Imports ``memory_ledger``, ``recorded`` and ``storages``.
"""

from collections.abc import Callable, Iterable, Iterator

import torch

from course_utils.memory_known import Known
from course_utils.memory_ledger import Block
from course_utils.recorded import python_slots, saved_slots, tensors_inside
from course_utils.storages import storages_of

CAN_READ_GRAPHS = hasattr(torch._C._autograd.SavedTensor, "data")
"""Whether this PyTorch shows what a graph holds without running unpack hooks: 2.13 does, 2.9 does not.

Where it does not, what a graph still holds at the end of a block counts as "other", and nothing is reported unseen.
"""

Number = Callable[[torch.UntypedStorage], "int | None"]
"""Tells the number of a storage that an engine has met."""


class Marks:
    """Numbers of the storages found in a named place at the end of a phase or of the block.

    Attributes:
        unseen: bytes that a graph held at the last look and the engine had not met, by name.
    """

    def __init__(self) -> None:
        self.parameters: set[int] = set()
        self.gradients: set[int] = set()
        self.optimizer_state: set[int] = set()
        self.saved: set[int] = set()
        self.unseen: dict[str, int] = {}

    def note_known(self, known: Known, number: Number) -> None:
        """Looks where the known objects keep their parameters, gradients and states now."""
        self.parameters |= _numbers(known.parameters(), number)
        self.gradients |= _numbers(known.gradients(), number)
        self.optimizer_state |= _numbers(known.optimizer_state(), number)

    def note_graphs(self, tensors: Iterable[torch.Tensor], number: Number, device: str) -> None:
        """Looks what the graphs behind some tensors hold now; reads without unpacking anything."""
        unseen: dict[int, torch.Tensor] = {}
        for tensor in held_by_graphs(tensors):
            for storage in storages_of(tensor):
                found = number(storage)
                if found is not None:
                    self.saved.add(found)
                elif storage.resizable() and str(storage.device) == device:
                    unseen[storage._cdata] = tensor
        self.unseen = {}
        for tensor in unseen.values():
            name = _origin(tensor)
            self.unseen[name] = self.unseen.get(name, 0) + tensor.untyped_storage().nbytes()


def _numbers(tensors: Iterable[torch.Tensor], number: Number) -> set[int]:
    return {found for tensor in tensors for storage in storages_of(tensor) if (found := number(storage)) is not None}


def held_by_graphs(tensors: Iterable[torch.Tensor]) -> Iterator[torch.Tensor]:
    """Tensors that nodes behind some tensors hold for backward, leaves aside; one may come more than once."""
    waiting = [tensor.grad_fn for tensor in tensors if tensor.grad_fn is not None] if CAN_READ_GRAPHS else []
    seen: set[int] = set()  # of nodes and of containers
    kept: list[object] = []  # what is in ``seen`` must not die, or its id would go to the next one
    while waiting:
        node = waiting.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        kept.append(node)
        waiting.extend(following for following, _ in node.next_functions if following is not None)
        if type(node).__name__ == "AccumulateGrad":
            continue
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


def categorise(blocks: Iterable[Block], marks: Marks) -> dict[int, str]:
    """The category of each storage by its number; "older" for those that existed before the start."""
    return {block.number: _category(block, marks) for block in blocks}


def _category(block: Block, marks: Marks) -> str:
    if block.is_old:
        return "older"
    if block.number in marks.parameters:
        return "parameters"
    if block.number in marks.optimizer_state:
        return "optimizer state"
    if block.number in marks.gradients:
        return "gradients"
    if block.number in marks.saved:
        return "saved for backward"
    if block.died and block.died_task >= 0 and block.died_task != block.born_task:
        return "saved for backward"
    if block.born_task >= 0 and block.died_task != block.born_task:
        return "gradients"
    return "temporary" if block.died else "other"
