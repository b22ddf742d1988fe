"""Who holds which bytes now (``memory_snapshot``): parameters, gradients, optimizer state, graphs, others."""

from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

import torch

from course_utils.base.text import aligned, format_bytes
from course_utils.graph.recorded import storages_of
from course_utils.graph.references import living_tensors
from course_utils.memory.known import Known, device_name, held_by_graphs
from course_utils.memory.report import CATEGORIES


@dataclass(frozen=True)
class MemorySnapshot:
    """Bytes of all tensors alive on one device, by category. ``later - earlier`` gives what changed.

    Attributes:
        device: where the bytes live.
        parameters: of the given modules and optimizers, and given leaves that require grad.
        buffers: of the given modules.
        gradients: in ``.grad`` of these parameters and of given tensors.
        optimizer_state: in ``optimizer.state``.
        saved_for_backward: held by the graph behind any living tensor, and none of the above.
        other: all other storages: other given tensors such as inputs (a graph may hold them as well), results, what
            other code in this process keeps.
    """

    device: str
    parameters: int
    buffers: int
    gradients: int
    optimizer_state: int
    saved_for_backward: int
    other: int

    @property
    def categories(self) -> dict[str, int]:
        """The bytes by the category's name, in the order of ``CATEGORIES``."""
        return {name: getattr(self, name.replace(" ", "_")) for name in CATEGORIES if name != "temporary"}

    @property
    def total(self) -> int:
        """The sum of the categories: each storage counted once."""
        return sum(self.categories.values())

    def to_dict(self) -> dict[str, Any]:
        """The same as a plain dict, for JSON."""
        return asdict(self)

    def __sub__(self, earlier: "MemorySnapshot") -> "MemorySnapshot":
        """What changed from ``earlier`` to this one, category by category; of two devices, a ValueError."""
        if not isinstance(earlier, MemorySnapshot):
            return NotImplemented
        if earlier.device != self.device:
            raise ValueError(f"The snapshots are of two devices: {self.device} and {earlier.device}.")
        old = earlier.categories
        changed = {name.replace(" ", "_"): nbytes - old[name] for name, nbytes in self.categories.items()}
        return MemorySnapshot(device=self.device, **changed)

    def __str__(self) -> str:
        rows = {**self.categories, "sum": self.total}
        texts = {name: format_bytes(nbytes) for name, nbytes in rows.items()}
        width = max(map(len, texts.values()))
        return f"Tensors alive on {self.device}\n" + aligned((name, text.rjust(width)) for name, text in texts.items())

    __repr__ = __str__


def memory_snapshot(*known: Any, device: torch.device | str | None = None) -> MemorySnapshot:
    """Sorts the bytes of every tensor alive on a device by what they are for.

    Example:
        >>> model = torch.nn.Linear(1000, 10)
        >>> memory_snapshot(model).parameters
        40040

    Args:
        *known: modules, optimizers, tensors, and containers of them: they give the categories their meaning. The rest
            is found by a search of the process.
        device: the device to count on; by default that of the first known tensor, else PyTorch's default device.

    Returns:
        An exact partition: each storage is in one category, with all its bytes, though a view may show only some.

    Raises:
        TypeError: a known object is no module, optimizer, tensor or container of them.
        ValueError: no such device.

    Limits: a search of all Python objects, 70 ms in a notebook's kernel, a second after ``gc.freeze()``; tensors that
    only C++ holds are found if a graph leads to them. NumPy's and mapped memory is not counted.
    """
    named = Known(*known)
    where = device_name(device, named)
    counted: set[int] = set()
    keep: list[torch.UntypedStorage] = []  # an id is only a storage's own while it lives

    def count(tensors: Iterable[torch.Tensor]) -> int:
        nbytes = 0
        for tensor in tensors:
            for storage in storages_of(tensor):
                if id(storage) in counted or str(storage.device) != where or not storage.resizable():
                    continue
                counted.add(id(storage))
                keep.append(storage)
                nbytes += storage.nbytes()
        return nbytes

    everything = living_tensors()
    parameters, buffers = count(_trained(named)), count(named.parameters())
    gradients, optimizer_state = count(named.gradients()), count(named.optimizer_state())
    inputs = count(named.tensors())
    return MemorySnapshot(
        device=where,
        parameters=parameters,
        buffers=buffers,
        gradients=gradients,
        optimizer_state=optimizer_state,
        saved_for_backward=count(held_by_graphs(everything)),
        other=inputs + count(everything),
    )


def _trained(known: Known) -> Iterator[torch.Tensor]:
    yield from (tensor for tensor in known.parameters() if isinstance(tensor, torch.nn.Parameter))
    yield from (tensor for tensor in known.tensors() if tensor.is_leaf and tensor.requires_grad)
