"""The SQLite file under ``progress``: one table of events, to which rows are added and in which none is ever changed.
Add one (``append``), read all (``read``), add one after a dated copy (``append_after_copy``), give the file another
name (``put_aside``). What the disk does not allow is an ``Unusable``, in words.
"""

from __future__ import annotations

import errno
import json
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from course_utils.progress.place import ELSEWHERE, VARIABLE, Damaged, Unusable, shown

if TYPE_CHECKING:
    import sqlite3

Event = tuple[str, str, str]  # when, as ISO 8601 in UTC; its kind; its fields, as JSON

WAIT_SECONDS = 1.5  # for another kernel's write, which takes milliseconds; a check must not hang on a stuck one
SCHEMA_VERSION = 2
# Marks the file as ours, in its header: https://www.sqlite.org/fileformat2.html#application_id
APPLICATION_ID = int.from_bytes(b"AgCt", "big")
TABLE = "CREATE TABLE event (number INTEGER PRIMARY KEY, at TEXT NOT NULL, kind TEXT NOT NULL, fields TEXT NOT NULL)"
READ = "SELECT at, kind, fields FROM event ORDER BY number"
ADD = "INSERT INTO event (at, kind, fields) VALUES (?, ?, ?)"

# NOTE [One file, many kernels, killed at any moment]
# Every call opens the file, does one transaction and closes it: nothing is held between two cells.
# - A rollback journal, not WAL: WAL needs memory shared between the processes, which a home directory on a network
#   cannot give (https://www.sqlite.org/wal.html), and leaves two more files beside the first. With
#   `synchronous=FULL`, a write that was acknowledged outlives the kernel that made it.
# - BEGIN EXCLUSIVE, not IMMEDIATE: all waiting happens there, once, so that WAIT_SECONDS is the whole delay. A COMMIT
#   after BEGIN IMMEDIATE could wait again, for a reader.
# - The table is made in the transaction of the first row, so no kill can leave half of it.
# - A file of version 1 becomes one of version 2 in the transaction of the next row. Its three tables stay in it,
#   unread, and a course of version 1 that still runs refuses it as newer instead of writing where nobody reads.
# - A file that cannot be used is left alone and not moved aside: it may lie in a folder that is still syncing, or be
#   another program's file, named by mistake; what looks damaged now may be whole in a minute. The learner is told in
#   one line, and `reset_progress()`, which they have to ask for, keeps it under another name.


def append(path: Path, kind: str, fields: Mapping[str, object]) -> None:
    """Adds an event, wholly or not at all. Makes the file, and its own folder, where they are missing.

    Raises:
        Unusable: nothing was written.
    """
    with _transaction(path, writing=True) as connection:
        connection.execute(ADD, _event(kind, fields))


def append_after_copy(path: Path, kind: str, fields: Mapping[str, object]) -> Path:
    """Adds an event, once all those before it are in a new dated file beside the first. Returns the copy's path.

    The first file is locked from before the copy until after the change: what another kernel stores is either in the
    copy or comes after the change. A kill in between leaves both files whole.

    Raises:
        Unusable: nothing was written, and there is no copy.
    """
    with _transaction(path, writing=True) as connection:
        copy = _dated(path, "before-reset")
        try:
            with _transaction(copy, writing=True) as copied:
                copied.executemany(ADD, connection.execute(READ))
            connection.execute(ADD, _event(kind, fields))
        except BaseException:
            copy.unlink(missing_ok=True)  # nothing is changed yet: closing the connection takes everything back
            raise
    return copy  # which stays where the COMMIT fails, since the change may have been made


def read(path: Path) -> list[Event]:
    """All events, in the order in which they were added; none where there is no file, or an empty one.

    Raises:
        Unusable: the file cannot be read.
    """
    with _in_words(path):
        if not path.exists():
            return []
        with _transaction(path, writing=False) as connection:
            version = _version(connection)
            return _rows_of_version_1(connection) if version == 1 else list(connection.execute(READ) if version else ())


def put_aside(path: Path) -> Path:
    """Gives a file that could not be read a dated name beside its own. Returns the new path.

    Call it after ``read`` has failed on the file: SQLite has then undone what a killed kernel left half written, so
    that no journal is left over for the next file of the old name.

    Raises:
        Unusable: it could not be renamed; it stays as it is.
    """
    with _in_words(path):
        aside = _dated(path, "damaged")
        try:
            os.replace(path, aside)
        except OSError:
            aside.unlink()
            raise
        return aside


def _event(kind: str, fields: Mapping[str, object]) -> Event:
    return datetime.now(UTC).isoformat(timespec="microseconds"), kind, json.dumps(fields)


@contextmanager
def _transaction(path: Path, *, writing: bool) -> Iterator[sqlite3.Connection]:
    """The file, open for one transaction that is done wholly or not at all; its table is there where it is to write."""
    with _in_words(path):
        import sqlite3

        if writing:
            # Its own folder is made, those above are not: a home directory that is missing or a drive that is not
            # mounted must not be papered over by a new folder of its name.
            path.parent.mkdir(exist_ok=True)
        if path.exists() and not path.is_file():
            raise Unusable(f"{shown(path)} is a folder or a device; {ELSEWHERE}")
        # isolation_level=None: transactions are ours to begin and to commit, not the module's.
        # timeout=0: and so is the waiting, see `_begin`.
        with closing(sqlite3.connect(path, timeout=0, isolation_level=None)) as connection:
            if (version := _begin(connection, writing)) > SCHEMA_VERSION:
                raise Unusable(
                    f"{shown(path)} was written by a newer version of the course; update the course, or {ELSEWHERE}"
                )
            if version < 0:
                raise Unusable(f"{shown(path)} is another program's database; {ELSEWHERE}")
            if writing and version < SCHEMA_VERSION:
                connection.execute(TABLE)
                connection.executemany(ADD, _rows_of_version_1(connection) if version else ())
                connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
                connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
            yield connection
            connection.execute("COMMIT")  # where this is not reached, closing the connection takes everything back


