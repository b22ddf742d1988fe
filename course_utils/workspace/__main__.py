"""A learner's own copies of the lessons, in my_notebooks/: the commands lab, update and fresh.

my_notebooks/ lies in the folder that --folder names; otherwise in the checkout of the course, or, where the course was
installed without one, in the current folder.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from course_utils.workspace.lab import lab_command, lab_notes, start
from course_utils.workspace.notebooks import FOLDER, START_PAGE, fresh, learners_home, reason, update


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
    if options.command == "lab":
        lines += lab_notes(for_jupyter)
    for line in lines:
        print(line, flush=True)
    if options.command != "lab":
        return 0
    return start(lab_command(home, [f"{FOLDER}/{START_PAGE}", f"notebooks/{START_PAGE}"], for_jupyter))


if __name__ == "__main__":
    sys.exit(main())
