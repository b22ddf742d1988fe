"""A teacher's walk: from an empty folder through release, hand-in, grading, marking in the Formgrader, a resubmission,
a changed deadline and a typo mended after release to feedback and export, with an exercise and an assignment of their
own.
"""

import json
import os
import re
import subprocess
import sys
import time
import urllib.error
import urllib.request
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from tests.classroom.handed_in import DETACH, MODES, NEEDS_SANDBOX, WRITTEN, Notebook, solutions
from tests.classroom.own import HIDDEN, HW1, check, put_source
from tests.classroom.teacher import new_course, row, said_of
from tests.classroom.test_own import RIGHT

pytestmark = [*NEEDS_SANDBOX, pytest.mark.nightly, pytest.mark.browser]

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


def test_a_teacher_walks_from_an_empty_folder_to_marks_that_can_be_imported(tmp_path):
    teacher = new_course(tmp_path / "class", DETACH)
    teacher.set('c.LateSubmissionPlugin.penalty_method = "zero"')

    # An exercise and an assignment of their own.
    hidden = HIDDEN.format("assert not snapshot(torch.ones(3, requires_grad=True)).requires_grad")
    mine = check("mine", f"assert snapshot(torch.ones(2)).shape == (2,)\n{hidden}", 2)
    teacher.change_source(lambda cells, order: order.append(json.loads(json.dumps(mine))))
    put_source(teacher)
    said = teacher.run("release")
    assert f"released {DETACH}: 14 points" in said and f"released {HW1}: 11 points" in said
    with teacher.gradebook() as gradebook:
        for student in ("ada", "bob", "cy"):
            gradebook.add_student(student)

    # What was handed in: one late, one the notebook of another lesson, one in a folder called otherwise.
    answers, wrong = solutions() | {"written": WRITTEN}, "def snapshot(x):\n    return x.clone()"
    teacher.hand_in("ada", timestamp=MONDAY.format(10), **answers)
    teacher.hand_in("bob", timestamp=MONDAY.format(13), snapshot=wrong)
    teacher.put("eve", Notebook(MODES).solve().bytes())
    teacher.hand_in("ada", HW1, timestamp=MONDAY.format(10), **RIGHT)
    teacher.put("bob", b"{}", "HW1", name="hw1.ipynb")
    said = teacher.run("grade")
    assert row(said, "ada").split()[1] == "12+?" and "2 passed" in row(said, "ada")
    assert "0 wrong" in row(said, "bob") and "cy" in re.search(r"Without a submission: (.*)", said)[1]
    assert "Nothing was graded. This is the notebook of another assignment" in " ".join(said_of(said, "eve"))
    assert "bob/HW1: no released assignment's folder; graded is submitted/STUDENT/hw1/hw1.ipynb." in said
    assert "there without a name: eve." in said and "hw1: still to mark: 1 (why 1)\n" in said

    # Marked in the Formgrader.
    mark_in_formgrader(teacher, DETACH, "ada", "detach-written", 1.5, "Which graph?", "formgrader.png")
    said = teacher.run("grade")
    assert "1.5 by hand" in row(said, "ada") and row(said, "ada").split()[1] == "13.5"

    # A resubmission with the same words, a typo mended after release, then other words.
    teacher.hand_in("ada", timestamp=MONDAY.format(11), **answers | {"snapshot": wrong})
    said = teacher.run("grade")
    assert "1.5 by hand" in row(said, "ada") and "Answered anew" not in said
    teacher.change_source(lambda cells, order: cells["title"].update(source=cells["title"]["source"] + "\n\nMended."))
    teacher.run("release", DETACH)
    said = teacher.run("grade", DETACH)
    assert "(3 now, 0 unchanged)" in said and "1.5 by hand" in row(said, "ada")
    teacher.hand_in("ada", timestamp=MONDAY.format(11), **answers | {"written": "Because of something else."})
    said = teacher.run("grade")
    assert "1.5? by hand" in row(said, "ada") and "Answered anew since you marked it; mark it again" in said
    mark_in_formgrader(teacher, DETACH, "ada", "detach-written", 2, "Yes.")

    # A deadline, set afterwards, and moved for one.
    with teacher.gradebook() as gradebook:
        gradebook.update_or_create_assignment(DETACH, duedate=MONDAY.format(12))
    teacher.hand_in("bob", timestamp=MONDAY.format(13), **answers)
    assert "bob: 1.0 hours late, 12 points less." in teacher.run("grade")
    with teacher.gradebook() as gradebook:
        gradebook.grant_extension(DETACH, "bob", hours=2)
    mark_in_formgrader(teacher, DETACH, "bob", "detach-written", 1, "Say which.")

    # Feedback and export.
    teacher.run("feedback", "--to", str(tmp_path / "out"))
    assert {path.name for path in (tmp_path / "out" / HW1).iterdir()} == {"ada.html"}
    page = (tmp_path / "out" / DETACH / "ada.html").read_text()
    assert "Yes." in page and "14 of 14 points" in page and "requires_grad=True)).requires_grad" not in page
    assert "Your file could not be read" in teacher.page("eve")
    teacher.run("export")
    scores = {line["student"]: (line[DETACH], line[HW1], line["total"]) for line in teacher.exported("students")}
    assert scores == {
        "ada": ("14", "8+?", "22+?"),
        "bob": ("13", "not graded", "13+?"),
        "cy": ("missing", "missing", "0"),
        "eve": ("0+?", "missing", "0+?"),
    }
