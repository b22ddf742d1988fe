"""The card that a right answer of ``tests/lessons``, or a known mistake, gets (``card``)."""

import importlib
import sys
from pathlib import Path

from course_utils.base.errors import explain
from course_utils.checks.compare import Compared
from course_utils.checks.judge import judge
from course_utils.lesson import Lesson


def card(root: Path, lesson: str, exercise: str, label: str) -> str:
    """What a learner is shown who hands in the answer. Nothing is written to anybody's progress.

    Args:
        root: the course's folder, which holds ``tests/lessons``.
        lesson: the lesson's name.
        exercise: the exercise's name.
        label: the answer's name, or the key of a misconception: then a card for each way to make that mistake.

    Raises:
        ValueError: no answer has this label; the message lists those of the exercise. Or there is no such lesson.
    """
    exercises = Lesson(lesson).exercises
    sys.path.insert(0, str(root))  # the package itself knows nothing of the tests
    try:
        entered = importlib.import_module(f"tests.lessons.{lesson}")
    finally:
        sys.path.remove(str(root))
    if exercise not in exercises:
        raise ValueError(explain(f"There is no exercise {exercise!r}.", f"one of {', '.join(exercises)}."))
    made = exercises[exercise]
    rows = [(row.label, row.answer) for row in entered.RIGHT if row.exercise == exercise]
    rows += made.mistakes if isinstance(made, Compared) else []
    found = [answer for name, answer in rows if name == label]
    if not found:
        there = ", ".join(dict.fromkeys(repr(name) for name, _ in rows))
        raise ValueError(explain(f"No answer to {exercise} is called {label!r}.", f"one of {there}."))
    return "\n\n".join(str(judge(made, answer, lesson)) for answer in found)
