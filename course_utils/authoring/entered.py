"""The card that a right answer of ``tests/lessons``, or a known mistake, gets (``card``)."""

import importlib
import sys
from pathlib import Path

from course_utils.base.errors import explain
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
        entered = importlib.import_module("tests.lessons.answers")
    finally:
        sys.path.remove(str(root))
    if exercise not in exercises:
        raise ValueError(explain(f"There is no exercise {exercise!r}.", f"one of {', '.join(exercises)}."))
    answers = [*entered.right_answers(lesson), *entered.wrong_answers(lesson)]
    rows = [row for row in answers if row.exercise == exercise]
    found = [entered.made(lesson, exercise, row.source) for row in rows if row.name == label]
    if not found:
        there = ", ".join(dict.fromkeys(repr(row.name) for row in rows))
        raise ValueError(explain(f"No answer to {exercise} is called {label!r}.", f"one of {there}."))
    return "\n\n".join(str(judge(exercises[exercise], answer, lesson)) for answer in found)