def _begin(connection: sqlite3.Connection, writing: bool) -> int:
    """Waits for other kernels, WAIT_SECONDS at most, and begins the transaction. Returns the file's version."""
    # SQLite's own waiting sleeps up to 100 ms between two tries, and one of several kernels may never get its turn: of
    # 400 rows that four of them wrote without a pause, it refused up to 3. With short sleeps, none.
    import sqlite3

    deadline = time.monotonic() + WAIT_SECONDS
    while True:
        try:
            connection.execute("PRAGMA synchronous = FULL")  # the default, but a build of SQLite may have another
            connection.execute("BEGIN EXCLUSIVE" if writing else "BEGIN")
            return _version(connection)  # a reader takes its lock when it first reads
        except sqlite3.OperationalError as error:
            if not error.sqlite_errorname.startswith("SQLITE_BUSY") or time.monotonic() >= deadline:
                raise
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        time.sleep(0.005)


def _version(connection: sqlite3.Connection) -> int:
    """Which version of the course wrote the file; 0 for one that is new, -1 for another program's."""
    if connection.execute("SELECT count(*) FROM sqlite_master").fetchone() == (0,):
        return 0
    ours = connection.execute("PRAGMA application_id").fetchone() == (APPLICATION_ID,)
    return connection.execute("PRAGMA user_version").fetchone()[0] if ours else -1


def _rows_of_version_1(connection: sqlite3.Connection) -> list[Event]:
    """What the tables of version 1 hold, as events; version 1.0 had no table of misconceptions yet."""
    found: list[Event] = []
    tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master")}
    for table in ("exercise", "prediction", "misconception"):
        if table in tables:
            cursor = connection.execute(f"SELECT * FROM {table} ORDER BY first_at")
            names = [column[0] for column in cursor.description]
            for row in cursor:
                fields = dict(zip(names, row, strict=True))
                found.append((fields.pop("last_at"), f"{table} of version 1", json.dumps(fields)))
    return found


@contextmanager
def _in_words(path: Path) -> Iterator[None]:
    try:
        import sqlite3
    except ImportError:
        what = f"{shown(path)} needs the module sqlite3, which this Python was built without; install another"
        raise Unusable(what) from None
    try:
        yield
    except (sqlite3.Error, OSError) as error:
        raise _unusable(error, path) from error


def _unusable(error: Exception, path: Path) -> Unusable:
    # The codes' names: https://www.sqlite.org/rescode.html. Only a missing table has none of its own.
    name, file = getattr(error, "sqlite_errorname", ""), shown(path)
    number = error.errno if isinstance(error, OSError) else None
    if name.startswith(("SQLITE_CORRUPT", "SQLITE_NOTADB")) or "no such table" in str(error):
        return _damaged_or_not_ours(path)
    if name.startswith("SQLITE_BUSY"):
        return Unusable(f"another program is holding {file}; run the cell again in a moment")
    if name.startswith("SQLITE_FULL") or number in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return Unusable("the disk is full; make room and run the cell again")
    if name.startswith("SQLITE_READONLY") or number in (errno.EACCES, errno.EPERM, errno.EROFS):
        return Unusable(f"{file} may not be written; make it and its folder writable, or {ELSEWHERE}")
    if number is not None:
        return Unusable(f"the folder of {file} cannot be used ({os.strerror(number)}); mend that, or {ELSEWHERE}")
    if name.startswith("SQLITE_CANTOPEN"):
        return Unusable(f"{file} cannot be opened; make it and its folder writable, or {ELSEWHERE}")
    return Unusable(f"{file} cannot be used ({error}); run the cell again, or {ELSEWHERE}")


def _damaged_or_not_ours(path: Path) -> Unusable:
    """It is ours, and damaged, where it lies in the folder in which only we put files, or its header says so."""
    header = b""
    with suppress(OSError), path.open("rb") as file:
        header = file.read(72)
    marked = header.startswith(b"SQLite format 3\x00") and header[68:] == APPLICATION_ID.to_bytes(4, "big")
    if os.environ.get(VARIABLE) and not marked:
        return Unusable(f"{shown(path)} is no progress file and is left as it is; {ELSEWHERE}")
    keep = "course_utils.reset_progress() keeps it under another name and begins a new file"
    return Damaged(f"{shown(path)} is damaged; {keep}")


def _dated(path: Path, why: str) -> Path:
    """A new empty file beside ``path``, named after it, the reason and now."""
    stem = f"{path.stem}-{why}-{datetime.now():%Y-%m-%d-%H%M%S}"
    for number in range(1, 100):
        name = path.with_name(f"{stem}{f'-{number}' if number > 1 else ''}{path.suffix}")
        with suppress(FileExistsError):
            os.close(os.open(name, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o644))
            return name
    raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(name))
