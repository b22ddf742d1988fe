"""Holds a process by what the kernel offers: namespaces, limits, capabilities, by ctypes (``enter``, ``restrict``)."""

from __future__ import annotations

import contextlib
import ctypes
import os
import re
import resource
import signal
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from course_utils.classroom.sandbox.seccomp import refuse_calls

# https://github.com/torvalds/linux/blob/master/include/uapi/linux/sched.h and mount.h, prctl.h, capability.h
_CLONE_NEWNS, _CLONE_NEWIPC, _CLONE_NEWPID = 0x00020000, 0x08000000, 0x20000000
_MS_RDONLY, _MS_NOSUID, _MS_NODEV, _MS_NOEXEC, _MS_REMOUNT = 1, 2, 4, 8, 32
_MS_BIND, _MS_REC, _MS_PRIVATE = 4096, 16384, 1 << 18
_MNT_DETACH = 2
_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE, _PR_CAPBSET_DROP, _PR_SET_NO_NEW_PRIVS = 1, 4, 24, 38
_PR_SET_CHILD_SUBREAPER, _PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL = 36, 47, 4
_LAST_CAPABILITY = 63
_CAPABILITY_VERSION_3 = 0x20080522

# Beyond what a student's code may take: judging takes some, too, after an answer that took all.
HEADROOM_BYTES = 2**29
FRESH_FOLDERS = ("/tmp", "/dev/shm", "/home/student")  # the only places in which a student's code can write


@dataclass(frozen=True)
class Bounds:
    """Limits of one process, as ``setrlimit`` takes them, and of the folders in which it can write.

    Attributes:
        cpu_seconds: of CPU time.
        memory_bytes: of address space beyond what the warm interpreter takes.
        processes: at once.
        file_bytes: the largest file, and the size of each folder that can be written in.
    """

    cpu_seconds: int
    memory_bytes: int
    processes: int
    file_bytes: int


def _call(name: str, *arguments: object) -> None:
    if getattr(ctypes.CDLL(None, use_errno=True), name)(*arguments) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")


def can_nest(leading: bool = False) -> bool:
    """Whether this process may make further namespaces, at once or once it leads; tried where nothing changes here.

    Args:
        leading: whether to try it after ``lead``.
    """
    child = os.fork()
    if child == 0:
        try:
            if leading:
                lead()
            for _ in range(2):  # what works once must work again
                inner = fork_numbered()
                if inner == 0:
                    enter(2**20)
                    os._exit(0)
                if os.waitpid(inner, 0)[1] != 0:
                    os._exit(1)
            os._exit(0)
        except BaseException:  # whatever it is, the answer is no; nothing may go on in this child
            os._exit(1)
    return os.waitpid(child, 0)[1] == 0


def lead() -> None:
    """Goes on in a child, the first of a numbering that belongs to this process's own user namespace.

    bubblewrap gives an ordinary user two user namespaces, one inside the other. The numbering of processes belongs to
    the outer, this process to the inner, and so it could not take the numbering up again (``fork_numbered``). This
    process itself waits, and ends as the child ends.

    Raises:
        OSError: the kernel refuses; then nothing that this process forks will run.
    """
    _call("unshare", _CLONE_NEWNS | _CLONE_NEWPID)
    child = os.fork()
    if child:
        os._exit(abs(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])))
    die_with_parent()
    _mount_own_proc()


def fork_numbered() -> int:
    """Forks a child that is the first of a numbering of its own: it sees no process that is not below it.

    Returns:
        The child's number here; 0 in the child.

    Raises:
        OSError: the kernel refuses.
    """
    own = os.open("/proc/self/ns/pid", os.O_RDONLY)
    try:
        _call("unshare", _CLONE_NEWPID)
        child = os.fork()
        if child:
            try:
                _call("setns", own, _CLONE_NEWPID)
            except OSError:
                os.kill(child, signal.SIGKILL)
                os.waitpid(child, 0)
                raise
        return child
    finally:
        os.close(own)


