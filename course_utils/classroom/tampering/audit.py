"""Watches what a student's code asks of the interpreter (``install``): Python's audit hooks, which cannot be removed.

See https://docs.python.org/3/library/sys.html#sys.addaudithook and https://peps.python.org/pep-0578/. While cells run,
nothing of what judges is in reach, and next to nothing is refused. While an answer is judged, what leads to the judge's
frames, objects or memory is refused, and reported before it is refused. The report waits for a reply that only the
supervisor can give, so that a channel which was closed or replaced ends the process.
"""

from __future__ import annotations

import builtins
import ctypes
import gc
import os
import sys
import sysconfig
import threading
import time
import types
from collections.abc import Callable
from hashlib import blake2b as _blake2b
from typing import Any

# This module's functions look names up in a copy that no student's code can reach by name. It must stand before them.
__builtins__ = dict(vars(builtins))  # type: ignore[assignment]  # a module or its dict, says Python

SEPARATOR = "\x1f"
REPLY_BYTES = 16
CHANNEL_LOST = 66  # exit status of a process whose reports no longer arrive

# Refused while an answer is judged, whoever is right: what an answer loses by it, a person gives back.
LOOKED = frozenset(
    {
        _FRAMES := "looked at the frames of its callers",
        _OBJECTS := "asked the garbage collector for objects that are not its own",
        _TRACE := "wanted to be told of every line or call",
    }
)
_WHILE_JUDGING = {
    "gc.get_objects": _OBJECTS,
    "gc.get_referrers": _OBJECTS,
    "sys._getframe": _FRAMES,
    "sys._current_frames": _FRAMES,
    "sys.settrace": _TRACE,
    "sys.setprofile": _TRACE,
    "sys.monitoring.register_callback": _TRACE,
}
_FRAME_ATTRIBUTES = frozenset({"tb_frame", "gi_frame", "cr_frame", "ag_frame"})
_MEMORY_CALLS = "read or wrote the interpreter's memory with ctypes"
# Seen while cells run, too: what they wrote cannot be put back.
_CTYPES = frozenset({"ctypes.cdata", "ctypes.string_at", "ctypes.wstring_at", "ctypes.dlsym/handle", "ctypes.memory"})
_WATCHED = frozenset(
    {*_WHILE_JUDGING, "object.__getattr__", "object.__setattr__", "compile", "code.__new__", "open", "sys.addaudithook"}
)
_HANDS_FRAMES_ON = ("inspect.py", "bdb.py", "pdb.py", "trace.py", "operator.py", "functools.py")
_HANDS_FRAMES_ON_PATHS = ("/IPython/utils/frame.py", "/IPython/core/debugger.py")
_WALKS_FRAMES = frozenset({"walk_tb", "walk_stack", "currentframe"})
_CODE_ATTRIBUTES = frozenset({"__code__", "__defaults__", "__kwdefaults__"})
_MEMORY = ("/mem", "/kcore")  # files that are a process's or the kernel's memory

_library = sysconfig.get_path("stdlib")
_site = (os.path.join(_library, "site-packages"), os.path.join(_library, "dist-packages"))
_get_frame = sys._getframe


def reply_to(secret: bytes, message: bytes) -> bytes:
    """What the supervisor answers to a report."""
    return _blake2b(message, key=secret, digest_size=REPLY_BYTES).digest()


def announce_memory_calls() -> None:
    """Makes those of ctypes' functions that no audit event tells of send one; once, in the warm interpreter."""

    def announced(function: Callable[..., Any]) -> Any:
        def call(*arguments: Any) -> Any:
            sys.audit("ctypes.memory")
            return function(*arguments)

        return call

    for name in ("memmove", "memset", "cast"):
        setattr(ctypes, name, announced(getattr(ctypes, name)))


