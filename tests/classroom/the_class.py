"""The class that most questions are asked of (``STUDENTS``), handed in and graded once (``graded``).

The honest answer as ``tests/lessons/answers.py`` has it, rightly or with a known mistake; the others are unlucky, odd,
or want what they have not earned.
"""

from collections.abc import Iterable, Iterator
from functools import cache, partial
from unittest import mock

from course_utils import Lesson
from course_utils.classroom.judging.grader import Grader, Limits
from course_utils.classroom.run.graders import Graders
from tests.classroom.attacks import ATTACKS
from tests.classroom.handed_in import DETACH, FLAGS, MODES, Notebook, exercises
from tests.classroom.mishaps import MISHAPS, NO_ANSWERS, NOT_READ
from tests.classroom.students import BLANK, Expected, Student
from tests.classroom.styles import STYLES
from tests.lessons.answers import Answer, cells, made, right_answers, wrong_answers

# What will not end takes all of its seconds, so that they are few.
LIMITS = Limits(submission_seconds=60.0, check_seconds=5.0)
TOPICS = {FLAGS: "requires_grad", DETACH: "detach", MODES: "no_grad"}


def notebook_with(assignment: str, chosen: dict[str, str], today: bool = False) -> Notebook:
    """A solved notebook in which some answers have this source, with a helper cell for what they share."""
    notebook = Notebook(assignment, today).solve()
    return notebook.add(cells(TOPICS[assignment])[0]).write(**chosen)


def shared_out(answers: Iterable[Answer], count: int) -> Iterator[dict[str, str]]:
    """Answers for so many students: to each exercise the first takes the first, the last one near the last."""
    rows: dict[str, list[str]] = {}
    for one in answers:
        rows.setdefault(one.exercise, []).append(one.source)
    for number in range(count):
        yield {name: those[number * len(those) // count] for name, those in rows.items()}


def _judged(topic: str, assignment: str, chosen: dict[str, str]) -> Expected:
    """What the lesson's own check says of answers, without any classroom, in the points of the released notebook."""
    expected = {}
    for exercise, source in chosen.items():
        score = Lesson(topic).check(exercise, made(topic, exercise, source))
        earned = float(score) / score.possible * exercises(assignment)[exercise]
        expected[exercise] = {"error": "raised"}.get(score.status, score.status if score else "wrong"), earned
    return expected


def honest(assignment: str) -> Iterator[Student]:
    """Students who hand in right answers, some of them, or known mistakes."""
    topic, all_of_them = TOPICS[assignment], exercises(assignment)
    half = list(all_of_them)[::2]
    left = {name: (BLANK, 0.0) for name in all_of_them if name not in half}
    yield Student(f"{topic}-half", Notebook(assignment).solve(*half).bytes(), left, assignment=assignment)
    for kind, answers in (("right", right_answers(topic)), ("wrong", wrong_answers(topic))):
        for number, chosen in enumerate(shared_out(answers, 1 + (kind == "wrong"))):
            chosen = {name: source for name, source in chosen.items() if name in all_of_them}
            expected = cache(partial(_judged, topic, assignment, chosen))
            content = notebook_with(assignment, chosen).bytes()
            yield Student(f"{topic}-{kind}-{number}", content, expected, assignment=assignment)


HONEST = [student for assignment in TOPICS for student in honest(assignment)]
STUDENTS = [*HONEST, *STYLES, *MISHAPS, *NO_ANSWERS, *NOT_READ, *ATTACKS]
BY_NAME = {student.name: student for student in STUDENTS}
# Whose feedback is looked at.
SHOWN = ("detach-wrong-0", "deletes-and-edits", "breaks-parsers", "shows-what-does-not-end", "cut-off", "as-released")
# Before a push one of each kind, by what docs/classroom.md promises; the whole class at night.
HABITS = (
    *("works-in-colab", "uses-every-magic", "works-in-processes", "goes-round-by-files", "answers-in-the-check-cell"),
    # What another cell did, showed, replaced or left running costs nothing.
    *("raises-after-its-answers", "shows-what-does-not-end", "leaves-threads-running", "hides-builtins-and-modes"),
    *("checks-everything-at-the-end", "hides-a-builtin-by-a-function", "defines-below-what-it-needs"),
    # Nobody can be sure: a person decides. A word on the teacher's list costs nothing.
    *("uses-a-pool-of-an-earlier-cell", "names-itself-by-its-frame", "has-names-of-the-judge"),
)
TRIES = (
    # Pupils: replaced functions, objects that equal everything, edited checks and printed numbers, ready answers.
    *("replaces-torch-and-builtins", "equals-everything", "edits-checks-and-prints-points", "looks-for-ready-answers"),
    # Who writes against the grader: a judge that was not there before, is compared, is refused the ways, is listed.
    *("patches-classes-found-by-the-interpreter", "patches-while-it-is-judged", "writes-memory-unseen"),
)
# Of the others: what takes a cell's seconds several times over, what another's file has too, and known mistakes but for
# one student's.
LEFT_TO_THE_NIGHT = ("keeps-parsers-busy", "breaks-parsers", "has-too-many-cells", "answers-that-hang")
LEFT_TO_THE_NIGHT += ("puts-two-into-one", "names-its-keys-twice")
_CHOSEN = [BY_NAME[name] for name in (*HABITS, *TRIES)]
_LEFT = [BY_NAME[name] for name in LEFT_TO_THE_NIGHT] + [one for one in (*STYLES, *ATTACKS) if one not in _CHOSEN]
_LEFT += [one for one in HONEST if "-wrong-" in one.name and one.name != "detach-wrong-0"]
AT_A_PUSH = [one for one in STUDENTS if one not in _LEFT]


def hand_in(teacher, students):
    """Puts everything where nbgrader's collect would."""
    for student in students:
        folder = teacher.notebook("submitted", student.assignment, student.name).parent
        folder.mkdir(parents=True)
        if student.content is not None:
            teacher.put(student.name, student.content, student.assignment, name=student.file)
        for name, content in student.extra.items():
            (folder / name).write_bytes(content)


class Impatient(Graders):
    """Two graders with short limits."""

    def __init__(self, *options):
        super().__init__(2, partial(Grader, LIMITS))


def grade(teacher, *words):
    """Grades with short limits; returns what was printed."""
    with mock.patch("course_utils.classroom.run.graders.Graders", Impatient):
        return teacher.run("grade", *words)
