"""What CUDA's caching allocator would make of a run, without a GPU (``caching_allocator_model``).

A program asks for bytes (requested); the allocator rounds them up and cuts them from segments (allocated), which it
takes from the driver and keeps (reserved). Fed with the events of a tracker, the model tells all three, and where
fragmentation comes from.
"""

from bisect import bisect_left, insort
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from course_utils.base.text import aligned, format_bytes
from course_utils.memory.records import MemoryEvent

# https://github.com/pytorch/pytorch/blob/v2.13.0/c10/core/AllocatorConfig.h#L14
MIN_BLOCK = 512
SMALL_SIZE = 1 << 20
SMALL_BUFFER = 2 << 20
LARGE_BUFFER = 20 << 20
MIN_LARGE_ALLOC = 10 << 20
ROUND_LARGE = 2 << 20

CUBLAS_WORKSPACE = 8519680
"""Bytes that cuBLAS keeps for each thread that has called it: two buffers of 4096 KiB and eight of 16 KiB.

PyTorch's default before Hopper; there it is 32 MiB. The variable CUBLAS_WORKSPACE_CONFIG changes it.
https://github.com/pytorch/pytorch/blob/v2.13.0/aten/src/ATen/cuda/CublasHandlePool.cpp
"""

_CUBLAS = frozenset(
    f"aten::{name}" for name in ("mm", "addmm", "bmm", "baddbmm", "addbmm", "mv", "addmv", "dot", "vdot", "linear")
)


@dataclass(eq=False)
class Piece:
    """A stretch of a segment: one allocation, or free space.

    Attributes:
        address: where it starts; segments stand far apart and in the order of their making.
        size: its bytes.
        owner: what was allocated there: the number of a storage, or text for a workspace; None for free space.
        requested: the bytes asked for; 0 for free space.
        op: the operation that asked.
        small: its segment is of the small pool.
        before: the stretch at lower addresses, None at the segment's start.
        after: the stretch at higher addresses, None at the segment's end.
    """

    address: int
    size: int
    owner: int | str | None = None
    requested: int = 0
    op: str = ""
    small: bool = False
    before: "Piece | None" = field(default=None, repr=False)
    after: "Piece | None" = field(default=None, repr=False)


@dataclass(eq=False)
class Segment:
    """Memory taken from the driver in one piece; ``pieces`` tells how it is cut up, in the order of addresses."""

    address: int
    size: int
    small: bool
    first: Piece = field(repr=False)

    @property
    def pieces(self) -> tuple[Piece, ...]:
        """The stretches that it is cut into."""
        found = [self.first]
        while (following := found[-1].after) is not None:
            found.append(following)
        return tuple(found)


@dataclass(frozen=True)
class CachingAllocatorModel:
    """The allocator's figures after a run, in the names of ``torch.cuda.memory_stats``. All in bytes.

    Attributes:
        requested: bytes alive as asked for (``requested_bytes.all.current``), workspaces among them.
        allocated: bytes of the blocks that hold them (``allocated_bytes.all.current``, ``memory_allocated``).
        reserved: bytes of all segments (``reserved_bytes.all.current``, ``memory_reserved``); they are kept.
        peak_requested: the most of ``requested`` at any moment.
        peak_allocated: the most of ``allocated`` (``max_memory_allocated``).
        workspaces: bytes of cuBLAS workspaces in the three current figures.
        largest_free: the longest free stretch: a request above it needs a new segment although more may be free.
        requested_after: ``requested`` after each event.
        allocated_after: ``allocated`` after each event.
        reserved_after: ``reserved`` after each event.
        segments: how memory is cut up at the end.
    """

    requested: int
    allocated: int
    reserved: int
    peak_requested: int
    peak_allocated: int
    workspaces: int
    largest_free: int
    requested_after: tuple[int, ...] = field(repr=False)
    allocated_after: tuple[int, ...] = field(repr=False)
    reserved_after: tuple[int, ...] = field(repr=False)
    segments: tuple[Segment, ...] = field(repr=False)

    @property
    def fragmentation(self) -> float:
        """The share of the reserved bytes that no tensor uses, from 0 to 1: rounding, and free stretches between."""
        return 0.0 if not self.reserved else 1 - self.requested / self.reserved

    def __str__(self) -> str:
        return aligned(
            [
                ("requested", format_bytes(self.requested)),
                ("allocated", f"{format_bytes(self.allocated)}, peak {format_bytes(self.peak_allocated)}"),
                ("reserved", f"{format_bytes(self.reserved)} in {len(self.segments)} segments"),
                ("of it free", f"largest stretch {format_bytes(self.largest_free)}"),
                ("not used by tensors", f"{self.fragmentation:.0%} of what is reserved"),
            ]
        )


