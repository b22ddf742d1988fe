"""A grader that runs nothing (``StandIn``): it obeys a comment in the answer. For tests of everything around grading.

An answer cell may hold ``# outcome: wrong`` (any outcome), ``# misconception: NAME``, ``# sleep: 0.1``, ``# die once:
FILE`` (kills the worker unless the file is there, and makes it), ``# die``, and ``# look: SENTENCE`` for the teacher.
Without any, it passes; untouched it is not attempted.
"""

import json
import os
import re
import signal
import time
from pathlib import Path

from course_utils.classroom.judging.results import ExerciseResult, Report


class StandIn:
    """Has the grader's interface."""

    remarks = ()

    def __enter__(self):
        return self

    def __exit__(self, *error):
        pass

    def grade(self, released, submitted, *, student, assignment):
        notebook = json.loads(released)
        try:
            answers = {_grade_id(cell): cell["source"] for cell in json.loads(submitted or b"")["cells"]}
        except ValueError:
            answers = None
        results, reviews, topic = [], [], assignment.partition("_")[2]
        previous, stub = None, ""
        for cell in notebook["cells"]:
            grading = cell["metadata"].get("nbgrader", {})
            given = "".join(cell["source"])
            if grading.get("solution") and answers is not None:
                cell["source"] = answers.get(grading["grade_id"], cell["source"])
            if grading.get("grade"):
                answer = "".join((previous if cell["cell_type"] == "code" else cell)["source"])
                untouched = stub if cell["cell_type"] == "code" else given
                result = _result(grading, topic, answer, untouched, unreadable=answers is None)
                results.append(result)
                reviews += re.findall(r"# look: (.*)", answer)
                if cell["cell_type"] == "code":
                    cell["outputs"] = [_shown(result)]
                    cell["execution_count"] = 1
            if grading.get("solution") and cell["cell_type"] == "code":
                previous, stub = cell, given
        return Report(student, assignment, tuple(results), (), tuple(reviews), (), json.dumps(notebook), 0.01)


class Here:
    """A worker that grades in this process, one submission after the other."""

    def __init__(self):
        self.graded, self.remarks = [], ("A stand-in grades.",)

    def __enter__(self):
        return self

    def __exit__(self, *error):
        pass

    def expect(self, submissions):
        pass

    def grade(self, work):
        for submission, released in work:
            self.graded.append((submission.student, submission.assignment))
            names = {"student": submission.student, "assignment": submission.assignment}
            yield submission, StandIn().grade(released, submission.content, **names)


class Unwilling(StandIn):
    """A machine that cannot grade."""

    def __enter__(self):
        raise ValueError("bubblewrap was not found.\nTry: apt install bubblewrap")


def _grade_id(cell):
    return cell["metadata"].get("nbgrader", {}).get("grade_id")


def _result(grading, topic, answer, stub, *, unreadable):
    for seconds in re.findall(r"# sleep: ([\d.]+)", answer):
        time.sleep(float(seconds))
    for mark in re.findall(r"# die once: (.*)", answer):
        if not Path(mark).exists():
            Path(mark).touch()
            os.kill(os.getpid(), signal.SIGKILL)
    if re.search(r"# die$", answer, re.MULTILINE):
        os.kill(os.getpid(), signal.SIGKILL)
    named = re.findall(r"# outcome: (.*)", answer)
    outcome = named[0] if named else "not attempted" if answer == stub else "passed"
    if unreadable:
        outcome = "unreadable"
    elif grading.get("solution"):
        outcome = "not attempted" if answer == stub else "review by hand"
    share = {"passed": 1.0, "partial": 0.5}.get(outcome, 0.0)
    exercise = grading["grade_id"].removeprefix(f"{topic}-").removesuffix("-check")
    earned, possible = grading["points"] * share, float(grading["points"])
    text = f"{exercise}: {earned:g} of {possible:g} points, {outcome}"
    names = tuple(re.findall(r"# misconception: (.*)", answer))
    said = f"{possible:g} of {possible:g} points" if outcome == "review by hand" else None
    html = f"<p>{text}</p>"
    by_hand = bool(grading.get("solution"))
    lost = ((f"is {outcome}", possible - earned),) if earned < possible else ()
    values = grading["grade_id"], exercise, earned, possible, outcome, said, names, text, html, 0.0, by_hand, lost
    return ExerciseResult(*values)


def _shown(result):
    data = {"text/plain": repr(result.earned), "text/html": result.html}
    return {"output_type": "execute_result", "execution_count": 1, "metadata": {}, "data": data}
