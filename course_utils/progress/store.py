"""The SQLite file under ``progress``: one transaction (``transaction``), the same with a dated copy made first
(``transaction_with_copy``), the file put aside as it is (``put_aside``), what can go wrong (``failures``) and how to
say it (``reason``).
"""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from course_utils.progress.statements import TABLES

if TYPE_CHECKING:
    import sqlite3

VARIABLE = "COURSE_UTILS_PROGRESS"
ELSEWHERE = f"name another file in the environment variable {VARIABLE}"
WAIT_SECONDS = 1.5  # for another kernel's write, which takes milliseconds; a check must not hang on a stuck one
SCHEMA_VERSION = 1
# Marks the file as ours, in its header: https://www.sqlite.org/fileformat2.html#application_id
APPLICATION_ID = int.from_bytes(b"AgCt", "big")

# NOTE [One file, many kernels, killed at any moment]
# Every call opens the file, does one transaction and closes it: nothing is held between two cells.
# - A rollback journal, not WAL: WAL needs memory shared between the processes, which a home directory on a network
#   cannot give (https://www.sqlite.org/wal.html), and leaves two more files beside the first. With
#   `synchronous=FULL`, a write that was acknowledged outlives the kernel that made it.
# - BEGIN EXCLUSIVE, not IMMEDIATE: all waiting happens there, once, so that WAIT_SECONDS is the whole delay. A COMMIT
#   after BEGIN IMMEDIATE could wait again, for a reader.
# - The tables are made in the transaction of the first row, so no kill can leave half of them.
# - A file that cannot be used is left alone and not moved aside: it may lie in a folder that is still syncing, or be
#   another program's file, named by mistake; what looks damaged now may be whole in a minute. The learner is told in
#   one line, and `reset_progress()`, which they have to ask for, keeps it under another name.


class Unusable(Exception):
    """There is no file to read or write here. Its arguments: what is wrong, and what to do."""


@contextmanager
def transaction(path: Path, *, writing: bool) -> Iterator[sqlite3.Connection]:
    """The file, open for one transaction that is done wholly or not at all.

    Args:
        path: the file; made, with its own folder, where it is missing and ``writing``.
        writing: whether the transaction writes. One that only reads may find no tables: see ``is_empty``.

    Raises:
        failures(): nothing was written; ``reason`` says why, in words.
    """
    with closing(_open(path, writing)) as connection:
        _begin(connection, writing)
        yield connection
        connection.execute("COMMIT")  # where this is not reached, closing the connection takes everything back


@contextmanager
def transaction_with_copy(path: Path) -> Iterator[tuple[sqlite3.Connection, Path]]:
    """A transaction that writes, with every row copied before it into a new dated file beside the first.

    The first file is locked from before the copy until after the change: what another kernel stores is either in the
    copy or comes after the change. A kill in between leaves both files whole.
    """
    with closing(_open(path, writing=True)) as connection:
        _begin(connection, writing=True)
        copy = _dated(path, "before-reset")
        try:
            with transaction(copy, writing=True) as copied:
                for table in TABLES:
                    rows = connection.execute(f"SELECT * FROM {table}").fetchall()
                    if rows:
                        copied.executemany(f"INSERT INTO {table} VALUES ({', '.join('?' * len(rows[0]))})", rows)
            yield connection, copy
        except BaseException:
            copy.unlink(missing_ok=True)  # nothing is changed yet: closing the connection takes everything back
            raise
        connection.execute("COMMIT")  # where this fails the copy stays, since the change may have been made


def put_aside(path: Path) -> Path:
    """Gives a file that could not be read a dated name beside its own. Returns the new path.

    Call it after ``transaction`` has failed on the file: SQLite has then undone what a killed kernel left half written,
    so that no journal is left over for the next file of the old name.
    """
    aside = _dated(path, "damaged")
    try:
        os.replace(path, aside)
    except OSError:
        aside.unlink()
        raise
    return aside


def failures() -> tuple[type[Exception], ...]:
    """The errors that the state of the disk can raise here; for an ``except`` clause."""
    try:
        import sqlite3
    except ImportError:  # a Python built without it: `_open` says so
        return (OSError, UnicodeError, Unusable)
    return (sqlite3.Error, OSError, UnicodeError, Unusable)


def is_empty(connection: sqlite3.Connection) -> bool:
    """Whether the file holds no table: it is new."""
    return connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0] == 0


def has(connection: sqlite3.Connection, table: str) -> bool:
    """Whether the file holds a table."""
    return connection.execute("SELECT count(*) FROM sqlite_master WHERE name = ?", [table]).fetchone()[0] == 1


