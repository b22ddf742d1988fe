"""A learner's copies: what update and fresh promise, with the disk, the record and Ctrl-C against them."""

import errno
import json
import os
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest

from course_utils import workspace
from course_utils.workspace import FOLDER, RECORD, fresh, update
from course_utils.workspace.__main__ import main

pytestmark = pytest.mark.slow


def write_notebook(path: Path, *sources: str) -> bytes:
    cells = [nbformat.v4.new_code_cell(source, id=f"cell-{number}") for number, source in enumerate(sources)]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(nbformat.writes(nbformat.v4.new_notebook(cells=cells)), encoding="utf-8")
    return path.read_bytes()


@pytest.fixture
def course(tmp_path: Path) -> Path:
    """A course of two lessons in a folder whose name has a space, copied once to its learner."""
    course = tmp_path / "my course"
    write_notebook(course / "notebooks/00_start_here.ipynb", "print('welcome')")
    write_notebook(course / "notebooks/03_detach.ipynb", "def snapshot(x):\n    ...")
    assert update(course, course) == [f"Copied to {FOLDER}/: 00_start_here, 03_detach."]
    return course


def copy_of(course: Path, name: str = "03_detach") -> Path:
    return course / FOLDER / f"{name}.ipynb"


def files(course: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (course / FOLDER).iterdir()}


def begin(course: Path) -> bytes:
    return write_notebook(copy_of(course), "def snapshot(x):\n    return x.detach().clone()  # my work")


def release_newer(course: Path) -> bytes:
    return write_notebook(course / "notebooks/03_detach.ipynb", "def snapshot(x):\n    ...", "lesson.hint('snapshot')")


def test_copies_are_the_lessons_byte_for_byte(course: Path) -> None:
    for lesson in (course / "notebooks").glob("*.ipynb"):
        assert copy_of(course, lesson.stem).read_bytes() == lesson.read_bytes()


def test_nothing_is_said_or_written_where_nothing_changed(course: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in (course / FOLDER).iterdir()}
    assert update(course, course) == []
    assert {path: path.stat().st_mtime_ns for path in (course / FOLDER).iterdir()} == before


def test_new_lesson_is_added_beside_begun_ones(course: Path) -> None:
    mine = begin(course)
    write_notebook(course / "notebooks/04_no_grad.ipynb", "...")
    assert update(course, course) == [f"Copied to {FOLDER}/: 04_no_grad."]
    assert copy_of(course).read_bytes() == mine


def test_untouched_copy_follows_the_course(course: Path) -> None:
    newer = release_newer(course)
    assert update(course, course) == [f"Updated in {FOLDER}/, as you had not begun them: 03_detach."]
    assert copy_of(course).read_bytes() == newer
    assert update(course, course) == []


def test_saving_without_a_change_does_not_count_as_begun(course: Path) -> None:
    # JupyterLab lays the file out in its own way, and adds metadata, when it saves.
    notebook = json.loads(copy_of(course).read_bytes())
    notebook["metadata"]["language_info"] = {"name": "python", "version": "3.12.1"}
    (cell,) = notebook["cells"]
    cell |= {"source": "".join(cell["source"]), "metadata": {"trusted": True}}
    copy_of(course).write_text(json.dumps(notebook, indent=4), encoding="utf-8")
    newer = release_newer(course)
    update(course, course)
    assert copy_of(course).read_bytes() == newer


@pytest.mark.parametrize(
    "change",
    [
        lambda cell: cell.update(source="x = 1"),
        lambda cell: cell.update(outputs=[nbformat.v4.new_output("stream", name="stdout", text="2\n")]),
        lambda cell: cell.update(cell_type="raw"),
    ],
    ids=["text", "output", "kind of cell"],
)
def test_what_a_learner_sees_counts_as_begun(course: Path, change) -> None:
    notebook = json.loads(copy_of(course).read_bytes())
    change(notebook["cells"][0])
    copy_of(course).write_text(json.dumps(notebook), encoding="utf-8")
    mine = copy_of(course).read_bytes()
    release_newer(course)
    update(course, course)
    assert copy_of(course).read_bytes() == mine


def test_begun_lesson_is_left_and_its_newer_version_told_with_the_command_each_time(course: Path) -> None:
    mine = begin(course)
    assert update(course, course) == []  # a lesson that was begun is no news as long as the course has no newer one
    release_newer(course)
    for _ in range(2):
        (line,) = update(course, course)
        assert line.startswith("03_detach has a newer version; yours is kept as it is. To take it: ")
        assert line.endswith(f"autograd-control fresh 03_detach --folder '{course}'")
        assert copy_of(course).read_bytes() == mine


def test_damaged_copy_is_left(course: Path) -> None:
    copy_of(course).write_bytes(b'{"cells": [{"sou')
    release_newer(course)
    assert "newer version" in update(course, course)[0]
    assert copy_of(course).read_bytes() == b'{"cells": [{"sou'


