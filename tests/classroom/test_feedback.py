"""What students get back, and what leaves the course: nothing that was not meant for them."""

import csv
import html
import io
import json
import os
import re
import sys
import zipfile

import matplotlib.pyplot as plt
import pytest
from bs4 import BeautifulSoup
from nbconvert.exporters import HTMLExporter
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output, new_raw_cell
from nbgrader.plugins import CsvExportPlugin

from course_utils.authoring.files import read
from course_utils.checks.card import PROGRAM
from course_utils.classroom.__main__ import main
from course_utils.classroom.books.alike import alike
from course_utils.classroom.books.export import export
from course_utils.classroom.books.feedback import feedback, looked_through, places, solution_lines, without_places
from course_utils.classroom.books.figures import plot_misunderstood
from course_utils.classroom.books.misunderstood import ExerciseCounts, as_csv, as_markdown, count
from course_utils.classroom.books.shown import LONGEST_MARKED_UP, LONGEST_SHOWN, MARKED_UP, SHOWN, Bounded
from course_utils.classroom.course.folder import FILTERS, PREPROCESSORS, ClassFolder
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
    files = feedback(graded, DETACH)
    assert [(file.student, file.withheld, file.names) for file in files] == [("ada", "", ()), ("grace", "", ())]
    shown = html.unescape(re.sub(r"<[^<>]*>", "", page(graded, "ada")))
    assert "my_own_idea" in shown and "snapshot: 0 of 1 points, wrong" in shown
    assert "Together: 0 of 12 points; 1 answer is still to be marked." in shown
    assert "Together: 10 of 12 points" in html.unescape(re.sub(r"<[^<>]*>", "", page(graded, "grace")))


def test_own_words_are_no_leak_and_no_solution_is_shown_to_others(graded):
    # Grace wrote the solution herself; what is hers is not withheld, and Ada sees none of it.
    feedback(graded, DETACH)
    squeezed = re.sub(r"\s", "", html.unescape(re.sub(r"<[^<>]*>", "", page(graded, "ada"))))
    release = re.sub(r"\s", "", " ".join(cell.source for cell in read(graded.notebook("release", DETACH)).cells))
    lines = [re.sub(r"\s", "", line) for line in solution_lines(read(graded.notebook("source", DETACH)))]
    secret = [line for line in lines if line not in release]
    assert len(secret) > 5 and not [line for line in secret if line in squeezed]


def test_feedback_that_shows_a_solution_is_withheld(graded):
    # As if the sandbox had let the source be read.
    release = " ".join(cell.source for cell in read(graded.notebook("release", DETACH)).cells)
    source = read(graded.notebook("source", DETACH))
    line = max((line for line in solution_lines(source) if line not in release), key=len)
    show(graded, "ada", f"found it:\n    {line}\n")
    ada, grace = feedback(graded, DETACH)
    assert ada.withheld == f"it shows a line of the solution, or of a hidden test: {line}" and not ada.path.exists()
    assert not grace.withheld and grace.path.exists()


def test_feedback_that_names_another_student_is_pointed_out(graded, capsys):
    show(graded, "ada", "submitted/grace/03_detach\n")
    ada, grace = feedback(graded, DETACH)
    assert (ada.names, grace.names) == (("grace",), ())
    assert main(["feedback", "--course", str(graded.root)]) == 0
    assert "ada: look at it first, it names grace" in capsys.readouterr().out


def test_places_on_the_teachers_machine_are_taken_out(graded):
    trace = f'File "{graded.root}/source/x.py"\nFile "{sys.prefix}/lib/torch/nn.py"\n{os.path.expanduser("~")}/notes\n'
    show(graded, "ada", trace)
    feedback(graded, DETACH)
    shown = page(graded, "ada")
    for place in places(graded):
        assert not re.search(rf"(?<![\w/.-]){re.escape(place)}(?![\w.-])", shown), place
    assert "course/source/x.py" in html.unescape(shown) and "python/lib/torch/nn.py" in html.unescape(shown)


def test_only_whole_places_are_taken_out():
    names = {"/home/ada": "home"}
    text = "/home/ada/x /home/adam /mnt/home/ada '/home/ada'"
    assert without_places(text, names) == "home/x /home/adam /mnt/home/ada 'home'"


