"""A learner with lesson 03 in JupyterLab: with the mouse, with the keyboard alone, on every theme."""

import re

import nbformat
import pytest
from playwright.sync_api import expect

from course_utils import Lesson
from course_utils.authoring import cells
from tests.browser.jupyterlab import CARDS, DETACH, NOTEBOOKS, THEMES, assert_readable

pytestmark = [pytest.mark.browser, pytest.mark.slow]

WRONG = "def snapshot(x):\n    return x.detach()"
RIGHT = "def snapshot(x):\n    return x.detach().clone()"
MISCONCEPTION = Lesson("detach").exercises["snapshot"].misconceptions["alias"].name

# Every kind of card that the course shows.
GALLERY = cells.notebook(
    [
        cells.code('from course_utils import Lesson, progress\n\nlesson = Lesson("detach")', "setup"),
        cells.code('lesson.check("snapshot", ...)', "not-attempted"),
        cells.code(
            'def snapshot(x):\n    print("I was given", x)\n    return x\n\nlesson.check("snapshot", snapshot)', "wrong"
        ),
        cells.code('lesson.check("mean_loss", lambda model, loss_fn, batches: 1 / 0)', "raises"),
        cells.code('lesson.check("predicted_edit", {"detach_edit": "error", "data_edit": 3})', "partly"),
        cells.code('lesson.check("snapshot", lambda x: x.detach().clone())', "right"),
        cells.code('lesson.predict("How many bytes do 1024 float32 take?", ..., 4096)', "asked"),
        cells.code('lesson.predict("How many bytes do 1024 float32 take?", 1024, 4096)', "predicted-wrong"),
        cells.code('lesson.predict("How many bytes do 1024 float32 take?", 4096, 4096)', "predicted-right"),
        cells.code('lesson.hint("snapshot")', "hint"),
        cells.code('for _ in range(9):\n    last = lesson.hint("snapshot")\nlast', "no-hint"),
        cells.code('lesson.solution("truncated_bptt")', "try-first"),
        cells.code('lesson.solution("truncated_bptt")', "solution"),
        cells.code("lesson.scorecard()", "scorecard"),
        cells.code("progress()", "progress"),
    ]
)


def test_run_all_on_an_untouched_lesson_stops_nowhere_and_gives_nothing_away(untouched):
    assert untouched.errors.count() == 0
    assert untouched.failures == []
    checks = untouched.checks()
    assert len(checks) == 5
    for check in checks:
        expect(untouched.output(check)).to_contain_text("not attempted")
    expect(untouched.output("scorecard")).to_contain_text("0 of 10 points")


def test_a_lesson_asks_nothing_of_the_network(untouched):
    assert untouched.requests == []


def test_what_a_lesson_shows_is_sound_for_screen_readers(untouched):
    assert untouched.audit(CARDS) == []


@pytest.mark.nightly
def test_a_wrong_answer_is_told_its_misconception_and_points_outlive_the_kernel(open_notebook):
    lab = open_notebook(DETACH)
    lab.run_all()

    lab.write("snapshot", WRONG)
    lab.run_cell("snapshot")
    lab.run_cell("snapshot-check")
    card = lab.output("snapshot-check")
    expect(card).to_contain_text("does not hold")
    expect(card).to_contain_text(MISCONCEPTION)
    lab.picture("wrong")

    lab.write("snapshot", RIGHT)
    lab.run_cell("snapshot")
    lab.run_cell("snapshot-check")
    expect(card).to_contain_text("1 of 1 point. Every claim held.")
    expect(card).not_to_contain_text(MISCONCEPTION)
    lab.picture("right")

    # Full marks are kept, even though the answer is lost with the kernel and a wrong one is checked after it.
    lab.write("snapshot", WRONG)
    lab.menu("Run", "Restart Kernel and Run All Cells…")
    lab.page.get_by_role("button", name="Confirm Kernel Restart").click()
    lab.wait_until_run(in_order=True)
    expect(card).to_contain_text(MISCONCEPTION)
    row = lab.output("scorecard").get_by_role("row").filter(has_text="snapshot")
    expect(row).to_contain_text("1 of 1 point")
    expect(lab.output("scorecard")).to_contain_text("1 of 10 points")
    lab.picture("restarted")


