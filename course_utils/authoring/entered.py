"""The card that an answer in ``tests/lessons`` gets (``card``)."""

import importlib
import sys
from pathlib import Path

from course_utils.base.errors import explain
from course_utils.checks.judge import judge
from course_utils.checks.why import steps
from course_utils.lesson import Lesson


def card(root: Path, lesson: str, exercise: str, label: str, why: bool = False) -> str:
    """What a learner is shown who hands in the answer. Nothing is written to anybody's progress.

    Args:
        root: the course's folder, which holds ``tests/lessons``.
        lesson: the lesson's name.
        exercise: the exercise's name.
        label: the answer's name; for a wrong answer that has none, the key of its misconception. An answer that is
            right and a wrong one may share it: then both cards are shown.
        why: whether below the card stands what the check tried, in order, to tell which misconception it is.

    Raises:
        ValueError: no answer has this label; the message lists those of the exercise. Or there is no such lesson.
    """
    exercises = Lesson(lesson).exercises
    sys.path.insert(0, str(root))  # the package itself knows nothing of the tests
    try:
        entered = importlib.import_module(f"tests.lessons.{lesson}")
    finally:
        sys.path.remove(str(root))
    rows = [row for row in (*entered.RIGHT, *entered.WRONG) if row.exercise == exercise]
    found = [row for row in rows if row.label == label]
    if exercise not in exercises:
        raise ValueError(explain(f"There is no exercise {exercise!r}.", f"one of {', '.join(exercises)}."))
    if not found:
        there = ", ".join(repr(row.label) for row in rows)
        raise ValueError(explain(f"No answer to {exercise} is called {label!r}.", f"one of {there}."))
    shown = []
    for row in found:
        with steps() as tried:
            shown.append(str(judge(exercises[exercise], row.answer, lesson)))
        if why:
            shown.append("What the check tried, in order:\n" + "\n".join(f"  {step}" for step in tried))
    return "\n\n".join(shown)
