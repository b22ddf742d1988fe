"""Runs the cells of one submission inside the student's own process (``prepare``), in an IPython shell whose outputs
are kept (``make_shell``). Each check runs in a fork, in which what judges is imported anew; until then it is nowhere in
reach.

Limits: an answer is judged in the process in which it runs, because what is judged is what it does to live tensors.
"""

from __future__ import annotations

import binascii
import builtins
import gc
import io
import json
import os
import resource
import signal
import socket
import sys
import threading
from collections.abc import Callable
from functools import partial
from hashlib import blake2b
from typing import Any

from IPython.core.async_helpers import get_asyncio_loop
from IPython.core.displayhook import DisplayHook
from IPython.core.displaypub import DisplayPublisher
from IPython.core.interactiveshell import InteractiveShell
from traitlets.config import Config

from course_utils.classroom.sandbox.bubblewrap import HOME
from course_utils.classroom.sandbox.supervisor import LONGEST_OUTPUT, Channel

# This module's functions look names up in a copy that no student's code can reach by name. It must stand before them.
__builtins__ = dict(vars(builtins))  # type: ignore[assignment]  # a module or its dict, says Python


# Pictures and text. A student's HTML or JavaScript would run in the browser of whoever opens the feedback.
KEPT = ("text/plain", "image/png", "image/jpeg")
_SETTINGS = {"colors": "NoColor", "xmode": "Context", "show_rewritten_input": False}


class Stream(io.StringIO):
    """What stands in for ``sys.stdout``: keeps so many characters, and counts the others."""

    encoding, errors = "utf-8", "replace"  # type: ignore[assignment]  # as ipykernel's streams have them
    _room = LONGEST_OUTPUT - 1000  # it adds a line that says how much it left out

    def write(self, text: str) -> int:
        super().write(str(text)[: max(self._room, 0)])
        self._room -= len(str(text))
        return len(str(text))

    def fileno(self) -> int:
        return 1

    def close(self) -> None:
        """Nothing: a cell that closes its stdout would silence the cells after it."""

    def text(self) -> str:
        return self.getvalue() + (f"\n... and {-self._room:,} more characters\n" if self._room < 0 else "")


class _Publisher(DisplayPublisher):
    def publish(self, data: Any, *_: Any, **__: Any) -> None:
        self.shell.shown.append(data)

    def clear_output(self, wait: bool = False) -> None:
        self.shell.shown.clear()


class _Hook(DisplayHook):
    shell: Any  # IPython knows it as one that may be None

    def write_output_prompt(self) -> None:
        pass

    def write_format_data(self, format_dict: Any, md_dict: Any = None) -> None:
        self.shell.shown.append(format_dict)


class Shell(InteractiveShell):
    """IPython without a terminal, a history file or a person at the keyboard."""

    display_pub_class, displayhook_class = _Publisher, _Hook
    shown: Any = ()
    in_cell = False

    def should_run_async(self, *_: Any, **__: Any) -> bool:
        """Every cell runs in one loop, as in a kernel: a task that one cell makes can be awaited in another."""
        return not get_asyncio_loop().is_running()

    def enable_gui(self, gui: Any = None) -> None:
        pass

    def ask_exit(self) -> None:
        pass

    def interrupt(self, *_: object) -> None:
        """For SIGINT: ends the cell that is running, and nothing else."""
        if self.in_cell:
            raise KeyboardInterrupt

    def run(self, source: str) -> dict[str, Any]:
        """Runs a cell. Returns what it printed, what it showed, and the kind and first line of what it raised."""
        kept, self.shown, self.in_cell = (sys.stdout, sys.stderr), [], True
        out, err = sys.stdout, sys.stderr = Stream(), Stream()
        try:
            done = self.run_cell(source, store_history=True)
            error = done.error_before_exec or done.error_in_exec
        except BaseException as raised:  # the shell itself was broken by a cell; the next ones may still run
            error = raised
        finally:
            self.in_cell = False
            sys.stdout, sys.stderr = kept
        data = [one for one in self.shown if isinstance(one, dict)]
        shown = [{kind: _as_text(one[kind]) for kind in KEPT if kind in one} for one in data]
        said = None if error is None else [type(error).__name__, str(error).strip().split("\n")[0][:300]]
        return {"stdout": out.text(), "stderr": err.text(), "shown": shown, "error": said}


