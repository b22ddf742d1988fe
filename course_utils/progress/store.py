"""Where progress is stored (``location``, ``where``), and the SQLite file there: one table of events, to which rows are
added (``append``) and in which none is ever changed. Read all (``read``), copy the file (``copy``).

An event is one transaction of SQLite's: stored whole or not at all, whichever kernel writes beside it or is killed.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import sqlite3

VARIABLE = "COURSE_UTILS_PROGRESS"
ELSEWHERE = f"name another file in the environment variable {VARIABLE}"
WAIT_SECONDS = 30.0  # for other kernels: a write takes milliseconds, and of many at once each gets its turn
SCHEMA_VERSION = 2
APPLICATION_ID = int.from_bytes(b"AgCt", "big")  # says that the file is ours: https://www.sqlite.org/fileformat2.html
TABLE = "CREATE TABLE IF NOT EXISTS event (number INTEGER PRIMARY KEY, at TEXT, kind TEXT, fields TEXT)"
EARLIER = ("exercise", "prediction", "misconception")  # the tables of 1.1; 1.0 had the first two

Event = tuple[str, str, str]  # when, as ISO 8601 in UTC; its kind; its fields, as JSON


class Unusable(Exception):
    """There is no file to read or write here: what is wrong and what to do, as one clause without a full stop."""


def location() -> Path | None:
    """Where progress is stored: ``~/.autograd-control/progress.sqlite3``, or the file that the environment variable
    ``COURSE_UTILS_PROGRESS`` names. The file need not exist yet.

    Returns:
        The path; None where nothing is stored, because the variable is ``off``, nbgrader is grading, or there is no
        home directory.
    """
    return where()[0]


def where() -> tuple[Path | None, str]:
    """The ``location``, and a sentence about it that is the same for everybody."""
    chosen = os.environ.get(VARIABLE, "")
    if os.environ.get("NBGRADER_EXECUTION"):
        return None, "Nothing is stored while nbgrader runs a notebook."
    if chosen.lower() == "off":
        return None, f"Nothing is stored, because {VARIABLE} is off."
    try:
        if chosen:
            return Path(chosen).expanduser(), f"Stored in the file that {VARIABLE} names."
        return Path.home() / ".autograd-control" / "progress.sqlite3", "Stored in ~/.autograd-control/progress.sqlite3."
    except RuntimeError:  # what pathlib raises where the home directory cannot be found out
        return None, f"Nothing is stored, because your home directory cannot be found; {ELSEWHERE}."


def append(path: Path, kind: str, fields: Mapping[str, object]) -> None:
    """Adds an event; makes the file, and its own folder, where they are missing. Raises ``Unusable``."""
    event = (datetime.now(UTC).isoformat(timespec="microseconds"), kind, json.dumps(fields))
    with _open(path) as file:
        file.execute("BEGIN IMMEDIATE")
        file.execute(TABLE)
        file.execute("INSERT INTO event (at, kind, fields) VALUES (?, ?, ?)", event)
        file.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        file.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
        file.execute("COMMIT")


def read(path: Path) -> list[Event]:
    """All events, in order; none where there is no file. What version 1 stored stays in its own tables, and comes
    first, as an event for each row. Raises ``Unusable``."""
    if not path.exists():
        return []
    found: list[Event] = []
    with _open(path) as file:
        tables = {name for (name,) in file.execute("SELECT name FROM sqlite_master")}
        for table in (name for name in EARLIER if name in tables):
            rows = file.execute(f"SELECT * FROM {table} ORDER BY first_at")
            for row in rows:
                fields = dict(zip((column for column, *_ in rows.description), row, strict=True))
                found.append((fields.pop("last_at"), f"{table} of version 1", json.dumps(fields)))
        if "event" in tables:
            found += file.execute("SELECT at, kind, fields FROM event ORDER BY number")
    return found


def copy(path: Path) -> Path:
    """Makes a dated copy of the file beside it, and returns the copy's path. Raises ``Unusable``."""
    made = path.with_name(f"{path.stem}-before-reset-{datetime.now():%Y-%m-%d-%H%M%S-%f}{path.suffix}")
    with _open(path) as file:
        file.execute("VACUUM INTO ?", [str(made)])
    return made


@contextmanager
def _open(path: Path) -> Iterator[sqlite3.Connection]:
    import sqlite3

    shown = " ".join(str(path).split())  # on one line
    try:
        path.parent.mkdir(exist_ok=True)  # not those above: what is not mounted must not be papered over
        with closing(sqlite3.connect(path, timeout=WAIT_SECONDS, isolation_level=None)) as file:
            (version,) = file.execute("PRAGMA user_version").fetchone()
            (ours,) = file.execute("PRAGMA application_id").fetchone()
            if ours != APPLICATION_ID and file.execute("SELECT name FROM sqlite_master").fetchone():
                raise Unusable(f"{shown} is another program's; {ELSEWHERE}")
            if version > SCHEMA_VERSION:
                raise Unusable(f"{shown} was written by a newer version of the course; update it, or {ELSEWHERE}")
            yield file
    except (sqlite3.Error, OSError) as error:
        said = error.strerror if isinstance(error, OSError) else error
        raise Unusable(f"{shown} cannot be used ({said}); mend that, or {ELSEWHERE}") from error
