"""Every right answer of every lesson passes in the classroom, too, and shows no sign of anything: at night."""

import json

import pytest

from course_utils import Lesson
from course_utils.catalogue import LESSONS
from course_utils.classroom.judging.grader import Grader, Limits
from tests.classroom.handed_in import NEEDS_SANDBOX, Notebook
from tests.lessons.answers import cells, right_answers

pytestmark = [*NEEDS_SANDBOX, pytest.mark.nightly]


@pytest.fixture(scope="module")
def grader():
    [Lesson(info.name) for info in LESSONS]  # what lessons import is no test's leftover
    with Grader(Limits(check_seconds=15.0)) as grader:
        yield grader


def all_right_answers(info):
    """A released notebook with a check for every answer in tests/lessons/right, and the notebook with these answers."""
    notebook = Notebook(info.notebook)
    blank, given = [notebook.cell("setup")], [notebook.cell("setup")]
    given.append({"cell_type": "code", "id": "own", "metadata": {}, "source": cells(info.name)[0], "outputs": []})
    for place, right in enumerate(right_answers(info.name)):
        points = Lesson(info.name).exercises[right.exercise].points
        own = f"{right.source}\n\nanswer_{place} = {right.exercise}"
        check = f'lesson.check("{right.exercise}", answer_{place})'
        for kind, stub, source in (("answer", f"answer_{place} = None", own), ("check", check, check)):
            grading = {"grade_id": f"{kind}-{place}", "points": points, "schema_version": 3, "locked": kind == "check"}
            grading |= {"solution": kind == "answer", "grade": kind == "check"}
            cell = {"cell_type": "code", "id": f"{kind}-{place}", "metadata": {"nbgrader": grading}, "outputs": []}
            blank.append(cell | {"source": stub})
            given.append(cell | {"source": source})
    return json.dumps(notebook.data | {"cells": blank}), json.dumps(notebook.data | {"cells": given}).encode()


@pytest.mark.parametrize("info", [info for info in LESSONS if info.points], ids=lambda info: info.name)
def test_every_right_answer_passes_and_shows_no_sign(grader, info):
    released, submitted = all_right_answers(info)
    report = grader.grade(released, submitted, student="ada", assignment=info.name)
    assert len(report.exercises) > 3
    assert [result.html for result in report.exercises if result.outcome != "passed"] == []
    assert report.reviews == () and sum(one.earned for one in report.exercises) == report.possible
