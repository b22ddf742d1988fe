"""Starts the warm Python inside bubblewrap (``start``); what is said where there is none (``no_sandbox``).

Inside there is no network, no home directory and no course folder: only the interpreter, the installed packages and
this package, all read-only, and empty folders in memory. See https://github.com/containers/bubblewrap.
"""

from __future__ import annotations

import errno
import os
import platform
import shutil
import site
import struct
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import IO

from course_utils.base import explain

PACKAGE = Path(__file__).resolve().parents[2]
# The system's programs; what the dynamic linker, the time zone and matplotlib's fonts are read from; and where torch
# counts cores. Nothing about users.
_SYSTEM = (
    *("/usr", "/lib", "/lib32", "/lib64", "/libx32", "/bin", "/sbin", "/etc/ld.so.cache", "/etc/ld.so.conf"),
    *("/etc/ld.so.conf.d", "/etc/localtime", "/etc/fonts", "/sys/devices/system/cpu"),
)
HOME = "/home/student"
FOLDER_BYTES = 64 * 2**20
LESSONS = PACKAGE / "lessons"  # what judges; empty but while it is loaded
FRESH_FOLDERS = ("/tmp", "/dev/shm", HOME, str(LESSONS))  # the only places in which a student's code can write

# System calls that are refused, with their numbers on x86-64 and 64-bit ARM; elsewhere nothing is. They leave something
# in the kernel for the next submission (keys), look into other processes, give rights in a namespace of one's own, or
# are where the kernel's own errors tend to be found.
# https://github.com/torvalds/linux/blob/master/arch/x86/entry/syscalls/syscall_64.tbl
# https://github.com/torvalds/linux/blob/master/include/uapi/asm-generic/unistd.h
_CALLS = {
    **{"add_key": (248, 217), "request_key": (249, 218), "keyctl": (250, 219), "ptrace": (101, 117)},
    **{"process_vm_readv": (310, 270), "process_vm_writev": (311, 271), "kcmp": (312, 272)},
    **{"pidfd_getfd": (438, 438), "bpf": (321, 280), "perf_event_open": (298, 241), "userfaultfd": (323, 282)},
    **{"io_uring_setup": (425, 425), "io_uring_enter": (426, 426), "io_uring_register": (427, 427)},
    **{"mount": (165, 40), "umount2": (166, 39), "pivot_root": (155, 41), "chroot": (161, 51), "unshare": (272, 97)},
    **{"setns": (308, 268), "open_tree": (428, 428), "move_mount": (429, 429), "fsopen": (430, 430)},
    **{"fsconfig": (431, 431), "fsmount": (432, 432), "fspick": (433, 433), "mount_setattr": (442, 442)},
    # These make memory that no limit of a process counts.
    **{"memfd_create": (319, 279), "memfd_secret": (447, 447), "shmget": (29, 194)},
}
_MACHINES = {"x86_64": (0xC000003E, 0), "aarch64": (0xC00000B7, 1)}  # what the kernel calls it, its column above
_X32 = 0x40000000  # the numbers of a third set of calls begin here
# The filter's own machine: https://github.com/torvalds/linux/blob/master/include/uapi/linux/bpf_common.h
_STEP = "HBBI"
_LOAD, _EQUAL, _AT_LEAST, _RETURN = 0x20, 0x15, 0x35, 0x06
_NUMBER_AT, _ARCHITECTURE_AT = 0, 4
_ALLOW, _REFUSE = 0x7FFF0000, 0x00050000 | errno.EPERM

_MEND = (
    "apt install bubblewrap (Debian, Ubuntu), dnf install bubblewrap (Fedora, RHEL), or pacman -S bubblewrap. On "
    "Ubuntu 24.04 and newer: sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0, which holds until the next "
    "start; docs/classroom.md says how to allow it for bubblewrap alone."
)


class SandboxMissing(OSError):
    """Submissions cannot be held in a sandbox here; the message says what to install or to allow."""


def no_sandbox(seen: str) -> SandboxMissing:
    """The error, to be raised, with what was seen and what the teacher can do."""
    wanted = "bubblewrap starts a Python in a namespace of its own, on Linux."
    why = "a submission is somebody else's program, and would run with all your rights."
    return SandboxMissing(explain(seen, wanted, why, _MEND))


