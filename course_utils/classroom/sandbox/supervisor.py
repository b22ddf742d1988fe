"""Stands between the grader and a student's process (``Supervisor``): starts it, hands it requests one by one, watches
its time, its memory and how many processes it has become, and leaves nothing of it behind. Runs in the sandbox's warm
interpreter: besides it and bubblewrap there is no process there but a student's.
"""

from __future__ import annotations

import _thread
import contextlib
import os
import secrets
import select
import shutil
import signal
import socket
import time
from collections.abc import Callable
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from course_utils.classroom.sandbox.bubblewrap import FRESH_FOLDERS, HOME
from course_utils.classroom.sandbox.protocol import Broken, Channel, Closed, Ended, opened
from course_utils.classroom.sandbox.student import restrict

TICK_SECONDS, GRACE_SECONDS, START_SECONDS = 0.05, 2.0, 120.0
_REPLY_BYTES = 16 * 2**20
_CLOCK = os.sysconf("SC_CLK_TCK")


class CheckEnded(Ended):
    """The check's process is gone, or had to go."""


class Supervisor:
    """One submission, from start to end."""

    def __init__(self, grader: Channel, bounds: dict[str, int], ready: Callable[..., Callable[[], None]]) -> None:
        self._grader, self._bounds, self._secret = grader, bounds, secrets.token_bytes(32)
        mine, theirs = socket.socketpair()
        started: SimpleQueue[Any] = SimpleQueue()
        with theirs:
            # In a thread, so that no frame of this process's lies below the student's.
            _thread.start_new_thread(_apart, ([_start(theirs.fileno(), bounds, self._secret, ready)], started))
            self._pid = started.get()
        if isinstance(self._pid, OSError):
            raise self._pid
        self._exited = os.pidfd_open(self._pid)
        mine.setblocking(False)
        self._student, self._inbox = Channel(mine, _REPLY_BYTES), list[dict[str, Any]]()

    def close(self) -> None:
        """Ends everything that came of it, and empties the folders in which it could write."""
        while self._members():
            with contextlib.suppress(ProcessLookupError):
                os.kill(-1, signal.SIGKILL)  # all but this process, the first, at once: none of them forks any more
            with contextlib.suppress(ChildProcessError):
                while os.waitpid(-1, os.WNOHANG)[0]:
                    pass
            time.sleep(0.002)
        os.close(self._exited)
        self._student.close()
        for folder in FRESH_FOLDERS:
            empty(Path(folder))

    def serve(self) -> None:
        """Answers the grader until it ends; then raises ``Closed``."""
        try:
            self._expect("up", START_SECONDS)
            while True:
                request = self._grader.receive()
                self._inbox.clear()
                self._grader.send(self._cell(request) if request["do"] == "cell" else self._check(request))
        except TimeoutError:
            self._grader.send({"ended": "", "why": "its process did not start"})
        except Ended as ended:
            self._grader.send({"ended": ended.outcome, "why": str(ended)})

    def _cell(self, request: dict[str, Any]) -> dict[str, Any]:
        self._tell(request)
        limit, interrupted, spent = float(request["seconds"]), False, 0.0
        while True:
            try:
                reply, seconds = self._expect("outputs", limit)
                return {"reply": reply, "interrupted": interrupted, "seconds": spent + seconds}
            except TimeoutError:
                if interrupted:
                    raise Ended("timed out", f"it ran for more than {request['seconds']:g} s") from None
                os.kill(self._pid, signal.SIGINT)
                spent, limit, interrupted = limit, GRACE_SECONDS, True

    def _check(self, request: dict[str, Any]) -> dict[str, Any]:
        """Has an answer judged. What cells have started ends before that, so that nothing but the check speaks for it;
        an answer that needed it, as a loader's persistent workers, may end then, and that is not its doing."""
        left = sum(pid != self._pid and _stat(pid)[0] != "Z" for pid in self._members())
        self._kill_others()
        os.kill(self._pid, signal.SIGCONT)
        self._tell(request)
        threads, seconds = 0, 0.0
        try:
            threads = self._expect("threads", float(request["seconds"]))[0]["threads"]
            found, seconds = self._expect("proof", float(request["seconds"]), in_check=True)
            message: dict[str, Any] = {"result": opened(found, self._secret)}
        except TimeoutError:
            seconds, why = float(request["seconds"]), f"it ran for more than {request['seconds']:g} s"
            message = {"stopped": "" if threads or left else "timed out", "why": why}
        except CheckEnded as gone:
            message = {"stopped": "" if threads or left else gone.outcome, "why": str(gone)}
        except Ended as ended:
            if left and ended.outcome:  # it may have needed them
                raise Ended("", f"{ended}, and {left} processes that cells had started had ended before") from None
            raise
        except Broken as error:
            message = {"stopped": "killed", "why": f"its result did not come from the check ({error})"}
        if not message.get("stopped", "x"):
            message["why"] += f", and cells had left {threads} threads and {left} processes, which ended before"
        self._kill_others()
        self._inbox.clear()
        self._student = Channel(self._student.socket, _REPLY_BYTES)  # without what a check that is gone left in it
        with contextlib.suppress(BlockingIOError):
            while self._student.socket.recv(2**18):
                pass
        os.kill(self._pid, signal.SIGCONT)
        self._tell({"do": "go on"})
        return message | {"left": left + threads, "seconds": seconds}

    def _tell(self, message: dict[str, Any]) -> None:
        self._student.socket.settimeout(10.0)
        try:
            self._student.send(message)
        except Closed as error:
            raise self._end() from error
        finally:
            self._student.socket.setblocking(False)

    def _expect(self, key: str, seconds: float, in_check: bool = False) -> tuple[dict[str, Any], float]:
        """The next message that has ``key``, and the seconds that it took: CPU time, and time in which every process of
        the submission waits; time in which the machine has no core for them counts for nothing."""
        cpu, resting, looked, used = self._cpu(), 0.0, time.monotonic(), 0.0
        while True:
            ends: list[Any] = [self._student, self._grader, self._exited]
            readable, _, _ = select.select(ends, [], [], TICK_SECONDS)
            gone = self._exited in readable
            self._count(in_check)  # before anything else: of what forks without end there are more with each moment
            with contextlib.suppress(BlockingIOError):
                while self._student in readable or gone:
                    try:
                        self._inbox += self._student.receive_ready()
                    except Closed:
                        break
                    except Broken as error:
                        raise Ended("killed", f"it wrote into the grader's own channel ({error})") from None
            for place, message in enumerate(self._inbox):
                if key in message:
                    return self._inbox.pop(place), max(used, self._cpu() - cpu + resting)
                if "failed" in message:
                    raise CheckEnded("", f"the check did not begin: {message['failed']!s:.200}")
            if gone:
                raise self._end()
            if self._grader in readable and not self._grader.socket.recv(1, socket.MSG_PEEK):
                raise Closed("the grader has ended")
            now = time.monotonic()
            states = [state for pid in self._members() if (state := _stat(pid)[0]) != "Z"]
            if "R" not in states:
                resting += min(now - looked, 4 * TICK_SECONDS)
            looked, used = now, max(used, self._cpu() - cpu + resting)
            if in_check and states == ["T"]:  # the check's process is gone, and its parent waits to go on
                raise CheckEnded("killed", "its process ended in the middle of the check")
            if used > seconds:
                raise TimeoutError

    def _count(self, in_check: bool) -> None:
        members = self._members()
        why = f"it started more than {self._bounds['processes']} processes"
        if len(members) <= self._bounds["processes"]:
            why = "its processes together took more memory than is allowed"
            if len(members) < 3 or sum(map(_own_bytes, members)) < self._bounds["memory_bytes"] + 2**29:
                return
        if in_check:
            self._kill_others()
            raise CheckEnded("killed", why)
        raise Ended("killed", why)

    def _members(self) -> list[int]:
        return [int(name) for name in os.listdir("/proc") if name.isdigit() and int(name) != os.getpid()]

    def _cpu(self) -> float:
        return sum(int(number) for pid in self._members() for number in _stat(pid)[11:15]) / _CLOCK

    def _kill_others(self) -> None:
        """Ends all that came of the student's process, which stands still afterwards."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(-1, signal.SIGSTOP)  # all at once: what stands still forks no more
        for _ in range(100):
            others = [pid for pid in self._members() if pid != self._pid]
            for pid in others:
                with contextlib.suppress(ProcessLookupError, ChildProcessError):
                    os.kill(pid, signal.SIGKILL)
                    os.waitpid(pid, os.WNOHANG)  # its own children come to this process in the next turn
            if not others:
                return
            time.sleep(0.001)

    def _end(self) -> Ended:
        """Ends the process, where it still runs. Returns how it ended, to be raised."""
        os.kill(self._pid, signal.SIGKILL)
        code = os.waitstatus_to_exitcode(os.waitpid(self._pid, 0)[1])
        if code == -signal.SIGXCPU:
            return Ended("timed out", f"it used more than {self._bounds['cpu_seconds']} s of CPU time")
        if code >= 0:
            return Ended("killed", f"it ended its process with exit status {code}")
        return Ended("killed", f"its process was ended by {signal.Signals(-code).name}")


def empty(folder: Path) -> None:
    """Deletes what lies in a folder."""
    for path in folder.iterdir():
        shutil.rmtree(path, ignore_errors=True) if path.is_dir() and not path.is_symlink() else path.unlink()


def _stat(pid: int) -> list[str]:
    """What the kernel says of a process, from its state on."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return ["Z", *["0"] * 20]


def _own_bytes(pid: int) -> int:
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return 1024 * int(line.split()[1])
    return 0


def _start(end: int, bounds: dict[str, int], secret: bytes, ready: Callable[..., Any]) -> Callable[[], Any]:
    def start() -> Any:
        os.setsid()
        null = os.open(os.devnull, os.O_RDWR)
        for descriptor in (0, 1, 2):
            os.dup2(null, descriptor)
        os.closerange(3, end)
        os.closerange(end + 1, 4096)
        os.chdir(HOME)
        restrict(bounds)
        return ready(end, secret)

    return start


def _apart(box: list[Any], started: SimpleQueue[Any]) -> None:
    """Forks the student's process: below its frames lies this one and no other, and this one leads nowhere."""
    try:
        child = os.fork()
    except OSError as error:
        started.put(error)
        return
    if child:
        started.put(child)
        return
    try:
        del started
        box.pop()()()
    finally:
        os._exit(0)
