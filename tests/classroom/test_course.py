"""A course folder: made, released, read; nothing of a teacher's is overwritten, nothing of a student's is trusted."""

import dataclasses
import errno
import json
import os
import shutil
import stat
import subprocess
import sys
from datetime import datetime
from pathlib import Path

import pytest
from traitlets.config import PyFileConfigLoader

from course_utils.authoring import cells
from course_utils.authoring.files import dumps, read
from course_utils.base.files import write_whole
from course_utils.classroom.__main__ import main
from course_utils.classroom.books.stored import StoredResult, load, save
from course_utils.classroom.course.create import CONFIG_TEXT, create
from course_utils.classroom.course.folder import FILTERS, ClassFolder
from course_utils.classroom.course.release import release
from course_utils.classroom.course.submissions import READ_BYTES, Submission, read_submission
from course_utils.classroom.judging.results import Report
from tests.classroom.hand_in import answered, hand_in, put, released
from tests.classroom.handed_in import FROZEN
from tests.classroom.stand_in import StandIn

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
HIDDEN = "\n### BEGIN HIDDEN TESTS\nassert snapshot(torch.ones(3)).sum() == 3\n### END HIDDEN TESTS"
LATIN_1 = os.fsdecode(b"M\xfcller")  # as a zip made on Windows unpacks


def by_id(notebook, id):
    return next(cell for cell in notebook.cells if cell.id == id)


# ---------------------------------------------------------------------------------------------------------------- init


def test_a_new_course_has_settings_and_one_source_a_lesson(tmp_path):
    made = create(tmp_path / "class")
    there = sorted(path.stem for path in (ROOT / "notebooks" / "solutions").glob("*.ipynb"))
    wanted = ["nbgrader_config.py", *(f"source/{name}/{name}.ipynb" for name in there)]
    assert sorted(path.relative_to(tmp_path / "class").as_posix() for path in made.written) == wanted
    for path in made.written[1:]:
        assert path.read_bytes() == (ROOT / "notebooks" / "solutions" / path.name).read_bytes()


def test_a_lesson_may_be_named_as_notebook_or_as_lesson(tmp_path):
    create(tmp_path, ["detach", "05_no_grad.ipynb"])
    assert sorted(path.name for path in (tmp_path / "source").iterdir()) == ["03_detach", "05_no_grad"]


def test_the_course_id_is_the_one_given_or_the_folders_name(tmp_path):
    create(tmp_path / "fall", ["detach"], "autograd-2027")
    create(tmp_path / "spring", ["detach"])
    assert ClassFolder(tmp_path / "fall").course_id == "autograd-2027"
    assert ClassFolder(tmp_path / "spring").course_id == "spring"


def test_what_a_teacher_changed_is_kept_and_named(tmp_path, capsys):
    create(tmp_path, ["detach"])
    source = tmp_path / "source" / "03_detach" / "03_detach.ipynb"
    source.write_text(source.read_text() + "\n")
    (tmp_path / "nbgrader_config.py").write_text("c = get_config()\n")
    mine = {path: path.read_bytes() for path in (source, tmp_path / "nbgrader_config.py")}

    assert main(["init", str(tmp_path), "--lessons", "detach", "no_grad"]) == 0

    assert {path: path.read_bytes() for path in mine} == mine
    printed = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in printed] == ["wrote", "kept", "kept"]
    assert printed[0].endswith("05_no_grad.ipynb")