def start(control: int, said: IO[bytes]) -> subprocess.Popen[bytes]:
    """Starts the warm Python.

    Args:
        control: descriptor of the socket that it is to serve; it inherits it under the same number.
        said: takes what it says on stderr.

    Returns:
        The process of bubblewrap.

    Raises:
        OSError: it could not be started.
    """
    roots = [*_python_folders(), str(PACKAGE)]
    places = [*filter(os.path.isabs, sys.path), str(PACKAGE.parent)]  # what the sandbox does not show is not there
    code = f"import sys; sys.path += [path for path in {places!r} if path not in sys.path]; "
    code += f"from course_utils.classroom.sandbox.zygote import main; main({control}, {roots!r})"
    with tempfile.TemporaryFile() as calls:
        calls.write(_filter())
        calls.seek(0)
        return subprocess.Popen(
            [*_wall(roots, "--seccomp", str(calls.fileno())), sys.executable, "-I", "-c", code],
            env=_environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=said,
            pass_fds=(control, calls.fileno()),
            start_new_session=True,  # Ctrl-C is for the grader, which ends it in its own time
        )


def _wall(shown: Iterable[str], *more: str) -> list[str]:
    """bubblewrap's command before the program's: a system without users, and these folders, as they are to be read."""
    command = [shutil.which("bwrap") or "bwrap", "--unshare-all", "--new-session", "--die-with-parent", "--as-pid-1"]
    command += ["--cap-drop", "ALL", "--chdir", "/", *more]
    for path in _SYSTEM:
        command += ["--ro-bind-try", path, path]
    command += ["--proc", "/proc", "--dev", "/dev"]
    folders = [("--ro-bind", folder, folder) for folder in shown]
    fresh = [("--size", str(FOLDER_BYTES), "--tmpfs", folder) for folder in FRESH_FOLDERS]
    # First /tmp: a folder that is shown may lie in it.
    command += [word for words in (fresh[0], *folders, *fresh[1:]) for word in words]
    if (solutions := PACKAGE / "notebooks").is_dir():  # as a wheel has them
        command += ["--tmpfs", str(solutions), "--remount-ro", str(solutions)]
    return [*command, "--remount-ro", "/", "--remount-ro", "/dev", "--remount-ro", "/proc", "--"]


def _filter() -> bytes:
    """Refuses these calls with EPERM. https://docs.kernel.org/userspace-api/seccomp_filter.html"""
    if platform.machine() not in _MACHINES:
        return struct.pack(_STEP, _RETURN, 0, 0, _ALLOW)
    architecture, column = _MACHINES[platform.machine()]
    numbers = sorted(call[column] for call in _CALLS.values())
    count = len(numbers)
    steps = [
        (_LOAD, 0, 0, _ARCHITECTURE_AT),
        (_EQUAL, 0, count + 3, architecture),  # another architecture's numbers mean something else
        (_LOAD, 0, 0, _NUMBER_AT),
        (_AT_LEAST, count + 1, 0, _X32),
        *((_EQUAL, count - place, 0, number) for place, number in enumerate(numbers)),
        (_RETURN, 0, 0, _ALLOW),
        (_RETURN, 0, 0, _REFUSE),
    ]
    return b"".join(struct.pack(_STEP, *step) for step in steps)


def _python_folders() -> list[str]:
    """Where the interpreter and the installed packages lie, each after those that it lies in."""
    wanted = [sys.prefix, sys.base_prefix, sys.exec_prefix, os.path.dirname(os.path.realpath(sys.executable))]
    wanted += [*sysconfig.get_paths().values(), *site.getsitepackages()]
    wanted += [site.getusersitepackages()] * (site.getusersitepackages() in sys.path)
    return sorted({os.path.abspath(folder) for folder in wanted if os.path.isdir(folder)}, key=len)


def _environment() -> dict[str, str]:
    one = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS")
    return {
        **{name: os.environ[name] for name in ("LD_LIBRARY_PATH", "TZ") if name in os.environ},
        **dict.fromkeys(one, "1"),
        **{"TMPDIR": "/tmp", "IPYTHONDIR": "/tmp/ipython", "MPLCONFIGDIR": "/tmp/matplotlib"},  # the sandbox's
        **{"HOME": HOME, "USER": "student", "LANG": "C.UTF-8", "PATH": "/usr/local/bin:/usr/bin:/bin"},
        "MPLBACKEND": "module://matplotlib_inline.backend_inline",
        "CUDA_VISIBLE_DEVICES": "",  # no GPU: it has no namespace, and its driver does not survive a fork
        "COURSE_UTILS_PROGRESS": "off",
        "NBGRADER_EXECUTION": "autograde",  # what nbgrader tells notebooks that it runs
        "PYTHONDONTWRITEBYTECODE": "1",
    }


def judges() -> dict[str, str]:
    """What judges, to be sent to the warm Python: the text of each file, by its path."""
    own = (PACKAGE / "classroom" / "sandbox" / "judging.py", PACKAGE / "lesson.py", *PACKAGE.glob("checks/**/*.py"))
    files = (*own, *LESSONS.glob("**/*.py"), *LESSONS.glob("**/*.toml"))
    return {str(path): path.read_text(encoding="utf-8") for path in files}
