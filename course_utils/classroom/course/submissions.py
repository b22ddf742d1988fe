"""What a student handed in, read from a folder that the student filled (``read_submission``).

Nothing in it is trusted: a link could lead to another student's work, a pipe could block, a file could fill the memory.
"""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from course_utils.base.markup import clean

LARGEST_BYTES = 32 * 2**20
READ_BYTES = LARGEST_BYTES  # of a larger file only one byte more is read: enough to be refused
ARCHIVES = (".zip", ".7z", ".rar", ".tar", ".gz", ".tgz")
NO_ONES = (".", "__MACOSX", "Thumbs.db", "desktop.ini")  # how names begin of files that a system made
TIMESTAMP_BYTES = 200  # a time in any form is shorter


@dataclass(frozen=True)
class Submission:
    """One student's notebook for one assignment, as bytes.

    Attributes:
        content: the file, at most ``READ_BYTES`` and one more; None where the folder holds no notebook.
        remarks: what was odd about the file, one sentence each, for the teacher.
        left: other notebooks beside it that may be meant, archives and Python files, one sentence each.
        timestamp: how ``timestamp.txt``, which nbgrader's collect writes, begins; empty where there is none.
    """

    student: str
    assignment: str
    content: bytes | None
    remarks: tuple[str, ...] = ()
    timestamp: str = ""
    left: tuple[str, ...] = ()

    @property
    def digest(self) -> str:
        """What tells two submissions apart: a hash over content and remarks."""
        remarks = "\n".join(self.remarks).encode("utf-8", "surrogatepass")
        parts = (b"" if self.content is None else b"+" + self.content, remarks)
        return hashlib.sha256(b"\0".join(hashlib.sha256(part).digest() for part in parts)).hexdigest()


def read_submission(folder: Path, *, student: str, assignment: str, marks: tuple[str, ...]) -> Submission:
    """Reads the notebook in a submitted folder, also where the student renamed it.

    Args:
        folder: such as ``submitted/ada/03_detach``.
        assignment: what the notebook should be called.
        marks: texts of which every notebook of this assignment holds one; they tell a renamed one from another.

    Raises:
        OSError: this machine cannot read it, which is no fault of the student's.
    """
    remarks: list[str] = []
    left: list[str] = []
    content: bytes | None = None
    if name := _choose(folder, f"{assignment}.ipynb", [mark.encode() for mark in marks], remarks, left):
        try:
            content = _read(folder / name)
        except ValueError as error:
            content = b""
            remarks.append(f"{clean(name, 120)} {error}, so it was not opened.")
    try:
        timestamp = _read(folder / "timestamp.txt", TIMESTAMP_BYTES).decode("utf-8-sig", "replace").strip()
    except (FileNotFoundError, ValueError):  # none there, or one that the student put a link in place of
        timestamp = ""
    return Submission(student, assignment, content, tuple(remarks), timestamp, tuple(left))


def _choose(folder: Path, expected: str, marks: list[bytes], remarks: list[str], left: list[str]) -> str | None:
    found = sorted(name for name in os.listdir(folder) if name.lower().endswith(".ipynb"))
    if found == [expected]:
        return expected
    likely = [name for name in found if any(mark in content for content in [_peek(folder / name)] for mark in marks)]
    if expected in found:
        others = ", ".join(clean(name, 120) for name in likely if name != expected)
        advice = f"if one of them is meant, let it take the place of {expected} and grade again."
        left += [f"Beside {expected} lies {others}, which was not graded; {advice}"] if others else []
        aside = [clean(path.name, 120) for path in _entries(folder) if path.suffix.lower() in (*ARCHIVES, ".py")]
        left += [
            f"Beside {expected} lies {', '.join(aside)}, which was left aside; only the notebook is graded."
        ] * bool(aside)
        return expected
    likely = likely or found
    if not likely:
        remarks += _elsewhere(folder, expected)
        return None
    newest = max(likely, key=lambda name: ((folder / name).lstat().st_mtime, name))
    others = f", the newest of {len(likely)}" if len(likely) > 1 else ""
    # A name from a Windows zip need not be UTF-8, and no file that is written here could hold it: it is cleaned.
    remarks.append(f"There is no {expected}; {clean(newest, 120)} was read in its place{others}.")
    return newest


def _elsewhere(folder: Path, expected: str) -> Iterator[str]:
    """What lies in an assignment's folder in place of its notebook."""
    for entry in _entries(folder):
        name = clean(entry.name, 120)
        if entry.suffix.lower() in ARCHIVES:
            yield f"{name} is an archive, which is not opened; {expected} itself must lie in {folder.name}/."
        elif entry.suffix.lower() == ".py":
            yield f"{name} is a Python file; only a notebook is graded, {expected}."
        elif entry.is_dir() and not entry.is_symlink() and any(entry.rglob("*.ipynb")):
            yield f"The folder {name} holds a notebook; it must lie in {folder.name}/ itself, as {expected}."


def _entries(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if not path.name.startswith(NO_ONES))


def _peek(path: Path) -> bytes:
    try:
        return _read(path)
    except (OSError, ValueError):
        return b""


def _read(path: Path, most: int = READ_BYTES) -> bytes:
    """How a file begins, at most so many bytes and one more, without following a link or waiting for a pipe.

    Raises:
        ValueError: what it is instead of a file, as a phrase.
        OSError: there is none, or it cannot be read.
    """
    try:
        with open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NOFOLLOW | os.O_NONBLOCK)) as file:
            if stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                return file.read(most + 1)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.EMLINK):
            raise ValueError("is a link to another file") from None
        if error.errno not in (errno.ENXIO, errno.EISDIR):  # a socket, a folder
            raise
    raise ValueError("is no ordinary file")
