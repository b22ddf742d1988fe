"""Watches what a student's code asks of the interpreter (``install``): Python's audit hooks, which cannot be removed.

See https://docs.python.org/3/library/sys.html#sys.addaudithook and https://peps.python.org/pep-0578/. What would let an
answer look into the check that judges it (frames, the garbage collector's lists, ctypes) is refused when a student's
code asks for it, and reported before it is refused. The report waits for a reply that only the guard can give, so that
a channel which was closed or replaced ends the process. Imports nothing of the course.
"""

from __future__ import annotations

import builtins
import hashlib
import os
import sys
import sysconfig
import threading
import time
from collections.abc import Callable
from typing import Any

# This module's functions look names up in a copy that no student's code can reach by name. It must stand before them.
__builtins__ = dict(vars(builtins))  # type: ignore[assignment]  # a module or its dict, says Python

SEPARATOR = "\x1f"
REPLY_BYTES = 16
CHANNEL_LOST = 66  # exit status of a process whose reports no longer arrive

# Refused wherever a student's code, or the standard library on its behalf, asks.
_STRICT = {
    "gc.get_objects": "asked the garbage collector for all objects",
    "gc.get_referrers": "asked the garbage collector who holds an object",
    "gc.get_referents": "asked the garbage collector what an object holds",
    "sys._current_frames": "asked for the frames of all threads",
    "sys._current_exceptions": "asked for the exceptions of all threads",
    "os.fork": "started a process",
    "os.forkpty": "started a process",
    "code.__new__": "built a code object by hand",
}
# Refused to everybody but torch and this package: threads trace on a student's behalf with no frame of the student's.
_HOOKS = {
    "sys.settrace": "wanted to trace every line that runs",
    "sys.setprofile": "wanted to be told of every call",
    "sys.addaudithook": "wanted to be told of every audited event",
    "sys.monitoring.register_callback": "wanted to be told of every line that runs",
}
_STRICT_PREFIXES = {"ctypes.": "used ctypes, which reads and writes the interpreter's memory"}
# Refused when a student's code asks itself, or through a module that hands frames on; others need them for messages.
_LENIENT = {"sys._getframe": "looked at the frames of its callers"}
_FRAME_ATTRIBUTES = frozenset({"tb_frame", "gi_frame", "cr_frame", "ag_frame"})
# Seen and reported, not refused: they give no points.
_NOTED = {
    "os.system": "started a program",
    "subprocess.Popen": "started a program",
    "os.posix_spawn": "started a program",
    "os.exec": "started a program",
    "os.kill": "sent a signal to a process",
    "os.killpg": "sent a signal to a process",
    "socket.connect": "tried to use the network",
    "socket.bind": "tried to use the network",
    "socket.getaddrinfo": "tried to use the network",
}
_WATCHED = frozenset(
    {*_STRICT, *_HOOKS, *_LENIENT, *_NOTED, "object.__getattr__", "object.__setattr__", "compile", "open"}
)
_HANDS_FRAMES_ON = ("inspect.py", "bdb.py", "pdb.py", "trace.py", "operator.py", "functools.py")
_HANDS_FRAMES_ON_PATHS = ("/IPython/utils/frame.py", "/IPython/core/debugger.py")
_WALKS_FRAMES = frozenset({"walk_tb", "walk_stack", "currentframe"})
_CODE_ATTRIBUTES = frozenset({"__code__", "__defaults__", "__kwdefaults__"})
_MEMORY = ("/mem", "/kcore")  # files that are a process's or the kernel's memory


class Refused(RuntimeError):
    """What was asked for is not available while a submission is graded."""


def reply_to(secret: bytes, message: bytes) -> bytes:
    """What the guard answers to a report."""
    return hashlib.blake2b(message, key=secret, digest_size=REPLY_BYTES).digest()