def test_feedback_is_written_anew_with_marks_that_people_gave(graded):
    feedback(graded, DETACH)
    with graded.gradebook() as gradebook:
        found = gradebook.find_grade("detach-written", DETACH, DETACH, "ada")
        found.manual_score, found.needs_manual_grade = 1.5, False
        gradebook.find_comment("detach-written", DETACH, DETACH, "ada").manual_comment = "Say which tensors."
        gradebook.db.commit()
    feedback(graded, DETACH, ["ada"])
    shown = body(graded, "ada").get_text()
    assert "Together: 1.5 of 12 points." in shown and "Your teacher gave 1.5 of 2 points." in shown
    assert "Say which tensors." in page(graded, "ada")


def test_the_first_page_says_what_was_earned_why_points_are_missing_and_what_became_of_the_file(course):
    answers = {"snapshot": "# outcome: partial", "mean_loss": "# outcome: timed out", "written": "Because."}
    hand_in(course, "ada", DETACH, answers, name="mine.ipynb")
    grade(course, [DETACH], Here())
    feedback(course, DETACH)
    shown = body(course, "ada")
    rows = [[cell.get_text() for cell in line.find_all(["th", "td"])] for line in shown.find("table").find_all("tr")]
    assert rows == [
        ["Exercise", "Points", "What does not hold"],
        ["snapshot", "0.5 of 1 point", "-0.5: is partial"],
        ["predicted_edit", "0 of 2 points", "You wrote no answer."],
        ["mean_loss", "0 of 2 points", "-2: is timed out"],
        ["truncated_bptt", "0 of 3 points", "You wrote no answer."],
        ["stop_gradient_round", "0 of 2 points", "You wrote no answer."],
        ["written", "to be marked", "Your teacher looks at this answer; its points are not in the sum yet."],
    ]
    assert shown.find("h2").get_text() == "What happened to your file"
    assert shown.find("h2").find_next("li").get_text().startswith("There is no 03_detach.ipynb; mine.ipynb was read")
    lesson = json.loads(course.notebook("release", DETACH).read_text())["cells"][2]["source"]
    text = "".join(lesson).split("\n")[0].strip("# ")
    assert text not in shown.get_text(), "the lesson is not printed again"


def test_a_program_on_a_card_is_no_leak():
    # As cards have it; ``test_docs`` sees a whole page with one.
    card = f"<p>Try it</p><details><summary>{PROGRAM}</summary><pre>with torch.no_grad():</pre></details><p>Next</p>"
    assert looked_through(card) == "TryitNext"


def test_a_comment_that_quotes_the_model_answer_goes_out(graded):
    release = " ".join(cell.source for cell in read(graded.notebook("release", DETACH)).cells)
    source = read(graded.notebook("source", DETACH))
    line = max((line for line in solution_lines(source) if line not in release and "`" not in line), key=len)
    with graded.gradebook() as gradebook:
        gradebook.find_comment("detach-written", DETACH, DETACH, "ada").manual_comment = f"Rather:\n\n    {line}\n"
        gradebook.db.commit()
    ada, _ = feedback(graded, DETACH)
    assert not ada.withheld and line in body(graded, "ada").get_text()


def test_lateness_is_said_with_what_it_costs(course):
    with open(course.root / "nbgrader_config.py", "a") as settings:
        settings.write('c.LateSubmissionPlugin.penalty_method = "zero"\n')
    course = ClassFolder(course.root)
    with course.gradebook() as gradebook:
        gradebook.update_or_create_assignment(DETACH, duedate="2027-03-01 12:00:00 UTC")
    hand_in(course, "ada", DETACH, {"snapshot": "x"}, timestamp="2027-03-01 13:30:00 UTC")
    grade(course, [DETACH], Here())
    feedback(course, DETACH)
    shown = body(course, "ada").get_text()
    assert "Together: 0 of 12 points." in shown and "Late: 1.5 hours late: 1 point less" in shown


def test_pages_go_into_a_folder_or_into_a_zip_for_each_student(graded, tmp_path, capsys):
    assert main(["feedback", "--course", str(graded.root), "--to", str(tmp_path / "folder")]) == 0
    assert f"2 files in {tmp_path / 'folder'}" in capsys.readouterr().out
    assert sorted(path.name for path in (tmp_path / "folder" / DETACH).iterdir()) == ["ada.html", "grace.html"]
    assert main(["feedback", "--course", str(graded.root), "--zip"]) == 0
    with zipfile.ZipFile(graded.root / "feedback_to_hand_out" / "ada.zip") as file:
        assert file.namelist() == [f"{DETACH}.html"] and b"my_own_idea" in file.read(f"{DETACH}.html")