@pytest.mark.parametrize("record", [b"", b"{", b"[1]", b"\xff\xfe"])
def test_unreadable_record_costs_no_work_and_is_said_once(course: Path, record: bytes) -> None:
    mine = begin(course)
    (course / FOLDER / RECORD).write_bytes(record)
    lines = update(course, course)
    assert lines[0] == f"{FOLDER}/{RECORD} cannot be read and is made anew; your notebooks stay as they are."
    assert len(lines) == 2 and "yours is kept as it is" in lines[1]
    assert copy_of(course).read_bytes() == mine
    assert update(course, course) == []


def test_lost_record_is_found_again_for_untouched_copies(course: Path) -> None:
    record = (course / FOLDER / RECORD).read_bytes()
    (course / FOLDER / RECORD).unlink()
    assert update(course, course) == []
    assert (course / FOLDER / RECORD).read_bytes() == record


def test_copy_made_by_hand_is_not_written_over(tmp_path: Path) -> None:
    write_notebook(tmp_path / "notebooks/03_detach.ipynb", "...")
    mine = write_notebook(tmp_path / FOLDER / "03_detach.ipynb", "done already")
    update(tmp_path, tmp_path)
    assert copy_of(tmp_path).read_bytes() == mine


def test_fresh_gives_the_lesson_back_and_keeps_the_work(course: Path) -> None:
    mine, newer = begin(course), release_newer(course)
    lines = fresh("03_detach", course, course)
    assert copy_of(course).read_bytes() == newer
    (kept,) = [name for name in files(course) if ".kept-" in name]
    assert files(course)[kept] == mine
    assert kept in lines[1]
    assert update(course, course) == []


def test_fresh_never_writes_over_what_it_kept_before(course: Path) -> None:
    for number in range(3):
        write_notebook(copy_of(course), f"try {number}")
        fresh("detach", course, course)
    kept = [content for name, content in files(course).items() if ".kept-" in name]
    assert sorted(content.count(b"try") for content in kept) == [1, 1, 1]
    assert len(set(kept)) == 3


@pytest.mark.parametrize("name", ["03_detach", "03_detach.ipynb", "detach", "3", "03", f"{FOLDER}/03_detach.ipynb"])
def test_fresh_takes_a_lesson_by_any_of_its_names(course: Path, name: str) -> None:
    begin(course)
    fresh(name, course, course)
    assert copy_of(course).read_bytes() == (course / "notebooks/03_detach.ipynb").read_bytes()


@pytest.mark.parametrize("name", ["", "detatch", "solutions", "../03_detach/x"])
def test_fresh_of_an_unknown_lesson_names_those_there_are(course: Path, name: str) -> None:
    before = files(course)
    with pytest.raises(ValueError, match="Expected: one of 00_start_here, 03_detach"):
        fresh(name, course, course)
    assert files(course) == before


def test_fresh_of_an_untouched_lesson_leaves_no_copy_behind(course: Path) -> None:
    before = files(course)
    assert fresh("detach", course, course) == [
        f"{FOLDER}/03_detach.ipynb is as the course has it already; nothing was changed."
    ]
    assert files(course) == before
    release_newer(course)
    fresh("detach", course, course)
    assert set(files(course)) == set(before)


def test_fresh_brings_a_deleted_lesson_back(course: Path) -> None:
    copy_of(course).unlink()
    fresh("detach", course, course)
    assert copy_of(course).read_bytes() == (course / "notebooks/03_detach.ipynb").read_bytes()


@pytest.mark.parametrize("error", [KeyboardInterrupt(), OSError(errno.ENOSPC, "No space left on device")], ids=repr)
@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_work_survives_fresh_that_stops_at_any_step(course: Path, monkeypatch, step: str, moment: str, error) -> None:
    mine, lesson = begin(course), (course / "notebooks/03_detach.ipynb").read_bytes()
    real = getattr(os, step)

    def stop(*arguments):
        if moment == "after":
            real(*arguments)
        raise error

    with monkeypatch.context() as patched:
        patched.setattr(os, step, stop)
        with pytest.raises(type(error)):
            fresh("detach", course, course)
    assert mine in files(course).values()
    assert copy_of(course).read_bytes() in (mine, lesson)
    assert not [name for name in files(course) if name.startswith(".incoming")]


