"""What the process itself holds while calls go by, tensors or not, and which processes it started (``Process``)."""

import itertools
import os
import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from multiprocessing.process import BaseProcess

from course_utils.record.process import replaced

_LEAST_BYTES = 8 * 2**20
"""Less is noise: allocators keep what they may need again."""

_OFTEN = 64
_PYTHONS_OWN = (b"/torch/_inductor/compile_worker/", b"multiprocessing.resource_tracker")


def _telling(plain: Callable, listeners: list["Process"]) -> Callable:
    def start(process: BaseProcess) -> None:
        plain(process)
        for one in tuple(listeners):
            one.commands[process.pid or 0] = b"multiprocessing"

    return start


STARTS = replaced(BaseProcess, "start", _telling)
"""A process may begin and end between two calls: training that is shared out, a data loader's workers."""


@dataclass(frozen=True)
class ProcessGrowth:
    """Memory of the process that went on growing, in bytes."""

    nbytes: int  # by how much, from an early call to the last
    tensors: int  # how much of it tensors explain
    calls: int  # over so many calls


class Process:
    """Resident memory as calls begin: at one in four, then at fewer and fewer. Known on Linux alone."""

    def __init__(self) -> None:
        self._before = set(_children())
        self.commands: dict[int, bytes] = {}  # of the processes that were started meanwhile, as each last called itself
        self.begin_anew()

    def begin_anew(self) -> None:
        """Forgets what was noted, not which processes were there before."""
        self._noted: list[tuple[int, int, int]] = []
        self._step = 4

    def note(self, call: int, known_bytes: int) -> None:
        """Notes what the process holds as a call begins, and what of it are known tensors, where it is time to."""
        if call % self._step:
            return
        # A command line is empty while a process begins, for 0.1 s on a busy machine, and once it has ended.
        lines = {pid: _read(f"/proc/{pid}/cmdline") for pid in {*_children()} - self._before}
        self.commands |= {pid: command for pid, command in lines.items() if command}
        self._noted.append((call, resident(), known_bytes))
        if len(self._noted) > 2 * _OFTEN:
            del self._noted[1::2]
            self._step *= 2

    def growth(self) -> ProcessGrowth | None:
        """How the process grew, where it grew to the end and tensors do not explain it; else None."""
        points = self._noted[len(self._noted) // 4 :]
        if len(points) < 8:
            return None
        levels = [point[1] for point in points]
        # What tensors held for a time and gave back, the allocator may keep.
        nbytes, tensors = levels[-1] - levels[0], max(point[2] for point in points) - points[0][2]
        grows = nbytes >= _LEAST_BYTES and nbytes > 2 * tensors and rises(levels)
        return ProcessGrowth(nbytes, tensors, points[-1][0] - points[0][0]) if grows else None

    def unwatched(self) -> Iterator[str]:
        """Which processes were started and not watched, in words; not those that Python and its compiler start."""
        if many := sum(not any(own in command for own in _PYTHONS_OWN) for command in self.commands.values()):
            what = "1 process that the script started" if many == 1 else f"{many} processes that the script started"
            yield f"{what}, such as a data loader's workers."


def rises(levels: Sequence[int]) -> bool:
    """Whether something went on growing: in each quarter it was higher than in the one before."""
    bounds = [at * len(levels) // 4 for at in range(5)]
    quarters = [statistics.median(levels[begin:end]) for begin, end in itertools.pairwise(bounds)]
    steps = [after - before for before, after in itertools.pairwise(quarters)]
    return min(steps) > 0.15 * max(steps) and levels[-1] > levels[0]


def resident() -> int:
    """Bytes of this process that are in memory; 0 where the system does not tell."""
    words = _read("/proc/self/statm").split()
    return int(words[1]) * os.sysconf("SC_PAGE_SIZE") if words else 0


def _children() -> list[int]:
    return [int(word) for word in _read(f"/proc/self/task/{os.getpid()}/children").split()]


def _read(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError:
        return b""
