"""What students get back, and what leaves the course: nothing that was not meant for them."""

import csv
import html
import io
import json
import re

import pytest
from bs4 import BeautifulSoup
from traitlets.config import PyFileConfigLoader

from tests.classroom.handed_in import DETACH, MODES, Notebook

pytestmark = pytest.mark.slow

ONE = "# outcome: wrong\n# misconception: detach() makes a copy"


@pytest.fixture
def graded(teacher, here):
    """Two students, graded: ada with a wrong answer of her own, grace with right ones."""
    teacher.hand_in("ada", snapshot=f"def snapshot(x):\n    return x.my_own_idea()  {ONE}", written="It grows.")
    teacher.put("grace", Notebook().solve().bytes())
    teacher.run("grade", DETACH)
    return teacher


def text_of(page):
    return html.unescape(re.sub(r"<[^<>]*>", "", page))


def test_feedback_shows_answers_cards_points_and_marks_that_people_gave(graded, tmp_path):
    graded.run("feedback", DETACH)
    shown = text_of(graded.page("ada"))
    assert "my_own_idea" in shown and "snapshot: 0 of 1 points, wrong" in shown
    assert "Together: 0 of 12 points; still to be marked: 1." in shown
    assert "Together: 10 of 12 points" in text_of(graded.page("grace"))
    graded.mark("ada", "written", 1.5, "Say which tensors.")
    assert f"2 files in {tmp_path / 'out'}" in graded.run("feedback", "--to", str(tmp_path / "out"), "--student", "ada")
    shown = text_of(graded.page("ada"))
    assert "Together: 1.5 of 12 points." in shown and "Your teacher marked this answer." in shown
    assert "Say which tensors." in (tmp_path / "out" / DETACH / "ada.html").read_text()


def test_without_a_grade_there_is_no_feedback(teacher):
    assert f"Nothing of {DETACH} is graded yet." in teacher.run("feedback", DETACH, status=1)


HOSTILE = """
<script>alert(1)</script> <img src="x" onerror="alert(1)"> [a](javascript:alert(1)) <a href="java\tscript:x">b</a>
<iframe src="//x"></iframe> <style>*{display:none}</style> <svg onload="alert(1)"></svg> <base href="//x">
<form action="//x"><input name="a"></form> <b style="position:fixed" onclick="alert(1)">c</b>
$<script>alert(1)</script>$

# <img src="x" onerror="alert(1)">

```mermaid
<img src="x" onerror="alert(1)">
```
"""
GENTLE = """> *quoted* `a < b` $a < b$

|a|b|
|:-|-:|
|1|2|

![seen](data:image/png;base64,AAAA) ![gone](attachment:x.png)
"""
CARD = '<details style="opacity:0.8"><summary>why</summary><p style="margin:0">because</p></details>'


def rewrite(teacher, student, change):
    """Changes the graded notebook of a student: what reaches a page is what stands there."""
    path = teacher.notebook("autograded", student=student)
    notebook = Notebook()
    notebook.data = json.loads(path.read_text())
    change(notebook)
    path.chmod(0o644)
    path.write_bytes(notebook.bytes())


def shown_of(teacher, student):
    """What a student's page shows, without the page's own head."""
    return BeautifulSoup(teacher.page(student), "html.parser").body


def test_nothing_that_a_student_writes_acts_on_a_page_and_markdown_looks_as_before(graded):
    def write(notebook):
        notebook.write(written=HOSTILE).add(HOSTILE, kind="raw").add(HOSTILE, kind="markdown").add(
            GENTLE, kind="markdown"
        )
        notebook.cell("snapshot-check")["outputs"][0]["data"]["text/html"] = CARD

    rewrite(graded, "ada", write)
    graded.run("feedback", DETACH, "--student", "ada")
    shown = shown_of(graded, "ada")
    names = {element.name for element in shown.find_all()}
    assert not names & {"script", "iframe", "style", "svg", "form", "input", "base"}
    for element in shown.find_all():
        assert not [name for name in element.attrs if name.startswith("on")], element
        assert "script:" not in element.get("href", "") + element.get("src", "")
        assert element.name != "b" or "style" not in element.attrs
    assert shown.get_text().count("<script>alert(1)</script>") >= 6, "it is shown as what it is"
    for part in (
        "<blockquote>\n<p><em>quoted</em> <code>a &lt; b</code> $a &lt; b$</p>\n</blockquote>",
        '<td style="text-align:right;">2</td>',
        '<img alt="seen" src="data:image/png;base64,AAAA"/> [picture: gone]',
        CARD,
    ):
        assert part in str(shown), part


