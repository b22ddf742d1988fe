"""What changes in mid-term: exercises and points of a release, and the files that students hand in."""

import csv
import json
import re
from dataclasses import asdict, replace

import pytest

from course_utils.authoring.files import dumps, read
from course_utils.base.files import write_whole
from course_utils.checks.score import Claim
from course_utils.classroom.__main__ import main
from course_utils.classroom.books.export import export
from course_utils.classroom.books.feedback import feedback
from course_utils.classroom.books.marks import still_to_mark
from course_utils.classroom.books.page import Sheet, page
from course_utils.classroom.books.stored import key_of, load, save
from course_utils.classroom.course.release import release
from course_utils.classroom.course.submissions import LARGEST_BYTES
from course_utils.classroom.judging.outcomes import judged, result_of
from course_utils.classroom.judging.results import Report
from course_utils.classroom.rebuild.reading import Unreadable, read_cells
from course_utils.classroom.rebuild.rebuild import rebuild
from course_utils.classroom.rebuild.released import read_released
from course_utils.classroom.run.command import grade
from course_utils.classroom.run.table import class_table
from tests.classroom.hand_in import answered, hand_in, put, released
from tests.classroom.handed_in import Notebook
from tests.classroom.stand_in import Here

pytestmark = pytest.mark.slow

DETACH, GONE = "03_detach", "stop_gradient_round"
RIGHT = dict.fromkeys(("snapshot", "predicted_edit", "mean_loss", "truncated_bptt", GONE), "# right")


def change(course, *left_out, **points):
    """Releases the lesson with exercises left out, heading and all, or with other points; without either, as it was."""
    source = course.notebook("source", DETACH)
    whole = course.root / "whole.ipynb"
    if not whole.exists():
        whole.write_bytes(source.read_bytes())
    notebook = read(whole)
    gone = {f"{name}{part}" for name in left_out for part in ("-text", "", "-check")}
    notebook.cells = [cell for cell in notebook.cells if cell.id not in gone]
    for cell in notebook.cells:
        for name, number in points.items():
            if cell.id == f"{name}-check":
                cell.metadata.nbgrader.points = number
            elif cell.id == f"{name}-text":
                cell.source = cell.source.replace("1 point,", f"{number} points,")
    write_whole(source, dumps(notebook))
    return release(course, DETACH).changes


def give(course, student, name, score):
    with course.gradebook() as gradebook:
        found = gradebook.find_grade(f"detach-{name}", DETACH, DETACH, student)
        found.manual_score, found.needs_manual_grade = score, False
        gradebook.db.commit()


def row(course, student, **how):
    (outcome,) = grade(course, [DETACH], Here(), **how)
    return next(found for found in outcome.rows if found.student == student), class_table(DETACH, outcome.rows)


def views(course, folder):
    """Each student's sum and what it is of, as table, feedback and exports have it."""
    (outcome,) = grade(course, [DETACH], Here())
    table = class_table(DETACH, outcome.rows).splitlines()
    export(course, [DETACH], folder)
    feedback(course, DETACH)
    with open(folder / "students.csv", newline="") as file:
        sums = {line["student"]: (line["total"], line["possible"]) for line in csv.DictReader(file)}
    for student, (total, possible) in sums.items():
        text = course.notebook("feedback", DETACH, student).with_suffix(".html").read_text(encoding="utf-8")
        assert f"{total} of {possible} points" in text
        (line,) = [line for line in table if line.startswith(student)]
        assert line.split()[1] == total and table[2].split()[2] == possible
    with open(folder / "statistics.csv", newline="") as file:
        assert all(float(line["share"] or 0) <= 1 for line in csv.DictReader(file))
    with open(folder / "outcomes.csv", newline="") as file:
        for student, (total, possible) in sums.items():
            file.seek(0)
            mine = [line for line in csv.DictReader(file) if line["student"] == student]
            assert f"{sum(float(line['earned']) for line in mine):g}" == total
            assert f"{sum(float(line['possible']) for line in mine):g}" == possible
    return sums


