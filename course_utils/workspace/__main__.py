"""A learner's own copies of the lessons, in my_notebooks/.

python -m course_utils.workspace lab             fill my_notebooks/ and open JupyterLab on the start page
python -m course_utils.workspace update          fill my_notebooks/ only
python -m course_utils.workspace fresh LESSON    a lesson as the course has it; your file is kept beside it
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from course_utils.workspace.lab import lab_command, lab_notes, start
from course_utils.workspace.notebooks import COURSE, FOLDER, START_PAGE, fresh, reason, update


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one of the commands above; returns an exit status."""
    parser = argparse.ArgumentParser(prog="python -m course_utils.workspace", description=__doc__.splitlines()[0])
    parser.add_argument("--course", type=Path, default=COURSE, help="the folder of the course (default: this one)")
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("lab", help="fill my_notebooks/ and open JupyterLab; its own options may follow")
    commands.add_parser("update", help="fill my_notebooks/ only")
    commands.add_parser("fresh", help="a lesson as the course has it").add_argument("lesson", nargs="?", default="")
    options, for_jupyter = parser.parse_known_args(arguments)
    if for_jupyter and options.command != "lab":
        parser.error(f"{options.command} takes no {' '.join(for_jupyter)}")
    try:
        lines = fresh(options.lesson, options.course) if options.command == "fresh" else update(options.course)
    except ValueError as error:
        print(error, file=sys.stderr)
        return 1
    except OSError as error:
        print(f"Nothing was changed in {options.course / FOLDER}: {reason(error)}", file=sys.stderr)
        return 1
    if options.command == "lab":
        lines += lab_notes(for_jupyter)
    for line in lines:
        print(line, flush=True)
    if options.command != "lab":
        return 0
    return start(lab_command(options.course, [f"{FOLDER}/{START_PAGE}", f"notebooks/{START_PAGE}"], for_jupyter))


if __name__ == "__main__":
    sys.exit(main())
