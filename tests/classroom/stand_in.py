"""A grader that runs nothing (``StandIn``): it obeys comments in answers. For tests of everything around grading.

An answer cell may hold ``# outcome: wrong`` (any outcome), ``# misconception: NAME``, ``# look: SENTENCE`` for the
teacher, and ``# fail`` where the machine fails. Without any it passes; untouched it is not attempted.
"""

import json
import re
from dataclasses import fields

from course_utils.classroom.judging.results import ExerciseResult, Report

SHARES = {"passed": 1.0, "partial": 0.5}


class StandIn:
    """Has the grader's interface; ``graded`` has the students whom it was asked for."""

    def __init__(self):
        self.graded, self.remarks = [], ()

    def __enter__(self):
        return self

    def __exit__(self, *error):
        pass

    def grade(self, released, submitted, *, student, assignment):
        self.graded.append(student)
        given, topic, results, told = json.loads(released), assignment.partition("_")[2], [], []
        try:
            answers = {_grade_id(cell): "".join(cell["source"]) for cell in json.loads(submitted or b"")["cells"]}
        except ValueError:
            answers = None
        answer = stub = ""
        for cell in given["cells"]:
            grading, source = cell["metadata"].get("nbgrader", {}), "".join(cell["source"])
            if grading.get("solution"):
                stub, answer = source, (answers or {}).get(grading["grade_id"], source)
                cell["source"] = answer
            if grading.get("grade"):
                outcome = "unreadable" if answers is None else _outcome(answer, answer == stub, grading["solution"])
                results.append(_result(grading, topic, answer, outcome))
                told += re.findall(r"# look: (.*)", answer)
                if cell["cell_type"] == "code":
                    data = {"text/plain": repr(results[-1].earned), "text/html": results[-1].html}
                    shown = {"output_type": "execute_result", "execution_count": 1, "metadata": {}, "data": data}
                    cell |= {"outputs": [shown], "execution_count": 1}
            if "# fail" in answer:
                raise OSError("the sandbox ended")
        repairs = ("Nothing was graded. The file is broken.",) if answers is None else ()
        about = {"student": student, "assignment": assignment}
        about |= {
            "exercises": tuple(results),
            "reviews": tuple(told),
            "repairs": repairs,
            "notebook": json.dumps(given),
        }
        return Report(**{field.name: () for field in fields(Report)} | about)


def _grade_id(cell):
    return cell["metadata"].get("nbgrader", {}).get("grade_id")


def _outcome(answer, is_blank, is_written):
    if named := re.findall(r"# outcome: (.*)", answer):
        return named[0]
    return "not attempted" if is_blank else "review by hand" if is_written else "passed"


def _result(grading, topic, answer, outcome):
    exercise = grading["grade_id"].removesuffix("-check").removeprefix(f"{topic}-" * (not grading["solution"]))
    possible = float(grading["points"])
    earned = possible * SHARES.get(outcome, 0.0)
    said = "The file is broken." if outcome == "unreadable" else f"{earned:g} of {possible:g} points, {outcome}"
    text = f"{exercise}: {said}"
    values = {"grade_id": grading["grade_id"], "exercise": exercise, "earned": earned, "possible": possible}
    values |= {"outcome": outcome, "html": f"<p>{text}</p>"}
    values |= {"said": f"{possible:g} of {possible:g} points" if outcome == "review by hand" else f"is {outcome}"}
    values |= {"misconceptions": tuple(re.findall(r"# misconception: (.*)", answer))}
    values |= {"by_hand": grading["solution"], "lost": ((f"is {outcome}", possible - earned),) * (earned < possible)}
    return ExerciseResult(**values)
