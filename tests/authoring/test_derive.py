"""What follows from the exercises' text files is written, the same each time, and nowhere else to be mended."""

import nbformat
import pytest

from course_utils.authoring import cells
from course_utils.authoring.build import build
from course_utils.authoring.derive import Entry, catalogue, derived, minutes, sittings, with_minutes
from course_utils.authoring.files import dumps, read
from course_utils.catalogue import LESSONS, LessonInfo, text_files

ENTRIES = {
    "snapshot": Entry("snapshot", 4, "Exercise 3.1 · snapshot · 4 points, 3 minutes", ""),
    "predicted_edit": Entry("predicted_edit", 6, "Exercise 3.2 · predicted_edit · 6 points, 5 minutes", ""),
}


def test_a_notebook_in_which_all_is_derived_stays_as_it_is(solution):
    assert dumps(derived(solution, "detach", ENTRIES)) == dumps(solution)


@pytest.mark.parametrize(
    ("id", "change"),
    [
        ("snapshot", lambda cell: cell.metadata.pop("nbgrader")),
        ("snapshot", lambda cell: cell.metadata.nbgrader.update(solution=False, locked=True)),
        ("snapshot", lambda cell: cell.metadata.nbgrader.update(grade_id="detach-predicted_edit", schema_version=4)),
        ("snapshot-check", lambda cell: cell.metadata.nbgrader.update(points=3, checksum="0" * 32)),
        ("snapshot-check", lambda cell: cell.update(source='lesson.check("snapshot", other); print(1)')),
        ("snapshot-text", lambda cell: cell.update(source="### Exercise: snapshot\n\nKeep the values.")),
        ("predicted_edit-text", lambda cell: cell.update(source=cell.source.replace("3.2", "3.1").replace("6", "5"))),
        ("setup", lambda cell: cell.metadata.nbgrader.update(locked=False)),
        ("written", lambda cell: cell.metadata.nbgrader.update(points=3, grade=False)),
        ("case", lambda cell: cell.metadata.update(nbgrader={"grade_id": "copied"}, collapsed=True)),
    ],
)
def test_whatever_an_author_left_there_is_mended(id, change, solution, cell_of):
    before = dumps(solution)
    change(cell_of(solution, id))
    assert dumps(derived(solution, "detach", ENTRIES)) == before


def test_an_exercise_is_two_cells_and_its_check_is_added(solution, cell_of):
    before = [cell.id for cell in solution.cells]
    solution.cells.remove(cell_of(solution, "snapshot-check"))
    cell_of(solution, "snapshot").id, cell_of(solution, "snapshot-text").id = "8c1f", "9d2e"  # as JupyterLab calls them
    notebook = derived(solution, "detach", ENTRIES)
    assert [cell.id for cell in notebook.cells] == before
    check = cell_of(notebook, "snapshot-check")
    assert (check.source, check.outputs) == ('lesson.check("snapshot", snapshot)', [])
    assert check.metadata == cells.check("detach", "snapshot", 4).metadata
    assert "8c1f" in [cell.id for cell in solution.cells], "what was handed over is left as it is"


def swapped(notebook):
    notebook.cells[5:8], notebook.cells[8:11] = notebook.cells[8:11], notebook.cells[5:8]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda nb: nb.cells.pop(5), "The notebook's exercises are predicted_edit."),
        (lambda nb: nb.cells.insert(6, cells.markdown("Now you.", "x")), "No answer stands below the heading of snap"),
        (lambda nb: nb.cells[6].update(source="snapshot = 1"), "No answer stands below the heading of snapshot."),
        (lambda nb: nb.cells[5].update(source="### Exercise 3.1 · shot"), "the name of an exercise that has a text"),
        (swapped, "The notebook's exercises are predicted_edit, snapshot."),
    ],
)
def test_what_cannot_be_derived_is_said(change, said, solution):
    change(solution)
    with pytest.raises(ValueError, match=said):
        derived(solution, "detach", ENTRIES)


@pytest.mark.parametrize("number", ["2", "4", "true", '"3"'])
def test_numbers_are_counted_from_one(number, course):
    path = course.exercises("detach") / "mean_loss.toml"
    path.write_text(f"number = {number}", encoding="utf-8")
    with pytest.raises(
        ValueError, match=r"numbered from 1, without a gap; there are: mean_loss .*, predicted_edit 2, snap"
    ):
        text_files(path.parent)


