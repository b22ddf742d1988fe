"""What a tracker is told about, held weakly (``Known``), and what graphs hold (``held_by_graphs``)."""

import weakref
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import torch

from course_utils.base import explain
from course_utils.base.text import describe
from course_utils.graph.recorded import python_slots, saved_slots, storages_of
from course_utils.graph.steps import tensors_inside

Number = Callable[[torch.UntypedStorage], "int | None"]
"""Tells the number of a storage that a recorder has met."""


class Known:
    """Modules, optimizers and tensors by weak reference, so that naming an object never keeps it alive.

    Args:
        *objects: modules, optimizers, tensors, and nested lists, tuples, sets, mappings or iterators of them.

    Raises:
        TypeError: an object is none of these.
    """

    def __init__(self, *objects: Any) -> None:
        self._references: list[weakref.ref] = []
        self._seen: set[int] = set()
        for value in objects:
            self._add(value, depth=0)

    def _add(self, value: Any, depth: int) -> None:
        if value is None:
            return
        if isinstance(value, (torch.Tensor, torch.nn.Module, torch.optim.Optimizer)):
            if id(value) not in self._seen:
                self._seen.add(id(value))
                self._references.append(weakref.ref(value))
        elif isinstance(value, Mapping) and depth < 32:
            for item in value.values():
                self._add(item, depth + 1)
        elif isinstance(value, Iterable) and not isinstance(value, (str, bytes)) and depth < 32:
            for item in value:
                self._add(item, depth + 1)
        elif not isinstance(value, (bool, int, float, str)) or depth == 0:
            raise TypeError(
                explain(
                    f"MemoryTracker was given {describe(value)}, of type {type(value).__name__}.",
                    "modules, optimizers, tensors, or containers of them.",
                    "Only these own memory that the tracker can put a name to.",
                    "with MemoryTracker(model, optimizer, inputs) as mem: ...",
                )
            )

    def objects(self) -> Iterator[Any]:
        """The named objects that are still alive, in the order of naming."""
        return (value for reference in self._references if (value := reference()) is not None)

    def parameters(self) -> Iterator[torch.Tensor]:
        """Parameters and buffers of the modules, parameters of the optimizers."""
        for value in self.objects():
            if isinstance(value, torch.nn.Module):
                yield from value.parameters()
                yield from value.buffers()
            elif isinstance(value, torch.optim.Optimizer):
                for group in value.param_groups:
                    yield from group["params"]

    def tensors(self) -> Iterator[torch.Tensor]:
        """The tensors that were named themselves."""
        return (value for value in self.objects() if isinstance(value, torch.Tensor))

    def gradients(self) -> Iterator[torch.Tensor]:
        """``.grad`` of every parameter and named tensor that has one, without the warning on tensors in a graph."""
        for tensor in (*self.parameters(), *self.tensors()):
            if (tensor.is_leaf or tensor.retains_grad) and tensor.grad is not None:
                yield tensor.grad

    def optimizer_state(self) -> Iterator[torch.Tensor]:
        """Tensors in the state of the optimizers."""
        for value in self.objects():
            if isinstance(value, torch.optim.Optimizer):
                found = tensors_inside(list(value.state.values()), "", set())
                yield from (thing for _, thing in found if isinstance(thing, torch.Tensor))

    def everything(self) -> Iterator[torch.Tensor]:
        """All of them; a storage may appear more than once."""
        yield from self.parameters()
        yield from self.tensors()
        yield from self.gradients()
        yield from self.optimizer_state()


def device_name(device: torch.device | str | None, known: Known) -> str:
    """The name of a device with its number, as tensors on it carry it: ``cpu``, ``cuda:0``, ``mps:0``, ``meta``. None
    stands for that of the first known tensor, else for PyTorch's default device; what is no device, for a ValueError.
    """
    if device is None:
        first = next(known.everything(), None)
        chosen = first.device if first is not None else torch.get_default_device()
    else:
        try:
            chosen = torch.device(device)
        except (RuntimeError, TypeError) as error:
            raise ValueError(
                explain(f"The device {describe(device)} was asked for.", "a device, such as cpu, cuda:0, mps or meta.")
            ) from error
    if chosen.index is None and chosen.type == "cuda" and torch.cuda.is_available():
        chosen = torch.device("cuda", torch.cuda.current_device())
    elif chosen.index is None and chosen.type not in ("cpu", "meta"):
        chosen = torch.device(chosen.type, 0)
    return str(chosen)


def look_at_graphs(
    tensors: Iterable[torch.Tensor], number: Number, device: str, since: int
) -> tuple[list[torch.Tensor], dict[str, int]]:
    """What the graphs behind some tensors hold now, without unpacking anything: the tensors whose storage a recorder
    has met; and, by name, bytes of other storages on the device that this thread's nodes hold, from ``since`` on.
    """
    met: list[torch.Tensor] = []
    unmet: dict[int, tuple[str, int]] = {}
    for node, tensor in _held(tensors):
        for storage in storages_of(tensor):
            if number(storage) is not None:
                met.append(tensor)
            elif node._sequence_nr() >= since and storage.resizable() and str(storage.device) == device:
                unmet[storage._cdata] = _origin(tensor), storage.nbytes()
    unseen = Counter[str]()
    for name, nbytes in unmet.values():
        unseen[name] += nbytes
    return met, dict(unseen)


def held_by_graphs(tensors: Iterable[torch.Tensor]) -> Iterator[torch.Tensor]:
    """Tensors that nodes behind some tensors hold for backward, leaves aside; one may come more than once."""
    return (tensor for _, tensor in _held(tensors))


def _held(tensors: Iterable[torch.Tensor]) -> Iterator[tuple[Any, torch.Tensor]]:
    waiting: list[Any] = [tensor.grad_fn for tensor in tensors if tensor.grad_fn is not None]
    seen: set[int] = set()  # of nodes and of containers
    kept: list[object] = []  # what is in ``seen`` must not die, or its id would go to the next one
    while waiting:
        node = waiting.pop()
        if id(node) in seen or type(node).__name__ == "AccumulateGrad":
            continue
        seen.add(id(node))
        waiting.extend(following for following, _ in node.next_functions if following is not None)
        places = [thing for slot in saved_slots(node) for thing in (slot.value, slot.unpack_hook)]
        places += [value for _, value in python_slots(node)]
        kept += [node, *places]
        for place in places:
            for _, found in tensors_inside(place, "", seen):
                if isinstance(found, torch.Tensor):
                    yield node, found
                else:
                    waiting.append(found)


def _origin(tensor: torch.Tensor) -> str:
    """What kind of thing PyTorch allocates past its dispatcher and a graph keeps."""
    if tensor.dim() == 0 and tensor.device.type == "cpu":
        return "boxed scalars"
    if tensor.dtype is torch.uint8 and tensor.dim() == 1:
        return "RNG states"
    return "other memory held by graphs"