def test_making_a_course_twice_changes_nothing(tmp_path, capsys):
    for _ in range(2):
        assert main(["init", str(tmp_path), "--lessons", "detach", "--course-id", "one"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "everything is there already"


@pytest.mark.parametrize("name", ["fall 2027", "a/b", "a:b", 'x" + 1'])
def test_a_course_id_that_could_not_be_a_path_is_refused(name, tmp_path, capsys):
    assert main(["init", str(tmp_path / "class"), "--course-id", name]) == 1
    assert "letters, digits" in capsys.readouterr().err
    assert not (tmp_path / "class").exists()


def test_an_unknown_lesson_is_refused_by_name(tmp_path, capsys):
    assert main(["init", str(tmp_path / "class"), "--lessons", "detatch"]) == 1
    assert "no solution notebook called detatch" in capsys.readouterr().err


def test_without_a_checkout_there_is_nothing_to_make_a_course_of(tmp_path):
    with pytest.raises(ValueError, match="has no notebooks/solutions"):
        create(tmp_path / "class", checkout=tmp_path)


def test_a_folder_without_settings_is_no_course(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for command in ("release", "grade", "feedback", "export"):
        assert main([command]) == 1
        assert "holds no nbgrader_config.py" in capsys.readouterr().err


def test_the_course_and_the_class_release_the_same_stub():
    # Two files say it: the course's own for learners, and the class folder's.
    settings = (ROOT / "nbgrader_config.py").read_text()
    for name in ("c.ClearSolutions.code_stub", "c.ClearSolutions.text_stub"):
        (line,) = [line for line in settings.splitlines() if line.startswith(name)]
        assert line in CONFIG_TEXT.format(course_id="any").splitlines()


def test_students_texts_are_made_harmless_for_nbgraders_own_pages_too(tmp_path):
    create(tmp_path, ["detach"])
    config = PyFileConfigLoader("nbgrader_config.py", path=str(tmp_path)).load_config()
    assert config.HTMLExporter.filters == FILTERS
    (tmp_path / "nbgrader_config.py").write_text('c = get_config()\nc.HTMLExporter.filters = {"mine": "html.escape"}\n')
    pages = ClassFolder(tmp_path).api.config.HTMLExporter
    assert pages.filters == FILTERS | {"mine": "html.escape"}


# ------------------------------------------------------------------------------------------------------------- release


def test_a_release_is_byte_for_byte_what_learners_open(released_course):
    released = sorted((released_course / "release").glob("*/*.ipynb"))
    assert len(released) == 3
    for path in released:
        assert path.read_bytes() == (FROZEN / "notebooks" / path.name).read_bytes()


def test_a_released_assignment_is_in_the_gradebook(course):
    with course.gradebook() as gradebook:
        assert {item.name: item.max_score for item in gradebook.assignments} == {
            "01_requires_grad": 12,
            "03_detach": 12,
            "05_no_grad": 12,
        }


def test_releasing_says_points_and_whose_notebook_it_is(course, capsys):
    source = course.notebook("source", "03_detach")
    notebook = read(source)
    by_id(notebook, "title").source += "\n\nDue on Friday."
    write_whole(source, dumps(notebook))
    today = Path(__file__).parents[2] / "notebooks/solutions/05_no_grad.ipynb"  # not as it once was
    shutil.copy(today, course.notebook("source", "05_no_grad"))
    assert main(["release", "--course", str(course.root), "03_detach", "05_no_grad"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "released 03_detach: 12 points",
        "released 05_no_grad: 12 points",
    ]
    assert "Due on Friday." in course.notebook("release", "03_detach").read_text()


def test_what_a_front_end_leaves_in_a_source_does_not_matter(course):
    source = course.notebook("source", "03_detach")
    notebook = read(source)
    notebook.metadata.kernelspec.display_name = "Python 3.12 (class)"
    for cell in notebook.cells:
        cell.metadata.collapsed = False
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
    write_whole(source, dumps(notebook))
    assert release(course, "03_detach") == 12


@pytest.mark.parametrize(
    ("id", "change", "rule"),
    [
        ("snapshot-check", lambda cell: cell.metadata.nbgrader.update(grade_id="detach-mean_loss-check"), "grade-id"),
        ("snapshot-check", lambda cell: cell.update(source="print(1)"), "own-tests"),
        ("snapshot-check", lambda cell: cell.update(source=cell.source + HIDDEN), "check-call"),
        ("snapshot-check", lambda cell: cell.update(source='lesson.check("snapshott", snapshot)'), "exercise"),
        ("snapshot-check", lambda cell: cell.update(source="!ls\nassert True"), "own-tests"),
        (
            "snapshot",
            lambda cell: cell.update(source="def snapshot(x):\n    return x.detach().clone()"),
            "solution-region",
        ),
    ],
)
def test_a_source_that_would_grade_wrongly_is_not_released(id, change, rule, course, capsys):
    source, target = course.notebook("source", "03_detach"), course.notebook("release", "03_detach")
    before = target.read_bytes()
    notebook = read(source)
    change(by_id(notebook, id))
    write_whole(source, dumps(notebook))
    assert main(["release", "--course", str(course.root), "03_detach"]) == 1
    said = capsys.readouterr().err
    assert "03_detach is not released" in said and f"[{rule}]" in said
    assert target.read_bytes() == before


def test_a_release_that_would_show_a_solution_leaves_the_old_one_alone(course):
    before = course.notebook("release", "03_detach").read_bytes()
    # A header that nbgrader puts before every notebook: no source shows it.
    secret = "    return x.detach().clone()"
    write_whole(course.root / "source" / "header.ipynb", dumps(cells.notebook([cells.code(secret, "header")])))
    with open(course.root / "nbgrader_config.py", "a") as settings:
        settings.write('c.IncludeHeaderFooter.header = "source/header.ipynb"\n')
    with pytest.raises(ValueError, match=r"shows a line of the solution"):
        release(ClassFolder(course.root), "03_detach")
    assert course.notebook("release", "03_detach").read_bytes() == before


def test_a_refused_release_changes_nothing(course):
    release(course, "03_detach")
    target = course.notebook("release", "03_detach")
    before, gradebook = target.read_bytes(), (course.root / "gradebook.db").read_bytes()
    source = course.notebook("source", "03_detach")
    source.write_text(source.read_text(encoding="utf-8").replace("### END SOLUTION", "### end"), encoding="utf-8")
    with pytest.raises(ValueError, match="not released"):
        release(course, "03_detach")
    assert target.read_bytes() == before and (course.root / "gradebook.db").read_bytes() == gradebook
    assert {path.name for path in course.root.glob("release*")} == {"release"}


def test_an_assignment_that_is_not_there_is_refused_by_name(course, capsys):
    for command, what in (("release", "source"), ("grade", "released"), ("export", "released")):
        assert main([command, "--course", str(course.root), "04_volatile_history"]) == 1
        said = capsys.readouterr().err
        assert f"There is no {what} assignment 04_volatile_history." in said and "01_requires_grad" in said


# --------------------------------------------------------------------------------------------------------------- seeds


# --------------------------------------------------------------------------------------------------------- submissions


def reading(course, student="ada"):
    return course.submission("03_detach", student)


def test_a_submission_is_the_file_as_it_lies_there(course):
    path = put(course, "ada", "03_detach", b"anything", timestamp="2027-03-01 12:00:00 UTC")
    assert reading(course) == Submission("ada", "03_detach", b"anything", (), datetime(2027, 3, 1, 12))
    assert path.read_bytes() == b"anything"


def test_a_renamed_notebook_is_found(course):
    other = json.dumps(released(course, "05_no_grad")).encode()
    put(course, "ada", "03_detach", other, name="scratch.ipynb")
    hand_in(course, "ada", "03_detach", name="03_detach (1).ipynb")
    found = reading(course)
    assert found.content == json.dumps(released(course, "03_detach"), indent=1).encode()
    assert found.remarks == ("There is no 03_detach.ipynb; 03_detach (1).ipynb was read in its place.",)


def test_of_several_renamed_notebooks_the_newest_counts(course):
    for age, name in enumerate(("b.ipynb", "a.ipynb", "c.ipynb")):
        path = hand_in(course, "ada", "03_detach", {"snapshot": f"# {name}"}, name=name)
        os.utime(path, (1_000_000 - age, 1_000_000 - age))
    assert b"# b.ipynb" in reading(course).content
    assert "the newest of 3" in reading(course).remarks[0]


def test_a_folder_without_a_notebook_is_no_content(course):
    put(course, "ada", "03_detach", b"x = 1", name="answer.py")
    assert reading(course).content is None


@pytest.mark.parametrize("kind", ["link", "loop", "pipe", "socket", "folder"])
def test_what_is_no_file_of_the_students_is_not_opened(kind, course, tmp_path):
    path = course.notebook("submitted", "03_detach", "ada")
    path.parent.mkdir(parents=True)
    secret = tmp_path / "secret.ipynb"
    secret.write_text("another student's work")
    if kind == "link":
        path.symlink_to(secret)
    elif kind == "loop":
        path.symlink_to(path)
    elif kind == "pipe":
        os.mkfifo(path)  # opening it for reading would wait for ever
    elif kind == "socket":
        os.mknod(path, stat.S_IFSOCK | 0o644)
    else:
        path.mkdir()
    found = reading(course)
    assert found.content == b""
    assert "so it was not opened" in found.remarks[0]


def test_what_the_machine_cannot_read_is_no_fault_of_the_students(course, monkeypatch):
    hand_in(course, "ada", "03_detach")

    def refused(path, flags):
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    monkeypatch.setattr("course_utils.classroom.course.submissions.os.open", refused)
    with pytest.raises(PermissionError):
        reading(course)


def test_a_file_name_that_is_not_utf_8_is_told_in_signs_that_a_file_can_hold(course):
    path = hand_in(course, "ada", "03_detach", name="draft.ipynb")
    path.rename(path.with_name(LATIN_1 + ".ipynb"))
    found = reading(course)
    (remark,) = found.remarks
    assert "M\\udcfcller.ipynb was read in its place" in remark and remark.encode() and found.digest
    assert found.content == json.dumps(released(course, "03_detach"), indent=1).encode()


@pytest.mark.parametrize("name", [LATIN_1, "ada\nbob", "<script>", "*"])
def test_a_folder_whose_name_can_be_no_id_is_no_students(name, course):
    hand_in(course, "ada", "03_detach")
    hand_in(course, "draft", "03_detach")
    (course.root / "submitted" / "draft").rename(course.root / "submitted" / name)
    assert course.submitters("03_detach") == course.students() == ["ada"]
    assert course.handed_in("03_detach")[name] == "the folder's name cannot be a student's id; rename it"


def test_what_lies_where_a_folder_should_be_is_named(course):
    hand_in(course, "ada", "03_detach")
    for name in ("bob", "eve"):
        (course.root / "submitted" / name).mkdir()
    (course.root / "submitted" / "bob" / "03_detach").write_text("{}")
    (course.root / "submitted" / "eve" / "03_detach").symlink_to("03_detach")
    (course.root / "submitted" / "notes.txt").write_text("mine")
    trouble = "03_detach is no folder"
    assert course.handed_in("03_detach") == {"ada": "", "bob": trouble, "eve": course.handed_in("03_detach")["eve"]}
    assert "eve/03_detach is a link to another folder" in course.handed_in("03_detach")["eve"]
    assert course.students() == ["ada"]


def test_of_a_timestamp_only_so_much_is_read_as_a_time_has(course):
    hand_in(course, "ada", "03_detach", timestamp="2027-03-01 12:00:00 UTC" * 100_000)
    assert reading(course).time is None and len(reading(course).aside[0]) < 200


def test_a_link_in_place_of_the_timestamp_is_not_followed(course, tmp_path):
    hand_in(course, "ada", "03_detach")
    (tmp_path / "secret").write_text("secret")
    course.notebook("submitted", "03_detach", "ada").with_name("timestamp.txt").symlink_to(tmp_path / "secret")
    assert reading(course).time is None and "is a link to another file" in reading(course).aside[0]


def test_a_file_beyond_all_measure_is_not_read_whole(tmp_path):
    with open(tmp_path / "03_detach.ipynb", "wb") as file:
        file.truncate(READ_BYTES * 3)  # a sparse file: takes no room
    found = read_submission(tmp_path, student="ada", assignment="03_detach", marks=('"detach-snapshot"',))
    assert len(found.content) == READ_BYTES + 1


# ------------------------------------------------------------------------------------------------------------- results


def test_a_kept_result_comes_back_and_a_broken_file_does_not(course, tmp_path):
    text = course.notebook("release", "03_detach").read_text()
    report = StandIn().grade(text, text.encode(), student="ada", assignment="03_detach")
    path = tmp_path / "reports" / "report.json"
    save(path, StoredResult("key", report))
    assert load(path) == StoredResult("key", report)
    whole = path.read_text()
    for old, new in (
        ("reviews", "x"),
        ("not attempted", "passed"),
    ):
        assert old in whole
        path.write_text(whole.replace(old, new))
        assert load(path) is None, new
    for broken in ("", whole[:-100], "[]", "3", "[" * 100_000, '{"digest": "", "report": {}}'):
        path.write_text(broken)
        assert load(path) is None, broken
    path.write_bytes(whole.encode("utf-16"))
    assert load(path) is None
    assert load(tmp_path / "none.json") is None


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("exercises", 3),
        ("exercises", [3]),
        ("repairs", "text"),
        ("reviews", [3]),
        ("notebook", None),
        ("wall_seconds", float("nan")),
        ("wall_seconds", 10**400),
    ],
    ids=lambda value: str(value)[:20],
)
def test_a_reports_json_holds_what_a_report_holds(name, value, course):
    text = course.notebook("release", "03_detach").read_text()
    report = StandIn().grade(text, text.encode(), student="ada", assignment="03_detach")
    assert Report.from_json(report.to_json()) == report
    with pytest.raises(ValueError, match="Not a report's"):
        Report.from_json(json.dumps(json.loads(report.to_json()) | {name: value}))


def test_half_a_surrogate_pair_is_a_question_mark_on_disk(course, tmp_path):
    text = course.notebook("release", "03_detach").read_text()
    report = StandIn().grade(text, text.encode(), student="ada", assignment="03_detach")
    save(tmp_path / "report.json", StoredResult("key", dataclasses.replace(report, notes=("half: \ud800",))))
    assert load(tmp_path / "report.json").report.notes == ("half: ?",)
    assert write_whole(tmp_path / "text", "\udfff\n").read_text() == "?\n"


# ---------------------------------------------------------------------------------------------------------------- lock


def test_two_commands_do_not_work_in_one_course(course, capsys):
    with course.only_one():
        assert main(["grade", "--course", str(course.root)]) == 1
        assert "one at a time" in capsys.readouterr().err
    with course.only_one():
        pass


def test_a_killed_command_leaves_no_lock(course):
    program = (
        "import os, signal, sys; from pathlib import Path\n"
        "from course_utils.classroom.course.folder import ClassFolder\n"
        "with ClassFolder(Path(sys.argv[1])).only_one(): os.kill(os.getpid(), signal.SIGKILL)"
    )
    killed = subprocess.run([sys.executable, "-c", program, str(course.root)], cwd=ROOT)
    assert killed.returncode == -9
    with course.only_one():
        pass


def test_answers_can_be_put_into_a_release(course):
    # The helper that the other tests stand on.
    notebook = answered(released(course, "03_detach"), {"snapshot": "x = 1"})
    changed = [cell["id"] for cell in notebook["cells"] if cell["source"] == "x = 1"]
    assert changed == ["snapshot"]