def test_all_views_agree_after_every_release(course, tmp_path):
    hand_in(course, "ada", DETACH, RIGHT)
    hand_in(course, "bob", DETACH, {"snapshot": "# outcome: partial", GONE: "# outcome: partial"})
    assert views(course, tmp_path / "1") == {"ada": ("10", "12"), "bob": ("1.5", "12")}
    change(course, GONE)
    assert views(course, tmp_path / "2") == {"ada": ("8", "10"), "bob": ("0.5", "10")}
    assert change(course, GONE, snapshot=4) == (
        "other points: detach-snapshot-check 1 -> 4; run grade to reckon them for everybody",
    )
    found, table = row(course, "bob")
    assert found.remarks == ("Other points by the new release: snapshot 0.5 of 1 -> 2 of 4.",) and "/4" in table
    assert views(course, tmp_path / "3") == {"ada": ("11", "13"), "bob": ("2", "13")}
    change(course)
    found, _ = row(course, "ada")
    assert found.remarks == (f"Other points by the new release: snapshot 4 of 4 -> 1 of 1, {GONE} new (2 of 2).",)
    assert views(course, tmp_path / "4") == {"ada": ("10", "12"), "bob": ("1.5", "12")}
    assert len(list(course.report(DETACH, "ada").parent.glob("report.*.json"))) == 3, "each older result is kept"


def test_until_they_do_agree_nothing_goes_out(course, capsys):
    hand_in(course, "ada", DETACH, RIGHT)
    grade(course, [DETACH], Here())
    change(course, GONE)
    change(course)
    assert still_to_mark(course, DETACH) == "", "what grade will judge is no work for a hand"
    change(course, GONE)
    for command in ("export", "feedback"):
        assert main([command, "--course", str(course.root), DETACH]) == 1
        said = capsys.readouterr().err
        assert f"{DETACH} was released with other exercises or points after these were graded: ada.\nTry: " in said
    assert not (course.root / "export").exists()
    grade(course, [DETACH], Here())
    assert main(["export", "--course", str(course.root), DETACH]) == 0


def test_another_edition_and_other_points_at_once_change_only_what_the_teacher_changed(course, tmp_path):
    hand_in(course, "ada", DETACH, RIGHT | {"snapshot": "# outcome: partial"})
    grade(course, [DETACH], Here())
    path = course.report(DETACH, "ada")
    result, text = load(path), course.to_grade(DETACH)
    values = json.loads(result.report.to_json())
    values["exercises"][0] |= {"earned": 1.0, "outcome": "passed", "text": "snapshot: 1 of 1 point", "lost": []}
    old = key_of(course.submission(DETACH, "ada"), text, "detach 2")
    save(path, type(result)(old, "", Report.from_json(json.dumps(values)), "detach 2", result.digest))
    change(course, snapshot=4)
    for _ in range(2):
        found, _ = row(course, "ada")
        assert found.remarks[-1].startswith("Judged anew, snapshot 4 -> 2; the marks are as they were.")
        assert load(path).report.exercises[0].text == "snapshot: 4 of 4 points"
        assert views(course, tmp_path) == {"ada": ("13", "15")}
    found, _ = row(course, "ada", again=True)
    assert found.remarks == () and views(course, tmp_path) == {"ada": ("11", "15")}


def test_a_mark_by_hand_stays_as_given_and_its_owner_is_named(course):
    hand_in(course, "ada", DETACH, {"snapshot": "# outcome: review by hand"})
    grade(course, [DETACH], Here())
    give(course, "ada", "snapshot-check", 0.5)
    (said,) = change(course, snapshot=4)
    assert "1 -> 4 (marks by hand stay as they were given: ada)" in said
    assert "0.5 by hand" in row(course, "ada")[1]


@pytest.mark.parametrize("answer", ["", "def stop_gradient_round(x):\n    return helped(x)"])
def test_what_is_left_out_with_its_heading_is_no_answer_to_another_question(answer, course):
    notebook = released(course, DETACH)
    answered(notebook, {GONE: answer} if answer else {})
    (check,) = [cell for cell in notebook["cells"] if cell["id"] == f"{GONE}-check"]
    check["source"] = "".join(check["source"]) + "  # mine" * bool(answer)
    change(course, GONE)
    rebuilt = rebuild(read_released(course.to_grade(DETACH)), json.dumps(notebook).encode(), 2**25)
    (written,) = [step for step in rebuilt.steps if step.role == "by hand"]
    assert written.blank and rebuilt.repairs == []
    assert [step.source for step in rebuilt.steps if step.role == "added"] == [answer] * bool(answer), "it may be used"
    assert "left_out" not in rebuilt.notebook["metadata"]


@pytest.mark.parametrize("order", ["the file first", "the release first"])
def test_a_mark_for_a_file_that_could_not_be_read_does_not_come_back_to_another(order, course):
    right = json.dumps(answered(released(course, DETACH), RIGHT)).encode()
    put(course, "iris", DETACH, b"{ cut off")
    grade(course, [DETACH], Here())
    for name in RIGHT:
        give(course, "iris", f"{name}-check", 0.0)
    change(course, GONE)
    if order == "the file first":
        put(course, "iris", DETACH, right)
        grade(course, [DETACH], Here())
        change(course)
    else:
        grade(course, [DETACH], Here())
        change(course)
        put(course, "iris", DETACH, right)
    found, table = row(course, "iris")
    assert [mark.given for mark in found.marks.values()] == [None] * 6
    assert "by hand" not in table.splitlines()[4] and table.splitlines()[4].split()[1] == "10"


