"""Controlling autograd: the course's command, as autograd-control or python -m course_utils.

To learn
  autograd-control lab             fill my_notebooks/ and open JupyterLab on the start page
  autograd-control update          fill my_notebooks/ only
  autograd-control fresh LESSON    a lesson as the course has it; your file is kept beside it

About a script of your own, which runs as it is; what is found is said on stderr
  autograd-control why SCRIPT      an error of autograd: which of your lines it comes from, what to write instead
  autograd-control leaks SCRIPT    memory that grows: which line makes it, what keeps it, what to write instead

To teach
  autograd-control classroom ...   the lessons as assignments: release, grade, feedback; see docs/classroom.md

Each says more when --help follows it.
"""

import sys
from collections.abc import Sequence
from importlib import import_module

_WORKSPACE, _ROOMS = ("lab", "update", "fresh"), ("why", "leaks", "classroom")


def main(arguments: Sequence[str] | None = None) -> int:
    """Hands the words of a command line to the room that answers them; returns its exit status, 2 where none does."""
    words = sys.argv[1:] if arguments is None else [*arguments]
    if not words or words[0] in ("-h", "--help"):
        print(__doc__)
        return 0
    if words[0] not in _WORKSPACE + _ROOMS:
        print(f'There is no command "{words[0]}".\n\n{__doc__}', file=sys.stderr)
        return 2
    room, rest = (words[0], words[1:]) if words[0] in _ROOMS else ("workspace", words)
    # Loaded when it is asked for: a leak is looked for without nbgrader, and a class graded without JupyterLab.
    return import_module(f"course_utils.{room}.__main__").main(rest)


if __name__ == "__main__":
    sys.exit(main())
