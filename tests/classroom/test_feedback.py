"""What students get back, and what leaves the course: nothing that was not meant for them."""

import csv
import html
import io
import json
import re
from collections import Counter

import pytest
from bs4 import BeautifulSoup
from nbconvert.exporters import HTMLExporter
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from course_utils.authoring.files import read
from course_utils.classroom.__main__ import main
from course_utils.classroom.books.export import export
from course_utils.classroom.books.feedback import feedback
from course_utils.classroom.books.misunderstood import ExerciseCounts, as_csv, as_markdown, count
from course_utils.classroom.books.shown import LONGEST_MARKED_UP, LONGEST_SHOWN
from course_utils.classroom.course.folder import FILTERS, ClassFolder
from course_utils.classroom.run.command import grade
from tests.classroom.hand_in import hand_in, solved
from tests.classroom.stand_in import Here

pytestmark = pytest.mark.slow

DETACH = "03_detach"


def page(course, student):
    return course.notebook("feedback", DETACH, student).with_suffix(".html").read_text(encoding="utf-8")


def show(course, student, text):
    """Puts a text into the output of a student's first answer, as if the student's code had shown it."""
    path = course.notebook("autograded", DETACH, student)
    notebook = json.loads(path.read_text())
    (cell,) = [cell for cell in notebook["cells"] if cell["id"] == "snapshot"]
    cell["outputs"].append({"output_type": "stream", "name": "stdout", "text": text})
    path.chmod(0o644)
    path.write_text(json.dumps(notebook))


@pytest.fixture
def graded(course):
    """Two students, graded: ada with a wrong answer of her own, grace with the course's own answers."""
    wrong = "def snapshot(x):\n    return x.my_own_idea()  # outcome: wrong\n# misconception: detach() makes a copy"
    hand_in(course, "ada", DETACH, {"snapshot": wrong, "written": "It grows."})
    hand_in(course, "grace", DETACH, solved(course, DETACH))
    grade(course, [DETACH], Here())
    return course


def test_feedback_shows_answers_cards_and_points(graded):
    assert feedback(graded, DETACH) == {"ada": "", "grace": ""}
    shown = html.unescape(re.sub(r"<[^<>]*>", "", page(graded, "ada")))
    assert "my_own_idea" in shown and "snapshot: 0 of 1 points, wrong" in shown
    assert "Together: 0 of 12 points; still to be marked: 1." in shown
    assert "Together: 10 of 12 points" in html.unescape(re.sub(r"<[^<>]*>", "", page(graded, "grace")))


def test_feedback_is_written_anew_with_marks_that_people_gave(graded):
    feedback(graded, DETACH)
    with graded.gradebook() as gradebook:
        found = gradebook.find_grade("detach-written", DETACH, DETACH, "ada")
        found.manual_score, found.needs_manual_grade = 1.5, False
        gradebook.find_comment("detach-written", DETACH, DETACH, "ada").manual_comment = "Say which tensors."
        gradebook.db.commit()
    feedback(graded, DETACH, ["ada"])
    shown = html.unescape(re.sub(r"<[^<>]*>", "", page(graded, "ada")))
    assert "Together: 1.5 of 12 points." in shown and "Your teacher marked this answer." in shown
    assert "Say which tensors." in page(graded, "ada")


def test_without_a_grade_there_is_no_feedback(course, capsys):
    assert main(["feedback", "--course", str(course.root), DETACH]) == 1
    assert f"Nothing of {DETACH} is graded yet." in capsys.readouterr().err


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


def rewrite(course, student, change):
    """Changes the graded notebook of a student."""
    path = course.notebook("autograded", DETACH, student)
    notebook = json.loads(path.read_text())
    change({cell["id"]: cell for cell in notebook["cells"]}, notebook["cells"])
    path.chmod(0o644)
    path.write_text(json.dumps(notebook))