def install(descriptor: int, secret: bytes, roots: tuple[str, ...], place: list[str]) -> Callable[[str], None]:
    """Begins to watch this process and all its children. There is no way back.

    Args:
        descriptor: of a socket that takes a report (a message that ends with a newline) and gives the reply to it.
        secret: what replies are made with.
        roots: folders whose code is trusted: the interpreter's, the installed packages', this package's.
        place: its one item says which cell is running, for the reports.

    Returns:
        What says that from now on this process judges, and the name of the check for reports.
    """
    write, read, leave, get_ident, clock = os.write, os.read, os._exit, threading.get_ident, time.perf_counter_ns
    get_pid, open_file, close = os.getpid, os.open, os.close
    frozen, count_frozen = gc.get_freeze_count(), gc.get_freeze_count
    # Bound when the hook is made: what a student puts in their place later is never called.
    ctypes_files = os.path.join(_library, "ctypes"), __file__
    sign, trusted, library = reply_to, (*roots, "<frozen"), (_library, "<frozen")
    busy: set[int] = set()
    reported: set[tuple[str, str, int]] = set()
    judged, judge = "", 0  # the check that is running, empty while cells run; and the number of its process

    # Methods are called on their type: a file's name can be a student's own kind of text.

    def is_trusted(filename: str) -> bool:
        return str.startswith(filename, trusted)

    def is_library(filename: str) -> bool:
        return str.startswith(filename, library) and not str.startswith(filename, _site)

    def hands_on(frame: Any) -> bool:
        code = frame.f_code
        if str.endswith(code.co_filename, _HANDS_FRAMES_ON_PATHS) or code.co_name == "_modified_open":
            return True  # the last is IPython's `open`
        if not is_library(code.co_filename):
            return False
        return str.endswith(code.co_filename, _HANDS_FRAMES_ON) or code.co_name in _WALKS_FRAMES

    def through_library(frame: Any) -> bool:
        return is_library(frame.f_code.co_filename) or hands_on(frame)

    def through_ctypes(frame: Any) -> bool:  # not through what uses it for its own ends: multiprocessing, for one
        return str.startswith(frame.f_code.co_filename, ctypes_files)

    def asked_by_student(frame: Any, through: Callable[[Any], bool]) -> bool:
        while frame is not None:
            if not is_trusted(frame.f_code.co_filename):
                return True
            if not through(frame):
                return False
            frame = frame.f_back
        return False

    def is_the_file_s_own(name: str, source: Any) -> bool:
        if type(source) is str:
            source = source.encode("utf-8", "replace")
        try:
            opened = open_file(name, os.O_RDONLY)
        except OSError:
            return False
        try:
            # One byte more than the source: a longer file is another one.
            return type(source) is bytes and read(opened, len(source) + 1) == source
        finally:
            close(opened)

    def report(what: str) -> None:
        where = judged or str(place[0])
        key = (where, what, get_pid())
        if key in reported or (what in LOOKED and judged and get_pid() != judge):
            return  # where an answer forks, the runner's own call of sys.setprofile is met in the new process
        reported.add(key)
        message = SEPARATOR.join((where, what, str(clock()))).replace("\n", " ").encode("utf-8", "replace") + b"\n"
        expected = sign(secret, message)
        try:
            write(descriptor, message)
            reply = read(descriptor, REPLY_BYTES)
        except OSError:
            reply = b""
        if reply != expected:
            leave(CHANNEL_LOST)

    def refused(event: str, args: tuple[Any, ...]) -> str:
        """What to report and refuse; empty for what may go on."""
        asking = _get_frame(2)  # this function, the hook; then whoever asked
        if event == "object.__getattr__":
            return _FRAMES if judged and asked_by_student(asking, hands_on) else ""
        if event == "object.__setattr__":
            if args[1] in _CODE_ATTRIBUTES and asked_by_student(asking, through_library):
                code = getattr(args[0], "__code__", None)
                if type(code) is types.CodeType and is_trusted(code.co_filename):
                    return "replaced the code of a function that is not its own"
        elif event in ("compile", "code.__new__"):
            name = args[1].decode("utf-8", "replace") if type(args[1]) is bytes else args[1]
            forged = isinstance(name, str) and is_trusted(name) and asked_by_student(asking, through_library)
            # An import of a module that has not been compiled yet is no more than that.
            if forged and not (event == "compile" and is_the_file_s_own(str.__str__(name), args[0])):
                return "made code under the name of somebody else's file"
        elif event == "open":
            path = args[0].decode("utf-8", "replace") if type(args[0]) is bytes else args[0]
            if isinstance(path, str) and str.startswith(path, ("/proc/", "/dev/")) and str.endswith(path, _MEMORY):
                return f"opened {str.__str__(path)[-40:]}"  # whoever asks: nobody has a need to
        elif event in _WHILE_JUDGING:
            # What the collector has frozen, what judges among it, is on no list of its own until it is unfrozen.
            if (judged or (event.startswith("gc.") and count_frozen() < frozen)) and asked_by_student(asking, hands_on):
                return _WHILE_JUDGING[event]
        elif judged and asked_by_student(asking, through_ctypes):
            return _MEMORY_CALLS
        elif event in _CTYPES and asked_by_student(asking, through_ctypes):
            report(_MEMORY_CALLS)
        return ""

    watched, frame_attributes = _WATCHED, _FRAME_ATTRIBUTES

    def hook(event: str, args: tuple[Any, ...]) -> None:
        if event == "object.__getattr__" and args[1] not in frame_attributes:
            return
        if event not in watched and not event.startswith("ctypes."):
            return
        if event == "sys.addaudithook":
            raise RuntimeError  # Python itself then leaves the hook out, and says nothing
        me = get_ident()
        if me in busy:
            return
        try:
            busy.add(me)
            what = refused(event, args)
            if what:
                report(what)
        finally:
            busy.discard(me)
        if what:
            # Python's own: to make an exception of a class that a student's code can reach would run that code unseen.
            raise RuntimeError(f"Not available while a submission is graded: this code {what}.")

    def begin_judging(name: str) -> None:
        nonlocal judged, judge
        judged, judge = name, get_pid()

    sys.addaudithook(hook)
    return begin_judging
