"""Where progress is stored (``location``), and how it is said that it cannot be used (``Unusable``)."""

import os
from pathlib import Path

VARIABLE = "COURSE_UTILS_PROGRESS"
ELSEWHERE = f"name another file in the environment variable {VARIABLE}"


class Unusable(Exception):
    """There is no file to read or write here: what is wrong and what to do, as one clause without a full stop."""


def location() -> Path | None:
    """Where progress is stored: ``~/.autograd-control/progress.sqlite3``, or the file that the environment variable
    ``COURSE_UTILS_PROGRESS`` names. The file need not exist yet.

    Returns:
        The path; None where nothing is stored, because the variable is ``off``, nbgrader is grading, or there is no
        home directory.
    """
    chosen = os.environ.get(VARIABLE, "")
    if chosen.lower() == "off" or os.environ.get("NBGRADER_EXECUTION"):
        return None
    try:
        return Path(chosen).expanduser() if chosen else Path.home() / ".autograd-control" / "progress.sqlite3"
    except RuntimeError:  # what pathlib raises where the home directory cannot be found out
        return None


def place() -> str:
    """Where things are stored, in words that are the same for everybody."""
    if os.environ.get("NBGRADER_EXECUTION"):
        return "Nothing is stored while nbgrader runs a notebook."
    chosen = os.environ.get(VARIABLE, "")
    if chosen.lower() == "off":
        return f"Nothing is stored, because {VARIABLE} is off."
    if location() is None:
        return f"Nothing is stored, because your home directory cannot be found; {ELSEWHERE}."
    return f"Stored in the file that {VARIABLE} names." if chosen else "Stored in ~/.autograd-control/progress.sqlite3."


def shown(path: Path) -> str:
    """The path on one line, the home directory as ``~``."""
    text, home = str(path), os.path.expanduser("~") + os.sep
    return " ".join(("~/" + text[len(home) :] if text.startswith(home) else text).split())
