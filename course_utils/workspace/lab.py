"""Starting JupyterLab for a learner: the command (``lab_command``), what is said before (``lab_notes``), ``start``."""

import contextlib
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

# JupyterLab's defaults for the course, which a learner's own settings outrank: it asks nobody whether they want news.
SETTINGS = Path(__file__).resolve().parent / "lab_settings"
# The address is printed all the same, and is not lost among forty other lines.
QUIET = ("--log-level=ERROR", "--LabApp.log_level=ERROR")


def lab_command(course: Path, pages: Sequence[str], options: Sequence[str] = ()) -> list[str]:
    """The command that starts JupyterLab in a folder, with the first of these notebooks open that exists.

    ``options`` such as ``["--no-browser"]`` outrank the course's own.
    """
    import zmq  # a part of JupyterLab, which the rest of the course does without

    page = next((f"/lab/tree/{page}" for page in pages if (course / page).exists()), "/lab")
    return [
        *(sys.executable, "-m", "jupyterlab"),
        f"--ServerApp.root_dir={course}",
        f"--LabApp.default_url={page}",
        f"--LabApp.app_settings_dir={SETTINGS}",
        # Without encryption each kernel prints a warning of eavesdroppers. Where ZeroMQ was built without it, a kernel
        # that is asked for it does not start.
        *(["--KernelManager.transport_encryption=auto"] if zmq.has("curve") else []),
        *([] if any("log" in option or option == "--debug" for option in options) else QUIET),
        *options,
    ]


def lab_notes(options: Sequence[str] = ()) -> list[str]:
    """What to know before JupyterLab prints its address: that root is refused, and how to stop it."""
    lines = ["JupyterLab starts; its address is below. Stop it here with Ctrl-C."]
    if hasattr(os, "geteuid") and os.geteuid() == 0 and "--allow-root" not in options:
        told = "autograd-control lab --allow-root, or make lab ARGS=--allow-root"
        lines.insert(0, f"You are root, and JupyterLab refuses that unless it is told: {told}")
    return lines


def start(command: list[str]) -> int:
    """Becomes the program that the command names; on Windows, runs it and returns its exit status."""
    if os.name == "nt":  # there, exec would give the terminal back while the program goes on
        with contextlib.suppress(KeyboardInterrupt):
            return subprocess.run(command).returncode
        return 0
    os.execv(command[0], command)
