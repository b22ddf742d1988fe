"""A course folder, made and released: nothing of a teacher's is overwritten, nothing that grades wrongly goes out."""

import json
import shutil

import pytest
from traitlets.config import PyFileConfigLoader

from course_utils.classroom.__main__ import main
from tests.classroom.handed_in import DETACH, FLAGS, FROZEN, MODES, NEEDS_SANDBOX, ROOT
from tests.classroom.own import STUB, answer, check, put_source
from tests.classroom.teacher import Teacher

pytestmark = pytest.mark.slow

HIDDEN = "\n### BEGIN HIDDEN TESTS\nassert snapshot(torch.ones(3)).sum() == 3\n### END HIDDEN TESTS"


# ---------------------------------------------------------------------------------------------------------------- init


def test_a_new_course_has_settings_and_one_source_a_lesson(tmp_path, capsys):
    assert main(["init", str(tmp_path / "class")]) == 0
    there = sorted(path.stem for path in (ROOT / "notebooks" / "solutions").glob("*.ipynb"))
    made = sorted(path.relative_to(tmp_path / "class").as_posix() for path in tmp_path.glob("class/**/*.*"))
    assert made == ["nbgrader_config.py", *(f"source/{name}/{name}.ipynb" for name in there)]
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == ["wrote"] * len(made)
    for name in there:
        source = (tmp_path / "class" / "source" / name / f"{name}.ipynb").read_bytes()
        assert source == (ROOT / "notebooks" / "solutions" / f"{name}.ipynb").read_bytes()


def test_the_course_id_is_the_one_given_or_the_folders_name(tmp_path):
    for folder, more in {"fall": ["--course-id", 'x" + 1'], "spring {0}": []}.items():
        assert main(["init", str(tmp_path / folder), "--lessons", "detach", *more]) == 0
        settings = PyFileConfigLoader("nbgrader_config.py", path=str(tmp_path / folder)).load_config()
        assert settings.CourseDirectory.course_id == (more or ["", "spring {0}"])[1]


def test_what_a_teacher_changed_is_kept_and_named_and_twice_changes_nothing(tmp_path, capsys):
    teacher = Teacher(tmp_path)
    assert main(["init", str(tmp_path), "--lessons", "detach", "05_no_grad.ipynb"]) == 0
    source, settings = teacher.notebook("source"), tmp_path / "nbgrader_config.py"
    capsys.readouterr()
    assert main(["init", str(tmp_path), "--lessons", "detach"]) == 0
    assert capsys.readouterr().out == "everything is there already\n"
    source.write_text(source.read_text() + "\n")
    settings.write_text("c = get_config()\n")
    mine = {path: path.read_bytes() for path in (source, settings)}
    shutil.rmtree(teacher.notebook("source", MODES).parent)
    assert main(["init", str(tmp_path), "--lessons", "detach", "no_grad"]) == 0
    assert {path: path.read_bytes() for path in mine} == mine
    printed = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in printed] == ["wrote", "kept", "kept"] and "05_no_grad.ipynb" in printed[0]


def test_an_unknown_lesson_is_refused_by_name(tmp_path, capsys):
    assert main(["init", str(tmp_path / "class"), "--lessons", "detatch"]) == 1
    assert "no solution notebook called detatch" in capsys.readouterr().err