PIECES = ["$$", "\\begin{align}", "[", "![", "*", "<", "\\\\[", "# a\n", "> ", "<b>"]


@pytest.mark.nightly
def test_long_texts_are_cut_and_not_worked_on(graded):
    def write(notebook):
        for piece in PIECES:
            notebook.add((piece * 200_000)[:200_000], kind="markdown")
        notebook.add("<b>" * 100_000, kind="raw").add("a." * 200_000).add("f'" * 200_000)
        notebook.cell("case-run")["outputs"] = [  # as long as grading lets in
            *({"output_type": "stream", "name": "stdout", "text": "\x1b[31ma" * 16_000} for _ in range(5)),
            *({"output_type": "display_data", "data": {"text/plain": "x" * 100_000}, "metadata": {}} for _ in range(5)),
        ]
        notebook.add("*after*", "end", kind="markdown")

    rewrite(graded, "ada", write)
    graded.run("feedback", DETACH, "--student", "ada")
    shown = shown_of(graded, "ada")
    assert len(str(shown)) < 6 * 2**20 and shown.get_text().count("more characters") == len(PIECES) + 3
    assert "snapshot: 0 of 1 points, wrong" in shown.get_text() and "after" in shown.get_text()


@pytest.mark.nightly
def test_two_thousand_long_cells_are_a_page_that_a_browser_opens_with_every_graded_cell_on_it(graded):
    def write(notebook):
        for _ in range(1000):
            notebook.add("f(a, b) " * 2_500, "title").add("x = 1; " * 400, "title")

    rewrite(graded, "ada", write)
    graded.run("feedback", DETACH, "--student", "ada")
    shown = shown_of(graded, "ada")
    assert len(str(shown)) < 8 * 2**20
    assert "my_own_idea" in shown.get_text() and "snapshot: 0 of 1 points, wrong" in shown.get_text()


def test_the_formgrader_shows_students_texts_as_feedback_does(graded):
    from nbconvert.exporters import HTMLExporter
    from nbgrader.server_extensions.formgrader.handlers import template_path

    def write(notebook):
        notebook.write(written=HOSTILE).add("<b>" * 100_000, "title", "raw").add("a." * 200_000, "title")

    rewrite(graded, "ada", write)
    settings = PyFileConfigLoader("nbgrader_config.py", path=str(graded.root)).load_config()
    exporter = HTMLExporter(config=settings, template_name="formgrade", extra_template_basedirs=[template_path])
    page, _ = exporter.from_filename(
        str(graded.notebook("autograded", student="ada")), resources={"index": 0, "total": 1}
    )
    shown = BeautifulSoup(page, "html.parser").find(id="notebook-container")
    assert "my_own_idea" in shown.get_text() and "alert(1)" in shown.get_text() and len(str(shown)) < 2**20
    assert not shown.find_all(["script", "iframe", "form"]) and not shown.find_all(onerror=True)


def test_every_name_gets_its_page(teacher, here):
    names = ["=HYPERLINK(1)", "a,b", "c: d", "{x}"]
    for name in names:
        teacher.hand_in(name)
    teacher.run("grade", DETACH)
    assert f"{DETACH}: {len(names)} feedback files" in teacher.run("feedback", DETACH)
    assert f"{DETACH}: 2 feedback files" in teacher.run("feedback", DETACH, "--student", "a,b", "c: d")
    teacher.hand_in("a[b]")
    teacher.run("grade", DETACH)
    assert "a[b]: nbgrader made no page: " in teacher.run("feedback", DETACH, status=1)
    assert all("12 points" in text_of(teacher.page(name)) for name in names)


# -------------------------------------------------------------------------------------------------------------- export


def test_no_cell_of_an_export_is_a_formula(teacher, here):
    names = ["=HYPERLINK(1)", "+1+1", "-1+1", "@SUM(1)", "\t=1", " =1", "\uff1d1", 'a",=1\r=2', "-5"]
    for name in names:
        teacher.hand_in(name, snapshot=f"# outcome: wrong\n# misconception: {name.strip() if name.isascii() else ''}x")
    teacher.run("grade", DETACH)
    teacher.run("export")
    for path in teacher.root.glob("export/*.csv"):
        text = path.read_text(encoding="utf-8")
        heading, *rows = csv.reader(io.StringIO(text, newline=""))
        assert rows and "\r" not in text and {len(row) for row in rows} == {len(heading)}
        for cell in (cell for row in rows for cell in row):
            assert re.fullmatch(r"-?[\d.]+", cell) or cell.lstrip()[:1] not in tuple("=+-@\uff1d"), cell
    shown = {row["student"] for row in teacher.exported("outcomes")}
    assert len(shown) == len(names) and {"-5", "'+1+1", "'\uff1d1"} <= shown


