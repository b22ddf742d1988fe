"""What led a check to name one misconception and not another (``steps``), for authors.

Learners never see it: nothing is noted outside the ``with`` block.
"""

import contextlib
import traceback
from collections.abc import Iterator
from pathlib import Path

_STEPS: list[list[str]] = []  # of the block that is open, if one is


@contextlib.contextmanager
def steps() -> Iterator[list[str]]:
    """Inside, checks note what they try: the readings, signs and texts that they compare, in order, and what ended a
    claim. Gives the list of these lines, which grows."""
    noted = list[str]()
    _STEPS.append(noted)
    try:
        yield noted
    finally:
        _STEPS.remove(noted)


def note(what: str) -> None:
    """Notes a step, where somebody asked for steps."""
    if _STEPS:
        _STEPS[-1].append(what)


def note_end(error: BaseException, key: str) -> None:
    """Notes which line of a lesson ended a claim, and the key that it named."""
    if _STEPS:
        frames = [
            f for f in traceback.extract_tb(error.__traceback__) if f"{Path('course_utils', 'lessons')}" in f.filename
        ]
        for frame in frames[-1:]:
            note(f"{Path(frame.filename).name}, line {frame.lineno}: {frame.line}")
        note(f"names {key!r}" if key else "names no misconception")