def install(descriptor: int, secret: bytes, roots: tuple[str, ...], place: Callable[[], str]) -> None:
    """Begins to watch this process and all its children. There is no way back.

    Args:
        descriptor: of a socket that takes a report (a message that ends with a newline) and gives the reply to it.
        secret: what replies are made with.
        roots: folders whose code is trusted: the interpreter's, the installed packages', this package's.
        place: says which cell or check is running, for the reports.
    """
    write, read, leave, get_frame, get_ident, clock = (
        os.write,
        os.read,
        os._exit,
        sys._getframe,
        threading.get_ident,
        time.perf_counter_ns,
    )
    get_pid, open_file, close = os.getpid, os.open, os.close
    # Bound when the hook is made: what a student puts in their place later is never called.
    new_hash = hashlib.blake2b
    library = sysconfig.get_path("stdlib")
    trusted = (*roots, "<frozen")
    library_roots = (library, "<frozen")
    site = (os.path.join(library, "site-packages"), os.path.join(library, "dist-packages"))
    busy: set[int] = set()
    reported: set[tuple[str, str, int]] = set()

    def is_trusted(filename: str) -> bool:
        return filename.startswith(trusted)

    def is_library(filename: str) -> bool:
        return filename.startswith(library_roots) and not filename.startswith(site)

    def hands_on(frame: Any) -> bool:
        code = frame.f_code
        if code.co_filename.endswith(_HANDS_FRAMES_ON_PATHS) or code.co_name == "_modified_open":
            return True  # the second is IPython's `open`
        if not is_library(code.co_filename):
            return False
        return code.co_filename.endswith(_HANDS_FRAMES_ON) or code.co_name in _WALKS_FRAMES

    def asked_by_student(through: Callable[[Any], bool]) -> bool:
        frame: Any = get_frame(3)  # this function, the verdict, the hook; then whoever asked
        while frame is not None:
            if not is_trusted(frame.f_code.co_filename):
                return True
            if not through(frame):
                return False
            frame = frame.f_back
        return False

    def through_library(frame: Any) -> bool:
        return is_library(frame.f_code.co_filename) or hands_on(frame)

    def nothing(frame: Any) -> bool:
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
        where = place()
        key = (where, what, get_pid())
        if key in reported:
            return
        reported.add(key)
        message = SEPARATOR.join((where, what, str(clock()))).replace("\n", " ").encode("utf-8", "replace") + b"\n"
        expected = new_hash(message, key=secret, digest_size=REPLY_BYTES).digest()
        try:
            write(descriptor, message)
            reply = read(descriptor, REPLY_BYTES)
        except OSError:
            reply = b""
        if reply != expected:
            leave(CHANNEL_LOST)

    def verdict(event: str, args: tuple[Any, ...]) -> tuple[str, bool]:
        """What to report, and whether to refuse it; an empty text for what is of no interest."""
        if event == "object.__getattr__":
            if args[1] in _FRAME_ATTRIBUTES and asked_by_student(hands_on):
                return "looked at the frames of its callers", True
            return "", False
        if event == "object.__setattr__":
            if args[1] in _CODE_ATTRIBUTES and asked_by_student(through_library):
                code = getattr(args[0], "__code__", None)
                if is_trusted(getattr(code, "co_filename", "")):
                    return "replaced the code of a function that is not its own", True
            return "", False
        if event == "compile":
            name = args[1]
            if isinstance(name, bytes):
                name = name.decode("utf-8", "replace")
            if isinstance(name, str) and is_trusted(name) and asked_by_student(through_library):
                if is_the_file_s_own(name, args[0]):
                    return "", False  # an import of a module that has not been compiled yet
                return "compiled code under the name of somebody else's file", True
            return "", False
        if event == "open":
            path = args[0].decode("utf-8", "replace") if isinstance(args[0], bytes) else args[0]
            if isinstance(path, str) and path.startswith(("/proc/", "/dev/")) and path.endswith(_MEMORY):
                return f"opened {path[-40:]}", True  # whoever asks: nobody has a need to
            return "", False
        if event in _HOOKS:
            asking = get_frame(2).f_code.co_filename  # the hook, then whoever asked
            return ("", False) if is_trusted(asking) and not is_library(asking) else (_HOOKS[event], True)
        if event in _NOTED:
            return (_NOTED[event], False) if asked_by_student(through_library) else ("", False)
        if event in _LENIENT:
            return (_LENIENT[event], True) if asked_by_student(hands_on) else ("", False)
        what = _STRICT.get(event) or _STRICT_PREFIXES["ctypes."]
        return (what, True) if asked_by_student(through_library) else ("", False)

    watched, frame_attributes = _WATCHED, _FRAME_ATTRIBUTES

    def hook(event: str, args: tuple[Any, ...]) -> None:
        # By far the most frequent, from the pictures that `integrity` compares.
        if event == "object.__getattr__" and args[1] not in frame_attributes:
            return
        if event not in watched and not event.startswith("ctypes."):
            return
        me = get_ident()
        if me in busy:
            return
        busy.add(me)
        try:
            what, refuse = verdict(event, args)
            if what:
                report(what)
        finally:
            busy.discard(me)
        if what and refuse:
            raise Refused(f"Not available while a submission is graded: this code {what}.")

    sys.addaudithook(hook)
