"""Submissions that want points which they have not earned, and honest ones that must not be taken for them."""

import json

import pytest

from course_utils import Lesson
from course_utils.catalogue import LESSONS
from course_utils.classroom.judging.limits import Limits
from course_utils.classroom.judging.outcomes import judged
from course_utils.classroom.rebuild.released import read_released
from tests.classroom.handed_in import NEEDS_SANDBOX, Notebook, outcomes, points, released, solutions
from tests.lessons.answers import cells, right_answers

pytestmark = [*NEEDS_SANDBOX]
LIMITS = Limits(check_seconds=15.0)
WRONG = {
    "snapshot": "def snapshot(x):\n    return x * 3",
    "predicted_edit": "predicted_edit = dict.fromkeys(['detach_edit', 'data_edit'], 'right gradient')",
    "mean_loss": "def mean_loss(model, loss_fn, batches):\n    return 0",
    "truncated_bptt": "def truncated_bptt(cell, inputs, state, window):\n    return [], state",
    "stop_gradient_round": "def stop_gradient_round(x):\n    return x * 3",
}


def grade(grader, notebook):
    return grader.grade(released(), notebook.bytes(), student="eve", assignment="03_detach")


def test_printing_and_displaying_numbers_earns_nothing(grader):
    notebook = Notebook().write(**WRONG).add("print('2.0')\ndisplay(2.0)\n2.0", after="mean_loss")
    notebook.cell("snapshot-check")["source"] = "1.0"
    notebook.cell("snapshot-check")["metadata"]["nbgrader"]["points"] = 50
    report = grade(grader, notebook)
    assert set(points(report).values()) == {0.0}
    assert [result.possible for result in report.exercises] == [1, 2, 2, 3, 2, 2]


def test_an_input_transformer_cannot_pass_for_an_answer(grader):
    cell = "get_ipython().input_transformers_post.append(lambda lines: ['pass\\n'])"
    report = grade(grader, Notebook().write(**WRONG).add(cell, after="setup"))
    assert set(points(report).values()) == {0.0}


def test_what_leads_to_the_judge_is_refused_and_a_person_looks_where_that_cost_points(grader):
    right = solutions()
    looks = "    try:\n        {}\n    except RuntimeError:\n        pass\n"
    notebook = Notebook().write(
        # Right all the same: nobody has to look.
        snapshot="import sys\ndef snapshot(x):\n" + looks.format("sys._getframe()") + "    return x.detach().clone()",
        mean_loss="import gc\ndef mean_loss(*given):\n    gc.get_objects()",
        truncated_bptt="def truncated_bptt(cell, inputs, state, window):\n    try:\n        1 / 0\n"
        "    except ZeroDivisionError as error:\n        return error.__traceback__.tb_frame",
        stop_gradient_round=f"import sys\n{right['stop_gradient_round']}\nplain = stop_gradient_round\n"
        "def stop_gradient_round(x):\n    sys.settrace(print)\n    return plain(x)",
        predicted_edit="predicted_edit = lesson.exercises['predicted_edit'].truth(None)",
    )
    report = grade(grader, notebook)
    by_hand = ("mean_loss", "truncated_bptt", "stop_gradient_round")
    assert outcomes(report) == {
        **dict.fromkeys(by_hand, "review by hand"),
        "snapshot": "passed",
        "predicted_edit": "raised",
        "detach-written": "not attempted",
    }
    assert points(report) == dict.fromkeys(outcomes(report), 0.0) | {"snapshot": 1.0}
    assert [review.partition(":")[0] for review in report.reviews] == [f"In the check of `{name}`" for name in by_hand]


def test_answers_that_replace_things_while_they_are_judged_earn_nothing(grader):
    notebook = Notebook().write(
        # Put together, so that no look at the text sees it.
        snapshot="import importlib\ndef snapshot(x):\n"
        "    judge = importlib.import_module('course_' + 'utils.checks.ju' + 'dge')\n"
        "    judge._claim = judge._earned = lambda *_: (1.0, 'passed')\n    return x * 3",
        mean_loss="import torch\ndef mean_loss(model, loss_fn, batches):\n"
        "    torch.isclose = lambda *_, **__: torch.tensor(True)\n    return torch.zeros(())",
        truncated_bptt="import threading, time\ndef truncated_bptt(cell, inputs, state, window):\n"
        "    threading.Thread(target=time.sleep, args=(60,), daemon=True).start()\n"
        + solutions()["truncated_bptt"].partition("\n")[2],
        stop_gradient_round="""
import torch
class Equal(torch.Tensor):
    def __eq__(self, other):
        return torch.tensor(True)
    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        return torch.tensor(True)
def stop_gradient_round(x):
    return torch.Tensor._make_subclass(Equal, x)
""",
        predicted_edit="""
class Equal(str):
    def __eq__(self, other):
        return True
    def __hash__(self):
        return 0
    def strip(self):
        return self
    def casefold(self):
        return self
predicted_edit = {key: Equal("x") for key in ("detach_edit", "data_edit", "clone_edit", "detach_clone_edit")}
""",
    )
    report = grade(grader, notebook)
    assert outcomes(report) == {
        "snapshot": "review by hand",
        "predicted_edit": "wrong",
        "mean_loss": "review by hand",
        "truncated_bptt": "review by hand",
        "stop_gradient_round": "wrong",
        "detach-written": "not attempted",
    }
    assert set(points(report).values()) == {0.0}
    assert any("left threads running" in review for review in report.reviews)


