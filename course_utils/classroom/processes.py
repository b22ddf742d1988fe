"""What the kernel says about processes, and ending them (``descend``, ``is_stopped``, ``own_bytes``, ``kill`` ...).

Imports nothing of the course.
"""

from __future__ import annotations

import contextlib
import os
import signal
from pathlib import Path


def _status(pid: int) -> dict[str, str]:
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:  # it has just ended
        return {}
    return dict(line.split(":", 1) for line in lines if ":" in line)


def depth(pid: int) -> int:
    """How many numberings a process has, counted from the one that this process's /proc shows."""
    return len(_status(pid).get("NSpid", "0").split())


def parent(pid: int) -> int:
    """The number of the process that it belongs to; 0 where there is none."""
    return int(_status(pid).get("PPid", "0"))


def descends(pid: int, ancestor: int, parents: dict[int, int]) -> bool:
    """Whether a process came of another one."""
    while pid in parents and pid:
        pid = parents[pid]
        if pid == ancestor:
            return True
    return False


def is_stopped(pid: int) -> bool | None:
    """Whether every thread of a process stands still; None where the process is gone."""
    try:
        tasks = os.listdir(f"/proc/{pid}/task")
        states = [Path(f"/proc/{pid}/task/{task}/stat").read_text().rpartition(")")[2].split()[0] for task in tasks]
    except OSError:
        return None
    return all(state == "T" for state in states)


def own_number(pid: int) -> int:
    """A process's number as it knows it itself."""
    status = _status(pid)
    return int((status.get("NSpid") or status.get("Pid") or "0").split()[-1])


def own_bytes(pid: int) -> int:
    """A process's share of the memory that it uses; pages that are shared count in part."""
    try:
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    except OSError:  # it has just ended, or hides it
        pass
    return 0


def kill(pid: int) -> None:
    """Ends a process at once, where it is still there."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        if pid > 0:
            os.kill(pid, signal.SIGKILL)