def _as_text(value: Any) -> str:
    return binascii.b2a_base64(value, newline=False).decode() if isinstance(value, bytes) else str(value)


def make_shell() -> Shell:
    """The one shell of this process. A student's code can reach every object of it."""
    return Shell.instance(config=Config(InteractiveShell=_SETTINGS, HistoryManager={"enabled": False}))


def prepare(
    end: int,
    secret: bytes,
    limits: dict[str, Any],
    shell: Shell,
    restore: Callable[[], Any],
    judged: Callable[..., dict[str, Any]],
) -> Callable[[], None]:
    """Makes this fork of the warm Python ready for a student's code. Returns what serves the supervisor's requests.

    Args:
        end: descriptor of the channel; nothing else stays open.
        secret: what a check signs its result with, so that nobody else can send one.
        limits: of the process, and of each that comes of it.
        shell: runs the cells.
        restore: puts back names that cells have replaced.
        judged: gives the result of a check.
    """
    os.setsid()
    os.dup2(0, 2)  # as the others, which lead nowhere
    os.closerange(3, end)
    os.closerange(end + 1, 4096)
    os.chdir(HOME)
    _restrict(limits)
    channel, asked, sign = Channel(socket.socket(fileno=end)), list[dict[str, Any]](), partial(blake2b, key=secret)

    def check() -> None:
        if not asked:
            return
        me, request = os.getpid(), asked.pop()  # where the answer forks, its new process is no other check
        try:
            restore()
            os.kill(os.getppid(), signal.SIGSTOP)  # so that its threads cannot speak for this process
            # Headroom: a cell may have filled all memory that it is allowed, and judging takes some, too.
            resource.setrlimit(resource.RLIMIT_AS, (resource.getrlimit(resource.RLIMIT_AS)[1],) * 2)
            body = json.dumps(judged(request))
            if os.getpid() == me:
                channel.send({"body": body, "proof": sign(json.dumps([request, body]).encode()).hexdigest()})
        finally:
            os._exit(0)

    # In this order, and before any that a student registers: what a student's code has set up to be called at every
    # call or collection would meet the frame of a Python function, and what that holds.
    for call in (partial(sys.setprofile, None), partial(sys.settrace, None), gc.callbacks.clear, check):
        os.register_at_fork(after_in_child=call)
    signal.signal(signal.SIGINT, shell.interrupt)
    sys.path.insert(0, "")  # as in a kernel: modules that cells write are found
    gc.collect()
    gc.freeze()  # what is frozen is on none of the garbage collector's lists
    return partial(_serve, channel, shell, asked)


def _serve(channel: Channel, shell: Any, asked: list[dict[str, Any]]) -> None:
    me = os.getpid()
    try:
        while os.getpid() == me:  # a cell may fork, and come to its end in both
            request = channel.receive()
            if request["do"] == "check":
                asked.append(request)
                try:
                    os.fork()
                except OSError as why:  # no memory for one more
                    channel.send({"unjudged": str(why)})
                asked.clear()  # no fork of a cell's own is a check
                continue
            done = shell.run(request["source"])
            if os.getpid() == me:
                channel.send(done | {"threads": threading.active_count() - 1})
    finally:
        os._exit(0)


def _restrict(limits: dict[str, Any]) -> None:
    os.nice(10)  # what watches them gets a core at once, however many they are
    with open("/proc/self/statm") as file:
        used = int(file.read().split()[0]) * resource.getpagesize()
    cpu, memory, processes = limits["cpu_seconds"], used + limits["memory_bytes"], 4 * limits["processes"]
    for which, soft, hard in (
        (resource.RLIMIT_CORE, 0, 0),
        (resource.RLIMIT_FSIZE, limits["file_bytes"], limits["file_bytes"]),
        (resource.RLIMIT_NOFILE, 256, 256),
        (resource.RLIMIT_NPROC, processes, processes),
        (resource.RLIMIT_CPU, cpu, cpu + 1),  # the first sends a signal that names it
        (resource.RLIMIT_AS, memory, memory + 2**29),
    ):
        resource.setrlimit(which, (soft, hard))
