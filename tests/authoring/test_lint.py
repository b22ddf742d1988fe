"""Every rule of the lint, on a notebook that breaks it and on the same notebook mended."""

import nbformat
import pytest

from course_utils.authoring import cells
from course_utils.authoring.__main__ import main
from course_utils.authoring.build import build
from course_utils.authoring.files import dumps, read
from course_utils.authoring.lint import lint_course, report
from course_utils.base.files import write_whole

WITHOUT_WORDS = {"image/png": "iVBORw0KGgo=", "text/plain": "<Figure>"}
BREAK = "*Your second sitting begins here; it takes 5 minutes.*"


def source(text):
    return {"source": text}


def shows(kind, **content):
    return {"outputs": [nbformat.v4.new_output(kind, **content)]}


# The rule, the cell that is broken and reported, and what it is made to hold.
BROKEN = {
    "a grade id twice": ("grade-id", "case", {"metadata": {"nbgrader": {"grade_id": "detach-snapshot"}}}),
    "an id twice": ("cell-id", "figure", {"id": "case"}),
    "never run": ("not-executed", "case", {"execution_count": None}),
    "run out of order": ("not-executed", "case", {"execution_count": 9}),
    "a check that nbval skips": ("hidden-from-nbval", "snapshot-check", {"tags": ["nbval-skip"]}),
    "an answer that may raise": ("hidden-from-nbval", "snapshot", {"tags": ["raises-exception"]}),
    "a comment to nbval": ("hidden-from-nbval", "snapshot", source("# NBVAL_IGNORE_OUTPUT\nsnapshot = 1")),
    "26 lines": ("length", "case", source("\n".join(["x = 1"] * 26))),
    "a line of 107 characters": ("width", "case", source("x = 1\ny = " + "1" * 103)),
    "a figure without words": ("alternative-text", "figure", shows("display_data", data=WITHOUT_WORDS)),
    "a link to no lesson": ("link", "title", source("# 03 [detach](03_attach.ipynb)\n\nIt takes 15 minutes.")),
    "a page without https": ("link", "title", source("# 03 [detach](www.pytorch.org)\n\nIt takes 15 minutes.")),
    "an issue that is no link": ("link", "end", source("See #3627.")),
    "a guess that is told nothing": ("prediction", "case", source('lesson.predict("How many?", ..., 4)')),
    "a question under no name": ("prediction", "case", source('lesson.predict(f"{1}?", ..., 4)')),
    "a question that nobody marks": ("written", "question", source('Why? See `lesson.solution("written")`.')),
    "no model answer": ("written", "question", source("### Written question · 2 points by hand, why?")),
    "no marking scheme": ("written", "written", source("Because.")),
    "no minutes": ("time", "title", source("# 03\n\nAn hour.")),
    "a number that nothing shows": ("number", "end", source("## The end\n\nIt fell to 0.29.")),
}


@pytest.fixture
def broken(course, solution, cell_of):
    """The problems of the course whose solution notebook has been changed so."""

    def problems(id="title", change=None):
        if change:
            cell = cell_of(solution, id)
            if "tags" in change:
                change = {"metadata": {**cell.metadata, **change}}
            cell.update(nbformat.from_dict(change))
        write_whole(course.solutions / "03_detach.ipynb", dumps(solution))
        return lint_course(course)

    return problems


def test_a_good_course_has_no_problem(course, capsys):
    build(course)
    assert main(["--course", str(course.root), "lint"]) == 0, capsys.readouterr().err


@pytest.mark.parametrize("case", BROKEN)
def test_a_broken_cell_is_named(case, broken):
    rule, id, change = BROKEN[case]
    problems = broken(id, change)
    found = [text for place, text in problems if f"(id {change.get('id', id)})" in place and f"[{rule}]" in text]
    assert found and "Mend: " in found[0], report(problems)
    assert "03_detach.ipynb" in problems[0].place


