"""Stands between the grader and a student's process (``Supervisor``): forks it, hands it requests one by one, watches
its time, its memory and how many processes it has become, and leaves nothing of it behind. Runs in the warm Python:
besides it and bubblewrap there is no process in the sandbox but a student's.

What the three say to each other are JSON objects (``Channel``). The other side may have been taken over by a student's
code, so that whatever arrives is checked before it is used.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import resource
import secrets
import shutil
import signal
import socket
import struct
import time
from hashlib import blake2b
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from course_utils.classroom.sandbox.bubblewrap import FRESH_FOLDERS

TICK_SECONDS, GRACE_SECONDS = 0.05, 2.0
LONGEST_BYTES, WHOLE_SECONDS = 64 * 2**20, 5  # of a message, and in which it arrives once it has begun
LONGEST_OUTPUT = 100_000  # characters of one text: what nbconvert makes of colours takes the square of its length
_CLOCK = os.sysconf("SC_CLK_TCK")


class Closed(Exception):
    """The other side has ended, or what it sends is no message."""


class Ended(Exception):
    """A submission's process is gone, or had to go. The message says why, for the teacher.

    Attributes:
        outcome: ``"killed"`` or ``"timed out"``; empty where that may not be the submission's doing.
    """

    def __init__(self, outcome: str, why: str) -> None:
        super().__init__(why)
        self.outcome = outcome


class Channel:
    """One end of a stream socket that carries messages."""

    def __init__(self, end: socket.socket) -> None:
        for way in (socket.SO_RCVTIMEO, socket.SO_SNDTIMEO):
            end.setsockopt(socket.SOL_SOCKET, way, struct.pack("ll", WHOLE_SECONDS, 0))
        self._end = Connection(end.detach())

    def send(self, message: dict[str, Any]) -> None:
        """Sends a message whole; raises ``Closed`` where nobody reads it."""
        try:
            self._end.send_bytes(json.dumps(message).encode())
        except OSError as error:
            raise Closed(str(error)) from error

    def poll(self, seconds: float | None) -> bool:
        """Whether a message begins, or the other side ends, within so many seconds."""
        return self._end.poll(seconds)

    def receive(self) -> dict[str, Any]:
        """Waits for the next message; raises ``Closed`` where none comes."""
        try:
            self._end.poll(None)
            message = json.loads(self._end.recv_bytes(LONGEST_BYTES))
        except (OSError, EOFError, ValueError, RecursionError) as error:
            raise Closed(str(error)) from error
        if not isinstance(message, dict):
            raise Closed("what it sent is no JSON object")
        return message

    def drop(self) -> None:
        """Forgets what has arrived."""
        with contextlib.suppress(OSError):  # the other side has ended
            while self._end.poll(0) and os.read(self._end.fileno(), 2**18):
                pass

    def close(self) -> None:
        self._end.close()


class Supervisor:
    """One submission, from start to end.

    Attributes:
        pid: of the student's process; 0 in that process itself.
        end: that process's end of its channel.
        secret: what a check's result is signed with.
    """

    def __init__(self, grader: Channel, limits: dict[str, Any]) -> None:
        self._grader, self._limits, self._threads = grader, limits, False
        self.secret = secrets.token_bytes(32)
        mine, self.end = socket.socketpair()
        self._student = Channel(mine)
        self.pid = os.fork()

    def serve(self) -> None:
        """Answers the grader until that asks for the end; raises ``Closed`` where it is gone."""
        self.end.close()
        answer = dict[str, Any]()
        while True:
            self._grader.send(answer)
            request = self._grader.receive()
            if request["do"] == "end":
                return self._clear()
            try:
                answer = self._cell(request) if request["do"] == "cell" else self._check(request)
            except Ended as ended:
                answer = {"ended": ended.outcome, "why": str(ended)}

    def _cell(self, request: dict[str, Any]) -> dict[str, Any]:
        limit = float(request["seconds"])
        for ask, seconds in ((request, limit), (None, GRACE_SECONDS)):
            try:
                reply, used = self._ask(ask, seconds)
            except TimeoutError:
                os.kill(self.pid, signal.SIGINT)
                continue
            self._threads = bool(reply.get("threads"))
            return {"reply": reply, "interrupted": ask is None, "seconds": used + limit * (ask is None)}
        raise Ended("timed out", f"it ran for more than {limit:g} s")

    def _check(self, request: dict[str, Any]) -> dict[str, Any]:
        """Has an answer judged. What cells have started ends before that, so that nothing but the check speaks for it;
        an answer that needed it, as a loader's persistent workers, may end then, and that is not its doing."""
        left, limit = self._threads or len(_processes()) > 1, float(request["seconds"])
        self._hold()
        try:
            found, seconds = self._ask(request, limit, in_check=True)
            body, message = str(found.get("body")), {"stopped": "", "why": str(found.get("unjudged"))}
            proof = blake2b(json.dumps([request, body]).encode(), key=self.secret).hexdigest()
            if found.get("proof") == proof:
                message = {"result": json.loads(body)}
            elif "unjudged" not in found:
                message = {"stopped": "killed", "why": "its result did not come from the check"}
        except (TimeoutError, Ended) as error:
            outcome, why = getattr(error, "outcome", "timed out"), str(error)
            seconds = limit if outcome == "timed out" else 0.0
            if left:  # it may have needed them
                outcome, why = "", f"{why}; threads or processes that cells had started had ended before"
            if self.pid not in _processes():
                raise Ended(outcome, why) from None
            message = {"stopped": outcome, "why": why}
        self._hold()
        return message | {"left": left, "seconds": seconds}

    def _ask(
        self, request: dict[str, Any] | None, seconds: float, in_check: bool = False
    ) -> tuple[dict[str, Any], float]:
        """The answer to a request, and the seconds that it took: CPU time, and time in which every process of the
        submission waits; time in which the machine has no core for them counts for nothing."""
        cpu, resting, looked, used = _cpu(_processes()), 0.0, time.monotonic(), 0.0
        try:
            if request:
                os.kill(self.pid, signal.SIGCONT)
                self._student.send(request)
            while True:
                message = self._student.receive() if self._student.poll(TICK_SECONDS) else None
                processes, now = _processes(), time.monotonic()
                self._count(processes)  # first: of what forks without end there are more with each moment
                states = [fields[0] for fields in processes.values()]
                resting += min(now - looked, 4 * TICK_SECONDS) if "R" not in states else 0.0
                looked, used = now, max(used, _cpu(processes) - cpu + resting)
                if message:
                    return message, used
                if self.pid not in processes:
                    raise Closed
                if in_check and states == ["T"] and not self._student.poll(0):  # only its parent is left, and no word
                    raise Ended("killed", "its process ended in the middle of the check")
                if used > seconds:
                    raise TimeoutError(f"it ran for more than {seconds:g} s")
        except Closed:
            raise self._gone() from None

    def _count(self, processes: dict[int, list[str]]) -> None:
        if len(processes) > self._limits["processes"]:
            raise Ended("killed", f"it started more than {self._limits['processes']} processes")
        shared = {self.pid: _private_bytes("self")}
        mine = _private_bytes(self.pid)
        if sum(_bytes(pid, shared.get(pid, mine)) for pid in processes) > self._limits["memory_bytes"] + 2**29:
            raise Ended("killed", "its processes together took more memory than is allowed")

    def _hold(self) -> None:
        """Ends all that came of the student's process, and forgets what they said. It stands until it is asked."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(-1, signal.SIGSTOP)  # all at once: what stands still forks no more
        while others := _processes().keys() - {self.pid}:
            for pid in others:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.001)
        self._student.drop()

    def _gone(self) -> Ended:
        """Ends the process, where it still runs. Returns how it ended, to be raised."""
        os.kill(self.pid, signal.SIGKILL)
        code = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        if code == -signal.SIGXCPU:
            return Ended("timed out", f"it used more than {self._limits['cpu_seconds']} s of CPU time")
        if code >= 0:
            return Ended("killed", f"it ended its process with exit status {code}")
        return Ended("killed", f"its process was ended by {signal.Signals(-code).name}")

    def _clear(self) -> None:
        """Ends everything that came of it, and empties the folders in which it could write."""
        self._hold()
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):  # there is none any more
            while True:
                os.waitpid(-1, 0)
        self._student.close()
        for folder in FRESH_FOLDERS:
            empty(Path(folder))


def empty(folder: Path) -> None:
    """Deletes what lies in a folder."""
    for path in folder.iterdir():
        shutil.rmtree(path, ignore_errors=True) if path.is_dir() and not path.is_symlink() else path.unlink()


def _processes() -> dict[int, list[str]]:
    """What the kernel says of each process but this one, from its state on; without those that have ended."""
    found = dict[int, list[str]]()
    for name in os.listdir("/proc"):
        if name.isdigit() and int(name) != os.getpid():
            with contextlib.suppress(OSError):
                found[int(name)] = Path(f"/proc/{name}/stat").read_text().rpartition(")")[2].split()
    return {pid: fields for pid, fields in found.items() if fields[0] not in "ZX"}


def _cpu(processes: dict[int, list[str]]) -> float:
    return sum(int(number) for fields in processes.values() for number in fields[11:15]) / _CLOCK


def _bytes(pid: int, shared: int) -> int:
    """What a process takes: of a program that was started, as the kernel says; of a fork, into which nobody may look,
    what it has more than the process that it came of."""
    with contextlib.suppress(OSError):
        (size,) = re.findall(r"^Pss: +(\d+)", Path(f"/proc/{pid}/smaps_rollup").read_text(), re.MULTILINE)
        return 1024 * int(size)
    return max(_private_bytes(pid) - shared, 0)


def _private_bytes(pid: int | str) -> int:
    with contextlib.suppress(OSError):
        _, resident, files, *_ = map(int, Path(f"/proc/{pid}/statm").read_text().split())
        return (resident - files) * resource.getpagesize()
    return 0