def test_points_that_change_in_the_text_file_change_everywhere_at_once(course, cell_of):
    course.readme.write_text("| 03 | old |\n| 04 | old |\n\nMore.\n", encoding="utf-8")
    source = '"""é"""\nLESSONS = (\n    LessonInfo(3, "detach", "detach", "Why?", (15,), 10),\n)\n'
    course.catalogue.write_text(source, encoding="utf-8")
    build(course)
    assert course.catalogue.read_text(encoding="utf-8") == source
    text = course.exercises("detach") / "snapshot.toml"
    text.write_text(text.read_text(encoding="utf-8").replace("points = 4", "points = 1"), encoding="utf-8")
    assert {path.name for path in build(course)} == {"03_detach.ipynb", "catalogue.py", "README.md"}
    for folder in (course.solutions, course.learners):
        notebook = read(folder / "03_detach.ipynb")
        assert cell_of(notebook, "snapshot-text").source.startswith(
            "### Exercise 3.1 · snapshot · 1 point, 3 minutes\n"
        )
        assert cell_of(notebook, "snapshot-check").metadata.nbgrader.points == 1
    assert course.catalogue.read_text(encoding="utf-8") == source.replace("(15,), 10", "(15,), 7")
    assert "| 15 | 2 | 7 |\n" in course.readme.read_text(encoding="utf-8")
    assert build(course) == []


def test_the_catalogue_keeps_what_is_not_of_its_lessons():
    source = 'é = LessonInfo(\n    0, "start_here", "é", f(),\n    (15,), 0\n)  # as it was\n'
    assert catalogue(source, {"detach": LESSONS[3]}) == source
    info = LessonInfo(0, "start_here", "", "", (20, 30), 4)
    assert catalogue(source, {"start_here": info}) == source.replace("(15,), 0", "(20, 30), 4")


BREAK = "## Then\n\n*Your second sitting begins here; it takes 5 minutes. Come back.*"


def lesson(*sources):
    return cells.notebook(cells.markdown(source, f"cell-{at}") for at, source in enumerate(sources))


@pytest.mark.parametrize(("words", "taken"), [(0, 5), (110 * 14, 15), (110 * 17, 15), (110 * 26, 25)])
def test_what_a_lesson_says_is_a_multiple_of_five_minutes(words, taken):
    assert sittings(lesson("word " * words)) == (taken,)


def test_headings_lines_of_code_what_they_print_predictions_and_changes_take_their_time():
    code = nbformat.v4.new_code_cell("x = 1\n\n" * 9 + 'lesson.predict("?", ..., 1)')
    assert minutes([code]) == 10 / 6 + 2
    printed = nbformat.v4.new_output("stream", text="a b")
    shown = nbformat.v4.new_output("display_data", {"text/plain": "c", "image/png": ""})
    assert minutes([nbformat.v4.new_code_cell("x", outputs=[printed, shown])]) == 1 / 6 + 3 / 110
    assert minutes([cells.markdown("**Now change this.** Put 2.", "x")]) == 5 / 110 + 2
    assert minutes([cells.markdown("a b\n\n```python\nx = 1\ny = 2\n```", "x")]) == 2 / 110 + 2 / 6
    assert minutes([cells.answer("### BEGIN SOLUTION\nx\n### END SOLUTION", "detach", "x")]) == 0
    heading = cells.markdown("### Exercise 0.1 · x · 4 minutes, no points", "x")
    assert minutes([heading]) == 4 + 10 / 110
    assert minutes([cells.markdown("[a b](https://c.d) <br> e", "x")]) == 3 / 110
    long = cells.markdown(f"### Exercise 0.1 · x · 4 minutes\n\n{'word ' * 91}", "x")
    assert minutes([long]) == 4 * 1.5 + 99 / 110
    assert minutes([code, heading]) == minutes([code]) + minutes([heading])


def test_opening_and_break_say_the_minutes():
    notebook = with_minutes(lesson("# 03\n\nTwo sittings, plan two\nsittings, of 1 and\n2 minutes.", BREAK), (35, 40))
    assert notebook.cells[0].source == "# 03\n\nTwo sittings, plan two sittings, of 35 and 40 minutes."
    third = BREAK.replace("second", "third")
    notebook = with_minutes(lesson("Plan two sittings, of 1 and 2 minutes.", BREAK, third), (35, 40, 25))
    assert [cell.source for cell in notebook.cells] == [
        "Plan three sittings, of 35, 40 and 25 minutes.",
        BREAK.replace("takes 5", "takes 40"),
        third.replace("takes 5", "takes 25"),
    ]
    assert (
        with_minutes(lesson("> In 5 minutes, 3 minutes each."), (15,)).cells[0].source
        == "> In 15 minutes, 3 minutes each."
    )
