"""What a memory tracker hands back, as plain data: one change of the bytes alive (``MemoryEvent``), one phase
(``PhaseMemory``), the state of all categories over time (``Timeline``), the summary (``MemoryReport``).

Every byte count is an ``int``; only ``str()`` and ``to_markdown()`` format.
"""

from dataclasses import dataclass, field, fields
from typing import Any

from course_utils.base.text import columns, format_bytes, markdown_table

SAVED = "saved for backward"
CATEGORIES = ("parameters", "buffers", "gradients", "optimizer state", SAVED, "temporary", "other")
"""What bytes are for, in the order in which tables and figures show them, and in which a storage that fits two belongs
to the first. A tracker counts buffers as parameters; a snapshot knows nothing of what is temporary.
"""


@dataclass(frozen=True)
class MemoryEvent:
    """One storage came to life, changed its size or died.

    Attributes:
        t: the event's number, counted from 0 among the events of the tracked device: the same in every run.
        op: the operation that made the storage, in PyTorch's own name (``aten::addmm``), also where it dies.
        phase: the name of the innermost phase at that moment, or "".
        delta: bytes gained (positive) or given back (negative).
        current: bytes alive above the start, after this event.
        storage: a number for the storage, counted from 0 in order of appearance.
        device: where the storage lives, ``cpu`` or ``cuda:0``.
        in_backward: whether the autograd engine was running a backward pass.
        time_ns: nanoseconds since the tracker was entered: the one field that differs from run to run.
    """

    t: int
    op: str
    phase: str
    delta: int
    current: int
    storage: int
    device: str
    in_backward: bool = False
    time_ns: int = field(default=0, compare=False)


@dataclass(frozen=True)
class PhaseMemory:
    """Bytes alive above the tracker's start, at the marks of one phase.

    Attributes:
        name: as given to ``mem.phase``.
        start: bytes when the phase began.
        end: bytes when it ended.
        peak: the most bytes alive at any moment of it, ``start`` among them.
        peak_op: the operation whose result reached the peak; "" where nothing rose above ``start``.
        first_event: number of the first event of the phase (``MemoryEvent.t``).
        last_event: number of the first event after the phase; equal to ``first_event`` where nothing happened.
    """

    name: str
    start: int
    end: int
    peak: int
    peak_op: str
    first_event: int = field(default=0, compare=False)
    last_event: int = field(default=0, compare=False)

    @property
    def net(self) -> int:
        """Bytes that the phase left behind: ``end - start``."""
        return self.end - self.start

    def __str__(self) -> str:
        return f"{self.name}: net {format_bytes(self.net)}, peak {format_bytes(self.peak)}" + (
            f" after {self.peak_op}" if self.peak_op else ""
        )


@dataclass(frozen=True)
class Timeline:
    """Bytes alive by category, after each event: what a stacked figure draws.

    Attributes:
        device: the device that the bytes live on.
        categories: name of a category -> bytes alive in it after 0, 1, ... n events (n + 1 numbers); only
            categories that ever held a byte, in the order of ``CATEGORIES``. Bytes of storages older than the tracker
            are not in them, so ``older`` completes the sum.
        older: bytes of storages older than the tracker that are gone, after 0, 1, ... n events (0 or negative).
        current: the sum of them all: the same numbers as ``MemoryEvent.current``, with a leading 0.
        time_ns: nanoseconds since the start, of each of the n + 1 points.
        phases: the phases, with ``first_event`` and ``last_event`` as positions on the axis of events.
        peak: the greatest of ``current``.
        peak_event: position of the first point that reaches ``peak``.
        peak_op: the operation that reached it, or "".
    """

    device: str
    categories: dict[str, tuple[int, ...]]
    older: tuple[int, ...]
    current: tuple[int, ...]
    time_ns: tuple[int, ...]
    phases: tuple[PhaseMemory, ...]
    peak: int
    peak_event: int
    peak_op: str