@pytest.mark.nightly
def test_many_pages_are_written_by_several_processes_and_are_the_same(graded, monkeypatch):
    alone = {file.student: page(graded, file.student) for file in feedback(graded, DETACH)}
    monkeypatch.setattr("course_utils.classroom.books.feedback.WORTH_A_PROCESS", 1)
    monkeypatch.setattr("course_utils.classroom.books.feedback.os.cpu_count", lambda: 2)
    files = feedback(graded, DETACH)
    assert [(file.student, file.withheld) for file in files] == [("ada", ""), ("grace", "")]
    assert {file.student: page(graded, file.student) for file in files} == alone


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
    exporter = HTMLExporter(template_name="classic", filters=FILTERS, preprocessors=PREPROCESSORS)  # the Formgrader's
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
    "raw": ["<b>"],
}


@pytest.mark.parametrize(("kind", "piece"), [(kind, piece) for kind, pieces in LONG.items() for piece in pieces])
def test_a_long_text_is_shown_as_it_is_and_not_worked_on(kind, piece):
    for size in (LONGEST_MARKED_UP + 1, 10 * LONGEST_SHOWN):
        text = (piece * size)[:size]
        cells = [new_raw_cell(text) if kind == "raw" else new_markdown_cell(text), new_markdown_cell("*after*")]
        if kind == "code":
            cells[0] = new_code_cell(text)
        exporter = HTMLExporter(template_name="classic", filters=FILTERS, preprocessors=PREPROCESSORS)
        html_text, _ = exporter.from_notebook_node(new_notebook(cells=cells))
        shown = BeautifulSoup(html_text, "html.parser").find(id="notebook-container")
        (block,) = shown.find_all("pre")
        left_out = f"\n... and {size - LONGEST_SHOWN:,} more characters" if size > LONGEST_SHOWN else ""
        assert block.get_text().strip() == (text[:LONGEST_SHOWN] + left_out).strip()
        assert {element.name for element in block.find_all()} <= {"span"} and len(block.find_all("span")) < 3
        assert shown.find("em").get_text() == "after"


def test_a_notebook_as_large_as_may_be_makes_a_page_that_is_not():
    flood = [new_output("stream", text="\x1b[31ma" * 10_000) for _ in range(30)]
    error = [new_output("error", ename="E", evalue="", traceback=["line"] * 20_000)]
    pictures = [new_output("display_data", {"text/plain": "x" * 100_000}) for _ in range(1000)]
    card = new_output("execute_result", {"text/html": "<i>the card</i>"}, execution_count=1)
    cells = [new_code_cell("a = 1", outputs=outputs) for outputs in (flood, error, pictures)]
    cells += [new_code_cell("a." * 100_000), *(new_markdown_cell("# a\n" * 500) for _ in range(1000))]
    cells += [new_code_cell("check()", outputs=[card], metadata={"nbgrader": {"grade": True}})]
    notebook, _ = Bounded().preprocess(new_notebook(cells=cells), {})
    assert len(json.dumps(notebook)) < 3 * SHOWN
    assert notebook.cells[-1].outputs == [card]
    assert sum(len(cell.source) for cell in notebook.cells if not cell.metadata.get("as_it_is")) < 3 * MARKED_UP


def test_a_page_that_cannot_be_written_costs_the_others_nothing(graded, capsys):
    path = graded.notebook("autograded", DETACH, "ada")
    path.chmod(0o644)
    path.write_text("{")
    old = graded.notebook("feedback", DETACH, "ada").with_suffix(".html")
    old.parent.mkdir(parents=True)
    old.write_text("of another day")
    ada, grace = feedback(graded, DETACH)
    assert ada.withheld == f"{DETACH}.ipynb in autograded/ is no notebook; grade it again." and not old.exists()
    assert not grace.withheld and grace.path.exists()
    assert main(["feedback", "--course", str(graded.root), DETACH]) == 1
    assert f"ada: withheld, because {DETACH}.ipynb in autograded/ is no notebook" in capsys.readouterr().out


def test_every_name_gets_its_page(course):
    names = [" blank ", "=HYPERLINK(1)", "a,b", "c: d", "{x}"]
    for name in names:
        hand_in(course, name, DETACH)
    grade(course, [DETACH], Here())
    for students in ([], [" blank ", "c: d"]):
        files = feedback(course, DETACH, students)
        assert [file.student for file in files] == (students or names)
        assert all(file.path.exists() and not file.withheld for file in files)
    hand_in(course, "a[b]", DETACH)
    grade(course, [DETACH], Here())
    assert not [file.withheld for file in feedback(course, DETACH) if file.withheld]


# -------------------------------------------------------------------------------------------------------------- export


