"""What the process itself holds while calls go by, tensors or not (``Process``), and that it starts others."""

import itertools
import os
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from multiprocessing.process import BaseProcess
from typing import Any

from course_utils.record import replaced

_LEAST_BYTES = 8 * 2**20
"""Less is noise: allocators keep what they may need again."""


def _telling(plain: Callable, listeners: list) -> Callable:
    def start(process: BaseProcess) -> None:
        plain(process)
        for one in tuple(listeners):
            one.started += 1

    return start


STARTS: Any = replaced(BaseProcess, "start", _telling)
"""Counts for each listener, in ``started``, the processes that ``multiprocessing`` begins: training that is shared out,
a data loader's workers.
"""


@dataclass(frozen=True)
class ProcessGrowth:
    """Memory of the process that went on growing, in bytes."""

    nbytes: int  # by how much, from an early call to the last
    tensors: int  # how much of it tensors and nodes explain
    calls: int  # over so many calls


class Process:
    """Resident memory as calls begin. Known on Linux alone."""

    def __init__(self) -> None:
        self._noted: list[tuple[int, int]] = []

    def note(self, call: int) -> None:
        """Notes what the process holds as a call begins, at one in four."""
        if call % 4 == 0:
            self._noted.append((call, resident()))

    def growth(self, totals: Sequence[int], nodes: int) -> ProcessGrowth | None:
        """How the process grew, where it grew to the end, and neither tensors nor nodes explain it; else None. Of the
        first there are so many bytes at each call, of the second so many bytes more a call.
        """
        points = self._noted[len(self._noted) // 4 :]
        if len(points) < 8:
            return None
        levels, known = [nbytes for _, nbytes in points], [totals[call] for call, _ in points]
        # What tensors held for a time and gave back, the allocator may keep.
        nbytes, calls = levels[-1] - levels[0], points[-1][0] - points[0][0]
        explained = max(known) - known[0] + nodes * calls
        grows = nbytes >= _LEAST_BYTES and nbytes > 2 * explained and rises(levels)
        return ProcessGrowth(nbytes, explained, calls) if grows else None


def rises(levels: Sequence[int]) -> bool:
    """Whether something went on growing: in each quarter it was higher than in the one before."""
    bounds = [at * len(levels) // 4 for at in range(5)]
    quarters = [statistics.median(levels[begin:end]) for begin, end in itertools.pairwise(bounds)]
    steps = [after - before for before, after in itertools.pairwise(quarters)]
    return min(steps) > 0.15 * max(steps) and levels[-1] > levels[0]


def resident() -> int:
    """Bytes of this process that are in memory; 0 where the system does not tell."""
    try:
        with open("/proc/self/statm", "rb") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0
