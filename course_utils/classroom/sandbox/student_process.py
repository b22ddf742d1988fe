"""A student's process and all that comes of it (``StudentProcess``), with no frame of the supervisor below it."""

from __future__ import annotations

import _thread
import contextlib
import os
import signal
import threading
import time
from collections.abc import Callable, Sequence
from queue import SimpleQueue
from typing import Any

from course_utils.classroom.sandbox import jail
from course_utils.classroom.sandbox.processes import below, is_stopped, numbers, own_bytes, parent, send
from course_utils.classroom.sandbox.protocol import Ended
from course_utils.classroom.tampering import audit

START_SECONDS = 120.0  # for what is not a student's: a busy machine may take that long
_STACK_BYTES = 16 * 2**20


class StudentProcess:
    """The process and all that came of it.

    Args:
        bounds: the process's limits.
        nested: whether the kernel lets this process make further namespaces.
        keep: folders that it must go on seeing.
        ends: descriptors that stay open in it.
        start: makes it ready, there; returns what serves.

    Attributes:
        pid: its number; 0 once it is gone.
        exited: a descriptor that can be read as soon as it has ended.

    Raises:
        OSError: there can be no further process.
    """

    def __init__(
        self,
        bounds: jail.Bounds,
        nested: bool,
        keep: Sequence[str],
        ends: Sequence[int],
        start: Callable[[], Callable[[], None]],
    ) -> None:
        self._bounds, self._nested = bounds, nested
        told: SimpleQueue[int | OSError] = SimpleQueue()
        self._stay = threading.Lock()
        self._stay.acquire()
        threading.stack_size(_STACK_BYTES)

        def begin() -> Callable[[], None]:
            jail.die_with_parent()
            os.setsid()
            null = os.open(os.devnull, os.O_RDWR)
            for descriptor in (0, 1, 2):
                os.dup2(null, descriptor)
            stay_open = sorted({0, 1, 2, *ends})
            for low, high in zip(stay_open, [*stay_open[1:], 65536], strict=True):
                os.closerange(low + 1, high)
            if nested:
                jail.enter(bounds.file_bytes, keep)
                os.chdir(jail.FRESH_FOLDERS[-1])
            jail.restrict(bounds)
            return start()

        box: list[Any] = [begin, jail.fork_numbered if nested else os.fork]
        _thread.start_new_thread(_apart, (box, told, self._stay))
        pid = told.get()
        if isinstance(pid, OSError):
            raise pid
        self.pid, self.exited = pid, os.pidfd_open(pid)

    def members(self) -> list[int]:
        """The process and all that came of it."""
        if self.pid == 0:
            return []
        if not self._nested:
            return below(os.getpid()) or [self.pid]
        pids = (int(name) for name in os.listdir("/proc") if name.isdigit())
        return [pid for pid in pids if len(numbers(pid)) > 1] or [self.pid]  # this process itself has one number here

    def child(self, number: int) -> int:
        """Its child that knows itself by this number; 0 where there is none."""
        found = [pid for pid in self.members() if parent(pid) == self.pid and numbers(pid)[-1] == number]
        return found[-1] if found else 0

    def excess(self) -> str:
        """What they have taken more of than they may, as a reason to end them; empty where nothing is."""
        members = self.members()
        if len(members) > self._bounds.processes:
            return f"it started more than {self._bounds.processes} processes"
        if len(members) > 2 and sum(map(own_bytes, members)) > self._bounds.memory_bytes + jail.HEADROOM_BYTES:
            return "its processes together took more memory than is allowed"
        return ""

    def stop(self) -> None:
        """Makes the process itself stand still.

        Raises:
            Ended: it is gone, or goes on.
        """
        send(self.pid, signal.SIGSTOP)
        deadline = time.monotonic() + START_SECONDS
        while not (stopped := is_stopped(self.pid)):
            if stopped is None:
                raise Ended("killed", "its process ended when a check began")
            if time.monotonic() > deadline:
                raise Ended("killed", "it could not be stopped for a check")
            time.sleep(0.0005)

    def kill_all_but(self, *spared: int) -> None:
        for pid in self.members():
            if pid not in spared:
                send(pid)

    def kill_all(self) -> None:
        """Kills all of them, and waits until they are gone."""
        for _ in range(100):
            left = bool(self.members())
            self.kill_all_but()
            if self._nested or not left:
                break
            # Without a numbering of their own, more can be started while these are killed.
            with contextlib.suppress(ChildProcessError):
                while os.waitpid(-1, os.WNOHANG)[0]:
                    pass
        if self.pid:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(self.pid, 0)
            self.pid = 0

    def kill_and_say_why(self) -> Ended:
        """Ends the process, where it still runs. Returns how it ended, to be raised."""
        send(self.pid)
        _, status = os.waitpid(self.pid, 0)
        self.pid = 0
        code = os.waitstatus_to_exitcode(status)
        if code == -signal.SIGXCPU:
            return Ended("timed out", f"it used more than {self._bounds.cpu_seconds} s of CPU time")
        if code == audit.CHANNEL_LOST:
            return Ended("killed", "it cut the grader's own channel")
        if code >= 0:
            return Ended("killed", f"it ended its process with exit status {code}")
        name = signal.Signals(-code).name if -code in set(signal.Signals) else f"signal {-code}"
        return Ended("killed", f"its process was ended by {name}")

    def close(self) -> None:
        self.kill_all()
        self._stay.release()
        os.close(self.exited)


def _apart(box: list[Any], told: SimpleQueue[int | OSError], stay: threading.Lock) -> None:
    """Forks the student's process, in a thread of its own: below the process's frames lies this one and no other.

    Args:
        box: what serves there, and what forks. Taken out, so that this frame leads to neither.
        told: gets the new process's number, or why there is none.
        stay: the thread waits for this lock: the kernel ends a process with the thread that made it.
    """
    try:
        child = box.pop()()
    except OSError as error:
        told.put(error)
        return
    if child:
        told.put(child)
        stay.acquire()
        return
    try:
        box.pop()()()
    finally:
        os._exit(0)
