"""A device's own allocator, asked for its totals (``DeviceStatistics``), and an engine made of them
(``StatisticsRecorder``).

CUDA and XPU have them; MPS since PyTorch offers them through ``torch.accelerator``, and its current bytes before. The
CPU and ``meta`` have none.
"""

import threading
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from time import perf_counter_ns
from typing import Any

import torch

from course_utils.base.errors import explain
from course_utils.memory.ledger import Block, Change, PhaseMark


@dataclass(frozen=True)
class Totals:
    """One reading, in bytes: now, and the most since the last reset. None where the device does not tell."""

    allocated: int
    requested: int | None = None
    reserved: int | None = None
    peak_allocated: int | None = None
    peak_requested: int | None = None

    @property
    def asked(self) -> int:
        """Bytes as the program asked for them, or as allocated where that is not told."""
        return self.allocated if self.requested is None else self.requested

    @property
    def peak_asked(self) -> int | None:
        """The most of ``asked`` since the last reset."""
        return self.peak_allocated if self.requested is None else self.peak_requested


class DeviceStatistics:
    """Reads the totals of a device's caching allocator.

    ``reset_peaks`` is for the whole process: another measurement of peaks that is under way loses its own.
    """

    def __init__(self, device: str) -> None:
        self._device = torch.device(device)

    @staticmethod
    def exist_for(device: str) -> bool:
        """Whether the device has an allocator that can be asked on this machine."""
        kind = torch.device(device).type
        if kind == "mps":
            return torch.backends.mps.is_available()
        module: Any = getattr(torch, kind, None)
        return kind not in ("cpu", "meta") and hasattr(module, "memory_stats") and module.is_available()

    def read(self) -> Totals:
        """The totals now."""
        statistics = self._statistics()
        if statistics is None:
            return Totals(torch.mps.current_allocated_memory(), None, torch.mps.driver_allocated_memory())
        return Totals(
            statistics.get("allocated_bytes.all.current", 0),
            statistics.get("requested_bytes.all.current"),
            statistics.get("reserved_bytes.all.current"),
            statistics.get("allocated_bytes.all.peak"),
            statistics.get("requested_bytes.all.peak"),
        )

    def reset_peaks(self) -> None:
        """Makes the present bytes the peak."""
        if self._device.type == "mps":
            if self._statistics() is not None:
                torch.accelerator.reset_peak_memory_stats(self._device)
        else:
            getattr(torch, self._device.type).reset_peak_memory_stats(self._device)

    def _statistics(self) -> dict[str, Any] | None:
        if self._device.type != "mps":
            return getattr(torch, self._device.type).memory_stats(self._device)
        # Some versions have the functions, but not for MPS: there they raise, or know nothing.
        try:
            return torch.accelerator.memory_stats(self._device) or None
        except (AttributeError, RuntimeError, NotImplementedError):
            return None


class StatisticsRecorder:
    """The engine "allocator" on a device: a stream with two changes for each reading, up to the peak and down again.

    Limits: between two readings (a phase's ends, a figure asked for) only the greatest total is known, not which
    operation reached it; peaks need a device that tells them. Everything in the process counts, in any thread.
    """

    live = True

    def __init__(self, device: str) -> None:
        if not DeviceStatistics.exist_for(device):
            raise ValueError(
                explain(
                    f'MemoryTracker(device="{device}", engine="allocator").',
                    "a device whose allocator can be asked here: cpu, or cuda, xpu or mps where they are available.",
                    try_this='engine="dispatch", which watches operations and works on every device.',
                )
            )
        self.lock = threading.RLock()
        self.start_ns = perf_counter_ns()
        self.places: dict[str, set[int]] = {}
        self._device = device
        self._statistics = DeviceStatistics(device)
        self._stream: list[Change | PhaseMark] = []
        self._count = self._start = self._last = 0
        self._open = False

    def __enter__(self) -> "StatisticsRecorder":
        self._statistics.reset_peaks()
        self._start = self._statistics.read().asked
        self._open = True
        return self

    def __exit__(self, exc_type: object, exc: object, traceback: object) -> None:
        self.fold()
        self._open = False

    def know(self, tensors: Iterable[torch.Tensor]) -> None:
        """Nothing: the totals hold everybody's bytes."""

    def note(self, place: str, tensors: Iterable[torch.Tensor], all_known: bool = False) -> None:
        """Nothing: totals know no tensors."""

    def mark(self, mark: PhaseMark) -> None:
        """Puts the beginning or end of a phase at this place of the stream."""
        self.fold()
        self._stream.append(mark)

    def number(self, storage: torch.UntypedStorage) -> int | None:
        """None: totals know no storages."""
        return None

    def living_tensors(self) -> Iterator[torch.Tensor]:
        """None: totals know no tensors."""
        return iter(())

    def refresh(self) -> None:
        """Nothing: ``fold`` reads."""

    def fold(self) -> list[Change | PhaseMark]:
        """Reads the totals; returns the stream so far."""
        with self.lock:
            if self._open:
                totals = self._statistics.read()
                self._statistics.reset_peaks()
                now = totals.asked - self._start
                peak = now if totals.peak_asked is None else totals.peak_asked - self._start
                for level in (max(peak, now, self._last), now):
                    if level != self._last:
                        self._add(level - self._last)
                        self._last = level
            return self._stream

    def _add(self, delta: int) -> None:
        block = Block(self._count, abs(delta), self._device, "the allocator's totals", -1)
        self._count += 1
        self._stream.append(Change(block, delta, perf_counter_ns(), -1))

    def close(self) -> None:
        """Nothing to let go of."""


@dataclass(frozen=True)
class Figures:
    """The allocator's part of a ``MemoryReport``, in bytes above the start; None where it does not tell."""

    allocated: int
    reserved: int | None = None
    allocator_peak: int | None = None


@dataclass
class Beside:
    """The device's allocator beside the dispatch engine: the same block in its figures."""

    statistics: DeviceStatistics
    start: Totals
    end: Totals | None = None

    @classmethod
    def of(cls, device: str) -> "Beside | None":
        """Begins to measure; None where the device has no allocator to ask."""
        if not DeviceStatistics.exist_for(device):
            return None
        statistics = DeviceStatistics(device)
        statistics.reset_peaks()
        return cls(statistics, statistics.read())

    def finish(self) -> None:
        """Takes the last reading."""
        self.end = self.statistics.read()

    def figures(self) -> Figures:
        """The figures so far, or of the whole block."""
        now, start = self.end or self.statistics.read(), self.start
        peak = None if now.peak_asked is None else now.peak_asked - start.asked
        reserved = None if now.reserved is None or start.reserved is None else now.reserved - start.reserved
        return Figures(now.allocated - start.allocated, reserved, peak)
