"""What the CPU's allocator hands out, read from ``torch.profiler``: the truth that a tracker is held against.

Exact where a tracker gives a lower bound: scratch memory inside kernels, boxed scalars, random states.
"""

import contextlib
from collections.abc import Iterator
from typing import Any, NamedTuple

import torch

MARK_BYTES = 12_345_671
"""A tensor of so many bytes is made and dropped where a phase begins or ends."""


class Phase(NamedTuple):
    """Bytes above the start of the block, as ``PhaseMemory`` has them."""

    name: str
    start: int
    end: int
    peak: int


class Allocator:
    """Counts inside a ``with`` block; ``phases`` are there once it has ended. Memory that is older does not count.

    Phases follow one another.
    """

    def __init__(self) -> None:
        self.phases: list[Phase] = []
        self._names: list[str] = []

    def __enter__(self) -> "Allocator":
        # acc_events changes nothing in a profile of one piece; before 2.13 there is a warning unless it is given.
        cpu = torch.profiler.ProfilerActivity.CPU
        self._profile = torch.profiler.profile(activities=[cpu], profile_memory=True, acc_events=True)
        self._profile.__enter__()
        return self

    @contextlib.contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Counts a part of the block."""
        self._names.append(name)
        torch.empty(MARK_BYTES, dtype=torch.uint8)
        try:
            yield
        finally:
            torch.empty(MARK_BYTES, dtype=torch.uint8)

    def __exit__(self, *error: object) -> None:
        self._profile.__exit__(None, None, None)
        alive = dict[int, int]()
        total = peak = start = 0
        inside = False
        for size, address in allocations(self._profile):
            if size == MARK_BYTES:
                if inside:
                    self.phases.append(Phase(self._names[len(self.phases)], start, total, peak))
                inside, start, peak = not inside, total, total
            elif size != -MARK_BYTES and (size > 0 or address in alive):
                total += size
                peak = max(peak, total)
                if size > 0:
                    alive[address] = size
                else:
                    del alive[address]


def allocations(profile: Any) -> list[tuple[int, int]]:
    """(bytes, address) of all that was taken (positive) and given back (negative) in a profile, in order of time."""

    def below(events: Any) -> Iterator[tuple[int, int, int]]:
        for event in events:
            if event.tag == torch._C._profiler._EventType.Allocation:
                yield event.start_time_ns, event.extra_fields.alloc_size, event.extra_fields.ptr
            yield from below(event.children)

    tree = profile.profiler.kineto_results.experimental_event_tree()
    return [(size, address) for _, size, address in sorted(below(tree), key=lambda found: found[0])]
