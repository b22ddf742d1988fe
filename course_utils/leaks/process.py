"""What the process itself holds while calls go by, tensors or not, and the processes that it started (``Process``)."""

import itertools
import os
import statistics
from collections.abc import Iterator
from dataclasses import dataclass

_LEAST_BYTES = 8 * 2**20
"""Less is noise: allocators keep what they may need again."""

_OFTEN = 64

_PYTHONS_OWN = (b"/torch/_inductor/compile_worker/", b"multiprocessing.resource_tracker")


@dataclass(frozen=True)
class ProcessGrowth:
    """Memory of the process that went on growing, in bytes.

    Attributes:
        nbytes: by how much, from an early call to the last.
        tensors: how much of it tensors explain, as far as they are known.
        calls: over so many calls.
        workers: the greatest part of it was in processes that this one started.
    """

    nbytes: int
    tensors: int
    calls: int
    workers: bool = False


class Process:
    """Resident memory as calls begin: at one in four, then at fewer and fewer. Known on Linux alone."""

    def __init__(self) -> None:
        self._before = set(_children())
        self._commands: dict[int, bytes] = {}  # by number, as each process last called itself
        self.begin_anew()

    def begin_anew(self) -> None:
        """Forgets what was noted, not which processes were there before."""
        self._noted: list[tuple[int, int, int, int]] = []
        self._step = 4

    def note(self, call: int, known_bytes: int) -> None:
        """Notes what the process holds as a call begins.

        Args:
            call: the call's number.
            known_bytes: how much of it are tensors that are known.
        """
        if call % self._step:
            return
        children = _children()
        self._commands |= {pid: command for pid in {*children} - self._before if (command := _command(pid))}
        self._noted.append((call, resident(), sum(map(_of_its_own, children)), known_bytes))
        if len(self._noted) > 2 * _OFTEN:
            del self._noted[1::2]
            self._step *= 2

    def is_due(self, call: int) -> bool:
        """Whether it is time to note."""
        return not call % self._step

    def growth(self) -> ProcessGrowth | None:
        """How the process grew, where it grew to the end and tensors do not explain it; else None."""
        points = self._noted[len(self._noted) // 4 :]
        if len(points) < 8:
            return None
        for part in (1, 2):
            levels = [point[part] for point in points]
            bounds = [at * len(levels) // 4 for at in range(5)]
            quarters = [statistics.median(levels[begin:end]) for begin, end in itertools.pairwise(bounds)]
            steps = [after - before for before, after in itertools.pairwise(quarters)]
            # What tensors held for a time and gave back, the allocator may keep.
            nbytes, tensors = levels[-1] - levels[0], max(point[3] for point in points) - points[0][3]
            if nbytes >= _LEAST_BYTES and nbytes > 2 * tensors and min(steps) > 0.15 * max(steps):
                return ProcessGrowth(nbytes, tensors, points[-1][0] - points[0][0], part == 2)
        return None

    def unwatched(self) -> Iterator[str]:
        """Which processes were started and not watched, in words; not those that Python and its compiler start."""
        if many := sum(not any(own in command for own in _PYTHONS_OWN) for command in self._commands.values()):
            what = "1 process that the script started" if many == 1 else f"{many} processes that the script started"
            yield f"{what}, such as a data loader's workers."


def resident() -> int:
    """Bytes of this process that are in memory; 0 where the system does not tell."""
    try:
        with open("/proc/self/statm", "rb") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0


def _children() -> list[int]:
    try:
        with open(f"/proc/self/task/{os.getpid()}/children", "rb") as file:
            return [int(word) for word in file.read().split()]
    except OSError:
        return []


def _command(pid: int) -> bytes:
    """A process's command line. Empty while it begins, for 0.1 s on a busy machine, and once it has ended."""
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return file.read()
    except OSError:
        return b""


def _of_its_own(pid: int) -> int:
    """Bytes that a process has written to, and shares with no other."""
    try:
        with open(f"/proc/{pid}/smaps_rollup", "rb") as file:
            return sum(int(line.split()[1]) * 1024 for line in file if line.startswith(b"Private_Dirty"))
    except OSError:
        return 0
