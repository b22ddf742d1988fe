"""A class of students in three lessons: what each handed in, and what it must come to (``STUDENTS``).

The honest ones answer as ``tests/lessons/answers.py`` has it, rightly or with a known mistake; what a notebook went
through follows what JupyterLab does; the others are what goes wrong in every class and what a clever student tries.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache, partial
from typing import Any

from course_utils import Lesson
from tests.classroom.handed_in import Notebook, released, released_points
from tests.lessons.answers import Answer, cells, made, right_answers, wrong_answers

LESSONS = {"01_requires_grad": "requires_grad", "03_detach": "detach", "05_no_grad": "no_grad"}
DETACH = "03_detach"
ANSWER = "Because the log keeps the graph."
PASSED = "passed"

Expected = dict[str, tuple[str, float]]


@dataclass(frozen=True)
class Student:
    """One submission and what must come of it.

    Attributes:
        name: the student's id, which says what is special about them.
        content: the file; None: a folder without a notebook.
        expected: exercise -> (outcome, points earned), or what gives it; those left out pass with all their points.
        review: whether the teacher must be told to look.
        assignment: the lesson.
        file: the notebook's name where it is not the assignment's.
        extra: other files beside it.
        link: the file is a link to this place instead.
    """

    name: str
    content: bytes | None
    expected: Expected | Callable[[], Expected] = field(default_factory=dict)
    review: bool = False
    assignment: str = DETACH
    file: str = ""
    extra: dict[str, bytes] = field(default_factory=dict)
    link: str = ""

    @property
    def topic(self) -> str:
        return LESSONS[self.assignment]

    def outcomes(self) -> Expected:
        """What must come of every exercise that is judged automatically."""
        expected = self.expected() if callable(self.expected) else self.expected
        return {name: expected.get(name, (PASSED, points)) for name, points in exercises(self.assignment).items()}


@cache
def exercises(assignment: str) -> dict[str, float]:
    """The exercises of the released notebook and their points, whatever those of today's lesson are."""
    return {name: float(points) for name, points in released_points(LESSONS[assignment]).items()}


def everything(outcome: str, assignment: str = DETACH) -> Expected:
    return {name: (outcome, 0.0) for name in exercises(assignment)}


# -------------------------------------------------------------------------------------------------------------- honest


def notebook_with(assignment: str, chosen: dict[str, str], today: bool = False) -> Notebook:
    """A solved notebook in which some answers have this source, with a helper cell for what they share."""
    notebook = Notebook(assignment, today).solve()
    notebook.add(cells(LESSONS[assignment])[0], after="setup")
    notebook.write(**chosen)
    notebook.cell("written")["source"] = ANSWER
    return notebook


def _judged(topic: str, chosen: dict[str, str]) -> Expected:
    """What the lesson's own check says of answers, without any classroom, in the points of the released notebook."""
    expected = {}
    for exercise, source in chosen.items():
        score = Lesson(topic).check(exercise, made(topic, exercise, source))
        earned = float(score) / score.possible * released_points(topic)[exercise]
        expected[exercise] = {"error": "raised"}.get(score.status, score.status if score else "wrong"), earned
    return expected