def test_a_folder_without_settings_is_no_course(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for command in ("release", "grade", "feedback", "export"):
        assert main([command]) == 1
        assert "holds no nbgrader_config.py" in capsys.readouterr().err


# ------------------------------------------------------------------------------------------------------------- release


def test_a_release_is_byte_for_byte_what_learners_open_and_in_the_gradebook(released_course):
    for assignment in (DETACH, FLAGS, MODES):
        own = (FROZEN / "notebooks" / f"{assignment}.ipynb").read_bytes()
        assert released_course.notebook("release", assignment).read_bytes() == own
    with released_course.gradebook() as gradebook:
        assert {item.name: item.max_score for item in gradebook.assignments}.items() >= {(DETACH, 12), (MODES, 12)}


def test_releasing_says_points_and_keeps_what_the_teacher_wrote(teacher):
    def due(cells, order):
        cells["title"]["source"] += "\n\nDue on Friday."
        for cell in order:  # what a front-end leaves in a source does not matter
            cell["metadata"]["collapsed"] = False
            if cell["cell_type"] == "code":
                cell |= {"outputs": [], "execution_count": None}

    teacher.change_source(due)
    today = ROOT / "notebooks" / "solutions" / f"{MODES}.ipynb"  # not as it once was
    shutil.copyfile(today, teacher.notebook("source", MODES))
    assert teacher.run("release", DETACH, MODES).strip().splitlines()[:2] == [
        f"released {DETACH}: 12 points",
        f"released {MODES}: 12 points",
    ]
    assert "Due on Friday." in teacher.notebook("release").read_text()
    assert teacher.notebook("release", MODES).read_bytes() == (ROOT / "notebooks" / f"{MODES}.ipynb").read_bytes()


@pytest.mark.usefixtures("by_one_grader")
@pytest.mark.parametrize(
    ("name", "change", "why"),
    [
        ("snapshot-check", {"grade_id": "detach-mean_loss-check"}, "[grade-id]"),
        ("snapshot-check", "print(1)", "[own-tests]"),
        ("snapshot-check", f'lesson.check("snapshot", snapshot){HIDDEN}', "[check-call]"),
        ("snapshot-check", 'lesson.check("snapshott", snapshot)', "[exercise]"),
        ("snapshot-check", "!ls\nassert True", "[own-tests]"),
        ("snapshot", "def snapshot(x):\n    return x.detach().clone()", "[solution-region]"),
        # What nbgrader itself refuses.
        ("snapshot-check", {"points": -1}, "-1 is less than the minimum of 0"),
        ("snapshot", {"schema_version": 4}, "Schema version is too new"),
        ("snapshot", f"def snapshot(x):\n    {STUB.format('x')}{HIDDEN}", "Hidden test region detected"),
    ],
)
def test_a_source_that_would_grade_wrongly_is_not_released(name, change, why, teacher):
    def edit(cells, order):
        cells[name]["metadata"].setdefault("nbgrader", {}).update(change) if isinstance(change, dict) else None
        cells[name]["source"] = change if isinstance(change, str) else cells[name]["source"]

    target, gradebook = teacher.notebook("release"), teacher.root / "gradebook.db"
    before = target.read_bytes(), gradebook.read_bytes()
    teacher.change_source(edit)
    said = teacher.run("release", DETACH, status=1)
    is_ours = why.startswith("[")
    assert (f"{DETACH} is not released" if is_ours else f"nbgrader could not release {DETACH}") in said and why in said
    assert (target.read_bytes(), gradebook.read_bytes()) == before
    assert {path.name for path in teacher.root.glob("release*")} == {"release"}


def test_a_check_that_is_not_graded_is_not_counted_among_the_points(teacher):
    teacher.change_source(lambda cells, order: cells["snapshot-check"]["metadata"]["nbgrader"].update(grade=False))
    assert f"released {DETACH}: 11 points" in teacher.run("release", DETACH)
    with teacher.gradebook() as gradebook:
        assert gradebook.find_assignment(DETACH).max_score == 11


def test_a_release_that_would_show_a_solution_leaves_the_old_one_alone(teacher):
    before = teacher.notebook("release").read_bytes()
    # A header that nbgrader puts before every notebook: no source shows it.
    put_source(teacher, assignment="header")
    header = json.loads(teacher.notebook("source", "header").read_text())
    header["cells"] = header["cells"][1:2]
    header["cells"][0]["source"] = "    return x.detach().clone()"
    (teacher.root / "header.ipynb").write_text(json.dumps(header))
    shutil.rmtree(teacher.notebook("source", "header").parent)
    teacher.set('c.IncludeHeaderFooter.header = "header.ipynb"')
    assert "shows a line of the solution" in teacher.run("release", DETACH, status=1)
    assert teacher.notebook("release").read_bytes() == before


@pytest.mark.parametrize(("command", "what"), [("release", "source"), ("grade", "release"), ("export", "release")])
def test_an_assignment_that_is_not_there_is_refused_by_name(command, what, teacher):
    said = teacher.run(command, "04_volatile_history", status=1)
    assert f"There is no assignment 04_volatile_history in {what}/." in said and FLAGS in said


# --------------------------------------------------------------------------------------------- tests of a teacher's own


@pytest.mark.parametrize(
    ("source", "why"),
    [
        ("assert (double(2) == 4, 'no')", "An untouched answer earns 2 of 2 points."),
        ("assert double", "An untouched answer earns 2 of 2 points."),
        ("import torch\ndouble(torch.ones(2)) == 2", "the line gives a Tensor"),
        ("assert double(2) == 4\n### BEGIN HIDDEN TESTS\nassert double(3) == 7\n### END HIDDEN TESTS", "earns 0 of 2"),
    ],
)
@NEEDS_SANDBOX[1]
@pytest.mark.usefixtures("by_one_grader")
def test_tests_that_would_grade_everybody_wrongly_are_not_released(source, why, teacher):
    from course_utils.authoring import cells

    put_source(teacher, cells.notebook([answer("double", "2 * x"), check("double-check", source, 2)]), "hw2")
    assert why in teacher.run("release", "hw2", status=1)
    assert not teacher.notebook("release", "hw2").exists()