@pytest.mark.parametrize("call", ["fresh('detach', course, course)", "print(*update(course, course))"])
def test_work_survives_a_disk_that_takes_no_more(course: Path, call: str) -> None:
    resource = pytest.importorskip("resource", reason="limits on file size are POSIX")
    mine = begin(course)
    write_notebook(course / "notebooks/04_no_grad.ipynb", "...")
    write_notebook(course / "notebooks/00_start_here.ipynb", "a newer welcome")
    before = files(course)
    imports = "from pathlib import Path; from course_utils.workspace import *"
    program = f"{imports}; course = Path({str(course)!r}); {call}"
    result = subprocess.run(
        [sys.executable, "-B", "-c", program],  # or it keeps the first 100 bytes of the course's own byte code
        cwd=workspace.COURSE,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100)),
        capture_output=True,
        text=True,
    )
    assert "File too large" in result.stderr + result.stdout
    assert files(course) == before and before[copy_of(course).name] == mine


def test_update_goes_on_after_a_lesson_it_cannot_write_and_names_the_reason(course: Path, monkeypatch) -> None:
    release_newer(course)
    write_notebook(course / "notebooks/04_no_grad.ipynb", "...")
    real = os.replace

    def refuse(source, target):
        if Path(target).name == "03_detach.ipynb":
            raise OSError(errno.ENOSPC, "No space left on device")
        real(source, target)

    monkeypatch.setattr(os, "replace", refuse)
    copied, failed = update(course, course)
    assert copied == f"Copied to {FOLDER}/: 04_no_grad."
    assert failed.startswith(f"{FOLDER}/ is not up to date (03_detach): the disk is full.")
    monkeypatch.undo()
    assert update(course, course) == [f"Updated in {FOLDER}/, as you had not begun them: 03_detach."]


def test_a_file_in_the_folders_place_is_told_and_left(tmp_path: Path) -> None:
    write_notebook(tmp_path / "notebooks/03_detach.ipynb", "...")
    (tmp_path / FOLDER).write_text("a note of mine", encoding="utf-8")
    (line,) = update(tmp_path, tmp_path)
    assert "is not up to date (03_detach)" in line
    assert (tmp_path / FOLDER).read_text(encoding="utf-8") == "a note of mine"


def test_a_course_without_lessons_says_how_to_install_it(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"python -m pip install -c constraints.txt -e \."):
        update(tmp_path, tmp_path)


@pytest.mark.parametrize("arguments", [["update"], ["fresh", "detach"]])
def test_command_line_prints_what_was_done(course: Path, capsys, arguments: list[str]) -> None:
    begin(course)
    copy_of(course, "00_start_here").unlink()
    assert main([*arguments, "--folder", str(course)]) == 0
    assert ("00_start_here" if arguments == ["update"] else "Your file is kept as") in capsys.readouterr().out


def test_command_line_errors_are_messages_with_status_1(course: Path, capsys) -> None:
    assert main(["fresh", "no such lesson", "--folder", str(course)]) == 1
    printed = capsys.readouterr()
    assert "There is no lesson called 'no such lesson'." in printed.err and not printed.out


@pytest.fixture
def further(course: Path) -> Path:
    """The course's notebook that goes on from lesson 03, new since the course was copied."""
    write_notebook(course / "notebooks/further/03_detach.ipynb", "print('further')")
    return course / "notebooks/further/03_detach.ipynb"


def test_what_goes_on_from_a_lesson_is_copied_below_the_lessons_and_followed(course: Path, further: Path) -> None:
    assert update(course, course) == [f"Copied to {FOLDER}/: further/03_detach."]
    copy = course / FOLDER / "further/03_detach.ipynb"
    assert copy.read_bytes() == further.read_bytes()
    assert update(course, course) == []
    write_notebook(further, "print('further still')")
    assert update(course, course) == [f"Updated in {FOLDER}/, as you had not begun them: further/03_detach."]
    assert copy.read_bytes() == further.read_bytes() != copy_of(course).read_bytes()


def test_what_goes_on_from_a_lesson_is_the_learner_s_once_begun(course: Path, further: Path) -> None:
    update(course, course)
    copy, lesson = course / FOLDER / "further/03_detach.ipynb", begin(course)
    mine = write_notebook(copy, "my own try")
    write_notebook(further, "print('further still')")
    (line,) = update(course, course)
    assert line.startswith("further/03_detach has a newer version; yours is kept as it is.")
    assert copy.read_bytes() == mine
    lines = fresh("further/03_detach", course, course)
    (kept,) = copy.parent.glob("03_detach.kept-*.ipynb")
    assert f"{FOLDER}/further/{kept.name}" in lines[1] and kept.read_bytes() == mine
    assert copy.read_bytes() == further.read_bytes()
    assert update(course, course) == [] and copy_of(course).read_bytes() == lesson


def test_a_file_in_the_place_of_the_folder_further_is_told_and_left(course: Path, further: Path) -> None:
    (course / FOLDER / "further").write_text("a note of mine", encoding="utf-8")
    (line,) = update(course, course)
    assert "is not up to date (further/03_detach)" in line
    assert (course / FOLDER / "further").read_text(encoding="utf-8") == "a note of mine"
