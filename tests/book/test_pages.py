"""The sources of the site's pages, before Sphinx sees them."""

import json
import re

import nbformat
import pytest

from course_utils import control_panel
from course_utils.base.markup import visible
from course_utils.catalogue import LESSONS, find
from course_utils.checks.misconceptions import LESSONS as TEXT_FILES
from course_utils.checks.misconceptions import Misconception, read, thoughts
from course_utils.why.pages import page_for, pages
from tests.book.given import COURSE, ROOT
from tools.book import answers, errors, front, lessons, mistakes
from tools.book.__main__ import write_sources


@pytest.fixture(scope="module")
def sources(tmp_path_factory):
    folder = tmp_path_factory.mktemp("book") / "sources"
    write_sources(COURSE, folder)
    return folder


@pytest.fixture(scope="module", params=LESSONS, ids=lambda lesson: lesson.name)
def lesson(request):
    return request.param


@pytest.fixture(scope="module")
def notebook(sources, lesson):
    return nbformat.read(sources / "notebooks" / f"{lesson.notebook}.ipynb", as_version=4)


def test_outputs_are_the_solved_notebook_s_and_those_of_checks_stay_out(notebook):
    shown = {cell.id: cell.outputs for cell in notebook.cells if cell.cell_type == "code"}
    graded = [cell.id for cell in notebook.cells if cell.metadata.get("nbgrader", {}).get("grade")]
    assert graded and not any(shown[id] for id in graded)
    assert sum(map(bool, shown.values())) >= 10
    assert "Every claim held" not in str(shown) and "passed" not in str(shown)
    assert not shown.get("scorecard") and not shown.get("progress-where")


@pytest.mark.parametrize(
    ("source", "personal"),
    [
        ("lesson.scorecard()", True),
        ("progress()", True),
        ("progress(show_location=False)", False),
        ("plot_lines({'yours': run(freeze)})", True),
        ("%%memory\nx.double()  # freeze", False),
        ("plot_lines(moved, x='step after the freeze')", False),
    ],
)
def test_what_shows_a_learner_s_own_is_known(source, personal):
    assert lessons.is_personal(source, {"freeze", "double"}) is personal


def test_every_figure_has_its_words_as_alternative_text(notebook):
    rows = [(cell, output) for cell in notebook.cells for output in cell.get("outputs", [])]
    figures = [(cell, output) for cell, output in rows if "image/png" in output.get("data", {})]
    assert figures
    assert [cell.metadata.mystnb.image.alt for cell, _ in figures] == [
        output.data["text/plain"] for _, output in figures
    ]


def test_every_prediction_is_folded_with_its_answer(notebook, lesson):
    said = answers.stored()[lesson.name]
    folds = [cell.source for cell in notebook.cells if "Your guess first: </strong>" in cell.source]
    assert len(folds) == len(said) == len(thoughts(TEXT_FILES / lesson.name))
    assert all(fold.startswith("<details><summary>") and "PyTorch says: <code>" in fold for fold in folds)


def test_a_prediction_without_a_stored_answer_says_how_to_store_it():
    with pytest.raises(ValueError, match=r"(?s)No answer is stored .* of 00_start_here.*tools.book answers"):
        lessons.page(COURSE, LESSONS[0], {})


def test_guesses_of_one_thought_stand_in_one_row():
    fold = lessons.guess_first(
        "How many?", "3", {"1": "`a` ran.", "2": "Both ran.", "1.0": "`a` ran.", "other": "Look."}
    )
    assert "<li>If you said <code>1</code> or <code>1.0</code>: <code>a</code> ran.</li>" in fold
    assert fold.count("<li>") == 2 and "Look." not in fold


def test_a_card_s_links_lead_to_pages(sources):
    notebook = nbformat.read(sources / "notebooks" / "11_clinic.ipynb", as_version=4)
    rows = [output.get("data", {}) for cell in notebook.cells for output in cell.get("outputs", [])]
    cards = "".join(data.get("text/html", "") for data in rows)
    assert 'href="03_detach.html#what-total-holds-on-to"' in cards and ".ipynb#" not in cards


def test_every_hint_is_folded(notebook, lesson):
    texts = [
        read(path).get("hints", []) for path in (TEXT_FILES / lesson.name).glob("*.toml") if path.stem != "predictions"
    ]
    folds = re.findall(r"<details><summary>Hint \d of \d</summary>", "".join(cell.source for cell in notebook.cells))
    assert len(folds) == sum(map(len, texts)) > 1


