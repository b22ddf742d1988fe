"""Runs the cells of one submission inside the student's own process (``prepare``). Each check runs in a fork, in which
what judges is imported anew; until then it is nowhere in reach.

Limits: an answer is judged in the process in which it runs, because what is judged is what it does to live tensors.
"""

from __future__ import annotations

import builtins
import ctypes
import gc
import json
import os
import resource
import signal
import socket
import sys
import threading
from collections.abc import Callable
from functools import partial
from typing import Any

from course_utils.classroom.sandbox.protocol import Channel, proof
from course_utils.classroom.sandbox.seccomp import refuse_calls

# This module's functions look names up in a copy that no student's code can reach by name. It must stand before them.
__builtins__ = dict(vars(builtins))  # type: ignore[assignment]  # a module or its dict, says Python


def prepare(
    descriptor: int,
    secret: bytes,
    shell: Any,
    restore: Callable[[], list[str]],
    begin: Callable[[], None],
    refused: list[str],
    loader: Any,
    picture: Callable[..., Callable[[], list[str]]],
) -> Callable[[], None]:
    """Makes the process ready for a student's code. Returns what serves the supervisor's requests."""
    channel, asked = Channel(socket.socket(fileno=descriptor)), list[dict[str, Any]]()
    leave, stop, parent, dumps, prove = os._exit, os.kill, os.getppid, json.dumps, proof

    def after_fork() -> None:
        if not asked:
            return
        me, request = os.getpid(), asked.pop()  # where the answer forks, its new process is no other check
        try:
            stop(parent(), signal.SIGSTOP)  # so that its threads cannot speak for this process
            put_back = restore()
            loader.anew()
            with loader:
                from course_utils.classroom.sandbox.judging import judged

                result = judged(request, shell, restore, put_back, begin, refused, partial(loader.sealed, picture))
            body = dumps(result)
            if os.getpid() == me:
                channel.send({"body": body, "proof": prove(body, secret)})
        finally:
            leave(0)

    # In this order, and before any that a student registers: what a student's code has set up to be called at every
    # call or collection would meet the frame of a Python function, and what that holds.
    for call in (partial(sys.setprofile, None), partial(sys.settrace, None), gc.callbacks.clear, after_fork):
        os.register_at_fork(after_in_child=call)
    signal.signal(signal.SIGINT, shell.interrupt)
    sys.path.insert(0, "")  # as in a kernel: modules that cells write are found
    gc.collect()
    gc.freeze()  # what is frozen is on none of the garbage collector's lists
    return partial(_serve, channel, shell, asked)


def _serve(channel: Channel, shell: Any, asked: list[dict[str, Any]]) -> None:
    me = os.getpid()
    channel.send({"up": me})
    while True:
        message = channel.receive()
        if message["do"] == "cell":
            outputs, error = [], None
            if not message["unless"] or any(name not in shell.user_ns for name in message["unless"]):
                outputs, error = shell.run(message["source"], message["output_bytes"], store=True)
            if os.getpid() != me:  # a cell has forked, and this is the child
                return
            said = None if error is None else [type(error).__name__, str(error).strip().split("\n")[0][:300]]
            channel.send({"outputs": outputs, "error": said})
            continue
        asked.append(message)
        try:
            channel.send({"threads": threading.active_count() - 1})
            os.fork()
        except OSError as error:  # too many processes, or no memory for one more
            channel.send({"failed": str(error)})
        asked.clear()
        channel.receive()  # the supervisor holds this process while the check has the channel to itself


def restrict(bounds: dict[str, int]) -> None:
    """Limits for this process and its children; cannot be undone."""
    os.nice(10)  # what watches them gets a core at once, however many they are
    with open("/proc/self/statm") as file:
        used = int(file.read().split()[0]) * resource.getpagesize()
    limits = {
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_CPU: bounds["cpu_seconds"],
        resource.RLIMIT_FSIZE: bounds["file_bytes"],
        resource.RLIMIT_NOFILE: 256,
        resource.RLIMIT_NPROC: 4 * bounds["processes"],
        resource.RLIMIT_AS: used + bounds["memory_bytes"],
    }
    for which, value in limits.items():
        resource.setrlimit(
            which, (value, value + (2**29 if which == resource.RLIMIT_AS else which == resource.RLIMIT_CPU))
        )
    refuse_calls()


def hide_memory() -> None:
    """Nobody but the kernel may look into this process, nor into those that it forks."""
    ctypes.CDLL(None).prctl(4, 0, 0, 0, 0)  # PR_SET_DUMPABLE
