"""A teacher's walk: from an empty folder through release, hand-in, grading, marking in the Formgrader, a resubmission,
a changed deadline and a typo mended after release to feedback and export, with an exercise and an assignment of their
own.
"""

import csv
import json
import os
import re
import subprocess
import sys
import time
import urllib.error
import urllib.request
import zipfile
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from course_utils.authoring.files import dumps, read
from course_utils.base.files import write_whole
from course_utils.classroom.__main__ import main
from course_utils.classroom.course.create import create
from course_utils.classroom.course.folder import ClassFolder
from tests.classroom.hand_in import answered, put, released, solved
from tests.classroom.handed_in import FROZEN, NEEDS_SANDBOX, Notebook
from tests.classroom.own import HIDDEN, HW1, check, put_source
from tests.classroom.test_own import RIGHT

pytestmark = [*NEEDS_SANDBOX, pytest.mark.nightly, pytest.mark.browser]

DETACH = "03_detach"
MONDAY = "2027-03-01 {}:00:00 UTC"
PICTURES = os.environ.get("SCREENSHOTS")


@contextmanager
def formgrader(course):
    """A browser's page on the course's Formgrader, and the address."""
    playwright = pytest.importorskip("playwright.sync_api")
    from tests.browser.conftest import ARGUMENTS, require_chromium

    with playwright.sync_playwright() as started:
        program = require_chromium(started.chromium.executable_path)
        command = [sys.executable, "-m", "jupyter_server", "--no-browser", "--port=0", "--IdentityProvider.token=t"]
        command += ["--allow-root", f"--ServerApp.root_dir={course.root}"]
        log = course.root.parent / "server.log"
        with log.open("w") as output:
            server = subprocess.Popen(command, cwd=course.root, stderr=output, stdout=output)
        try:
            browser = started.chromium.launch(executable_path=program, args=ARGUMENTS)
            headers = {"Authorization": "token t"}
            page = browser.new_context(viewport={"width": 1100, "height": 800}, extra_http_headers=headers).new_page()
            yield page, address(log, server)
            browser.close()
        finally:
            server.terminate()
            server.wait()


def address(log, server):
    for _ in range(600):
        found = re.search(r"http://(?:localhost|127\.0\.0\.1):(\d+)/", log.read_text())
        if found:
            url = f"http://127.0.0.1:{found[1]}/"
            with suppress(urllib.error.URLError):  # it says so before it listens
                urllib.request.urlopen(f"{url}api/status?token=t").close()
                return url
        assert server.poll() is None, log.read_text()
        time.sleep(0.1)
    raise AssertionError(log.read_text())


def mark_in_formgrader(course, assignment, student, cell, points, comment, picture=""):
    with course.gradebook() as gradebook:
        notebook = gradebook.find_submission_notebook(assignment, assignment, student).id
    with formgrader(course) as (page, url):
        page.goto(f"{url}formgrader/submissions/{notebook}/", wait_until="networkidle")
        for name, value in ((f"{cell}-comment", comment), (cell, str(points))):
            field = page.locator(f"[id='{name}']")
            with page.expect_response(lambda reply: reply.request.method == "PUT" and reply.ok):
                field.fill(value)
                field.dispatch_event("change")
        if picture and PICTURES:
            page.screenshot(path=Path(PICTURES) / picture)


def run(course, capsys, *words, status=0):
    capsys.readouterr()
    assert main([*words, "--course", str(course.root)]) == status
    return capsys.readouterr().out


def line_of(printed, student):
    return next(line for line in printed.splitlines() if line.startswith(f"{student} "))