def body(course, student):
    """What a student's page shows, without the page's own head."""
    return BeautifulSoup(page(course, student), "html.parser").body


@pytest.mark.parametrize("kind", ["markdown", "raw"])
def test_nothing_that_a_student_writes_acts_on_a_page(kind, graded):
    def write(cells, order):
        cells["written"]["source"] = HOSTILE
        order.insert(1, {"cell_type": kind, "id": "added-1", "metadata": {}, "source": HOSTILE})

    rewrite(graded, "ada", write)
    feedback(graded, DETACH)
    shown = body(graded, "ada")
    names = {element.name for element in shown.find_all()}
    assert not names & {"script", "iframe", "style", "svg", "form", "input", "base"}
    for element in shown.find_all():
        assert not [name for name in element.attrs if name.startswith("on")], element
        assert "script:" not in element.get("href", "") + element.get("src", "")
        assert element.name != "b" or "style" not in element.attrs
    assert shown.get_text().count("<script>alert(1)</script>") >= 4, "it is shown as what it is"


def test_markdown_cards_and_tables_look_as_before(graded):
    text = "> *quoted* `a < b` $a < b$\n\n|a|b|\n|:-|-:|\n|1|2|\n\n"
    text += "![seen](data:image/png;base64,AAAA) ![gone](attachment:x.png)"
    rewrite(graded, "ada", lambda cells, order: cells["written"].update(source=text))
    card = '<details style="opacity:0.8"><summary>why</summary><p style="margin:0">because</p></details>'
    rewrite(
        graded, "ada", lambda cells, order: cells["snapshot-check"]["outputs"][0]["data"].update({"text/html": card})
    )
    exporter = HTMLExporter(template_name="classic", filters=FILTERS)  # the Formgrader's
    page, _ = exporter.from_notebook_node(read(graded.notebook("autograded", DETACH, "ada")))
    shown = str(BeautifulSoup(page, "html.parser"))
    for part in (
        "<blockquote>\n<p><em>quoted</em> <code>a &lt; b</code> $a &lt; b$</p>\n</blockquote>",
        '<td style="text-align:right;">2</td>',
        '<img alt="seen" src="data:image/png;base64,AAAA"/> [picture: gone]',
        card,
    ):
        assert part in shown, part


LONG = {
    "markdown": ["$$", "\\begin{align}", "[", "![", "*", "<", "\\\\[", "# a\n", "> ", "<b>"],
    "code": ["a.", "1.", "f'", "("],
}


@pytest.mark.parametrize(("kind", "piece"), [(kind, piece) for kind, pieces in LONG.items() for piece in pieces])
def test_a_long_text_is_shown_as_it_is_and_not_worked_on(kind, piece):
    for size in (LONGEST_MARKED_UP + 1, 10 * LONGEST_SHOWN):
        text = (piece * size)[:size]
        cells = [new_markdown_cell(text), new_markdown_cell("*after*")]
        if kind == "code":
            cells[0] = new_code_cell(text)
        exporter = HTMLExporter(template_name="classic", filters=FILTERS)
        html_text, _ = exporter.from_notebook_node(new_notebook(cells=cells))
        shown = BeautifulSoup(html_text, "html.parser").find(id="notebook-container")
        (block,) = shown.find_all("pre")
        left_out = f"\n... and {size - LONGEST_SHOWN:,} more characters" if size > LONGEST_SHOWN else ""
        assert block.get_text().strip() == (text[:LONGEST_SHOWN] + left_out).strip()
        assert {element.name for element in block.find_all()} <= {"span"} and len(block.find_all("span")) < 3
        assert shown.find("em").get_text() == "after"


