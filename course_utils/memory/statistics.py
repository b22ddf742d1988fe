"""A device's own allocator, asked for its totals (``Totals``): as an engine (``StatisticsRecorder``), and beside
another one (``Beside``).

CUDA and XPU have them; MPS since PyTorch offers them through ``torch.accelerator``, and its current bytes before. The
CPU and ``meta`` have none.
"""

from dataclasses import dataclass
from time import perf_counter_ns
from typing import Any

import torch

from course_utils.base.errors import explain
from course_utils.memory.ledger import Block, Change, Engine, PhaseMark


@dataclass(frozen=True)
class Totals:
    """One reading, in bytes; None where the device does not tell.

    Attributes:
        allocated: bytes alive, in the allocator's blocks.
        asked: the same as the program asked for them, or ``allocated`` where that is not told.
        reserved: bytes held from the driver.
        peak: the most of ``asked`` since the last ``reset_peaks``.
    """

    allocated: int
    asked: int
    reserved: int | None = None
    peak: int | None = None

    @staticmethod
    def exist_for(device: str) -> bool:
        """Whether the device has an allocator that can be asked on this machine."""
        kind = torch.device(device).type
        if kind == "mps":
            return torch.backends.mps.is_available()
        module: Any = getattr(torch, kind, None)
        return kind not in ("cpu", "meta") and hasattr(module, "memory_stats") and module.is_available()

    @classmethod
    def now(cls, device: str) -> "Totals":
        """Reads them."""
        told = _statistics(torch.device(device))
        if told is None:
            allocated = torch.mps.current_allocated_memory()
            return cls(allocated, allocated, torch.mps.driver_allocated_memory())
        allocated, peak = told.get("allocated_bytes.all.current", 0), told.get("allocated_bytes.all.peak")
        if (asked := told.get("requested_bytes.all.current")) is not None:
            peak = told.get("requested_bytes.all.peak")
        return cls(allocated, allocated if asked is None else asked, told.get("reserved_bytes.all.current"), peak)

    def above(self, start: "Totals") -> "Totals":
        """The same above what there was at the start."""
        reserved = None if self.reserved is None or start.reserved is None else self.reserved - start.reserved
        peak = None if self.peak is None else self.peak - start.asked
        return Totals(self.allocated - start.allocated, self.asked - start.asked, reserved, peak)


def _statistics(device: torch.device) -> dict[str, Any] | None:
    if device.type != "mps":
        return getattr(torch, device.type).memory_stats(device)
    # Some versions have the functions, but not for MPS: there they raise, or know nothing.
    try:
        return torch.accelerator.memory_stats(device) or None
    except (AttributeError, RuntimeError, NotImplementedError):
        return None


def reset_peaks(device: str) -> None:
    """Makes the present bytes the peak, for the whole process: another measurement that is under way loses its own."""
    where = torch.device(device)
    if where.type != "mps":
        getattr(torch, where.type).reset_peak_memory_stats(where)
    elif _statistics(where) is not None:
        torch.accelerator.reset_peak_memory_stats(where)


class StatisticsRecorder(Engine):
    """The engine "allocator" on a device: a stream with two changes for each reading, up to the peak and down again.

    Limits: between two readings (a phase's ends, a figure asked for) only the greatest total is known, not which
    operation reached it; peaks need a device that tells them. Everything in the process counts, in any thread.
    """

    def __init__(self, device: str) -> None:
        if not Totals.exist_for(device):
            raise ValueError(
                explain(
                    f'MemoryTracker(device="{device}", engine="allocator").',
                    "a device whose allocator can be asked here: cpu, or cuda, xpu or mps where they are available.",
                    try_this='engine="dispatch", which watches operations and works on every device.',
                )
            )
        super().__init__()
        self._device = device
        self._count = self._last = 0
        self._start: Totals | None = None

    def __enter__(self) -> "StatisticsRecorder":
        reset_peaks(self._device)
        self._start = Totals.now(self._device)
        return self

    def __exit__(self, exc_type: object, exc: object, traceback: object) -> None:
        self.stream()
        self._start = None

    def mark(self, mark: PhaseMark) -> None:
        self.stream()
        super().mark(mark)

    def stream(self) -> list[Change | PhaseMark]:
        with self.lock:
            if self._start is not None:
                now = Totals.now(self._device).above(self._start)
                reset_peaks(self._device)
                for level in (max(now.asked if now.peak is None else now.peak, now.asked, self._last), now.asked):
                    if level != self._last:
                        self._add(level - self._last)
                        self._last = level
            return self._stream

    def _add(self, delta: int) -> None:
        block = Block(self._count, abs(delta), self._device, "the allocator's totals", -1)
        self._count += 1
        self._stream.append(Change(block, delta, perf_counter_ns(), -1))


class Beside:
    """The allocator's totals beside another engine: of the same block, above its start.

    Args:
        device: one for which ``Totals.exist_for``.
    """

    def __init__(self, device: str) -> None:
        reset_peaks(device)
        self._device, self._start = device, Totals.now(device)
        self._end: Totals | None = None

    def finish(self) -> None:
        """Takes the last reading."""
        self._end = self.totals()

    def totals(self) -> Totals:
        """The figures so far, or of the whole block."""
        return self._end or Totals.now(self._device).above(self._start)