def test_memory_and_processes_are_out_of_an_answer_s_reach(grader):
    notebook = Notebook().write(
        snapshot="import ctypes\ndef snapshot(x):\n    return ctypes.string_at(id(x), 8)",
        mean_loss="def mean_loss(model, loss_fn, batches):\n    return open('/proc/self/mem', 'rb')",
        truncated_bptt="import os\ndef truncated_bptt(cell, inputs, state, window):\n"
        "    if not os.fork():\n        os._exit(0)",
        stop_gradient_round="import os\ndef stop_gradient_round(x):\n    for fd in range(3, 64):\n        try:\n"
        "            os.write(fd, b'\\x00\\x00\\x00\\x02{}')\n        except OSError: pass\n    return 3 * x",
    )
    report = grade(grader, notebook)
    assert outcomes(report) == {
        "snapshot": "wrong",
        "predicted_edit": "not attempted",
        "mean_loss": "wrong",
        "truncated_bptt": "wrong",
        "stop_gradient_round": "wrong",
        "detach-written": "not attempted",
    }
    assert set(points(report).values()) == {0.0}


def test_a_result_that_no_check_gives_is_refused():
    cell = next(cell for cell in read_released(released()).cells if cell.exercise == "snapshot")
    claim = {"text": "holds", "held": True, "misconception": None, "details": [], "weight": 1.0, "judged": True}
    result = {"earned": 1.0, "possible": 1.0, "status": "passed", "claims": [claim], "notes": [], "output": ""}
    assert judged(cell, result).earned == 1.0
    for change in (
        {"earned": 9.0},
        {"earned": float("nan")},
        {"status": "won"},
        {"claims": [claim | {"held": False}]},
        {"claims": 3},
        {"claims": [{}]},
        {"notes": [3]},
        {"status": "partial"},
        {"output": None},
    ):
        assert judged(cell, result | change) is None, change


# Honest code is left in peace.


def test_an_honest_curious_student_loses_nothing(grader):
    cells = """
import gc, inspect, logging, sys, traceback, warnings, weakref, functools, time, copy, collections, dataclasses
gc.collect()
print(inspect.signature(snapshot), inspect.getsource(snapshot))
try:
    1 / 0
except ZeroDivisionError:
    traceback.print_exc()
    logging.getLogger().warning("seen")
warnings.warn("look out")
Point = collections.namedtuple("Point", "x y")
@dataclasses.dataclass
class Pair:
    x: int = sys.getrefcount(snapshot)
copy.deepcopy(Pair())
functools.lru_cache(snapshot)
weakref.ref(snapshot)
%time snapshot(torch.ones(2))
!echo hello
"""
    report = grade(grader, Notebook().solve().add(cells, after="snapshot"))
    assert {name: outcome for name, outcome in outcomes(report).items() if outcome != "passed"} == {
        "detach-written": "not attempted"
    }
    assert report.reviews == ()


def all_right_answers(lesson):
    """A released notebook with a check for every answer in tests/lessons/right, and the notebook with these answers."""
    setup = next(cell for cell in Notebook(_file(lesson)).cells if cell["id"] == "setup")
    notebook = json.loads(released(_file(lesson)))
    blank, given = [setup], [setup]
    for place, right in enumerate(right_answers(lesson)):
        points = Lesson(lesson).exercises[right.exercise].points
        kinds = {"answer": {"solution": True, "grade": False}, "check": {"solution": False, "grade": True}}
        for kind, flags in kinds.items():
            name = f"{kind}-{place}"
            grading = {"grade_id": name, "locked": kind == "check", "points": points, "schema_version": 3} | flags
            cell = {"cell_type": "code", "id": name, "metadata": {"nbgrader": grading}, "outputs": []}
            check = f'lesson.check("{right.exercise}", answer_{place})'
            blank.append(cell | {"source": f"answer_{place} = None" if kind == "answer" else check})
            answer = f"{right.source}\n\nanswer_{place} = {right.exercise}"
            given.append(cell | {"source": answer if kind == "answer" else check})
    own = {"cell_type": "code", "id": "own", "metadata": {}, "source": cells(lesson)[0], "outputs": []}
    given.insert(1, own)
    return json.dumps(notebook | {"cells": blank}), json.dumps(notebook | {"cells": given}).encode()


def _file(lesson):
    return next(info.notebook for info in LESSONS if info.name == lesson)


@pytest.mark.nightly
@pytest.mark.parametrize("lesson", [info.name for info in LESSONS if info.points])
def test_every_right_answer_passes_and_shows_no_sign(grader, lesson):
    blank, given = all_right_answers(lesson)
    report = grader.grade(blank, given, student="ada", assignment=lesson)
    assert len(report.exercises) > 3
    assert [result.text for result in report.exercises if result.outcome != "passed"] == []
    assert report.reviews == ()
    assert [result.earned for result in report.exercises] == [result.possible for result in report.exercises]