def test_every_name_gets_its_page(course):
    names = ["=HYPERLINK(1)", "a,b", "c: d", "{x}"]
    for name in names:
        hand_in(course, name, DETACH)
    grade(course, [DETACH], Here())
    for students in ([], ["a,b", "c: d"]):
        assert feedback(course, DETACH, students) == dict.fromkeys(students or names, "")
    hand_in(course, "a[b]", DETACH)
    grade(course, [DETACH], Here())
    found = feedback(course, DETACH)
    assert found.pop("a[b]").startswith("nbgrader made no page: ") and set(found.values()) == {""}


# -------------------------------------------------------------------------------------------------------------- export


@pytest.mark.parametrize(
    "name", ["=HYPERLINK(1)", "+1+1", "-1+1", "@SUM(1)", "\t=1", " =1", "\uff1d1", 'a",=1\r=2', "-5"]
)
def test_no_cell_of_an_export_is_a_formula(name, course, tmp_path):
    hand_in(
        course,
        name,
        DETACH,
        {"snapshot": f"# outcome: wrong\n# misconception: {name.strip()}"} if name.isascii() else {},
    )
    grade(course, [DETACH], Here())
    for path in export(course, [DETACH], tmp_path):
        if path.suffix == ".csv":
            text = path.read_text(encoding="utf-8")
            heading, *rows = csv.reader(io.StringIO(text, newline=""))
            assert (rows or path.stem == "alike") and "\r" not in text
            assert {len(row) for row in rows} <= {len(heading)}
            for cell in (cell for row in rows for cell in row):
                assert re.fullmatch(r"-?[\d.]+", cell) or cell.lstrip()[:1] not in tuple("=+-@\uff1d"), cell
    with open(tmp_path / "outcomes.csv", newline="", encoding="utf-8") as file:
        (shown,) = {row["student"] for row in csv.DictReader(file)}
    assert shown == {"-5": "-5", 'a",=1\r=2': "=2"}.get(name, f"'{name}") or name.startswith("a")


def test_outcomes_and_misunderstandings_are_exported(graded, tmp_path):
    assert main(["export", "--course", str(graded.root), "--to", str(tmp_path), DETACH]) == 0
    with open(tmp_path / "outcomes.csv", newline="") as file:
        rows = {(row["student"], row["exercise"]): row for row in csv.DictReader(file)}
    assert rows["ada", "snapshot"]["outcome"] == "wrong"
    assert rows["ada", "snapshot"]["misconceptions"] == "detach() makes a copy"
    assert rows["grace", "snapshot"]["earned"] == "1"
    assert (rows["grace", "written"]["earned"], rows["grace", "written"]["by_hand"]) == ("", "to mark")
    with open(tmp_path / "misunderstood.csv", newline="") as file:
        first = next(csv.DictReader(file))
    assert first == {
        "assignment": DETACH,
        "exercise": "snapshot",
        "attempted": "2",
        "passed": "1",
        "misconception": "detach() makes a copy",
        "students": "1",
    }
    assert "| snapshot | 2 | 1 | detach() makes a copy | 1 (50%) |" in (tmp_path / "misunderstood.md").read_text()


