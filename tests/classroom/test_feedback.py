"""What students get back, and what leaves the course: nothing that was not meant for them."""

import csv
import html
import json
import os
import re
import sys

import pytest

from course_utils.authoring.files import read
from course_utils.classroom.__main__ import main
from course_utils.classroom.course import ClassFolder
from course_utils.classroom.feedback import feedback, places, solution_lines, without_places
from course_utils.classroom.figures import plot_misunderstood
from course_utils.classroom.grading import grade
from course_utils.classroom.misunderstood import ExerciseCounts, as_csv, as_markdown, count
from tests.classroom.hand_in import hand_in, solved
from tests.classroom.stand_in import Here

DETACH = "03_detach"


def page(course, student):
    return course.notebook("feedback", DETACH, student).with_suffix(".html").read_text(encoding="utf-8")


def show(course, student, text):
    """Puts a text into the output of a student's first check, as if the student's code had shown it."""
    path = course.notebook("autograded", DETACH, student)
    notebook = json.loads(path.read_text())
    (cell,) = [cell for cell in notebook["cells"] if cell["id"] == "snapshot-check"]
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
    assert "Score: 0.0 / 12.0" in shown
    assert "Score: 10.0 / 12.0" in html.unescape(re.sub(r"<[^<>]*>", "", page(graded, "grace")))


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
    assert ada.withheld == f"it shows a line of the solution: {line}" and not ada.path.exists()
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
    assert "Score: 1.5 / 12.0" in html.unescape(re.sub(r"<[^<>]*>", "", page(graded, "ada")))
    assert "Say which tensors." in page(graded, "ada")


def test_without_a_grade_there_is_no_feedback(course, capsys):
    assert main(["feedback", "--course", str(course.root), DETACH]) == 1
    assert f"Nothing of {DETACH} is graded yet." in capsys.readouterr().err


# -------------------------------------------------------------------------------------------------------------- export


def test_marks_are_exported_as_nbgrader_exports_them(graded, tmp_path):
    assert main(["export", "--course", str(graded.root), "--to", str(tmp_path / "out")]) == 0
    with open(tmp_path / "out" / "grades.csv", newline="") as file:
        rows = {(row["assignment"], row["student_id"]): row for row in csv.DictReader(file)}
    assert float(rows[DETACH, "grace"]["score"]) == 10 and float(rows[DETACH, "ada"]["score"]) == 0
    assert float(rows["05_no_grad", "ada"]["score"]) == 0  # nothing handed in: nbgrader's own way to say it


def test_outcomes_and_misunderstandings_are_exported(graded, tmp_path):
    assert main(["export", "--course", str(graded.root), "--to", str(tmp_path), DETACH]) == 0
    with open(tmp_path / "outcomes.csv", newline="") as file:
        rows = {(row["student"], row["exercise"]): row for row in csv.DictReader(file)}
    assert rows["ada", "snapshot"]["outcome"] == "wrong"
    assert rows["ada", "snapshot"]["misconceptions"] == "detach() makes a copy"
    assert rows["grace", "snapshot"]["earned"] == "1"
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


def test_an_assignment_that_nobody_handed_in_has_no_figure(course):
    assert main(["export", "--course", str(course.root), DETACH]) == 0
    assert sorted(path.name for path in (course.root / "export").iterdir()) == [
        "grades.csv",
        "misunderstood.csv",
        "misunderstood.md",
        "outcomes.csv",
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


def _report(course, student):
    from course_utils.classroom.kept import kept

    return kept(ClassFolder(course.root).report(DETACH, student)).report


def test_the_figure_has_a_bar_for_every_misunderstanding_it_shows():
    import matplotlib.pyplot as plt

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
