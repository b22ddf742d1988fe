"""The grader's side of the warm interpreter (``WarmPython``) and of one submission's process in it (``Session``)."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields
from typing import Any

from course_utils.base.errors import explain
from course_utils.classroom.sandbox.bubblewrap import start
from course_utils.classroom.sandbox.jail import Bounds
from course_utils.classroom.sandbox.protocol import Broken, Channel, Closed, Ended

START_SECONDS = 120.0  # torch from a cold disk, on a machine with other things to do
END_SECONDS = 5.0
# The supervisor counts what a process uses, whatever else the machine does; so much real time may that take before the
# whole sandbox is given up.
SLACK_SECONDS, SLACK = 300.0, 20


class WarmPython:
    """A Python in the sandbox with everything loaded; each session is a fork of it.

    Attributes:
        nested: whether sessions are held apart from each other by namespaces of their own. Where they are not, every
            session is a Python of its own, started cold.
    """

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._control: Channel | None = None
        self._is_over = False
        self.nested = False

    def open(self) -> None:
        """Starts it, where it is not running.

        Raises:
            OSError: it could not be started; the message holds what it said.
        """
        if self._process is not None and self._process.poll() is None:
            return
        if self._is_over:
            raise OSError("Grading was ended.")
        self.close()
        mine, theirs = socket.socketpair()
        self._said = tempfile.TemporaryFile()  # noqa: SIM115  read when the process has ended
        with theirs:
            self._process = start(theirs.fileno(), self._said)
        self._control = Channel(mine)
        mine.settimeout(START_SECONDS)
        try:
            self.nested = bool(self._control.receive()["nested"])
        except (Closed, Broken, TimeoutError, KeyError) as error:
            said = self.close()
            raise OSError(
                explain(
                    f"The Python that grades did not start: {said or error!r}",
                    "it imports torch and this package in the sandbox.",
                    try_this="see whether `python -c 'import course_utils'` works in this environment.",
                )
            ) from error

    @contextmanager
    def session(self, bounds: Bounds, lesson: str) -> Iterator[Session]:
        """A process for one submission, killed with all that came of it in the end.

        Args:
            bounds: its limits.
            lesson: whose exercises are judged; empty where there are none.
        """
        self.open()
        assert self._control is not None
        mine, theirs = socket.socketpair()
        channel = Channel(mine)
        try:
            try:
                with theirs:
                    socket.send_fds(self._control.socket, [b"j"], [theirs.fileno()])
                job = {field.name: getattr(bounds, field.name) for field in fields(Bounds)}
                channel.send({"bounds": job, "lesson": lesson})
            except (OSError, Closed) as error:
                raise self.gone(error) from error
            yield Session(channel, self)
        finally:
            channel.close()
            if not self.nested:
                self.close()  # nothing of it may reach the next submission

    def gone(self, error: Exception) -> Ended:
        """What to raise when it no longer answers; closes it, so that the next session starts it again."""
        said = self.close().splitlines()
        return Ended("", f"the sandbox ended ({said[-1] if said else error})")

    def end(self, at_once: bool) -> None:
        """Ends it for good; a session that is running in another thread ends, too.

        Args:
            at_once: whether not to wait until it comes to its end by itself.
        """
        self._is_over = True
        self.close(0 if at_once else END_SECONDS)

    def close(self, seconds: float = END_SECONDS) -> str:
        """Ends it with everything in it, by itself or after so many seconds. Returns the end of what it said on
        stderr."""
        if self._control is not None:
            self._control.close()
            self._control = None
        if self._process is None:
            return ""
        try:
            self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        self._process = None
        with self._said as said:
            said.seek(max(said.seek(0, os.SEEK_END) - 1000, 0))
            return said.read().decode("utf-8", "replace").strip()


class Session:
    """One submission's process, as the grader talks to it."""

    def __init__(self, channel: Channel, python: WarmPython) -> None:
        self._channel, self._python = channel, python
        self.signs: list[tuple[str, ...]] = []  # (where, what), as they come

    def ask(self, request: dict[str, Any]) -> dict[str, Any]:
        """Has something done and waits for the answer.

        Raises:
            Ended: the process is gone.
        """
        self._channel.socket.settimeout(SLACK * float(request["seconds"]) + SLACK_SECONDS)
        try:
            self._channel.send(request)
            while True:
                message = self._channel.receive()
                if "sign" in message:
                    self.signs.append(tuple(message["sign"]))
                elif "ended" in message:
                    raise Ended(message["ended"], message["why"])
                else:
                    return message
        except (Closed, Broken) as error:
            raise self._python.gone(error) from error
        except TimeoutError as error:
            self._python.close()
            raise Ended("", "the sandbox stopped answering") from error
