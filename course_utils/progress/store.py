"""The SQLite file under ``progress``: one table of events, to which rows are added and in which none is ever changed.
Add one (``append``), read all (``read``), add one after a dated copy (``append_after_copy``).

Every call is one transaction of SQLite's: whole or not at all, whichever kernel writes beside it or is killed.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from course_utils.progress.place import ELSEWHERE, Unusable, shown

if TYPE_CHECKING:
    import sqlite3

Event = tuple[str, str, str]  # when, as ISO 8601 in UTC; its kind; its fields, as JSON

WAIT_SECONDS = 30.0  # for other kernels: a write takes milliseconds, and of many at once each gets its turn
SCHEMA_VERSION = 2
APPLICATION_ID = int.from_bytes(b"AgCt", "big")  # says that the file is ours: https://www.sqlite.org/fileformat2.html
TABLE = "CREATE TABLE event (number INTEGER PRIMARY KEY, at TEXT NOT NULL, kind TEXT NOT NULL, fields TEXT NOT NULL)"
READ = "SELECT at, kind, fields FROM event ORDER BY number"
ADD = "INSERT INTO event (at, kind, fields) VALUES (?, ?, ?)"


def append(path: Path, kind: str, fields: Mapping[str, object]) -> None:
    """Adds an event; makes the file, and its own folder, where they are missing. Raises ``Unusable``."""
    with _open(path, writing=True) as (file, _):
        file.execute(ADD, _event(kind, fields))


def append_after_copy(path: Path, kind: str, fields: Mapping[str, object]) -> Path:
    """Adds an event once all those before it are in a new dated file beside the first. Returns the copy's path."""
    copy = path.with_name(f"{path.stem}-before-reset-{datetime.now():%Y-%m-%d-%H%M%S-%f}{path.suffix}")
    with _open(path, writing=True) as (file, _):
        with _open(copy, writing=True) as (copied, _):
            copied.executemany(ADD, file.execute(READ))
        file.execute(ADD, _event(kind, fields))
    return copy


def read(path: Path) -> list[Event]:
    """All events, in order; none where there is no file. Raises ``Unusable``."""
    if not path.exists():
        return []
    with _open(path, writing=False) as (file, version):
        return _rows_of_version_1(file) if version == 1 else list(file.execute(READ) if version else ())


def _event(kind: str, fields: Mapping[str, object]) -> Event:
    return datetime.now(UTC).isoformat(timespec="microseconds"), kind, json.dumps(fields)


@contextmanager
def _open(path: Path, *, writing: bool) -> Iterator[tuple[sqlite3.Connection, int]]:
    """The file in a transaction, and its version: 0 for a new one; one to write in has the table of today."""
    import sqlite3

    try:
        if writing:
            path.parent.mkdir(exist_ok=True)  # not those above: what is not mounted must not be papered over
        with closing(sqlite3.connect(path, timeout=WAIT_SECONDS, isolation_level=None)) as file:
            file.execute("BEGIN IMMEDIATE" if writing else "BEGIN")
            (version,) = file.execute("PRAGMA user_version").fetchone()
            (ours,) = file.execute("PRAGMA application_id").fetchone()
            (tables,) = file.execute("SELECT count(*) FROM sqlite_master").fetchone()
            if tables and ours != APPLICATION_ID:
                raise Unusable(f"{shown(path)} is another program's; {ELSEWHERE}")
            if version > SCHEMA_VERSION:
                raise Unusable(f"{shown(path)} was written by a newer version of the course; update it, or {ELSEWHERE}")
            if writing and version < SCHEMA_VERSION:
                file.execute(TABLE)
                file.executemany(ADD, _rows_of_version_1(file) if version else ())
                file.execute(f"PRAGMA application_id = {APPLICATION_ID}")
                file.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
            yield file, version
            file.execute("COMMIT")
    except (sqlite3.Error, OSError) as error:
        said = error.strerror if isinstance(error, OSError) else error
        raise Unusable(f"{shown(path)} cannot be used ({said}); mend that, or {ELSEWHERE}") from error


def _rows_of_version_1(file: sqlite3.Connection) -> list[Event]:
    """What the three tables of version 1 hold, as events; version 1.0 had no table of misconceptions yet."""
    found: list[Event] = []
    for (table,) in file.execute(
        "SELECT name FROM sqlite_master WHERE name IN ('exercise', 'prediction', 'misconception')"
    ):
        cursor = file.execute(f"SELECT * FROM {table} ORDER BY first_at")
        for row in cursor:
            fields = dict(zip((column[0] for column in cursor.description), row, strict=True))
            found.append((fields.pop("last_at"), f"{table} of version 1", json.dumps(fields)))
    return found