def caching_allocator_model(
    events: Iterable[MemoryEvent], workspace_bytes: int = CUBLAS_WORKSPACE
) -> CachingAllocatorModel:
    """Replays the events of a tracker through a model of CUDA's caching allocator, in its default settings.

    Example:
        >>> ones = MemoryEvent(0, "aten::ones", "", 4000, 4000, 0, "cpu")
        >>> caching_allocator_model([ones]).allocated
        4096

    Args:
        events: ``mem.events``; their storages are numbered from 0 and sized in bytes.
        workspace_bytes: what cuBLAS takes for each thread that calls it: one at the first matrix product in forward,
            one at the first in backward, which runs in another thread on a GPU. 0 for none.

    Returns:
        The figures at the end, and after each event.

    Limits: one stream, one process, nothing else on the GPU; no ``expandable_segments``, no graph capture, no
    ``empty_cache``; workspaces of cuDNN and scratch memory inside kernels are not in the events.
    """
    replay = Replay(workspace_bytes)
    after: tuple[list[int], list[int], list[int]] = ([], [], [])
    for event in events:
        replay.take(event)
        for series, value in zip(after, (replay.requested, replay.allocated, replay.reserved), strict=True):
            series.append(value)
    return CachingAllocatorModel(
        requested=replay.requested,
        allocated=replay.allocated,
        reserved=replay.reserved,
        peak_requested=replay.peak_requested,
        peak_allocated=replay.peak_allocated,
        workspaces=replay.workspaces,
        largest_free=max((p.size for s in replay.segments for p in s.pieces if p.owner is None), default=0),
        requested_after=tuple(after[0]),
        allocated_after=tuple(after[1]),
        reserved_after=tuple(after[2]),
        segments=tuple(replay.segments),
    )


class Allocator:
    """The allocator itself: ``allocate`` and ``free``, and the running totals.

    The rules: https://github.com/pytorch/pytorch/blob/v2.13.0/c10/cuda/CUDACachingAllocator.cpp (``malloc``).
    """

    def __init__(self) -> None:
        self.segments: list[Segment] = []
        self.requested = self.allocated = self.reserved = self.peak_requested = self.peak_allocated = 0
        self._where: dict[int | str, Piece] = {}
        # Free stretches of small and of large segments, by size and then address: the first that fits is the best.
        self._free: dict[bool, list[tuple[int, int, Piece]]] = {True: [], False: []}
        self._next_address = 1 << 30

    def allocate(self, owner: int | str, nbytes: int, op: str) -> Piece:
        """Takes a block of at least ``nbytes`` for an owner."""
        size = max(MIN_BLOCK, -(-nbytes // MIN_BLOCK) * MIN_BLOCK)
        small = size <= SMALL_SIZE
        piece = self._best_fit(size, small) or self._new_segment(size, small)
        left = piece.size - size
        # Up to 1 MiB left over in a large segment stays with the block: allocated may exceed the rounded size by it.
        if left >= MIN_BLOCK if small else left > SMALL_SIZE:
            rest = Piece(piece.address + size, left, small=small, before=piece, after=piece.after)
            if piece.after is not None:
                piece.after.before = rest
            piece.after, piece.size = rest, size
            self._add_free(rest)
        piece.owner, piece.requested, piece.op = owner, nbytes, op
        self._where[owner] = piece
        self.requested += nbytes
        self.allocated += piece.size
        self.peak_requested = max(self.peak_requested, self.requested)
        self.peak_allocated = max(self.peak_allocated, self.allocated)
        return piece

    def free(self, piece: Piece) -> None:
        """Gives a block back and joins it with free neighbours."""
        self.requested -= piece.requested
        self.allocated -= piece.size
        piece.owner, piece.requested, piece.op = None, 0, ""
        if piece.after is not None and piece.after.owner is None:
            self._remove_free(piece.after)
            self._join(piece, piece.after)
        if piece.before is not None and piece.before.owner is None:
            front = piece.before
            self._remove_free(front)
            self._join(front, piece)
            piece = front
        self._add_free(piece)

    def _join(self, piece: Piece, after: Piece) -> None:
        piece.size += after.size
        piece.after = after.after
        if after.after is not None:
            after.after.before = piece

    def _add_free(self, piece: Piece) -> None:
        insort(self._free[piece.small], (piece.size, piece.address, piece))

    def _remove_free(self, piece: Piece) -> None:
        stretches = self._free[piece.small]
        del stretches[bisect_left(stretches, (piece.size, piece.address))]

    def _best_fit(self, size: int, small: bool) -> Piece | None:
        stretches = self._free[small]
        at = bisect_left(stretches, (size,))
        return stretches.pop(at)[2] if at < len(stretches) else None

    def _new_segment(self, size: int, small: bool) -> Piece:
        if small:
            length = SMALL_BUFFER
        elif size < MIN_LARGE_ALLOC:
            length = LARGE_BUFFER
        else:
            length = -(-size // ROUND_LARGE) * ROUND_LARGE
        piece = Piece(self._next_address, length, small=small)
        self.segments.append(Segment(self._next_address, length, small, piece))
        self._next_address += length + ROUND_LARGE
        self.reserved += length
        return piece


class Replay(Allocator):
    """The allocator, fed with one event of a tracker after the other (``take``)."""

    def __init__(self, workspace_bytes: int) -> None:
        super().__init__()
        self.workspaces = 0
        self._workspace_bytes = workspace_bytes
        self._working: set[bool] = set()

    def take(self, event: MemoryEvent) -> tuple[Piece | None, Piece | None]:
        """Does what the event says; returns the block taken and the block given back, None where there is none."""
        old = self._where.pop(event.storage, None)
        size = event.delta + (0 if old is None else old.requested)
        gone = None if old is None else replace(old)
        # Growing takes the new memory before it gives the old back. Below 0 are storages older than the events: the
        # model never handed them out.
        new = self.allocate(event.storage, size, event.op) if size > 0 else None
        if old is not None:
            self.free(old)
        if self._workspace_bytes and event.delta > 0 and event.op in _CUBLAS and event.in_backward not in self._working:
            self._working.add(event.in_backward)
            self.workspaces += self._workspace_bytes
            name = "cuBLAS workspace of the " + ("backward" if event.in_backward else "forward") + " thread"
            self.allocate(name, self._workspace_bytes, name)
        return new, gone