def test_what_goes_on_from_a_lesson_is_the_page_after_it(sources):
    index = (sources / "notebooks" / "index.md").read_text(encoding="utf-8")
    for path in COURSE.further_paths():
        assert f"\n{path.stem}\nfurther/{path.stem}\n" in index
        page = nbformat.read(sources / "notebooks" / "further" / path.name, as_version=4)
        stored = nbformat.read(path, as_version=4)
        assert [(cell.source, cell.get("outputs")) for cell in page.cells] == [
            (cell.source, cell.get("outputs")) for cell in stored.cells
        ]
        figures = [
            cell for cell in page.cells if any("image/png" in o.get("data", {}) for o in cell.get("outputs", []))
        ]
        assert all(cell.metadata.mystnb.image.alt for cell in figures)


def test_each_lesson_says_how_to_open_it(notebook, lesson):
    assert f"my_notebooks/{lesson.notebook}.ipynb" in notebook.cells[1].source


def test_every_misconception_stands_on_one_page(sources):
    text = "".join(path.read_text(encoding="utf-8") for path in (sources / "misconceptions").glob("*.md"))
    homes = {}
    for path in sorted(TEXT_FILES.glob("*/*.toml")):
        if path.stem != "predictions":
            homes |= {row.home: row.name for row in read(path)["misconceptions"].values()}
    assert text.count("\n### ") == len(homes)
    assert [name for name in homes.values() if f"### {mistakes.escaped(name)}\n" not in text] == []
    assert f"all {len(homes)} of them" in text


def test_every_error_has_a_page_with_its_message_its_program_and_its_causes(sources):
    index = (sources / "errors" / "index.md").read_text(encoding="utf-8")
    for error in pages():
        text = (sources / "errors" / f"{error.key}.md").read_text(encoding="utf-8")
        assert text.startswith(f"# {mistakes.escaped(error.title)}\n")
        assert f"\n{error.prints}\n```" in text and f"```python\n{error.program}\n```" in text
        assert text.count("*Try:*") == len(error.causes)
        assert "run `why()` in the next cell" in text and ("simplefilter" in text) == error.warns
        assert f"[{mistakes.escaped(error.title)}]({error.key}.md)" in index


def test_an_error_that_a_lesson_shows_leads_to_its_page(notebook, lesson):
    links = [cell.source for cell in notebook.cells if cell.source.startswith("*In the index of errors:* ")]
    assert links or lesson.number in (0, 11, 12)  # the errors of lesson 12 are its own engine's
    if lesson.name == "detach":
        assert any("(../errors/modified_in_place.md)" in link for link in links)


def test_a_pasted_message_is_looked_for_by_the_parts_that_do_not_change():
    rows = json.loads(errors.parts().removeprefix("const ERRORS = ").removesuffix(";"))
    assert len(rows) == sum(len(error.messages) for error in pages())
    assert all(page_for(part).key == key and "`" not in title for part, key, title, _ in rows)


def test_a_misconception_s_program_is_folded():
    row = Misconception("a < b", "It *is* `x_1`.", "Print [it].", ("detach", "Read on"))
    fields = {"program": "\nprint(1)\n", "prints": "\n1\n"}
    text = "\n".join(mistakes.section("snapshot", [(row, fields)]))
    assert r"### a \< b" in text and "*is* `x_1`" in text and r"\[it\]" in text
    assert "<details>" in text and "```python\nprint(1)\n```\n\n```text\n1\n```" in text
    assert "../notebooks/03_detach.ipynb#read-on" in text
    assert "<details>" not in "\n".join(mistakes.section("snapshot", [(row, {})]))


def test_the_front_page_is_the_readme_without_the_way_to_itself():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    page = front.front_page(readme, ["Lessons <notebooks/index>"])
    assert "make book" in readme and "make book" not in page
    assert "## Lessons" in page and "Lessons <notebooks/index>" in page


def test_the_control_panel_leads_to_the_lessons_pages(sources):
    page = (sources / "control_panel.md").read_text(encoding="utf-8")
    links = re.findall(r'href="([^"]+)"', page)
    wanted = {f"notebooks/{find(control.lesson).notebook}.html" for control in control_panel().controls}
    assert set(links) == wanted and page.count("<tr>") == len(control_panel().controls) + 1


def test_what_is_shown_of_an_answer_is_visible_text():
    shown = [text for said in answers.stored().values() for text in said.values()]
    assert shown and all(text and text == visible(text) for text in shown)