def rows(path):
    with open(path, newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_a_teacher_walks_from_an_empty_folder_to_marks_that_can_be_imported(tmp_path, capsys):
    create(tmp_path / "class", [DETACH], "autograd-2027", FROZEN)
    with open(tmp_path / "class" / "nbgrader_config.py", "a") as settings:
        settings.write('c.LateSubmissionPlugin.penalty_method = "zero"\n')
    course = ClassFolder(tmp_path / "class")

    # An exercise and an assignment of their own.
    source = course.notebook("source", DETACH)
    notebook = read(source)
    hidden = HIDDEN.format("assert not snapshot(torch.ones(3, requires_grad=True)).requires_grad")
    notebook.cells.append(check("mine", f"assert snapshot(torch.ones(2)).shape == (2,)\n{hidden}", 2))
    write_whole(source, dumps(notebook))
    put_source(course)
    said = run(course, capsys, "release")
    assert (
        said
        == f"released {DETACH}: 14 points, made from your source\nreleased {HW1}: 11 points, made from your source\n"
    )
    with course.gradebook() as gradebook:
        for student in ("ada", "bob", "cy"):
            gradebook.add_student(student)

    # What was handed in: one late, one the notebook of another lesson, one in a folder called otherwise.
    answers = solved(course, DETACH) | {"written": "Because the log keeps the graph."}

    def hand_in(student, assignment, answers, hour):
        text = json.dumps(answered(released(course, assignment), answers)).encode()
        put(course, student, assignment, text, timestamp=MONDAY.format(hour))

    hand_in("ada", DETACH, answers, 10)
    hand_in("bob", DETACH, {"snapshot": "def snapshot(x):\n    return x.clone()"}, 13)
    put(course, "eve", DETACH, Notebook("05_no_grad").solve().bytes())
    hand_in("ada", HW1, RIGHT, 10)
    put(course, "bob", "HW1", b"{}", name="hw1.ipynb")
    said = run(course, capsys, "grade")
    assert line_of(said, "ada").split()[1] == "12+?" and "2 passed" in line_of(said, "ada")
    assert "0 wrong" in line_of(said, "bob") and "no submission" in line_of(said, "cy")
    assert "eve: Nothing was graded. This is the notebook of another assignment" in said
    assert "bob/HW1: no assignment is called so; rename the folder to hw1." in said
    assert "eve: Not on your list of students" in said
    assert said.endswith("hw1: still to mark: 1 (why 1)\n")

    # Marked in the Formgrader.
    mark_in_formgrader(course, DETACH, "ada", "detach-written", 1.5, "Which graph?", "formgrader.png")
    said = run(course, capsys, "grade")
    assert "1.5 by hand" in line_of(said, "ada")
    assert line_of(said, "ada").split()[1] == "13.5"

    # A resubmission with the same words, a typo mended after release, then other words.
    hand_in("ada", DETACH, answers | {"snapshot": "def snapshot(x):\n    return x.clone()"}, 11)
    said = run(course, capsys, "grade")
    assert "1.5 by hand" in line_of(said, "ada") and "another than the one" not in said
    notebook.cells[0].source += "\n\nA typo, mended."
    write_whole(source, dumps(notebook))
    run(course, capsys, "release", DETACH)
    said = run(course, capsys, "grade", DETACH)
    assert "(3 now, 0 unchanged)" in said
    assert "1.5 by hand" in line_of(said, "ada") and "1.5? by hand" not in said
    hand_in("ada", DETACH, answers | {"written": "Because of something else."}, 11)
    said = run(course, capsys, "grade")
    assert "1.5? by hand" in line_of(said, "ada")
    assert "ada: The answer to detach-written is another than the one that got 1.5 of 2 points by hand" in said
    mark_in_formgrader(course, DETACH, "ada", "detach-written", 2, "Yes.")

    # A deadline, set afterwards, and moved for one.
    with course.gradebook() as gradebook:
        gradebook.update_or_create_assignment(DETACH, duedate=MONDAY.format(12))
    hand_in("bob", DETACH, answers, 13)
    said = run(course, capsys, "grade")
    assert "bob: 1.0 hours late, 12 points less." in said
    with course.gradebook() as gradebook:
        gradebook.grant_extension(DETACH, "bob", hours=2)
    mark_in_formgrader(course, DETACH, "bob", "detach-written", 1, "Say which.")

    # Feedback and export.
    said = run(course, capsys, "feedback", "--zip")
    assert "3 zips in" in said
    with zipfile.ZipFile(course.root / "feedback_to_hand_out" / "ada.zip") as file:
        assert file.namelist() == [f"{DETACH}.html", "hw1.html"]
        page = file.read(f"{DETACH}.html").decode()
    assert "Yes." in page and "14 of 14 points" in page and "requires_grad=True)).requires_grad" not in page
    eve = course.notebook("feedback", DETACH, "eve").with_suffix(".html").read_text()
    assert "This is the notebook of another assignment" in eve
    if PICTURES:
        picture_of_feedback(course, "ada")
    run(course, capsys, "export")
    scores = {
        row["student"]: (row[DETACH], row[HW1], row["total"]) for row in rows(course.root / "export" / "students.csv")
    }
    assert scores == {
        "ada": ("14", "to mark", "14"),
        "bob": ("13", "missing", "13"),
        "cy": ("missing", "missing", "0"),
        "eve": ("to mark", "missing", "0"),
    }


def picture_of_feedback(course, student):
    from playwright.sync_api import sync_playwright

    from tests.browser.conftest import ARGUMENTS, require_chromium

    with sync_playwright() as started:
        program = require_chromium(started.chromium.executable_path)
        browser = started.chromium.launch(executable_path=program, args=ARGUMENTS)
        page = browser.new_context(viewport={"width": 900, "height": 700}).new_page()
        page.goto(course.notebook("feedback", DETACH, student).with_suffix(".html").as_uri())
        page.screenshot(path=Path(PICTURES) / "feedback.png")
        browser.close()