@pytest.mark.nightly
def test_a_learner_who_is_wrong_twice_and_then_right_has_cleared_it_up(open_notebook):
    answer = 'lesson.check("snapshot", lambda x: {})'
    path = [
        cells.code('from course_utils import Lesson, drill, progress\n\nlesson = Lesson("detach")', "setup"),
        cells.code(answer.format("x.detach()"), "wrong"),
        cells.code(answer.format("x.data"), "wrong-again"),
        cells.code("progress()", "open"),
        cells.code("drill()", "drill"),
        cells.code(answer.format("x.detach().clone()"), "right"),
        cells.code("progress()", "cleared"),
        cells.code("drill()", "drill-again"),
    ]
    lab = open_notebook(cells.notebook(path), "path.ipynb")
    lab.run_all()
    expect(lab.output("open")).to_contain_text("Still open (1)")
    expect(lab.output("open")).to_contain_text(MISCONCEPTION)
    expect(lab.output("drill")).to_contain_text(f"“{MISCONCEPTION}” is still open in snapshot.")
    expect(lab.output("drill")).to_contain_text("edits drill")
    expect(lab.output("cleared")).to_contain_text("Cleared up (1)")
    expect(lab.output("cleared")).not_to_contain_text("Still open")
    expect(lab.output("drill-again")).to_contain_text("longest ago")
    lab.picture("path")


@pytest.mark.nightly
def test_the_link_on_a_card_leads_to_the_heading_that_explains_it(open_notebook):
    lab = open_notebook(DETACH)
    lab.run_all()
    lab.write("snapshot", WRONG)
    lab.run_cell("snapshot")
    lab.run_cell("snapshot-check")
    lab.output("snapshot-check").get_by_role("link", name="What detach() gives you").click()
    expect(lab.page.get_by_role("heading", name="What detach() gives you")).to_be_in_viewport()
    lab.picture("followed")


@pytest.mark.nightly
def test_a_lesson_can_be_done_with_the_keyboard_alone(open_notebook):
    lab = open_notebook(DETACH)
    keyboard = lab.page.keyboard
    for cell in lab.notebook.cells:
        if cell.id == "snapshot":
            break
        if cell.cell_type == "code":
            lab.run_cell(cell.id)
        else:
            keyboard.press("Shift+Enter")
    keyboard.press("Enter")
    expect(lab.cell("snapshot").locator(".cm-content")).to_be_focused()
    keyboard.press("ControlOrMeta+A")
    keyboard.type("def snapshot(x):\nreturn x.detach().clone()")  # the editor indents the second line itself
    lab.expect_source("snapshot", RIGHT)
    lab.run_cell("snapshot")
    lab.run_cell("snapshot-check")
    expect(lab.output("snapshot-check")).to_contain_text("1 of 1 point. Every claim held.")
    lab.command("Run All Cells")
    lab.wait_until_run()
    expect(lab.output("scorecard")).to_contain_text("1 of 10 points")
    lab.picture("keyboard")


@pytest.mark.nightly
def test_every_card_can_be_read_on_every_theme(open_notebook):
    lab = open_notebook(GALLERY, "gallery.ipynb")
    lab.run_all()
    expect(lab.page.locator(CARDS)).to_have_count(len(GALLERY.cells) - 1)
    assert lab.audit(CARDS) == []
    for theme in THEMES:
        lab.use_theme(theme)
        lab.picture(theme.replace(" ", "-"))
        assert_readable(lab, texts=150)
    heading = lab.page.locator(f"{CARDS} h4").first
    # The greys of either side of the border, on white: 4.48 to 1 is too little, 4.54 is enough.
    for grey, expected in ("#777777", 4.48), ("#767676", 4.54):
        heading.evaluate("(heading, grey) => { heading.style = `background: white; color: ${grey}`; }", grey)
        ratio, text = lab.contrasts(CARDS)[0]
        assert text in heading.inner_text()
        assert ratio == pytest.approx(expected, abs=0.005)


@pytest.mark.nightly
def test_cards_from_somebody_else_s_computer_say_and_look_the_same(open_notebook):
    solved = nbformat.read(NOTEBOOKS / "solutions" / DETACH.name, as_version=4)
    stored = [
        output.data["text/html"]
        for cell in solved.cells
        for output in cell.get("outputs", [])
        if "text/html" in output.get("data", {})
    ]
    lab = open_notebook(NOTEBOOKS / "solutions" / DETACH.name)
    shown = lab.page.locator(CARDS)
    expect(shown).to_have_count(len(stored))
    assert not re.search(r"\bjp-mod-trusted\b", shown.first.get_attribute("class"))
    said = lab.page.evaluate(
        """cards => cards.map(card => {
            const body = new DOMParser().parseFromString(card, 'text/html').body;
            body.querySelectorAll('style').forEach(style => style.remove());  // a figure's, for a dark theme
            return body.textContent;
        })""",
        stored,
    )
    assert [text.split() for text in shown.all_text_contents()] == [text.split() for text in said]
    lab.picture("untrusted")
    assert_readable(lab, texts=30)