@dataclass(frozen=True)
class MemoryReport:
    """The summary of one tracked block.

    Attributes:
        device: the tracked device.
        engine: where the numbers come from: ``dispatch`` or ``allocator``.
        requested: bytes alive above the start at the end, as the program asked for them.
        allocated: the same as the device's allocator counts it (blocks are rounded up there); on the CPU, which does
            not round, equal to ``requested``.
        reserved: bytes that the device's allocator holds from the driver beyond those at the start; None on devices
            without a caching allocator.
        peak: the most bytes alive above the start at any moment, of tensors.
        peak_op: the operation that reached it.
        categories: bytes alive at the end by category: an exact partition of ``requested``.
        peak_categories: bytes alive at the peak by category: an exact partition of ``peak``.
        phases: the phases in order of their start.
        allocator_peak: the peak that the device's allocator saw, with scratch memory inside kernels; None where
            the engine does not ask one.
        unseen: bytes held at the end that no dispatched operation made, by name (``boxed scalars``, ``RNG states``):
            not part of ``requested``.
        elsewhere: device -> bytes alive at the end on devices other than ``device``.
    """

    device: str
    engine: str
    requested: int
    allocated: int
    reserved: int | None
    peak: int
    categories: dict[str, int]
    peak_op: str = ""
    peak_categories: dict[str, int] = field(default_factory=dict)
    phases: tuple[PhaseMemory, ...] = ()
    allocator_peak: int | None = None
    unseen: dict[str, int] = field(default_factory=dict)
    elsewhere: dict[str, int] = field(default_factory=dict)

    @property
    def scratch(self) -> int | None:
        """Kernel scratch and workspaces: what the allocator's peak holds beyond the tensors' peak, or None."""
        return None if self.allocator_peak is None else self.allocator_peak - self.peak

    def to_dict(self) -> dict[str, Any]:
        """The numbers as plain dicts, lists, strings and ints, ready for ``json.dumps``."""
        plain = {f.name: getattr(self, f.name) for f in fields(self) if f.name != "phases"}
        plain["phases"] = [
            {"name": p.name, "start": p.start, "end": p.end, "net": p.net, "peak": p.peak, "peak_op": p.peak_op}
            for p in self.phases
        ]
        return {name: dict(value) if isinstance(value, dict) else value for name, value in plain.items()}

    def to_markdown(self) -> str:
        """Two Markdown tables: the phases (if any), then the categories at the end and at the peak."""
        return "\n\n".join(markdown_table(rows, left) for rows, left in self._tables())

    def _repr_markdown_(self) -> str:
        return f"**{self._headline()}**\n\n{self.to_markdown()}\n\n" + "  \n".join(self._notes())

    def __str__(self) -> str:
        parts, notes = [self._headline(), *(columns(rows, left) for rows, left in self._tables())], self._notes()
        return "\n\n".join(parts) + ("\n\n" + "\n".join(notes) if notes else "")

    __repr__ = __str__

    def _headline(self) -> str:
        after = f" after {self.peak_op}" if self.peak_op else ""
        return (
            f"Memory on {self.device}, above the start: {format_bytes(self.requested)} at the end, "
            f"peak {format_bytes(self.peak)}{after}"
        )

    def _tables(self) -> list[tuple[list[tuple[str, ...]], tuple[int, ...]]]:
        """The phases (if any) and the categories: rows with their heading, and which columns are of words."""
        categories = [("category", "at the end", "at the peak"), *self._category_rows()]
        if not self.phases:
            return [(categories, (0,))]
        phases: list[tuple[str, ...]] = [("phase", "start", "end", "net", "peak", "peak after")]
        phases += [(p.name, *map(format_bytes, (p.start, p.end, p.net, p.peak)), p.peak_op or "-") for p in self.phases]
        return [(phases, (0, 5)), (categories, (0,))]

    def _category_rows(self) -> list[tuple[str, ...]]:
        names = [name for name in (*CATEGORIES, "older") if self.categories.get(name) or self.peak_categories.get(name)]
        rows = [
            (name, format_bytes(self.categories.get(name, 0)), format_bytes(self.peak_categories.get(name, 0)))
            for name in names
        ]
        return [*rows, ("sum", format_bytes(self.requested), format_bytes(self.peak))]

    def _notes(self) -> list[str]:
        notes = []
        if self.allocated != self.requested:
            notes.append(f"Allocated in the device's blocks: {format_bytes(self.allocated)}")
        if self.reserved is not None:
            notes.append(f"Reserved from the driver: {format_bytes(self.reserved)}")
        if self.allocator_peak is not None and self.scratch is not None:
            notes.append(
                f"Peak by the allocator: {format_bytes(self.allocator_peak)}, of it kernel scratch and workspaces: "
                f"{format_bytes(self.scratch)}"
            )
        for name, nbytes in self.unseen.items():
            notes.append(f"Held beside it, made past the dispatcher ({name}): {format_bytes(nbytes)}")
        for device, nbytes in self.elsewhere.items():
            notes.append(f"Alive on {device}: {format_bytes(nbytes)}")
        return notes