def table(path):
    with open(path, newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


@pytest.fixture
def marked(course):
    """Ada wholly marked, with a penalty; bob to be marked; cy without a submission; 05_no_grad by ada alone."""
    with open(course.root / "nbgrader_config.py", "a") as settings:
        settings.write('c.LateSubmissionPlugin.penalty_method = "zero"\n')
    course = ClassFolder(course.root)
    with course.gradebook() as gradebook:
        gradebook.add_student("ada", first_name="Ada", last_name="Lovelace", email="ada@example.org")
        gradebook.add_student("cy")
        gradebook.update_or_create_assignment("05_no_grad", duedate="2027-03-01 12:00:00 UTC")
    hand_in(course, "ada", DETACH, {"snapshot": "x", "mean_loss": "# outcome: partial", "written": "Because."})
    hand_in(course, "bob", DETACH, {"snapshot": "# outcome: wrong\n# misconception: one", "written": "Why not."})
    hand_in(course, "ada", "05_no_grad", timestamp="2027-03-01 13:00:00 UTC")
    grade(course, [DETACH, "05_no_grad"], Here())
    with course.gradebook() as gradebook:
        found = gradebook.find_grade("detach-written", DETACH, DETACH, "ada")
        found.manual_score, found.needs_manual_grade = 1.5, False
        gradebook.db.commit()
    return course


def test_there_is_a_row_for_each_student_in_which_nothing_missing_or_unmarked_is_a_nought(marked, tmp_path):
    export(marked, [DETACH, "05_no_grad"], tmp_path)
    rows = {row.pop("student"): list(row.values()) for row in table(tmp_path / "students.csv")}
    assert rows == {
        "ada": ["Lovelace", "Ada", "ada@example.org", "3.5", "0", "3.5", "24", "0", "0"],
        "bob": ["", "", "", "to mark", "missing", "0", "24", "1", "1"],
        "cy": ["", "", "", "missing", "missing", "0", "24", "2", "0"],
    }
    rows = table(tmp_path / "moodle.csv")
    moodle = {row["Username"]: (row["Email address"], row[DETACH], row["05_no_grad"]) for row in rows}
    assert moodle == {"ada": ("ada@example.org", "3.5", "0"), "bob": ("", "", ""), "cy": ("", "", "")}
    possible, *canvas = table(tmp_path / "canvas.csv")
    assert (possible["Student"], possible[DETACH]) == ("Points Possible", "12")
    assert [(row["Student"], row["SIS Login ID"], row[DETACH]) for row in canvas] == [
        ("Lovelace, Ada", "ada", "3.5"),
        ("bob", "bob", ""),
        ("cy", "cy", ""),
    ]


LONG = """
def snapshot(x):
    held = []
    for number in range(3):
        held.append(x.detach().clone() * number)
    if len(held) > 2 and torch.is_grad_enabled():
        return sum(held[1:], held[0]) / 3
    with torch.no_grad():
        return torch.stack([h + 0 for h in held]).sum(0) / 3
"""
OTHER = """
def snapshot(x):
    copied = torch.empty_like(x, requires_grad=False)
    try:
        copied.copy_(x.data)
    except RuntimeError as error:
        raise ValueError(str(error)) from error
    assert copied.shape == x.shape
    return {"value": copied}.get("value", None)
"""


def test_a_student_counts_once_and_only_those_who_tried(course):
    twice = "# outcome: wrong\n# misconception: one\n# misconception: one\n# misconception: a | b"
    for student, answer in (("ada", twice), ("bob", "# outcome: wrong\n# misconception: one"), ("eve", "")):
        hand_in(course, student, DETACH, {"snapshot": answer} if answer else {})
    grade(course, [DETACH], Here())
    reports = [_report(course, name) for name in ("ada", "bob", "eve")]
    snapshot, predicted, *_ = counts = count(reports)
    assert snapshot == ExerciseCounts(DETACH, "snapshot", 2, 0, Counter({"one": 2, "a | b": 1}))
    assert predicted == ExerciseCounts(DETACH, "predicted_edit", 0, 0, Counter())
    assert len(counts) == 5, "the written question is no exercise that a check counts"
    assert as_csv(counts).splitlines()[1:3] == [f"{DETACH},snapshot,2,0,one,2", f"{DETACH},snapshot,2,0,a | b,1"]
    assert "| | | | a \\| b | 1 (50%) |" in as_markdown(counts)


def test_where_everybody_passed_nothing_is_said_to_be_unseen():
    passed, failed = ExerciseCounts(DETACH, "one", 2, 2), ExerciseCounts(DETACH, "two", 2, 1)
    assert "| one | 2 | 2 | | |" in as_markdown([passed]) and "| two | 2 | 1 | none seen | |" in as_markdown([failed])


def _report(course, student):
    from course_utils.classroom.books.stored import load

    return load(ClassFolder(course.root).report(DETACH, student)).report