@pytest.fixture
def marked(teacher, here):
    """Ada wholly marked, with a penalty; bob to be marked; cy without a submission; 05_no_grad by ada alone."""
    teacher.set('c.LateSubmissionPlugin.penalty_method = "zero"')
    with teacher.gradebook() as gradebook:
        gradebook.add_student("ada", first_name="Ada", last_name="Lovelace", email="ada@example.org")
        gradebook.add_student("cy")
        gradebook.update_or_create_assignment(MODES, duedate="2027-03-01 12:00:00 UTC")
    teacher.hand_in("ada", snapshot="x", mean_loss="# outcome: partial", written="Because.")
    twice = "# misconception: one\n# misconception: one\n# misconception: a | b"
    teacher.hand_in("bob", snapshot=f"# outcome: wrong\n{twice}", written="Why not.")
    teacher.hand_in("ada", MODES, timestamp="2027-03-01 13:00:00 UTC")
    teacher.run("grade", DETACH, MODES)
    teacher.mark("ada", "written", 1.5)
    teacher.run("export", DETACH, MODES)
    return teacher


def test_there_is_a_row_for_each_student_in_which_nothing_missing_or_unmarked_is_a_nought(marked):
    rows = {row.pop("student"): list(row.values()) for row in marked.exported("students")}
    assert rows == {
        "ada": ["Lovelace", "Ada", "ada@example.org", "3.5", "0", "3.5", "24", "0", "0"],
        "bob": ["", "", "", "0+?", "missing", "0+?", "24", "1", "1"],
        "cy": ["", "", "", "missing", "missing", "0", "24", "2", "0"],
    }
    rows = marked.exported("moodle")
    moodle = {row["Username"]: (row["Email address"], row[DETACH], row[MODES]) for row in rows}
    assert moodle == {"ada": ("ada@example.org", "3.5", "0"), "bob": ("", "", ""), "cy": ("", "", "")}
    possible, *canvas = marked.exported("canvas")
    assert (possible["Student"], possible[DETACH]) == ("Points Possible", "12")
    assert [(row["Student"], row["SIS Login ID"], row[DETACH]) for row in canvas] == [
        *[("Lovelace, Ada", "ada", "3.5"), ("bob", "bob", ""), ("cy", "cy", "")]
    ]


def test_a_late_penalty_is_in_the_sum_of_the_table_and_of_the_feedback(marked):
    marked.mark("ada", "written", 2, assignment=MODES)
    assert "\nada      0 late  " in marked.run("grade", MODES)
    marked.run("feedback", MODES)
    assert "Together: 0 of 12 points, 2 less for being late." in text_of(marked.page("ada", MODES))


def test_outcomes_and_misunderstandings_are_exported_and_a_student_counts_once(marked, tmp_path):
    marked.run("export", "--to", str(tmp_path), DETACH)
    rows = {(row["student"], row["exercise"]): row for row in marked.exported("outcomes", tmp_path)}
    assert rows["bob", "snapshot"]["outcome"] == "wrong" and "a | b" in rows["bob", "snapshot"]["misconceptions"]
    assert rows["ada", "snapshot"]["earned"] == "1" and rows["bob", "snapshot"]["said"] == "is wrong"
    written = {name: row for (name, exercise), row in rows.items() if exercise.endswith("written")}
    assert (written["bob"]["earned"], written["bob"]["by_hand"]) == ("", "to mark")
    assert (written["ada"]["earned"], written["ada"]["by_hand"]) == ("1.5", "marked")
    counted = [list(row.values())[1:] for row in marked.exported("misunderstood", tmp_path) if row["attempted"] != "0"]
    assert ["snapshot", "2", "1", "one", "1"] in counted and ["snapshot", "2", "1", "a | b", "1"] in counted
    table = (tmp_path / "misunderstood.md").read_text()
    assert "a \\| b | 1 (50%) |" in table and "| written" not in table
    assert "| mean_loss | 1 | 0 | none seen |  |" in table
