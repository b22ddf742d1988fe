"""A learner's own copies of the lessons, in my_notebooks/: the commands lab, update and fresh.

my_notebooks/ lies in the folder that --folder names; otherwise in the checkout of the course, or, where the course was
installed without one, in the current folder.
"""

import argparse
import contextlib
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from course_utils.workspace import FOLDER, START_PAGE, fresh, learners_home, reason, update

# JupyterLab's defaults for the course, which a learner's own settings outrank: it asks nobody whether they want news.
SETTINGS = Path(__file__).resolve().parent / "lab_settings"
# The address is printed all the same, and is not lost among forty other lines.
QUIET = ("--log-level=ERROR", "--LabApp.log_level=ERROR")


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one of the commands above; returns an exit status."""
    parser = argparse.ArgumentParser(
        prog="autograd-control", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    lab = commands.add_parser("lab", help="fill my_notebooks/ and open JupyterLab; its own options may follow")
    filled = commands.add_parser("update", help="fill my_notebooks/ only")
    again = commands.add_parser("fresh", help="a lesson as the course has it")
    again.add_argument("lesson", nargs="?", default="")
    for command in (lab, filled, again):
        command.add_argument("--folder", type=Path, help="the folder in which my_notebooks/ lies")
    options, for_jupyter = parser.parse_known_args(arguments)
    if for_jupyter and options.command != "lab":
        parser.error(f"{options.command} takes no {' '.join(for_jupyter)}")
    home = options.folder.absolute() if options.folder else learners_home()
    try:
        lines = fresh(options.lesson, home) if options.command == "fresh" else update(home)
    except ValueError as error:
        print(error, file=sys.stderr)
        return 1
    except OSError as error:
        print(f"Nothing was changed in {home / FOLDER}: {reason(error)}", file=sys.stderr)
        return 1
    is_lab = options.command == "lab"
    for line in [*lines, *(lab_notes(for_jupyter) if is_lab else ())]:
        print(line, flush=True)
    if not is_lab:
        return 0
    return start(lab_command(home, [f"{FOLDER}/{START_PAGE}", f"notebooks/{START_PAGE}"], for_jupyter))


def lab_command(home: Path, pages: Sequence[str], options: Sequence[str] = ()) -> list[str]:
    """The command that starts JupyterLab in a folder, with the first of these notebooks open that exists.

    ``options`` such as ``["--no-browser"]`` outrank the course's own.
    """
    import zmq  # a part of JupyterLab, which the rest of the course does without

    page = next((f"/lab/tree/{page}" for page in pages if (home / page).exists()), "/lab")
    return [
        *(sys.executable, "-m", "jupyterlab"),
        f"--ServerApp.root_dir={home}",
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
    lines = ["JupyterLab starts; its address is below. Stop it here with Ctrl-C, then y."]
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


if __name__ == "__main__":
    sys.exit(main())
