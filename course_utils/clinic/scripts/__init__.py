"""The clinic's patients: training scripts with faults, each a module of its own (``listing`` shows one)."""

import inspect
from collections.abc import Callable
from typing import Any

from course_utils.clinic.scripts.first import sick_run as sick_run
from course_utils.clinic.scripts.second import second_run as second_run

_COLUMN = 94  # where the numbers stand: behind the longest line


def lines(script: Callable[..., Any]) -> list[str]:
    """The lines of the file that a script stands in, from its first class or function on."""
    text = inspect.getsource(inspect.getmodule(script)).splitlines()
    first = next(number for number, line in enumerate(text) if line.startswith(("class ", "def ")))
    return text[first:]


def listing(script: Callable[..., Any]) -> str:
    """A script with the number of each line behind it, as a comment: it can be read, pasted and run.

    Args:
        script: a function of one of the modules here.
    """
    numbered = enumerate(lines(script), start=1)
    return "\n".join(f"{line:{_COLUMN}}# {number}" if line.strip() else "" for number, line in numbered)
