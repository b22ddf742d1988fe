"""What a device's own allocator says beside the tensors (``Totals``): of CUDA and XPU, which tell peaks."""

from dataclasses import dataclass
from typing import Any

import torch


@dataclass(frozen=True)
class Totals:
    """One reading, in bytes; None where the device does not tell.

    Attributes:
        allocated: bytes alive, in the allocator's blocks.
        asked: the same as the program asked for them, or ``allocated`` where that is not told.
        reserved: bytes held from the driver.
        peak: the most of ``asked`` since the start.
    """

    allocated: int
    asked: int
    reserved: int | None = None
    peak: int | None = None

    @staticmethod
    def exist_for(device: str) -> bool:
        """Whether the device has an allocator that can be asked on this machine."""
        module: Any = getattr(torch, torch.device(device).type, None)
        return hasattr(module, "memory_stats") and module.is_available()

    @classmethod
    def now(cls, device: str) -> "Totals":
        """Reads them."""
        told = getattr(torch, torch.device(device).type).memory_stats(device)
        allocated, asked = told.get("allocated_bytes.all.current", 0), told.get("requested_bytes.all.current")
        peak = told.get("allocated_bytes.all.peak" if asked is None else "requested_bytes.all.peak")
        return cls(allocated, allocated if asked is None else asked, told.get("reserved_bytes.all.current"), peak)

    def above(self, start: "Totals") -> "Totals":
        """The same above what there was at the start."""
        reserved = None if self.reserved is None or start.reserved is None else self.reserved - start.reserved
        peak = None if self.peak is None else self.peak - start.asked
        return Totals(self.allocated - start.allocated, self.asked - start.asked, reserved, peak)


def reset_peaks(device: str) -> None:
    """Makes the present bytes the peak, for the whole process: another measurement that is under way loses its own."""
    where = torch.device(device)
    getattr(torch, where.type).reset_peak_memory_stats(where)
