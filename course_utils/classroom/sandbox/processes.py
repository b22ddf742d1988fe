"""What the kernel says about processes, and ending them (``below``, ``is_stopped``, ``Stopwatch``, ``send`` ...)."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable, Iterable
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")
_LONGEST_LOOK = 0.2  # seconds that one look may add: between late looks, nobody knows what a process did


def _fields(pid: int, name: str) -> dict[str, str]:
    """What a file of its says, by the word before the colon; empty where it has just ended, or hides it."""
    try:
        lines = Path(f"/proc/{pid}/{name}").read_text().splitlines()
    except OSError:
        return {}
    return dict(line.split(":", 1) for line in lines if ":" in line)


def numbers(pid: int) -> list[int]:
    """A process's number in each of its numberings, from the one that this process's /proc shows to its own."""
    status = _fields(pid, "status")
    return [int(number) for number in (status.get("NSpid") or status.get("Pid") or "0").split()]


def parent(pid: int) -> int:
    """The number of the process that it belongs to; 0 where there is none."""
    return int(_fields(pid, "status").get("PPid", "0"))


def below(ancestor: int) -> list[int]:
    """The numbers of all processes that came of one."""
    parents = {int(name): parent(int(name)) for name in os.listdir("/proc") if name.isdigit()}
    found: set[int] = set()
    while new := {pid for pid, over in parents.items() if over in found | {ancestor}} - found:
        found |= new
    return sorted(found)


def _stats(pid: int, which: str = "task/*/stat") -> list[list[str]]:
    """What the kernel says of each thread, or of the whole process, from its state on; empty where it is gone."""
    try:
        return [path.read_text().rpartition(")")[2].split() for path in Path(f"/proc/{pid}").glob(which)]
    except OSError:
        return []


def is_stopped(pid: int) -> bool | None:
    """Whether every thread of a process stands still; None where the process is gone."""
    stats = _stats(pid)
    return all(stat[0] == "T" for stat in stats) if stats else None


class Stopwatch:
    """The seconds that some processes have used, on a machine that may have other work to do.

    CPU time counts, and time in which every thread of theirs waits for something. Time in which one could run and the
    machine has no core for it counts for nothing. Look often: what was between two looks is judged by the second.

    Args:
        members: says which processes; asked at every look.
    """

    def __init__(self, members: Callable[[], Iterable[int]]) -> None:
        self._members, self._looked = members, time.monotonic()
        self._resting, self._before = 0.0, self._look()[0]
        self._seconds = 0.0

    def seconds(self) -> float:
        """Looks, and returns the seconds since the beginning."""
        now = time.monotonic()
        cpu, resting = self._look()
        if resting:
            self._resting += min(now - self._looked, _LONGEST_LOOK)
        self._looked = now
        self._seconds = max(self._seconds, cpu - self._before + self._resting)
        return self._seconds

    def _look(self) -> tuple[float, bool]:
        members = list(self._members())
        # utime, stime, cutime and cstime: threads and children that have ended count, too.
        ticks = sum(int(number) for pid in members for stat in _stats(pid, "stat") for number in stat[11:15])
        return ticks / _TICKS, all(stat[0] != "R" for pid in members for stat in _stats(pid))


def own_bytes(pid: int) -> int:
    """A process's share of the memory that it uses; pages that are shared count in part."""
    return 1024 * int(_fields(pid, "smaps_rollup").get("Pss", "0 kB").split()[0])


def send(pid: int, number: int = signal.SIGKILL) -> None:
    """Sends a process a signal, where it is still there. Without a number it ends at once."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        if pid > 0:
            os.kill(pid, number)