def test_marks_are_exported_as_nbgrader_exports_them(graded, tmp_path):
    assert main(["export", "--course", str(graded.root), "--to", str(tmp_path / "out")]) == 0
    with open(tmp_path / "out" / "grades.csv", newline="") as file:
        rows = {(row["assignment"], row["student_id"]): row for row in csv.DictReader(file)}
    assert float(rows[DETACH, "grace"]["score"]) == 10 and float(rows[DETACH, "ada"]["score"]) == 0
    assert float(rows["05_no_grad", "ada"]["score"]) == 0  # nothing handed in: nbgrader's own way to say it


def test_marks_are_those_of_nbgraders_own_exporter(graded, tmp_path):
    (written,) = [path for path in export(graded, [DETACH], tmp_path) if path.name == "grades.csv"]
    with graded.gradebook() as gradebook:
        CsvExportPlugin(parent=graded.api, to=str(tmp_path / "own.csv"), assignment=[DETACH]).export(gradebook)
    assert written.read_text() == (tmp_path / "own.csv").read_text()


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
    assert (tmp_path / f"{DETACH}.png").read_bytes().startswith(b"\x89PNG")
    assert "snapshot: 1 of 2 passed; detach() makes a copy (1)." in (tmp_path / f"{DETACH}.txt").read_text()


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


def test_statistics_say_how_hard_each_exercise_was(marked, tmp_path):
    export(marked, [DETACH], tmp_path)
    rows = {row.pop("exercise"): list(row.values())[1:] for row in table(tmp_path / "statistics.csv")}
    assert rows[""] == ["2", "2", "1", "0", "3.5", "3.5", "12", "0.2917"]
    assert rows["snapshot"] == ["2", "2", "2", "1", "0.5", "0.5", "1", "0.5"]
    assert rows["mean_loss"] == ["2", "1", "1", "0", "1", "1", "2", "0.5"]
    assert rows["written"] == ["2", "2", "1", "0", "1.5", "1.5", "2", "0.75"]
    assert rows["predicted_edit"] == ["2", "0", "0", "0", "", "", "2", ""]


def test_nobody_counts_who_attempted_nothing_and_lateness_takes_no_pass(marked, tmp_path):
    everything = solved(marked, "05_no_grad")
    hand_in(marked, "bob", "05_no_grad", everything, timestamp="2027-03-02 13:00:00 UTC")
    grade(marked, ["05_no_grad"], Here())
    with marked.gradebook() as gradebook:
        found = gradebook.find_grade("no_grad-written", "05_no_grad", "05_no_grad", "bob")
        found.manual_score, found.needs_manual_grade = found.max_score, False
        gradebook.db.commit()
    grade(marked, ["05_no_grad"], Here())  # lateness costs what has been marked since
    export(marked, ["05_no_grad"], tmp_path)
    rows = {row.pop("exercise"): list(row.values())[1:] for row in table(tmp_path / "statistics.csv")}
    assert rows[""][:6] == ["2", "1", "1", "1", "0", "0"], "ada handed in stubs; bob has all points, but late"


def test_the_page_of_a_file_that_could_not_be_read_shows_comments_and_no_stubs(course):
    hand_in(course, "ada", DETACH)
    course.notebook("submitted", DETACH, "ada").write_bytes(b"{")
    grade(course, [DETACH], Here())
    with course.gradebook() as gradebook:
        comment = gradebook.find_comment("detach-snapshot", DETACH, DETACH, "ada")
        comment.manual_comment = "Please send it again."
        gradebook.db.commit()
    feedback(course, DETACH)
    shown = page(course, "ada")
    assert "Please send it again." in shown and "What could not be read" in shown
    assert "Your answers" not in shown and 'class="highlight"' not in shown


def test_an_anonymous_export_names_nobody(marked, tmp_path, capsys):
    assert main(["export", "--course", str(marked.root), "--anonymous"]) == 0
    folder = marked.root / "export_anonymous"
    texts = {path.name: path.read_text(encoding="utf-8") for path in folder.iterdir() if path.suffix != ".png"}
    assert "moodle.csv" not in texts and "canvas.csv" not in texts
    for name, text in texts.items():
        for secret in ("ada", "Lovelace", "bob", "example.org", "2027-03-01 13"):
            assert not re.search(rf"\b{secret}\b", text), (name, secret)
    numbers = {row["student"] for row in table(folder / "students.csv")}
    assert numbers == {"student 1", "student 2", "student 3"}
    assert {row["student"] for row in table(folder / "outcomes.csv")} < numbers


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