def test_a_mark_comes_back_to_the_file_that_it_was_given_to(course):
    put(course, "iris", DETACH, b"{ cut off")
    grade(course, [DETACH], Here())
    give(course, "iris", f"{GONE}-check", 0.5)
    change(course, GONE)
    grade(course, [DETACH], Here())
    change(course)
    found, _ = row(course, "iris")
    assert found.marks[f"detach-{GONE}-check"].given == 0.5


def test_an_earlier_and_better_file_is_named_to_teacher_and_student_and_can_be_put_back(course):
    hand_in(course, "ada", DETACH, RIGHT | {"written": "Because."}, timestamp="2027-03-01 10:00 UTC")
    grade(course, [DETACH], Here())
    give(course, "ada", "written", 1.5)
    path = hand_in(
        course, "ada", DETACH, {"snapshot": "# right", "written": "Because."}, timestamp="2027-03-09 10:00 UTC"
    )
    kept = f"reports/ada/{DETACH}/report.1.ipynb"
    for again in (False, False, True):
        found, _ = row(course, "ada", again=again)
        assert found.remarks[-1] == (
            "An earlier file had 11.5 of 12 points, and the last one counts. To let the earlier one count: "
            f"cp {kept} submitted/ada/{DETACH}/{DETACH}.ipynb, and let timestamp.txt say 2027-03-01 10:00 UTC; "
            "then grade."
        )
    feedback(course, DETACH)
    path_of_page = course.notebook("feedback", DETACH, "ada").with_suffix(".html")
    assert "It had 11.5 of 12 points. The last file counts" in path_of_page.read_text(encoding="utf-8")
    path.write_bytes((course.root / kept).read_bytes())
    found, table = row(course, "ada")
    assert "11.5" in table and found.remarks == ()
    feedback(course, DETACH)
    assert "It had" not in path_of_page.read_text(encoding="utf-8")


def test_of_several_files_the_best_earlier_one_is_named_and_a_worse_one_is_not(course):
    for answers in ({"snapshot": "# right"}, {"mean_loss": "# right"}, {"snapshot": "# outcome: partial"}):
        hand_in(course, "ada", DETACH, answers)
        found, _ = row(course, "ada")
    assert "An earlier file had 2 of 12 points" in found.remarks[-1]
    assert "report.2.ipynb" in found.remarks[-1]
    hand_in(course, "ada", DETACH, RIGHT)
    assert row(course, "ada")[0].remarks == ()


@pytest.mark.parametrize(
    ("text", "day", "said"),
    [
        ("02.03.2027 18:00", "2027-03-02", "which was read day first, as 2027-03-02 18:00."),
        ("02/03/2027 18:00", None, "which can be read in two ways; write the year first, as 2027-03-01."),
        ("03/25/2027 18:00", "2027-03-25", ""),
        ("2027-03-02T18:00+01:00", "2027-03-02", ""),
        ("yesterday evening", None, "does not hold a time"),
    ],
)
def test_a_time_is_read_in_one_way_or_said_also_of_what_is_graded_already(text, day, said, course):
    hand_in(course, "ada", DETACH, timestamp="2027-01-01 10:00 UTC")
    grade(course, [DETACH], Here())
    course.path("submitted", "ada", DETACH).joinpath("timestamp.txt").write_text(text)
    for _ in range(2):
        found, _ = row(course, "ada")
        assert len(found.remarks) == bool(said) and said in "".join(found.remarks)
        with course.gradebook() as gradebook:
            time = gradebook.find_submission(DETACH, "ada").timestamp
        assert (time and time.date().isoformat()) == day


def test_a_closed_assignment_says_which_files_wait(course, capsys):
    for student in ("ada", "bob"):
        hand_in(course, student, DETACH, RIGHT)
    grade(course, [DETACH], Here())
    assert main(["close", "--course", str(course.root), DETACH]) == 0
    for student in ("ada", "mia"):
        hand_in(course, student, DETACH, {"snapshot": "# right"})
    assert main(["grade", "--course", str(course.root)]) == 0
    assert f"  {DETACH}: handed in and not graded: ada, mia; to grade them, reopen it." in capsys.readouterr().out