def has_our_mark(path: Path) -> bool:
    """Whether the file's header says that this course wrote it, whatever has become of the rest."""
    try:
        with open(path, "rb") as file:
            header = file.read(72)
    except OSError:
        return False
    return header.startswith(b"SQLite format 3\x00") and header[68:72] == APPLICATION_ID.to_bytes(4, "big")


def is_damage(error: Exception) -> bool:
    """Whether the error says that the file's content is no usable database."""
    signs = ("file is not a database", "malformed", "no such table", "no such column", "file is encrypted")
    return not isinstance(error, (OSError, Unusable)) and any(sign in str(error) for sign in signs)


def reason(error: Exception, shown: str) -> str:
    """What went wrong and what to do, as one clause without a full stop.

    Args:
        error: what ``transaction`` raised.
        shown: the file's name as the learner knows it.
    """
    # By message, since error codes came to Python's sqlite3 with 3.11. The texts are those of `sqlite3ErrStr`:
    # https://github.com/sqlite/sqlite/blob/version-3.40.1/src/main.c
    text = str(error)
    number = error.errno if isinstance(error, OSError) else None
    if isinstance(error, Unusable):
        what, to_do = error.args
        return f"{shown} {what}; {to_do}".strip()
    if isinstance(error, UnicodeError):
        return "it holds characters that no file can keep; write it without them"
    if "is locked" in text:
        return f"another program is holding {shown}; run the cell again in a moment"
    if "disk is full" in text or number in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return "the disk is full; make room and run the cell again"
    if "readonly" in text or number in (errno.EACCES, errno.EPERM, errno.EROFS):
        return f"{shown} may not be written; make it and its folder writable, or {ELSEWHERE}"
    if number is not None:
        return f"the folder of {shown} cannot be used ({os.strerror(number)}); mend that, or {ELSEWHERE}"
    if "unable to open" in text:
        return f"{shown} cannot be opened; make it and its folder writable, or {ELSEWHERE}"
    return f"{shown} cannot be used ({text}); run the cell again, or {ELSEWHERE}"


def _open(path: Path, writing: bool) -> sqlite3.Connection:
    try:
        import sqlite3
    except ImportError:
        raise Unusable("needs the module sqlite3, which this Python was built without", "install another") from None
    if writing:
        # Its own folder is made, those above are not: a home directory that is missing or a drive that is not mounted
        # must not be papered over by a new folder of its name.
        path.parent.mkdir(exist_ok=True)
    if path.exists() and not path.is_file():
        raise Unusable("is a folder or a device", ELSEWHERE)
    # isolation_level=None: transactions are ours to begin and to commit, not the module's.
    # timeout=0: and so is the waiting, see `_begin`.
    return sqlite3.connect(path, timeout=0, isolation_level=None)


def _begin(connection: sqlite3.Connection, writing: bool) -> None:
    # SQLite's own waiting sleeps up to 100 ms between two tries (whole seconds where it is built without `usleep`), and
    # of several kernels that write without a pause, one may never get its turn. Short sleeps give each the chance.
    deadline = time.monotonic() + WAIT_SECONDS
    while not _has_begun(connection, writing, is_last_try=time.monotonic() >= deadline):
        time.sleep(0.005)
    if not is_empty(connection):
        _require_ours(connection)
    if writing:
        _make_tables(connection)


def _has_begun(connection: sqlite3.Connection, writing: bool, is_last_try: bool) -> bool:
    import sqlite3

    try:
        connection.execute("PRAGMA synchronous = FULL")  # the default, but a build of SQLite may have another
        connection.execute("BEGIN EXCLUSIVE" if writing else "BEGIN")
        is_empty(connection)  # a reader takes its lock when it first reads
    except sqlite3.OperationalError as error:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        if is_last_try or "is locked" not in str(error):
            raise
        return False
    return True


def _make_tables(connection: sqlite3.Connection) -> None:
    for name, columns in TABLES.items():
        connection.execute(f"CREATE TABLE IF NOT EXISTS {name} ({columns}) WITHOUT ROWID")
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")


def _require_ours(connection: sqlite3.Connection) -> None:
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if application != APPLICATION_ID:
        raise Unusable("is another program's database", ELSEWHERE)
    if version > SCHEMA_VERSION:
        raise Unusable("was written by a newer version of the course", f"update the course, or {ELSEWHERE}")


def _dated(path: Path, why: str) -> Path:
    """A new empty file beside ``path``, named after it, the reason and now."""
    stem = f"{path.stem}-{why}-{datetime.now():%Y-%m-%d-%H%M%S}"
    for number in range(1, 100):
        name = path.with_name(f"{stem}{f'-{number}' if number > 1 else ''}{path.suffix}")
        with suppress(FileExistsError):
            os.close(os.open(name, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o644))
            return name
    raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(name))
