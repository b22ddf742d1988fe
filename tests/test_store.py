"""The file under progress against killed kernels, many writers, full disks and forbidden folders: in real processes."""

import os
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
from contextlib import closing
from pathlib import Path

import pytest

from course_utils.progress import place, store
from course_utils.progress.history import attempts, record, reset_progress

ROOT = Path(__file__).parents[1]

# Without the package's __init__, which may import torch: a second for each process.
PREAMBLE = f"""
import os, resource, signal, sys, types
package = types.ModuleType("course_utils")
package.__path__ = [{str(ROOT / "course_utils")!r}]
sys.modules["course_utils"] = package
from course_utils.progress import place, store
from course_utils.progress.history import attempts, location, progress, record, reset_progress
import sqlite3
def attempt(exercise, earned=1):
    return record("detach", exercise, earned=earned, possible=2, status="partial")
def as_nobody():
    # A superuser may write everywhere; what is read-only has to be tried as somebody else.
    if os.geteuid() == 0:
        os.setgroups([]), os.setresgid(65534, 65534, 65534), os.setresuid(65534, 65534, 65534)
"""

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform == "win32", reason="signals, limits and permissions as POSIX has them"),
]


def start(code, path):
    environment = {**os.environ, place.VARIABLE: str(path)}
    command = [sys.executable, "-c", PREAMBLE + code]
    return subprocess.Popen(command, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def run(code, path):
    """Runs the code in a process of its own and returns the lines that it printed."""
    process = start(code, path)
    output, errors = process.communicate(timeout=60)
    assert (process.returncode, errors) == (0, "")
    return output.splitlines()


def run_until_killed(code, path):
    process = start(code, path)
    assert process.communicate(timeout=60) == ("", "")
    assert process.returncode == -signal.SIGKILL


def count_of(exercise="a"):
    return sum(row.count for row in attempts() if row.exercise == exercise)


def is_sound(path):
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


@pytest.fixture
def open_folder():
    """A folder that every user may enter and write, unlike pytest's own."""
    with tempfile.TemporaryDirectory() as name:
        os.chmod(name, 0o777)
        yield Path(name)


def test_many_kernels_writing_at_once_lose_no_acknowledged_attempt(progress_file):
    # All begin together with a file that does not exist yet.
    code = 'print(sum(attempt("a") is None for _ in range(20)))'
    writers = [start(code, progress_file) for _ in range(3)]
    outputs = [writer.communicate(timeout=60) for writer in writers]
    assert [errors for _, errors in outputs] == [""] * 3
    acknowledged = [int(output) for output, _ in outputs]
    assert count_of() == sum(acknowledged) and min(acknowledged) > 0
    assert is_sound(progress_file)


def test_a_kernel_killed_at_any_moment_loses_nothing_it_acknowledged(progress_file):
    code = 'while True:\n    assert attempt("a") is None\n    print("stored", flush=True)'
    acknowledged = 0
    for lines in (0, 1, 3, 10):
        writer = start(code, progress_file)
        seen = [writer.stdout.readline() for _ in range(lines)]
        writer.kill()
        seen += writer.stdout.readlines()  # `communicate` would miss what `readline` has buffered
        writer.communicate(timeout=60)
        acknowledged += seen.count("stored\n")
        # It may have been killed between storing and saying so.
        assert acknowledged <= count_of() <= acknowledged + 1
        acknowledged = count_of()
        assert is_sound(progress_file)
    assert acknowledged >= 14


STORED = Path(__file__).parent / "stored" / "progress_of_the_second_edition.sqlite3"


@pytest.mark.parametrize("before", ["nothing", "an attempt", "a file of version 1"])
def test_a_kill_in_the_middle_of_an_attempt_takes_all_of_it_back(progress_file, before):
    if before == "a file of version 1":
        shutil.copy(STORED, progress_file)
    elif before == "an attempt":
        record("detach", "a", earned=1, possible=2, status="partial")
    rows, size = attempts(), progress_file.stat().st_size if progress_file.exists() else 0
    code = """
with store._transaction(location(), writing=True) as connection:
    connection.execute("PRAGMA cache_size = 1")  # so that pages reach the file before the COMMIT
    for i in range(500):
        connection.execute(store.ADD, ("now", "prediction", f"{i}" * 50))
    os.kill(os.getpid(), signal.SIGKILL)
"""
    run_until_killed(code, progress_file)
    journal = Path(f"{progress_file}-journal")
    assert journal.stat().st_size > 0 and progress_file.stat().st_size > 2 * size, "it was killed before it wrote"
    assert attempts() == rows and is_sound(progress_file)
    assert record("detach", "new", earned=2, possible=2, status="passed") is None
    assert set(rows) < set(attempts()) and is_sound(progress_file) and not journal.exists()


def test_a_kill_between_the_copy_and_the_reset_keeps_every_row_in_both(progress_file):
    record("detach", "a", earned=1, possible=2, status="partial")
    run_until_killed("store._event = lambda *_: os.kill(os.getpid(), signal.SIGKILL)\nreset_progress()", progress_file)
    assert count_of() == 1 and is_sound(progress_file)
    (copy,) = progress_file.parent.glob("progress-before-reset-*.sqlite3")
    assert store.read(copy) == store.read(progress_file) and is_sound(copy)


def test_a_reset_that_is_interrupted_takes_back_copy_and_change_together(progress_file, monkeypatch):
    def interrupt(*_):
        assert list(progress_file.parent.glob("progress-before-reset-*"))
        raise KeyboardInterrupt

    record("detach", "a", earned=1, possible=2, status="partial")
    monkeypatch.setattr(store, "_event", interrupt)
    with pytest.raises(KeyboardInterrupt):
        reset_progress()
    assert count_of() == 1 and list(progress_file.parent.glob("progress*")) == [progress_file]


@pytest.mark.nightly
def test_a_file_that_may_not_be_written_is_read_and_left_as_it_is(open_folder):
    path = open_folder / "progress.sqlite3"
    run('print(attempt("a"))', path)
    path.chmod(0o444)
    before = path.read_bytes()
    line, best = run('as_nobody()\nprint(attempt("a", 2))\nprint(attempts()[0].best)', path)
    assert line.startswith(f"This attempt is not stored: {path} may not be written; make it and its folder writable")
    assert best == "1.0"
    assert path.read_bytes() == before


@pytest.mark.nightly
def test_a_folder_that_may_not_be_written_is_read_and_left_as_it_is(open_folder):
    path = open_folder / "progress.sqlite3"
    run('print(attempt("a"))', path)
    path.chmod(0o666)
    open_folder.chmod(0o555)
    try:
        line, best = run('as_nobody()\nprint(attempt("a", 2))\nprint(attempts()[0].best)', path)
        new = run('as_nobody()\nprint(attempt("a"))', open_folder / "other.sqlite3")
        below = run('as_nobody()\nprint(attempt("a"))', open_folder / "folder" / "progress.sqlite3")
        reset = run("as_nobody()\nprint(reset_progress())", path)
    finally:
        open_folder.chmod(0o777)
    for shown in (line, *new, *below):
        assert re.match(
            r"This attempt is not stored: .* (may not be written|cannot be opened); make it and its folder", shown
        )
    assert reset[0].startswith("Nothing was reset: ")
    assert best == "1.0"
    assert [entry.name for entry in open_folder.iterdir()] == ["progress.sqlite3"]


@pytest.mark.nightly
def test_a_file_that_may_not_be_read_says_so(open_folder):
    path = open_folder / "progress.sqlite3"
    run('print(attempt("a"))', path)
    path.chmod(0o000)
    line, found, notes = run('as_nobody()\nprint(attempt("a"))\nprint(attempts())\nprint(progress().notes[0])', path)
    assert "cannot be opened; make it and its folder writable" in line
    assert found == "()" and notes.startswith("What was stored cannot be read: ")


@pytest.mark.nightly
@pytest.mark.parametrize("room", [0, 6000])
def test_a_disk_without_room_keeps_what_was_stored(progress_file, room):
    # Python ignores SIGXFSZ, so that a write past the limit fails like one on a full disk.
    limit = f"resource.setrlimit(resource.RLIMIT_FSIZE, ({room}, {room}))"
    (line,) = run(f'{limit}\nprint(attempt("a"))', progress_file)
    assert line.startswith("This attempt is not stored: ")
    assert attempts() == ()
    assert record("detach", "a", earned=1, possible=2, status="partial") is None
    line, best = run(f'{limit}\nprint(attempt("a", 2))\nprint(attempts()[0].best)', progress_file)
    assert line.startswith("This attempt is not stored: ")
    assert best == "1.0" and count_of() == 1 and is_sound(progress_file)
    (line,) = run(f"{limit}\nprint(reset_progress())", progress_file)
    assert line.startswith("Nothing was reset: ") and count_of() == 1
    assert list(progress_file.parent.glob("progress*")) == [progress_file]


@pytest.mark.nightly
def test_a_full_disk_is_called_full(tmp_path):
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(disk)]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True).returncode != 0:
        pytest.skip("only a superuser may mount a small disk; the test above limits the file's size instead")
    try:
        path = disk / "progress.sqlite3"
        assert run('print(attempt("a"))', path) == ["None"]
        with open(disk / "filler", "wb", buffering=0) as filler, pytest.raises(OSError, match="No space left"):
            while True:
                filler.write(bytes(4096))
        line, best = run('print(attempt("a", 2))\nprint(attempts()[0].best)', path)
        assert line == "This attempt is not stored: the disk is full; make room and run the cell again."
        assert best == "1.0"
        (disk / "filler").unlink()
        assert run('print(attempt("a", 2))\nprint(attempts()[0].best)', path) == ["None", "2.0"]
    finally:
        subprocess.run(["umount", str(disk)], check=True)


def sqlite_error(name, text=""):
    error = sqlite3.OperationalError(text)
    error.sqlite_errorname = name
    return error


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (sqlite_error("SQLITE_BUSY"), "another program is holding F; run the cell again in a moment"),
        (sqlite_error("SQLITE_FULL"), "the disk is full; make room and run the cell again"),
        (OSError(28, "No space left on device"), "the disk is full; make room and run the cell again"),
        (
            sqlite_error("SQLITE_IOERR_WRITE", "disk I/O error"),
            f"F cannot be used (disk I/O error); run the cell again, or {place.ELSEWHERE}",
        ),
    ],
)
def test_every_reason_is_one_clause_with_what_to_do(error, line):
    assert str(store._unusable(error, Path("F"))) == line
