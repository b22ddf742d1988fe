"""What a student handed in, read from a folder that the student filled (``read_submission``).

Nothing in it is trusted: a link could lead to another student's work, a pipe could block, a file could fill the memory.
"""

from __future__ import annotations

import re
import stat
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from course_utils.base.markup import clean

LARGEST_BYTES = 32 * 2**20  # of a larger file only one byte more is read: enough to be refused
NO_ONES = (".", "__MACOSX", "Thumbs.db", "desktop.ini")  # how names begin of files that a system made
LEFT_ASIDE = (".zip", ".7z", ".rar", ".tar", ".gz", ".tgz", ".py")  # what may be meant in a notebook's place
TIMESTAMP_BYTES = 100  # a time in any form is shorter; nbgrader's parser takes a minute for a megabyte


@dataclass(frozen=True)
class Submission:
    """One student's notebook for one assignment, as bytes.

    Attributes:
        content: the file, at most ``LARGEST_BYTES`` and one more; None where the folder holds no notebook.
        remarks: what was odd about the file, one sentence each, for the teacher and the student.
        time: when it was handed in, in UTC, as ``timestamp.txt`` says, which nbgrader's collect writes; None where
            that is not known.
        aside: what the teacher should know of the folder, whatever is graded, one sentence each.
    """

    student: str
    assignment: str
    content: bytes | None
    remarks: tuple[str, ...] = ()
    time: datetime | None = None
    aside: tuple[str, ...] = ()


def read_submission(folder: Path, *, student: str, assignment: str, marks: tuple[str, ...]) -> Submission:
    """Reads the notebook in a submitted folder, also where the student renamed it: every notebook of this assignment
    holds one of the texts ``marks``.

    Raises:
        OSError: this machine cannot read it, which is no fault of the student's.
    """
    # A name from a Windows zip need not be UTF-8, and no file that is written here could hold it: it is cleaned.
    entries = {path.name: clean(path.name, 120) for path in sorted(folder.iterdir())}
    notebooks = [name for name in entries if name.lower().endswith(".ipynb")]
    remarks, aside, content, expected = list[str](), list[str](), None, f"{assignment}.ipynb"
    likely = [n for n in notebooks if n != expected and any(mark.encode() in _peek(folder / n) for mark in marks)]
    by_age = sorted(likely or notebooks, key=lambda one: (folder / one).lstat().st_mtime)
    name = expected if expected in notebooks else by_age[-1] if by_age else ""
    if name:
        try:
            content = _read(folder / name)
        except ValueError as error:
            content = b""
            remarks.append(f"{entries[name]} {error}, so it was not opened.")
        if name != expected:
            newest = f", the newest of {len(likely)}" if len(likely) > 1 else ""
            remarks.append(f"There is no {expected}; {entries[name]} was read in its place{newest}.")
        others = [entries[one] for one in likely if one != name and _peek(folder / one) != content]
        others += [shown for one, shown in entries.items() if one.lower().endswith(LEFT_ASIDE)]
        if others:
            remarks.append(f"Beside {entries[name]} lies {', '.join(others)}, which was not graded.")
            aside.append(f"{remarks[-1]} If it is meant, put it in the other's place.")
    elif found := [shown for one, shown in entries.items() if not one.startswith(NO_ONES)]:
        remarks.append(f"There is no {expected}, but {', '.join(found)}, not looked into: hand in the notebook itself.")
    time, trouble = _time(folder / "timestamp.txt")
    return Submission(student, assignment, content, tuple(remarks), time, (*aside, *trouble))


def _time(path: Path) -> tuple[datetime | None, list[str]]:
    """The time that a file holds, as nbgrader's own ``parse_utc`` reads it; what the teacher should know of it."""
    from nbgrader.utils import parse_utc

    said = ""
    try:
        text = _read(path, TIMESTAMP_BYTES).decode("utf-8-sig", "replace").strip()
        said = f"holds {text[:40]!r}"
        if len(text) >= TIMESTAMP_BYTES or not re.match(r"\d{4}-", text):  # 01/03/2027 is March in one country alone
            raise ValueError(said)
        # parse_utc takes a third word for the name of a zone, which +01:00 is not: without the gap it is read.
        return parse_utc(re.sub(r"\s+(?=[+-]\d\d:?\d\d$)", "", text)), []
    except FileNotFoundError:
        return None, []
    except (ValueError, ArithmeticError, TypeError, OSError) as error:  # what dateutil raises at a text that is no time
        said = f"timestamp.txt {said or error}, and not a time such as 2027-03-01T18:00+01:00"
        return None, [f"{said}; mend it, or the Formgrader stops."]


def _peek(path: Path) -> bytes:
    try:
        return _read(path)
    except (OSError, ValueError):
        return b""


def _read(path: Path, most: int = LARGEST_BYTES) -> bytes:
    """How a file begins, at most so many bytes and one more.

    Raises:
        ValueError: it is something else, which is not opened: a link would be followed, a pipe waited for.
        OSError: there is none, or it cannot be read.
    """
    if not stat.S_ISREG(path.lstat().st_mode):
        raise ValueError("is a link, or no ordinary file")
    with path.open("rb") as file:
        return file.read(most + 1)
