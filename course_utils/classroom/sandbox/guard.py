"""Stands between the grader and a student's process, outside what that process can see (``guard``).

It starts the process, hands it the grader's requests one by one, watches its time, its memory and how many processes it
has become, kills what is left over, and lets a check have the channel to itself. Runs in the sandbox's warm
interpreter.
"""

from __future__ import annotations

import _thread
import contextlib
import os
import secrets
import select
import signal
import socket
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from queue import SimpleQueue
from typing import Any

from course_utils.classroom.sandbox import jail
from course_utils.classroom.sandbox.processes import (
    Stopwatch,
    depth,
    descends,
    is_stopped,
    kill,
    own_bytes,
    own_number,
    parent,
)
from course_utils.classroom.sandbox.protocol import Broken, Channel, Closed, opened, pair
from course_utils.classroom.tampering import audit

TICK_SECONDS = 0.05  # how often processes are counted
GRACE_SECONDS = 2.0  # between asking a cell to stop and killing it
_START_SECONDS = 120.0  # of real time, for what is not a student's: a busy machine may take that long
_REPLY_BYTES = 16 * 2**20
_STACK_BYTES = 16 * 2**20
_SIGNS = 500  # different reports of one submission that are passed on

# Runs in the new process. Takes its channel's descriptor, that for reports, and the secret; returns what serves.
Start = Callable[[int, int, bytes], Callable[[], None]]


class Ended(Exception):
    """The process is gone, or had to go. The message says why, for the teacher."""

    def __init__(self, outcome: str, why: str) -> None:
        super().__init__(why)
        self.outcome, self.why = outcome, why


class _ChildGone(Exception):
    """The check's process is gone, or had to go. ``outcome`` is empty where it never came to judging."""

    def __init__(self, outcome: str, why: str) -> None:
        super().__init__(why)
        self.outcome = outcome


def guard(grader: Channel, bounds: jail.Bounds, nested: bool, keep: Sequence[str], start: Start) -> None:
    """Serves one submission from start to end.

    Args:
        grader: where requests come from.
        bounds: the process's limits.
        nested: whether the kernel lets this process make further namespaces.
        keep: folders that the new process must go on seeing.
        start: makes the new process ready.
    """
    warden = _Warden(grader, bounds, nested, keep, start)
    try:
        warden.serve()
    except (Closed, Broken):  # the grader has what it wanted, or is gone
        pass
    finally:
        warden.close()


def _apart(box: list[Any], told: SimpleQueue[Any], stay: Any) -> None:
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