def test_pairs_that_are_alike_beyond_the_lesson_are_listed(course, tmp_path):
    renamed = re.sub("held", "kept", LONG).replace("number", "i").replace("range(3)", "range(4)") + "\n# mine\n"
    for student, answer in (("ada", LONG), ("bob", renamed), ("cy", OTHER), ("dee", "def snapshot(x):\n    return x")):
        hand_in(course, student, DETACH, {"snapshot": answer})
    for student in ("eve", "finn"):
        hand_in(course, student, DETACH)
    grade(course, [DETACH], Here())
    export(course, [DETACH], tmp_path)
    (pair,) = table(tmp_path / "alike.csv")
    assert (pair["one"], pair["other"], pair["alike"]) == ("ada", "bob", "100%")


def test_what_many_have_found_makes_nobody_alike():
    pieces = {f"s{number}": frozenset(range(40)) for number in range(100)}
    assert alike(pieces, frozenset()) == []
    pair = {"a": frozenset(range(100, 120)), "b": frozenset(range(100, 125))}
    assert [(found.one, found.other) for found in alike(pieces | pair, frozenset(range(40)))] == [("a", "b")]
    assert alike(pair, frozenset(range(100, 120))) == []


def test_an_assignment_that_nobody_handed_in_has_no_figure(course):
    assert main(["export", "--course", str(course.root), DETACH]) == 0
    assert sorted(path.name for path in (course.root / "export").iterdir()) == [
        *("alike.csv", "canvas.csv", "grades.csv", "misunderstood.csv", "misunderstood.md", "moodle.csv"),
        *("outcomes.csv", "statistics.csv", "students.csv"),
    ]


def test_a_student_counts_once_and_only_those_who_tried(course):
    twice = "# outcome: wrong\n# misconception: one\n# misconception: one\n# misconception: a | b"
    for student, answer in (("ada", twice), ("bob", "# outcome: wrong\n# misconception: one"), ("eve", "")):
        hand_in(course, student, DETACH, {"snapshot": answer} if answer else {})
    grade(course, [DETACH], Here())
    reports = [_report(course, name) for name in ("ada", "bob", "eve")]
    snapshot, predicted, *_ = counts = count(reports)
    assert snapshot == ExerciseCounts(DETACH, "snapshot", 2, 0, (("one", 2), ("a | b", 1)))
    assert predicted == ExerciseCounts(DETACH, "predicted_edit", 0, 0, ())
    assert len(counts) == 5, "the written question is no exercise that a check counts"
    assert as_csv(counts).splitlines()[1:3] == [f"{DETACH},snapshot,2,0,one,2", f"{DETACH},snapshot,2,0,a | b,1"]
    assert "| | | | a \\| b | 1 (50%) |" in as_markdown(counts)


def test_where_everybody_passed_nothing_is_said_to_be_unseen():
    passed, failed = ExerciseCounts(DETACH, "one", 2, 2, ()), ExerciseCounts(DETACH, "two", 2, 1, ())
    assert "| one | 2 | 2 | | |" in as_markdown([passed]) and "| two | 2 | 1 | none seen | |" in as_markdown([failed])
    drawings = [plot_misunderstood([counts], 2) for counts in (passed, failed)]
    assert [drawing.description.partition(". ")[2] for drawing in drawings] == [
        "one: 2 of 2 passed.",
        "two: 1 of 2 passed; none recognised.",
    ]
    texts = [[text.get_text() for text in drawing.ax.texts] for drawing in drawings]
    assert "everybody who tried it passed" in texts[0] and "no misunderstanding was recognised" in texts[1]
    for drawing in drawings:
        plt.close(drawing.figure)


def _report(course, student):
    from course_utils.classroom.books.stored import load

    return load(ClassFolder(course.root).report(DETACH, student)).report


def test_the_figure_has_a_bar_for_every_misunderstanding_it_shows():
    many = tuple((f"misunderstanding {number}", 9 - number) for number in range(7))
    counts = [ExerciseCounts(DETACH, "snapshot", 20, 11, many), ExerciseCounts(DETACH, "mean_loss", 0, 0, ())]
    drawing = plot_misunderstood(counts, 20)
    texts = [text.get_text() for text in drawing.ax.texts]
    assert [bar.patches[0].get_width() for bar in drawing.ax.containers] == sorted(
        (bar.patches[0].get_width() for bar in drawing.ax.containers), reverse=True
    )
    assert len(drawing.ax.containers) == 5 and "no misunderstanding was recognised" in texts
    assert "11 of 20 who tried it passed" in texts and "misunderstanding 5" not in texts
    assert drawing.description.startswith(f"{DETACH}: what 20 students misunderstood. snapshot: 11 of 20 passed;")
    plt.close(drawing.figure)
