"""The objects that a tracker is told about, held weakly (``Known``): whose parameters, gradients, states these are."""

import weakref
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import torch

from course_utils.base.errors import explain
from course_utils.base.text import describe
from course_utils.graph.steps import tensors_inside


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
        elif isinstance(value, Iterable) and not isinstance(value, (str, bytes)) and depth < 32:
            for item in value.values() if isinstance(value, Mapping) else value:
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
