"""Starts the warm Python inside bubblewrap (``start``), and says what is missing for that (``missing``).

Inside there is no network, no home directory and no course folder: only the interpreter, the installed packages and
this package, all read-only, and empty folders in memory. See https://github.com/containers/bubblewrap.
"""

from __future__ import annotations

import os
import shutil
import site
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import IO

from course_utils.base.errors import explain
from course_utils.classroom.sandbox import seccomp

PACKAGE = Path(__file__).resolve().parents[2]
_SYSTEM_FOLDERS = ("/usr", "/lib", "/lib32", "/lib64", "/libx32", "/bin", "/sbin")
# What the dynamic linker, the time zone and matplotlib's fonts are read from; nothing about users. torch counts cores
# in the last, and complains on stderr where it is missing.
_SYSTEM_FILES = (
    *("/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/localtime", "/etc/fonts"),
    "/sys/devices/system/cpu",
)
HOME = "/home/student"
FOLDER_BYTES = 64 * 2**20
LESSONS = PACKAGE / "lessons"  # what judges; empty but while it is loaded
FRESH_FOLDERS = ("/tmp", "/dev/shm", HOME, str(LESSONS))  # the only places in which a student's code can write

INSTALL = "apt install bubblewrap (Debian, Ubuntu), dnf install bubblewrap (Fedora, RHEL), or pacman -S bubblewrap."
APPARMOR = (
    "on Ubuntu 24.04 and newer AppArmor keeps programs from making user namespaces: "
    "sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0 allows it until the next start, and "
    "docs/classroom.md says how to allow it for bubblewrap alone."
)


class SandboxMissing(OSError):
    """Submissions cannot be held in a sandbox here; the message says what to install or to allow."""


def missing() -> str | None:
    """Why there can be no sandbox here, as a message for the teacher; None where there can be one."""
    why = "a submission is somebody else's program, and would run with all your rights."
    if sys.platform != "linux":
        return explain(
            f"Submissions were to be graded in a sandbox on {sys.platform}.",
            "Linux: the sandbox is made by bubblewrap, which needs its namespaces.",
            why,
            "grade on Linux (WSL 2 and containers will do).",
        )
    if not shutil.which("bwrap"):
        return explain("The program bwrap was looked for on PATH.", "bubblewrap is installed.", why, INSTALL)
    try:
        trial = subprocess.run([*_wall(()), "true"], capture_output=True, text=True, timeout=20, check=False)
    except subprocess.TimeoutExpired:
        return "bubblewrap did not come to an end within 20 s."
    if trial.returncode == 0:
        return None
    said = f"bubblewrap was tried, and said: {trial.stderr.strip()[:300] or trial.returncode}"
    return explain(said, "it starts a program in a namespace of its own.", why, APPARMOR)


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
        calls.write(seccomp.program())
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
    for folder in _SYSTEM_FOLDERS:
        path = Path(folder)
        if path.is_symlink():
            command += ["--symlink", os.readlink(path), folder]
        elif path.is_dir():
            command += ["--ro-bind", folder, folder]
    for name in _SYSTEM_FILES:
        command += ["--ro-bind-try", name, name]
    command += ["--proc", "/proc", "--dev", "/dev"]
    folders = [("--ro-bind", folder, folder) for folder in shown]
    fresh = [("--size", str(FOLDER_BYTES), "--tmpfs", folder) for folder in FRESH_FOLDERS[: 4 if folders else 3]]
    # First /tmp: a folder that is shown may lie in it.
    command += [word for words in (fresh[0], *folders, *fresh[1:]) for word in words]
    if folders and (solutions := PACKAGE / "notebooks").is_dir():  # as a wheel has them
        command += ["--tmpfs", str(solutions), "--remount-ro", str(solutions)]
    return [*command, "--remount-ro", "/", "--remount-ro", "/dev", "--remount-ro", "/proc", "--"]


def _python_folders() -> list[str]:
    """Where the interpreter and the installed packages lie, each after those that it lies in."""
    wanted = [sys.prefix, sys.base_prefix, sys.exec_prefix, os.path.dirname(os.path.realpath(sys.executable))]
    wanted += [sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")]
    wanted += [folder for folder in (*site.getsitepackages(), site.getusersitepackages()) if folder in sys.path]
    return sorted({os.path.abspath(folder) for folder in wanted if os.path.isdir(folder)}, key=len)


def _environment() -> dict[str, str]:
    one = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS"), "1")
    kept = {name: os.environ[name] for name in ("LD_LIBRARY_PATH", "TZ") if name in os.environ}
    return {
        **kept,
        **one,
        "PATH": "/usr/local/bin:/usr/bin:/bin",
        "HOME": HOME,
        "USER": "student",
        "LOGNAME": "student",
        "LANG": "C.UTF-8",
        # The sandbox's own /tmp, an empty folder in memory.
        "TMPDIR": "/tmp",
        "IPYTHONDIR": "/tmp/ipython",
        "MPLCONFIGDIR": "/tmp/matplotlib",
        "MPLBACKEND": "module://matplotlib_inline.backend_inline",
        "CUDA_VISIBLE_DEVICES": "",  # no GPU: it has no namespace, and its driver does not survive a fork
        "COURSE_UTILS_PROGRESS": "off",
        "NBGRADER_EXECUTION": "autograde",  # what nbgrader tells notebooks that it runs
        "PYTHONDONTWRITEBYTECODE": "1",
    }


def judges() -> dict[str, dict[str, str]]:
    """What judges, to be sent to the warm Python: the text of each file, by its path."""
    own = PACKAGE / "classroom" / "sandbox" / "judging.py"
    code = (own, PACKAGE / "lesson.py", *sorted(PACKAGE.glob("checks/**/*.py")), *sorted(LESSONS.glob("**/*.py")))
    return {
        "code": {str(path): path.read_text(encoding="utf-8") for path in code},
        "texts": {str(path): path.read_text(encoding="utf-8") for path in sorted(LESSONS.glob("**/*.toml"))},
    }
