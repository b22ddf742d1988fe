"""Runs the cells of one submission inside the student's own process (``prepare``). Each check runs in a fork, in which
what judges is imported anew; until then it is nowhere in reach.

Limits: an answer is judged in the process in which it runs, because what is judged is what it does to live tensors.
"""

from __future__ import annotations

import builtins
import gc
import os
import resource
import signal
import socket
import sys
import threading
from collections.abc import Callable
from functools import partial
from typing import Any

from course_utils.classroom.sandbox.bubblewrap import HOME
from course_utils.classroom.sandbox.protocol import Channel

# This module's functions look names up in a copy that no student's code can reach by name. It must stand before them.
__builtins__ = dict(vars(builtins))  # type: ignore[assignment]  # a module or its dict, says Python


def prepare(
    end: int, limits: dict[str, Any], shell: Any, restore: Callable[[], Any], judged: Callable[..., dict[str, Any]]
) -> Callable[[], None]:
    """Makes this fork of the warm Python ready for a student's code. Returns what serves the supervisor's requests.

    Args:
        end: descriptor of the channel; nothing else stays open.
        limits: of the process, and of each that comes of it.
        shell: runs the cells.
        restore: puts back names that cells have replaced.
        judged: gives the result of a check.
    """
    os.setsid()
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(null, descriptor)
    os.closerange(3, end)
    os.closerange(end + 1, 4096)
    os.chdir(HOME)
    _restrict(limits)
    channel, asked = Channel(socket.socket(fileno=end)), list[dict[str, Any]]()

    def check() -> None:
        if not asked:
            return
        me, request = os.getpid(), asked.pop()  # where the answer forks, its new process is no other check
        try:
            restore()
            os.kill(os.getppid(), signal.SIGSTOP)  # so that its threads cannot speak for this process
            result = judged(request)
            if os.getpid() == me:
                channel.send({"word": request["word"], "result": result})
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
                    channel.send({"word": request["word"], "result": {"unjudged": str(why)}})
                continue
            outputs, error = shell.run(request["source"], request["unless"], request["output_bytes"])
            if os.getpid() == me:
                channel.send({"outputs": outputs, "error": error, "threads": threading.active_count() - 1})
    finally:
        os._exit(0)


def _restrict(limits: dict[str, Any]) -> None:
    os.nice(10)  # what watches them gets a core at once, however many they are
    with open("/proc/self/statm") as file:
        used = int(file.read().split()[0]) * resource.getpagesize()
    most = {
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_FSIZE: limits["file_bytes"],
        resource.RLIMIT_NOFILE: 256,
        resource.RLIMIT_NPROC: 4 * limits["processes"],
    }
    for which, value in most.items():
        resource.setrlimit(which, (value, value))
    cpu, memory = limits["cpu_seconds"], used + limits["memory_bytes"]
    resource.setrlimit(resource.RLIMIT_CPU, (cpu, cpu + 1))  # the first sends a signal that names it
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory + 2**29))  # a check may go up to the second