def test_what_belongs_to_no_cell_is_named(broken, solution, course, cell_of):
    place = course.exercises("detach") / "predictions.toml"
    place.write_text('["Who?"]\nother = "x"\n', encoding="utf-8")
    del cell_of(solution, "case")["id"]
    solution.cells[1:1] = [cells.markdown("More.", f"more-{number}") for number in range(60)]
    said = report(broken())
    for what in ("The cell has no id.", "The lesson has 74 cells", "Nothing asks 'Who?'."):
        assert what in said


@pytest.mark.parametrize(
    ("told", "shown", "refused"),
    [
        ("it fell to 0.29", "loss 0.2853", False),
        ("it fell to 0.29", "loss 0.3853", True),
        ("# Heading\n\nit fell to 0.29", "loss 0.3853", True),
        ("all 1,024 rows", "1024 rows", False),
        ("35 of 200", "35 of 450", True),
        ("the 7 others", "", False),
        ("line 45, in PyTorch 0.3, in 2024, lesson 03, as exercise 9.15", "", False),
        ("you may do 3.1 now", "", False),  # an exercise of this lesson
        ("`x[128]` of 120 + 16 = 136", "136", False),
        ("**Now change this.** It prints 99.", "", False),
        ("### Exercise 3.1 · snapshot\n\nUp to 100 steps.", "", False),
    ],
)
def test_a_number_in_prose_is_shown_by_a_cell_near_it(told, shown, refused, solution, broken):
    shows_it = cells.code("print(text)", "shown")
    shows_it.execution_count = 9
    shows_it.outputs = [nbformat.v4.new_output("stream", text=shown)]
    solution.cells += [cells.markdown(told, "told"), shows_it]
    assert ["told" in place for place, _ in broken()] == [True] * refused


@pytest.mark.parametrize(("minutes", "refused"), [(52, False), (54, True)])
def test_a_sitting_is_not_longer_than_it_may_be(minutes, refused, solution, broken):
    words = " word" * (110 * minutes - len(BREAK.split()) - 6)
    solution.cells += [cells.markdown(BREAK + words, "break"), cells.markdown("And the number below.", "own")]
    found = [text for place, text in broken() if "(id break)" in place]
    assert [text[:49] for text in found] == ["The sitting that begins here takes 54 minutes; 52"] * refused


def test_an_alternative_text_may_stand_in_the_html(broken):
    data = WITHOUT_WORDS | {"text/html": "<img src='data:,' alt='bytes &amp; time'>"}
    assert broken("figure", shows("display_data", data=data)) == []


@pytest.mark.parametrize(
    ("rule", "id", "change"),
    [
        ("solution-shown", "snapshot", source("def snapshot(x):\n        return x.detach().clone()")),
        ("solution-shown", "case", source("# ### BEGIN SOLUTION")),
        ("solution-shown", "written", source("Because `total` holds every batch's graph.")),
    ],
)
def test_a_broken_learner_notebook_is_named(rule, id, change, course, cell_of):
    (learner,) = build(course)
    notebook = read(learner)
    cell_of(notebook, id).update(nbformat.from_dict(change))
    write_whole(learner, dumps(notebook))
    problems = lint_course(course)
    assert [(place.split(",")[0], f"(id {id})" in place, f"[{rule}]" in text) for place, text in problems] == [
        ("notebooks/03_detach.ipynb", True, True)
    ]


def test_what_goes_on_from_a_lesson_is_linted_too_and_is_led_to(course, solution, cell_of, capsys):
    course.further.mkdir()
    notebook = cells.notebook([cells.markdown("# Going further\n\nSee #3627.", "title")])
    cells.write(notebook, course.further / "03_detach.ipynb")
    assert main(["--course", str(course.root), "lint", "detach"]) == 1
    said = capsys.readouterr().err
    assert "Nothing leads to further/03_detach.ipynb." in said
    assert "notebooks/further/03_detach.ipynb, cell 1 (id title): # Going further\n  #3627 is not a link." in said
    assert said.endswith("2 problems.\n")
    cell_of(solution, "title").source += "\n\nMore: [Going further](further/03_detach.ipynb)."
    cells.write(solution, course.solutions / "03_detach.ipynb")
    assert len(lint_course(course)) == 1
    (course.further / "03_detach.ipynb").unlink()
    assert "'further/03_detach.ipynb' leads to no notebook" in report(lint_course(course))