def test_a_folder_one_too_deep_is_no_student(course, capsys, monkeypatch):
    monkeypatch.setattr("course_utils.classroom.run.graders.Graders", lambda *options: Here())
    hand_in(course, "ada", DETACH)
    path = course.root / "submitted" / "handed_in_2" / "bob" / DETACH
    path.mkdir(parents=True)
    assert main(["grade", "--course", str(course.root), DETACH]) == 0
    said = capsys.readouterr().out
    assert f"{DETACH}: 1 graded (1 now, 0 unchanged)\n" in said
    assert "handed_in_2/bob: one folder too deep; move what is in handed_in_2/ one folder up." in said


def test_an_assignment_behind_student_is_told_where_it_stands(course, capsys):
    hand_in(course, "kim", DETACH)
    assert main(["grade", "--course", str(course.root), "--student", "kim", DETACH]) == 1
    said = capsys.readouterr().err
    assert f"{DETACH} stands behind --student." in said and f"Try: {DETACH} --student ID" in said


def test_edited_checks_and_endless_cells_stand_below_the_table_by_name(course):
    hand_in(course, "finn", DETACH)
    edited = [f"The check cell of `{name}` had been edited; the released one was used." for name in ("snapshot", GONE)]
    hand_in(course, "jon", DETACH)
    (outcome,) = grade(course, [DETACH], Here())
    finn, jon = outcome.rows
    finn = replace(finn, report=replace(finn.report, repairs=tuple(edited)))
    jon = replace(jon, report=replace(jon.report, notes=("The added cell 20 was interrupted after 20 s.", "Other.")))
    table = class_table(DETACH, [finn, jon])
    assert f"Check cells that were edited; the released ones were used:\n  finn: snapshot, {GONE}\n" in table
    assert "whenever they are graded:\n  jon: The added cell 20 was interrupted after 20 s." in table


def test_lost_points_add_up(course):
    hand_in(course, "bob", DETACH, RIGHT)
    grade(course, [DETACH], Here())
    report = load(course.report(DETACH, "bob")).report
    claims = [Claim(str(n), n == 4, weight=w) for n, w in enumerate((4, 1, 1, 1, 6))]
    cell = next(cell for cell in read_released(course.to_grade(DETACH)).graded if cell.exercise == "mean_loss")
    said = {"earned": 24 / 26, "possible": 2.0, "status": "partial", "notes": [], "output": ""}
    score = json.loads(json.dumps(said | {"claims": [asdict(claim) for claim in claims]}))
    result = result_of(cell, judged(cell, score))
    exercises = tuple(result if e.grade_id == result.grade_id else e for e in report.exercises)
    text = page(Sheet(replace(report, exercises=exercises), {}, {}))
    assert "0.92 of 2 points" in text and result.earned == 0.92
    costs = [float(cost) for cost in re.findall(r"<li>-([\d.]+): ", text)]
    assert costs == [0.62, 0.15, 0.16, 0.15] and sum(costs) == pytest.approx(2 - 0.92)


def test_an_answer_that_lost_its_place_is_shown_where_it_stands(course):
    notebook = Notebook().remove(GONE)
    notebook.add("def stop_gradient_round(x):\n    return moved_here(x)", after="end")
    rebuilt = rebuild(read_released(course.to_grade(DETACH)), notebook.bytes(), 2**25)
    hand_in(course, "leo", DETACH, RIGHT)
    grade(course, [DETACH], Here())
    report = replace(load(course.report(DETACH, "leo")).report, notebook=json.dumps(rebuilt.notebook))
    text = page(Sheet(report, {}, {}))
    assert "moved_here" in text.partition("Your other cells")[2]


def test_the_same_text_is_alike_however_many_have_it(course, tmp_path):
    same = "def snapshot(x):\n" + "\n".join(f"    step_{n} = x * {n}" for n in range(12))
    for student in ("ada", "bob", "cy", "dee"):
        hand_in(
            course,
            student,
            DETACH,
            {"snapshot": same + "\n    # mine" * (student == "dee")},
        )
    hand_in(course, "eve", DETACH)
    grade(course, [DETACH], Here())
    export(course, [DETACH], tmp_path)
    with open(tmp_path / "alike.csv", newline="") as file:
        assert {(row["one"], row["other"]) for row in csv.DictReader(file)} == {
            ("ada", "bob"),
            ("ada", "cy"),
            ("bob", "cy"),
        }


def test_a_file_that_is_too_large_is_the_students_to_send_again(course):
    content = b"{" + b" " * LARGEST_BYTES
    with pytest.raises(Unreadable, match=r"^The file is larger than the 32.0 MiB that are read. Clear the outputs and"):
        read_cells(content)
