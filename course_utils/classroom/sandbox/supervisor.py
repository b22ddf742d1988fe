"""Stands between the grader and a student's process, outside what that process can see (``Supervisor``).

It starts the process, hands it the grader's requests one by one, watches its time, its memory and how many processes it
has become, kills what is left over, and lets a check have the channel to itself. Runs in the sandbox's warm
interpreter.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import select
import signal
import socket
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from course_utils.classroom.sandbox.jail import Bounds
from course_utils.classroom.sandbox.processes import Stopwatch, send
from course_utils.classroom.sandbox.protocol import Broken, Channel, Closed, Ended, opened
from course_utils.classroom.sandbox.student_process import START_SECONDS, StudentProcess
from course_utils.classroom.tampering import audit

TICK_SECONDS = 0.05  # how often processes are counted
GRACE_SECONDS = 2.0  # between asking a cell to stop and killing it
_REPLY_BYTES = 16 * 2**20
_SIGNS = 500  # different reports of one submission that are passed on

Start = Callable[[int, int, bytes], Callable[[], None]]


class _CheckEnded(Ended):
    """The check's process is gone, or had to go. ``outcome`` is empty where it never came to judging."""


class Supervisor:
    """One submission, from start to end.

    Args:
        grader: where requests come from.
        bounds: see ``StudentProcess``, as for what comes after it.
        start: makes the new process ready, there; takes its channel's descriptor, that for reports, and the secret.
            Returns what serves.
    """

    def __init__(self, grader: Channel, bounds: Bounds, nested: bool, keep: Sequence[str], start: Start) -> None:
        self._grader, self._secret = grader, secrets.token_bytes(32)
        (mine, theirs), (self._reports, their_reports) = socket.socketpair(), socket.socketpair()
        with theirs, their_reports:
            ends = theirs.fileno(), their_reports.fileno()
            self._process = StudentProcess(bounds, nested, keep, ends, partial(start, *ends, self._secret))
        mine.setblocking(False)
        self._reports.setblocking(False)
        self._student = Channel(mine, _REPLY_BYTES)
        self._unread, self._signs = b"", set[tuple[str, str]]()
        self._inbox: list[dict[str, Any]] = []

    def close(self) -> None:
        self._process.close()
        self._student.close()
        self._reports.close()

    # The grader's requests, one at a time.

    def serve(self) -> None:
        """Answers the grader until it ends.

        Raises:
            Closed: it has ended.
        """
        try:
            self._expect("up", START_SECONDS, Stopwatch(self._process.members))
            while True:
                request = self._grader.receive()
                self._inbox.clear()
                self._grader.send(self._cell(request) if request["do"] == "cell" else self._check(request))
        except TimeoutError:
            self._grader.send({"ended": "", "why": "its process did not start"})
        except Ended as ended:
            self._grader.send({"ended": ended.outcome, "why": str(ended)})

    def _cell(self, request: dict[str, Any]) -> dict[str, Any]:
        watch = Stopwatch(self._process.members)
        self._tell(request)
        limit, interrupted = float(request["seconds"]), False
        while True:
            try:
                reply = self._expect("outputs", limit, watch)
                return {"reply": reply, "interrupted": interrupted, "seconds": watch.seconds()}
            except TimeoutError:
                if interrupted:
                    raise Ended("timed out", f"it ran for more than {request['seconds']:g} s") from None
                send(self._process.pid, signal.SIGINT)
                limit, interrupted = limit + GRACE_SECONDS, True

    def _check(self, request: dict[str, Any]) -> dict[str, Any]:
        """Has an answer judged. What cells have started ends before that, so that nothing but the check can ask for its
        number; an answer that needed it, as a loader's persistent workers, may end then, and that is not its doing."""
        self._process.stop()
        left = sum(pid != self._process.pid for pid in self._process.members())
        try:
            return self._check_alone(request) | {"left": left}
        except Ended as ended:
            if left and ended.outcome:
                raise Ended("", f"{ended}, and {left} processes that cells had started had ended before") from None
            raise

    def _check_alone(self, request: dict[str, Any]) -> dict[str, Any]:
        self._process.kill_all_but(self._process.pid)
        send(self._process.pid, signal.SIGCONT)
        self._tell({"do": "check", "name": request["name"]})
        watch = Stopwatch(self._process.members)
        announced: dict[str, Any] = {}
        try:
            announced = self._expect("forked", float(request["seconds"]), watch)
            self._process.stop()
            message: dict[str, Any] = {"result": self._judged(announced, request, watch)}
        except TimeoutError:
            why, threads = f"it ran for more than {request['seconds']:g} s", announced.get("threads")
            message = {"stopped": "timed out", "why": why}
            if threads:  # which a fork does not have: the answer may have waited for one
                message = {"stopped": "", "why": f"{why}, and cells had left {threads} threads running"}
        except _CheckEnded as gone:
            message = {"stopped": gone.outcome, "why": str(gone)}
        message["seconds"] = watch.seconds()
        self._process.kill_all_but(self._process.pid)
        # What a check that is gone left in the channel.
        self._inbox.clear()
        self._student = Channel(self._student.socket, _REPLY_BYTES)
        with contextlib.suppress(BlockingIOError):
            while self._student.socket.recv(2**18):
                pass
        send(self._process.pid, signal.SIGCONT)
        self._tell({"do": "go on"})
        return message

    def _judged(self, announced: dict[str, Any], request: dict[str, Any], watch: Stopwatch) -> dict[str, Any]:
        child = self._process.child(announced["forked"])
        self._process.kill_all_but(self._process.pid, child)
        if not child:
            why = str(announced.get("why") or "its process was gone")
            raise _CheckEnded("", f"the check did not begin: {why[:200]}")
        request |= {"ticket": secrets.token_hex(16)}  # so that no other result answers it
        exited, limit = os.pidfd_open(child), float(request["seconds"])
        try:
            try:
                begun = opened(self._expect("proof", limit, watch, exited), self._secret, {})
            except _CheckEnded as gone:
                raise _CheckEnded("", f"the check did not begin: {gone}") from None
            if "result" in begun:  # it could not begin, and says why
                return begun["result"]
            self._tell(request)
            result = opened(self._expect("proof", limit, watch, exited), self._secret, request)["result"]
            self._read(to_the_end=False)
            if self._take("proof") is not None:  # the judge sends one
                self._grader.send({"sign": (request["name"], "sent more results than the judge's own")})
            return result
        except Broken as error:
            raise _CheckEnded("killed", f"its result did not come from the check ({error})") from None
        finally:
            os.close(exited)

    # Waiting for the student's process, with an eye on everything else.

    def _tell(self, message: dict[str, Any]) -> None:
        self._student.socket.settimeout(10.0)
        try:
            self._student.send(message)
        except Closed as error:
            raise self._process.kill_and_say_why() from error
        finally:
            self._student.socket.setblocking(False)

    def _expect(self, key: str, seconds: float, watch: Stopwatch, child: int | None = None) -> dict[str, Any]:
        """The next message that has ``key``.

        Args:
            key: what the message must have.
            seconds: on the watch.
            watch: of the request.
            child: descriptor of the check's process.

        Raises:
            TimeoutError: none came in time.
            Ended: the student's process is gone, or had to be killed.
            _CheckEnded: the check's process is gone.
        """
        watched: list[Any] = [self._student, self._reports, self._grader, self._process.exited]
        watched += [] if child is None else [child]
        counted = time.monotonic()
        while (message := self._take(key)) is None:
            readable, _, _ = select.select(watched, [], [], TICK_SECONDS)
            if self._reports in readable:
                self._hear()
            process_gone, check_gone = self._process.exited in readable, child in readable
            if process_gone or check_gone or self._student in readable:
                self._read(to_the_end=process_gone or check_gone)
            if (message := self._take(key)) is not None:
                break
            if process_gone:
                raise self._process.kill_and_say_why()
            if check_gone:
                raise _CheckEnded("killed", "its process ended in the middle of the check")
            if self._grader in readable:
                if not self._grader.socket.recv(1, socket.MSG_PEEK):
                    raise Closed("the grader has ended")
                watched.remove(self._grader)  # its next request, before this one is answered
            if time.monotonic() - counted > TICK_SECONDS:
                counted = time.monotonic()
                why = self._process.excess()
                if why and child is not None:
                    self._process.kill_all_but(self._process.pid)
                    raise _CheckEnded("killed", why)
                if why:
                    self._process.kill_all()
                    raise Ended("killed", why)
                if watch.seconds() > seconds:
                    raise TimeoutError
        return message

    def _read(self, to_the_end: bool) -> None:
        """Takes in what is there; of an ended process, all that it left."""
        try:
            self._inbox += self._student.receive_ready()
            while to_the_end:
                self._inbox += self._student.receive_ready()
        except BlockingIOError:
            pass
        except Closed:
            if not self._inbox:
                raise self._process.kill_and_say_why() from None
        except Broken as error:
            raise Ended("killed", f"it wrote into the grader's own channel ({error})") from None

    def _take(self, key: str) -> dict[str, Any] | None:
        """The first message with ``key``; the others wait: a check and its parent speak in any order."""
        for place, message in enumerate(self._inbox):
            if key in message:
                return self._inbox.pop(place)
        return None

    def _hear(self) -> None:
        """Passes reports on to the grader, and lets the process go on."""
        with contextlib.suppress(BlockingIOError):
            *lines, self._unread = (self._unread + self._reports.recv(2**16)).split(b"\n")
            for line in lines:
                where, what, *_ = (*line.decode("utf-8", "replace").split(audit.SEPARATOR), "", "")
                sign = where[:200], what[:200]
                if sign not in self._signs and len(self._signs) <= _SIGNS:
                    if len(self._signs) == _SIGNS:  # so many that a true one may be among those that are left out
                        sign = where[:200], f"did more than {_SIGNS} different things that are reported"
                    self._signs.add(sign)
                    self._grader.send({"sign": sign})
                with contextlib.suppress(OSError):
                    self._reports.send(audit.reply_to(self._secret, line + b"\n"))