class _Warden:
    def __init__(self, grader: Channel, bounds: jail.Bounds, nested: bool, keep: Sequence[str], start: Start) -> None:
        self._grader, self._bounds, self._nested = grader, bounds, nested
        self._secret = secrets.token_bytes(32)
        mine, theirs = pair()
        reports, their_reports = pair()
        ends = theirs.fileno(), their_reports.fileno()
        told: SimpleQueue[Any] = SimpleQueue()
        self._stay = threading.Lock()
        self._stay.acquire()
        threading.stack_size(_STACK_BYTES)
        begin = partial(_become_student, ends, bounds, nested, keep, start, self._secret)
        box: list[Any] = [begin, jail.fork_numbered if nested else os.fork]
        _thread.start_new_thread(_apart, (box, told, self._stay))
        self.process = told.get()
        if isinstance(self.process, OSError):
            raise self.process
        theirs.close()
        their_reports.close()
        mine.setblocking(False)
        reports.setblocking(False)
        self._student = Channel(mine, _REPLY_BYTES)
        self._reports, self._unread, self._signs = reports, b"", set[bytes]()
        self._inbox: list[dict[str, Any]] = []
        self._exit = os.pidfd_open(self.process)

    # The grader's requests, one at a time.

    def serve(self) -> None:
        try:
            self._expect("up", _START_SECONDS)
            while True:
                request = self._grader.receive()
                if request["do"] == "cell":
                    self._cell(request)
                elif request["do"] == "check":
                    self._check(request)
        except TimeoutError:
            self._grader.send({"ended": "", "why": "its process did not start"})
        except Ended as ended:
            self._grader.send({"ended": ended.outcome, "why": ended.why})

    def _request(self, request: dict[str, Any]) -> None:
        self._inbox.clear()
        self._tell(request)

    def _cell(self, request: dict[str, Any]) -> None:
        watch = Stopwatch(self.members)
        self._request(request)
        limit, interrupted = float(request["seconds"]), False
        while True:
            try:
                reply = self._expect("outputs", limit, watch)
            except TimeoutError:
                if interrupted:
                    raise Ended("timed out", f"it ran for more than {request['seconds']:g} s") from None
                with contextlib.suppress(ProcessLookupError):
                    os.kill(self.process, signal.SIGINT)
                limit, interrupted = limit + GRACE_SECONDS, True
                continue
            self._grader.send({"reply": reply, "interrupted": interrupted, "seconds": watch.seconds()})
            return

    def _check(self, request: dict[str, Any]) -> None:
        # What cells have started ends here, so that nothing but the check can ask for its number.
        self._stop()
        for pid in self.members():
            if pid != self.process:
                kill(pid)
        self._go_on()
        self._request({"do": "check", "name": request["name"]})
        watch = Stopwatch(self.members)
        message: dict[str, Any]
        announced: dict[str, Any] = {}
        try:
            announced = self._expect("forked", float(request["seconds"]), watch)
            self._stop()
            message = {"result": self._judged(self._only(announced), request, watch)}
        except TimeoutError:
            why, threads = f"it ran for more than {request['seconds']:g} s", announced.get("threads")
            message = {"stopped": "timed out", "why": why}
            if threads:  # which a fork does not have: the answer may have waited for one
                message = {"stopped": "", "why": f"{why}, and cells had left {threads} threads running"}
        except _ChildGone as gone:
            message = {"stopped": gone.outcome, "why": str(gone)}
        message["seconds"] = watch.seconds()
        self._release()
        self._grader.send(message)

    def _judged(self, child: int, request: dict[str, Any], watch: Stopwatch) -> dict[str, Any]:
        ticket = secrets.token_hex(16)
        exited = os.pidfd_open(child)
        limit = float(request["seconds"])
        try:
            try:
                begun = opened(self._expect("proof", limit, watch, exited), self._secret, "")
            except _ChildGone as gone:
                raise _ChildGone("", f"the check did not begin: {gone}") from None
            if "result" in begun:  # it could not begin, and says why
                return begun["result"]
            self._tell(request | {"ticket": ticket})
            answer = opened(self._expect("proof", limit, watch, exited), self._secret, ticket)
        except Broken as error:
            raise _ChildGone("killed", f"its result did not come from the check ({error})") from None
        finally:
            os.close(exited)
        return answer["result"]

    def _stop(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.process, signal.SIGSTOP)
        deadline = time.monotonic() + _START_SECONDS
        while not (stopped := is_stopped(self.process)):
            if stopped is None:
                raise Ended("killed", "its process ended when a check began")
            if time.monotonic() > deadline:
                raise Ended("killed", "it could not be stopped for a check")
            time.sleep(0.0005)

    def _go_on(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.process, signal.SIGCONT)

    def _only(self, announced: dict[str, Any]) -> int:
        """The check's process, by the number that its parent knows it by; whatever else there is, is killed."""
        check = 0
        for pid in self.members():
            if pid != self.process and parent(pid) == self.process and own_number(pid) == announced["forked"]:
                check = pid
        for pid in self.members():
            if pid not in (self.process, check):
                kill(pid)
        if not check:
            why = str(announced.get("why") or "its process was gone")
            raise _ChildGone("", f"the check did not begin: {why[:200]}")
        return check

    def _release(self) -> None:
        for pid in self.members():
            if pid != self.process:
                kill(pid)
        self._drain()
        self._go_on()
        self._tell({"do": "go on"})

    def _drain(self) -> None:
        """What a check that is gone left in the channel."""
        self._inbox.clear()
        self._student = Channel(self._student.socket, _REPLY_BYTES)
        with contextlib.suppress(BlockingIOError):
            while self._student.socket.recv(2**18):
                pass

    # Waiting for the student's process, with an eye on everything else.

    def _tell(self, message: dict[str, Any]) -> None:
        self._student.socket.settimeout(10.0)
        try:
            self._student.send(message)
        except Closed as error:
            raise Ended(*self._how_it_ended()) from error
        finally:
            self._student.socket.setblocking(False)

    def _expect(
        self, key: str, seconds: float, watch: Stopwatch | None = None, child: int | None = None
    ) -> dict[str, Any]:
        """The next message that has ``key``.

        Args:
            key: what the message must have.
            seconds: on the watch; without one, of real time.
            watch: of the request.
            child: descriptor of the check's process.

        Raises:
            TimeoutError: none came in time.
            Ended: the student's process is gone, or had to be killed.
            _ChildGone: the check's process is gone.
        """
        watched: list[Any] = [self._student, self._reports, self._grader]
        watched += [end for end in (self._exit, child) if end is not None]
        begun = counted = time.monotonic()
        message = self._take(key)
        while message is None:
            readable, _, _ = select.select(watched, [], [], TICK_SECONDS)
            if self._reports in readable:
                self._hear()
            gone = "process" if self._exit in readable else "check" if child is not None and child in readable else ""
            if gone or self._student in readable:
                self._read(to_the_end=bool(gone))
            message = self._take(key)
            if message is not None:
                break
            if gone == "process":
                raise Ended(*self._how_it_ended())
            if gone == "check":
                raise _ChildGone("killed", "its process ended in the middle of the check")
            if self._grader in readable:
                if not self._grader.socket.recv(1, socket.MSG_PEEK):
                    raise Closed("the grader has ended")
                watched.remove(self._grader)  # its next request, before this one is answered
            if time.monotonic() - counted > TICK_SECONDS:
                counted = time.monotonic()
                self._count(in_check=child is not None)
                if (watch.seconds() if watch else counted - begun) > seconds:
                    raise TimeoutError
        return message

    def _read(self, to_the_end: bool) -> None:
        """Takes in what is there; of an ended process, all that it left."""
        try:
            self._receive()
            while to_the_end:
                self._receive()
        except BlockingIOError:
            pass
        except Closed:
            if not self._inbox:
                raise Ended(*self._how_it_ended()) from None
        except Broken as error:
            raise Ended("killed", f"it wrote into the grader's own channel ({error})") from None

    def _receive(self) -> None:
        self._inbox += self._student.receive_ready()

    def _take(self, key: str) -> dict[str, Any] | None:
        """The first message with ``key``; the others wait: a check and its parent speak in any order."""
        for place, message in enumerate(self._inbox):
            if key in message:
                return self._inbox.pop(place)
        return None

    def _hear(self) -> None:
        """Passes reports on to the grader, and lets the process go on."""
        try:
            chunk = self._reports.recv(2**16)
        except BlockingIOError:
            return
        if not chunk:
            return
        *lines, self._unread = (self._unread + chunk).split(b"\n")
        for line in lines:
            sign = line.rpartition(audit.SEPARATOR.encode())[0]
            if sign not in self._signs and len(self._signs) < _SIGNS:
                self._signs.add(sign)
                where, _, rest = line.decode("utf-8", "replace").partition(audit.SEPARATOR)
                what = rest.partition(audit.SEPARATOR)[0]
                self._grader.send({"sign": [where[:200], what[:200]]})
            with contextlib.suppress(OSError):
                self._reports.send(audit.reply_to(self._secret, line + b"\n"))

    def _count(self, in_check: bool) -> None:
        members = self.members()
        if len(members) > self._bounds.processes:
            why = f"it started more than {self._bounds.processes} processes"
        elif len(members) > 2 and sum(map(own_bytes, members)) > self._bounds.memory_bytes + jail.HEADROOM_BYTES:
            why = "its processes together took more memory than is allowed"
        else:
            return
        if not in_check:
            self.kill_all()
            raise Ended("killed", why)
        for pid in members:
            if pid != self.process:
                kill(pid)
        raise _ChildGone("killed", why)

    def _how_it_ended(self) -> tuple[str, str]:
        kill(self.process)
        _, status = os.waitpid(self.process, 0)
        self.process = 0
        if os.WIFSIGNALED(status):
            number = os.WTERMSIG(status)
            if number == signal.SIGXCPU:
                return "timed out", f"it used more than {self._bounds.cpu_seconds} s of CPU time"
            name = signal.Signals(number).name if number in set(signal.Signals) else f"signal {number}"
            return "killed", f"its process was ended by {name}"
        code = os.waitstatus_to_exitcode(status)
        if code == audit.CHANNEL_LOST:
            return "killed", "it cut the grader's own channel"
        return "killed", f"it ended its process with exit status {code}"

    # Processes.

    def members(self) -> list[int]:
        """The student's process and all that came of it."""
        if self.process == 0:
            return []
        found = []
        parents: dict[int, int] = {}
        for entry in os.listdir("/proc") if os.path.isdir("/proc/self") else ():
            if not entry.isdigit():
                continue
            pid = int(entry)
            if self._nested:
                if depth(pid) > 1:  # this process itself has one number here
                    found.append(pid)
            else:
                parents[pid] = parent(pid)
        if not self._nested:
            found = [pid for pid in parents if pid == self.process or descends(pid, os.getpid(), parents)]
        return found or [self.process]

    def kill_all(self) -> None:
        """Kills the student's process and all that came of it, and waits until they are gone."""
        for _ in range(100):
            members = self.members()
            for pid in members:
                kill(pid)
            if self._nested or not members:
                break
            # Without a numbering of their own, more can be started while these are killed.
            with contextlib.suppress(ChildProcessError):
                while os.waitpid(-1, os.WNOHANG)[0]:
                    pass
        if self.process:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(self.process, 0)
            self.process = 0

    def close(self) -> None:
        self.kill_all()
        self._stay.release()
        self._student.close()
        self._reports.close()
        os.close(self._exit)


def _become_student(
    ends: tuple[int, int], bounds: jail.Bounds, nested: bool, keep: Sequence[str], start: Start, secret: bytes
) -> Callable[[], None]:
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
    return start(*ends, secret)