def enter(folder_bytes: int, keep: Sequence[str] = ()) -> None:
    """Gives this process, the first of its numbering, mounts and shared memory of its own: its own /proc, and empty
    folders to write in.

    Args:
        folder_bytes: the size of each folder that can be written in.
        keep: folders that stay visible where they lie below one of these: a virtual environment in /tmp, for example.

    Raises:
        OSError: the kernel refuses.
    """
    _call("unshare", _CLONE_NEWNS | _CLONE_NEWIPC)
    _mount_own_proc()
    settings = {"user/max_user_namespaces": "0"}
    if tuple(int(number) for number in re.findall(r"\d+", os.uname().release)[:2]) >= (6, 14):
        settings["kernel/pid_max"] = "400"  # before, there was one limit for all numberings of processes
    for setting, value in settings.items():
        with contextlib.suppress(OSError):
            Path("/proc/sys", setting).write_text(value)
    # Read-only from here on: for the host's root the kernel's settings would be writable, with or without capabilities.
    _mount(b"none", b"/proc", None, _MS_REMOUNT | _MS_BIND | _MS_RDONLY | _MS_NOSUID | _MS_NODEV | _MS_NOEXEC)
    for folder in FRESH_FOLDERS:
        options = f"size={folder_bytes},nr_inodes=20000,mode=0700".encode()
        below = [(path, os.open(path, os.O_PATH)) for path in keep if path.startswith(f"{folder}/")]
        _mount(b"tmpfs", folder.encode(), b"tmpfs", _MS_NOSUID | _MS_NODEV, options)
        for path, descriptor in below:
            os.makedirs(path)
            _mount(f"/proc/self/fd/{descriptor}".encode(), path.encode(), None, _MS_BIND | _MS_REC)
            os.close(descriptor)
    package = Path(__file__).resolve().parents[2]
    # Of no use here: the modules are loaded already, and a wheel has the solutions in notebooks/.
    for folder in ("classroom", "authoring", "lessons", "notebooks"):
        if (hidden := package / folder).is_dir():  # not where the package lies below a fresh folder and is not kept
            _mount(b"tmpfs", bytes(hidden), b"tmpfs", _MS_NOSUID | _MS_NODEV | _MS_RDONLY, b"size=4k")


def _mount_own_proc() -> None:
    _mount(b"none", b"/", None, _MS_REC | _MS_PRIVATE)
    for covered in ("sys", "sysrq-trigger", "irq", "bus"):
        # bubblewrap covers these for root; a fresh /proc is refused while parts of the old one are covered.
        with contextlib.suppress(OSError):
            _call("umount2", f"/proc/{covered}".encode(), _MNT_DETACH)
    _mount(b"proc", b"/proc", b"proc", _MS_NOSUID | _MS_NODEV | _MS_NOEXEC)


def _mount(source: bytes, target: bytes, kind: bytes | None, flags: int, data: bytes | None = None) -> None:
    _call("mount", source, target, kind, ctypes.c_ulong(flags), data)


def die_with_parent() -> None:
    """This process is killed when the one that made it ends."""
    _call("prctl", _PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def adopt_orphans() -> None:
    """Processes below this one whose parents end become its children, so that none of them can get away."""
    _call("prctl", _PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def restrict(bounds: Bounds) -> None:
    """Limits for this process and its children, and none of a superuser's rights; cannot be undone.

    Raises:
        OSError: the kernel refuses.
    """
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    limits = {
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_CPU: bounds.cpu_seconds,
        resource.RLIMIT_FSIZE: bounds.file_bytes,
        resource.RLIMIT_NOFILE: 256,
        # The supervisor counts processes and ends them all; the kernel's own limit only has to hold until then.
        resource.RLIMIT_NPROC: 4 * bounds.processes,
        resource.RLIMIT_AS: used + bounds.memory_bytes + HEADROOM_BYTES,
    }
    for which, value in limits.items():
        hard = resource.getrlimit(which)[1]
        value = value if hard == resource.RLIM_INFINITY else min(value, hard)
        # CPU: the soft limit sends a signal that code can catch, the hard one a second later kills. Memory: a check's
        # own process raises the soft limit to the hard one.
        soft = value - HEADROOM_BYTES if which == resource.RLIMIT_AS else value
        resource.setrlimit(which, (soft, value + 1 if which == resource.RLIMIT_CPU else value))
    _call("prctl", _PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    for capability in range(_LAST_CAPABILITY + 1):
        with contextlib.suppress(OSError):  # fewer are known to this kernel, or there was none to drop
            _call("prctl", _PR_CAPBSET_DROP, capability, 0, 0, 0)
    with contextlib.suppress(OSError):
        _call("prctl", _PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)
    _call("capset", (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION_3, 0), (ctypes.c_uint32 * 6)())
    refuse_calls()
    _call("prctl", _PR_SET_DUMPABLE, 0, 0, 0, 0)
