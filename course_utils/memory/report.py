"""What a tracker hands back, as plain data: a change of the bytes alive (``MemoryEvent``), a phase (``PhaseMemory``),
all categories over time (``Timeline``), bytes by line (``LineMemory``), the summary (``MemoryReport``). Every byte
count is an ``int``; only texts format.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple

from course_utils.base.text import columns, format_bytes, markdown_table
from course_utils.base.user_code import Site
from course_utils.record.storages import OLD, Storage

SAVED = "saved for backward"
CATEGORIES = ("parameters", "buffers", "gradients", "optimizer state", SAVED, "temporary", "other")
"""What bytes are for, in the order of tables and figures; a storage that fits two belongs to the first. A tracker
counts buffers as parameters; a snapshot knows nothing of what is temporary.
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
        after = f" after {self.peak_op}" if self.peak_op else ""
        return f"{self.name}: net {format_bytes(self.net)}, peak {format_bytes(self.peak)}{after}"


@dataclass(frozen=True)
class Timeline:
    """Bytes alive by category, after each event: what a stacked figure draws.

    Attributes:
        device: the device that the bytes live on.
        categories: name of a category -> bytes alive in it after 0, 1, ... n events (n + 1 numbers); only those that
            ever held a byte, in the order of ``CATEGORIES``, without storages older than the tracker.
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

    def at(self, point: int) -> dict[str, int]:
        """The categories at a point, and "older" where there is such."""
        parts = {name: values[point] for name, values in self.categories.items()}
        return parts | ({"older": self.older[point]} if self.older[point] else {})


class LineUse(NamedTuple):
    """What one line of the user's made: bytes in all, those still alive, and the most alive at a time."""

    site: Site
    made: int
    alive: int
    most: int


@dataclass(frozen=True, repr=False)
class LineMemory:
    """Bytes by line, the greatest first."""

    uses: tuple[LineUse, ...]

    def __str__(self) -> str:
        rows = [(str(use.site), *map(format_bytes, use[1:]), use.site.source) for use in self.uses]
        return columns([("line", "made", "alive", "at most", "source"), *rows], left=(0, 4))

    __repr__ = __str__


def by_line(changes: Iterable[tuple[Storage, int]]) -> LineMemory:
    """Sums changes by the line that made their storage."""
    made, alive, most = Counter[Site](), Counter[Site](), Counter[Site]()
    for storage, delta in changes:
        made[storage.site] += max(delta, 0)
        alive[storage.site] += delta
        most[storage.site] = max(most[storage.site], alive[storage.site])
    return LineMemory(tuple(LineUse(site, made[site], alive[site], most[site]) for site, _ in most.most_common()))


def category_of(storage: Storage, places: Mapping[str, AbstractSet[int]]) -> str:
    """What a storage was for, from its life and from the places where it was found at the end of a phase or of the
    block; "older" for one older than the tracker.
    """
    if storage.op is OLD:
        return "older"
    for name in CATEGORIES:
        if storage.number in places.get(name, ()):
            return name
    if storage.died and storage.died_task >= 0 and storage.died_task != storage.born_task:
        return SAVED  # born in forward, or in another backward pass, and gone in this one
    if storage.born_task >= 0 and storage.died_task != storage.born_task:
        return "gradients"  # what outlives the backward pass that made it
    return "temporary" if storage.died else "other"


def series_of(changes: Iterable[tuple[Storage, int]], places: Mapping[str, AbstractSet[int]]) -> dict[str, list[int]]:
    """Bytes by category, and "older", after 0, 1, ... n changes."""
    sums = dict.fromkeys((*CATEGORIES, "older"), 0)
    series: dict[str, list[int]] = {name: [0] for name in sums}
    for storage, delta in changes:
        sums[category_of(storage, places)] += delta
        for name, nbytes in sums.items():
            series[name].append(nbytes)
    return series


@dataclass(frozen=True, repr=False)
class MemoryReport:
    """The summary of one tracked block.

    Attributes:
        device: the tracked device.
        requested: bytes alive above the start at the end, as the program asked for them.
        allocated: the same as the device's allocator counts it (blocks are rounded up there); equal on the CPU.
        reserved: bytes that the device's allocator holds from the driver beyond those at the start; None without one.
        peak: the most bytes alive above the start at any moment, of tensors.
        peak_op: the operation that reached it.
        categories: bytes alive at the end by category: an exact partition of ``requested``.
        peak_categories: bytes alive at the peak by category: an exact partition of ``peak``.
        phases: the phases in order of their start.
        allocator_peak: the peak that the device's allocator saw, with scratch memory inside kernels; None without one.
        unseen: bytes held at the end that no dispatched operation made, by name (``boxed scalars``, ``RNG states``):
            not part of ``requested``.
        elsewhere: device -> bytes alive at the end on devices other than ``device``.
    """

    device: str
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
        return asdict(self) | {"phases": [asdict(phase) | {"net": phase.net} for phase in self.phases]}

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
        alive, peak = format_bytes(self.requested), format_bytes(self.peak)
        return f"Memory on {self.device}, above the start: {alive} at the end, peak {peak}{after}"

    def _tables(self) -> list[tuple[list[tuple[str, ...]], tuple[int, ...]]]:
        """The phases (if any) and the categories: rows with their heading, and which columns are of words."""
        end, peak = self.categories, self.peak_categories
        names = [name for name in (*CATEGORIES, "older") if end.get(name) or peak.get(name)]
        rows = [(name, format_bytes(end.get(name, 0)), format_bytes(peak.get(name, 0))) for name in names]
        rows.append(("sum", format_bytes(self.requested), format_bytes(self.peak)))
        tables: list[Any] = [([("category", "at the end", "at the peak"), *rows], (0,))]
        if self.phases:
            heads = ("phase", "start", "end", "net", "peak", "peak after")
            lines = [
                (p.name, *map(format_bytes, (p.start, p.end, p.net, p.peak)), p.peak_op or "-") for p in self.phases
            ]
            tables.insert(0, ([heads, *lines], (0, 5)))
        return tables

    def _notes(self) -> list[str]:
        notes = []
        if self.allocated != self.requested:
            notes.append(f"Allocated in the device's blocks: {format_bytes(self.allocated)}")
        if self.reserved is not None:
            notes.append(f"Reserved from the driver: {format_bytes(self.reserved)}")
        if self.allocator_peak is not None and self.scratch is not None:
            both = format_bytes(self.allocator_peak), format_bytes(self.scratch)
            notes.append("Peak by the allocator: {}, of it kernel scratch and workspaces: {}".format(*both))
        for name, nbytes in self.unseen.items():
            notes.append(f"Held beside it, made past the dispatcher ({name}): {format_bytes(nbytes)}")
        for device, nbytes in self.elsewhere.items():
            notes.append(f"Alive on {device}: {format_bytes(nbytes)}")
        return notes