def shared_out(answers: Iterable[Answer], count: int) -> Iterator[dict[str, str]]:
    """Answers for so many students: to each exercise the first takes the first, the last one near the last."""
    rows: dict[str, list[str]] = {}
    for one in answers:
        rows.setdefault(one.exercise, []).append(one.source)
    for number in range(count):
        yield {name: those[number * len(those) // count] for name, those in rows.items()}


def honest(assignment: str, kind: str, answers: Iterable[Answer], count: int) -> list[Student]:
    """Students who hand in answers of a kind to the exercises of the released notebook."""
    topic, students = LESSONS[assignment], []
    for number, chosen in enumerate(shared_out(answers, count)):
        chosen = {name: source for name, source in chosen.items() if name in exercises(assignment)}
        content, expected = notebook_with(assignment, chosen).bytes(), cache(partial(_judged, topic, chosen))
        students.append(Student(f"{topic}-{kind}-{number}", content, expected, assignment=assignment))
    return students


def lesson_of_honest_students(assignment: str) -> list[Student]:
    topic = LESSONS[assignment]
    half = dict(list(exercises(assignment).items())[::2])
    partly = Notebook(assignment).solve(*half)
    blank = everything("not attempted", assignment)
    rest = {name: ("not attempted", 0.0) for name in exercises(assignment) if name not in half}
    return [
        Student(f"{topic}-solved", Notebook(assignment).solve().bytes(), {}, assignment=assignment),
        Student(f"{topic}-blank", released(assignment).encode(), blank, assignment=assignment),
        Student(f"{topic}-partly", partly.bytes(), rest, assignment=assignment),
        *honest(assignment, "right", right_answers(topic), 1),
        *honest(assignment, "wrong", wrong_answers(topic), 2),
    ]


# ------------------------------------------------------------------------------------- what happens to honest notebooks


def solved() -> Notebook:
    return Notebook().solve()


def changed(change: Callable[[Notebook], Any]) -> bytes:
    notebook = solved()
    change(notebook)
    return notebook.bytes()


def answer(name: str, source: str, outcome: str = PASSED, *, review: bool = False) -> Student:
    """A solved notebook with another answer to ``snapshot``."""
    content = changed(lambda notebook: notebook.write(snapshot=source))
    return Student(name, content, {} if outcome == PASSED else {"snapshot": (outcome, 0.0)}, review)


def _unmarked(notebook: Notebook) -> None:
    for cell in notebook.cells:
        cell["metadata"] = {}


def _metadata(name: str, **values: Any) -> Callable[[Notebook], None]:
    return lambda notebook: notebook.cell(name)["metadata"]["nbgrader"].update(values)


def _without_grade_id(notebook: Notebook) -> None:
    del notebook.cell("snapshot")["metadata"]["nbgrader"]["grade_id"]


def _retyped(notebook: Notebook) -> None:
    cell = notebook.cell("snapshot")
    cell["cell_type"] = "markdown"
    cell.pop("outputs", None), cell.pop("execution_count", None)


RIGHT = "def snapshot(x):\n    return x.detach().clone()"
UNFINISHED = "def snapshot(x):\n    pass"
BY_HELPER = "def snapshot(x):\n    return cut(x).clone()"
WARNS = "def snapshot(x):\n    warnings.warn('again')\n    return x.detach().clone()"
TWO_STEPS = "cut = torch.Tensor.detach\n\ndef snapshot(x):\n    return cut(x).clone()"
SNAPSHOT_GONE = {"snapshot": ("not attempted", 0.0)}

UNLUCKY = [
    Student("check-deleted", changed(lambda n: n.remove("snapshot-check"))),
    Student("check-edited", changed(lambda n: n.cell("snapshot-check").update(source="1.0"))),
    Student("answer-deleted", changed(lambda n: n.remove("snapshot")), SNAPSHOT_GONE),
    Student("answer-retyped", changed(_retyped)),
    Student("answer-copied", changed(lambda n: n.paste("snapshot", after="snapshot", source=UNFINISHED))),
    Student("check-copied", changed(lambda n: n.paste("snapshot-check", after="snapshot-check"))),
    Student("answer-split", changed(lambda n: n.write(snapshot=TWO_STEPS).split("snapshot", at="def snapshot"))),
    Student("answer-and-check-merged", changed(lambda n: n.merge("snapshot", "snapshot-check", active="snapshot"))),
    Student("answer-moved", changed(lambda n: n.move("snapshot", after="written"))),
    Student("metadata-removed", changed(_unmarked)),
    Student("grade-id-removed", changed(_without_grade_id)),
    Student("flags-changed", changed(_metadata("snapshot-check", grade=False, locked=False))),
    Student("schema-4", changed(_metadata("snapshot", schema_version=4))),
    Student("points-raised", changed(_metadata("snapshot-check", points=100))),
    Student("kernelspec-unknown", changed(lambda n: n.data["metadata"]["kernelspec"].update(name="julia"))),
    Student("notebook-metadata-gone", changed(lambda n: n.data.update(metadata={}))),
    Student("renamed", changed(lambda n: n), file="detach final (2).ipynb"),
    Student("torch-py-beside", changed(lambda n: n), extra={"torch.py": b"raise SystemExit(1)"}),
    Student("torch-rebound", changed(lambda n: n.add("torch = 3", "snapshot"))),
    Student("helper-cell", changed(lambda n: n.add("cut = torch.Tensor.detach", "setup").write(snapshot=BY_HELPER))),
    answer("warns", f"import warnings\nwarnings.warn('careful')\n{WARNS}"),
    answer("grad-mode-off", f"torch.set_grad_enabled(False)\n{RIGHT}"),
    answer("asks-for-input", "snapshot = input()", "raised"),
    answer("answer-raises", "def snapshot(x):\n    return x.nope", "raised"),
    answer("syntax-error", "def snapshot(x:\n    return x", "raised"),
]

# ------------------------------------------------------------------------------------------- what ends, or will not end

FOR_EVER = "while True:\n    pass"
IN_FUNCTION = "def snapshot(x):\n    while True:\n        pass"
DEAF = f"import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\n{FOR_EVER}"
KILLS = "import os\ndef snapshot(x):\n    os.kill(os.getpid(), 9)"

ENDLESS = [
    answer("loops-in-function", IN_FUNCTION, "timed out"),
    answer("loops-in-cell", FOR_EVER, "timed out"),
    answer("loops-deaf-to-signals", DEAF, "timed out"),
    answer("prints-without-end", "while True:\n    print('x' * 10000)", "killed or timed out"),
    Student("prints-100-mb", changed(lambda n: n.add("print('x' * 100_000_000)", "snapshot"))),
    answer("exits", "import os\nos._exit(0)", "killed"),
    answer("quits", "def snapshot(x):\n    quit()", "raised"),
    answer("kills-itself", KILLS, "killed"),
    answer("takes-50-gb", "def snapshot(x):\n    return bytearray(50 * 2**30)", "raised"),
    answer("forks-without-end", "import os\nwhile True:\n    os.fork()", "killed"),
]

# ---------------------------------------------------------------------------------------------------------- tampering


def cheat(name: str, source: str) -> Student:
    """A blank notebook in which one cell tries to earn the points of ``snapshot``."""
    expected = everything("not attempted") | {"snapshot": ("wrong", 0.0)}
    return Student(name, Notebook().write(snapshot=source).bytes(), expected)


THREAD = """
import threading, time

def write():
    while True:
        time.sleep(0.1)
        print(1.0)

threading.Thread(target=write, daemon=True).start()
"""
STUB = "def snapshot(x):\n    return x"
EQUAL = """
class Equal(torch.Tensor):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return True

def snapshot(x):
    return x.as_subclass(Equal)
"""

# Right answers, so that there are points to withhold until the teacher has looked.
LOOKS = f"""
import sys
{RIGHT}
plain = snapshot

def snapshot(x):
    try:
        sys._getframe()
    except RuntimeError:
        pass
    return plain(x)
"""
LEAVES_THREAD = """
import threading, time

def snapshot(x):
    threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
    return x.detach().clone()
"""
SWAPS = """
import torch

def snapshot(x):
    torch.equal = lambda *_: True
    return x.detach().clone()
"""

CHEATS = [
    answer("right-and-looks-at-frames", LOOKS),
    answer("right-and-leaves-a-thread", LEAVES_THREAD, "review by hand", review=True),
    # Put back on the spot, and said on the card: it costs the claim that nothing else is changed.
    Student("right-and-swaps-torch", changed(lambda n: n.write(snapshot=SWAPS)), {"snapshot": ("partial", 0.81)}),
    cheat("rebinds-lesson", f"class lesson:\n    check = staticmethod(lambda *a: 1.0)\n{STUB}"),
    cheat("rebinds-check", f"lesson.check = lambda *a: 1.0\n{STUB}"),
    cheat("patches-lesson-class", f"from course_utils import Lesson\nLesson.check = lambda *a: 1.0\n{STUB}"),
    cheat("patches-score", f"from course_utils import Score\nScore.__new__ = lambda *a, **k: 1.0\n{STUB}"),
    cheat("patches-judge", f"import course_utils.checks.judge as j\nj.judge = lambda *a: 1.0\n{STUB}"),
    cheat("patches-torch", f"torch.allclose = torch.equal = lambda *a, **k: True\n{STUB}"),
    # It earns what `x.view_as(x)` does, and nothing by its comparisons.
    Student("equals-everything", changed(lambda n: n.write(snapshot=EQUAL)), {"snapshot": ("partial", 0.27)}),
    cheat("input-transformer", f"get_ipython().input_transformers_cleanup.append(lambda lines: ['1.0'])\n{STUB}"),
    cheat("sys-modules", "import sys, types\nname = 'course_utils.checks.judge'\n"
        f"sys.modules[name] = types.ModuleType('judge')\n{STUB}"),
    cheat("atexit", f"import atexit\natexit.register(lambda: print(1.0))\n{STUB}"),
    cheat("thread", f"{THREAD}\n{STUB}"),
    cheat("prints-numbers", f"print(1.0)\nfrom IPython.display import display\ndisplay(1.0)\n{STUB}"),
    cheat("walks-frames", f"import sys\nframe = sys._getframe()\n{STUB}"),
    cheat("walks-the-heap", f"import gc\nfound = gc.get_objects()\n{STUB}"),
]  # fmt: skip

# --------------------------------------------------------------------------------------------------------- unreadable

UNREADABLE = [
    Student(name, content, everything("unreadable"))
    for name, content in {
        "not-json": b"{",
        "empty-file": b"",
        "not-a-notebook": b"[1, 2]",
        "truncated": solved().bytes()[:-2000],
        "nested-deeply": b"[" * 200_000,
        "not-text": bytes(range(256)) * 100,
        "too-large": b'{"cells": [' + b" " * (65 * 2**20),
    }.items()
] + [
    Student("no-notebook", None, everything("unreadable"), extra={"notes.txt": b"I could not upload it."}),
    Student("a-link", None, everything("unreadable"), link="../../detach-solved/03_detach/03_detach.ipynb"),
]

STUDENTS = [
    *(student for assignment in LESSONS for student in lesson_of_honest_students(assignment)),
    *UNLUCKY,
    *ENDLESS,
    *CHEATS,
    *UNREADABLE,
]
