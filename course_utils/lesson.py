"""Lessons as a learner meets them: ``Lesson`` checks an answer, gives a hint, a solution, the score card."""

import contextlib
import importlib
import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from course_utils import catalogue
from course_utils.base import explain
from course_utils.base.text import describe
from course_utils.checks.exercise import Exercise
from course_utils.checks.judge import judge
from course_utils.checks.misconceptions import thought_behind, thoughts
from course_utils.checks.predictions import normal_value
from course_utils.checks.score import Hint, Prediction, Score, Solution
from course_utils.progress import history
from course_utils.progress.tables import ScoreCard, ScoreRow

SOLUTIONS = catalogue.COURSE / "notebooks" / "solutions"
WRITTEN = "written"  # the written question's name; people mark it
# Of every check in a copy from which a teacher has taken the exercises' text files.
_BARE = ("This copy of the course has no answers to hold yours against. Hand it in: your teacher's copy judges it.",)


class Lesson:
    """A lesson as a learner meets it: the set-up cell of each notebook makes one.

    Args:
        name: one of the names of the course's map, for example ``"detach"``.

    Attributes:
        info: number, title, question, minutes and points of the lesson.
        exercises: by name, in the lesson's order.

    Raises:
        ValueError: there is no such lesson; the message names those there are.
    """

    def __init__(self, name: str) -> None:
        self.info = catalogue.find(name)
        self.name = name
        module = importlib.import_module(f"course_utils.lessons.{name}")
        self.exercises: dict[str, Exercise] = {exercise.name: exercise for exercise in module.EXERCISES}
        self._thoughts = thoughts(Path(str(module.__file__)).parent)
        self._hints_given: dict[str, int] = {}
        self._solution_asked: set[str] = set()
        self._scores: dict[str, Score] = {}
        self._predictions: dict[str, bool] = {}
        self._notes: tuple[str, ...] = ()  # what could not be stored, for the score card

    def __repr__(self) -> str:
        return f"Lesson({self.name!r})"

    @property
    def device(self) -> torch.device:
        """Where the lesson's experiments run: the GPU where there is one, else the CPU."""
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")

    def check(self, exercise: str, answer: Any) -> Score:
        """Judges an answer and stores what it earned.

        Never raises because of the answer: one that raises, prints, warns, changes settings or edits its arguments is
        reported in the score, and the state is put back.

        Args:
            exercise: the exercise's name.
            answer: the learner's object itself.

        Returns:
            The score: a number to nbgrader, a card to a learner.

        Raises:
            ValueError: the lesson has no such exercise; the message names those it has. Else as ``judge`` does.
        """
        if not self.exercises:
            return Score(0.0, lesson="", exercise=exercise, possible=0.0, status="partial", notes=_BARE)
        found = self._find(exercise)
        score = judge(found, answer, self.name)
        self._scores[exercise] = score
        shown = [(claim.text, claim.misconception) for claim in score.claims]
        not_stored = history.record(
            self.name,
            exercise,
            earned=float(score),
            possible=score.possible,
            status=score.status,
            told=[history.Showing(m.home, text, m.name, *m.place) for text, m in shown if m and m.home],
            held=[claim.text for claim in score.claims if claim.judged and claim.held],
        )
        if not_stored:
            score.notes += (not_stored,)
        return score

    def predict(self, question: str, guess: Any, actual: Any) -> Prediction:
        """Compares a prediction with what the engine says. Ungraded; the first guess counts in the score card.

        Args:
            question: what was asked.
            guess: the learner's prediction; while it is ``...``, it is asked for and nothing is given away.
            actual: what the engine says. Fractions agree within 1 %, and so do a tensor's elements; whole numbers and
                everything else exactly.

        Returns:
            What a learner sees; after a wrong guess with the thought that leads to it, from the lesson's
            ``predictions.toml``.
        """
        if guess is ... or (guess is None and actual is not None):
            return Prediction(question)
        right = _agrees(guess, actual)
        self._predictions.setdefault(question, right)
        self._notes = tuple(filter(None, [history.record_prediction(self.name, question, right)]))
        said = "" if right else thought_behind(self._thoughts.get(question, {}), guess, _agrees)
        return Prediction(question, describe(guess), describe(actual), right, said)

    def hint(self, exercise: str) -> Hint:
        """The next hint each time; says when there are no more. The written question has none.

        Args:
            exercise: the exercise's name.

        Returns:
            The hint, with its number; its ``text`` is empty when all have been given.

        Raises:
            ValueError: the lesson has no such exercise.
        """
        hints = () if self._is_written(exercise) else self._find(exercise).hints
        given = self._hints_given.get(exercise, 0)
        self._hints_given[exercise] = given + 1
        if given >= len(hints):
            return Hint(exercise, "", len(hints), len(hints))
        history.record_hint(self.name, exercise, given + 1)
        return Hint(exercise, hints[given], given + 1, len(hints))

    def solution(self, exercise: str) -> Solution:
        """The course's own answer; of ``"written"`` a model answer with its marking scheme, from the solution notebook.

        Before the first attempt it asks you to try; asked again, it opens.

        Args:
            exercise: the exercise's name, or ``"written"``.

        Returns:
            The solution as ``source``, or as ``written``; where this copy of the course has none, a ``note`` says so.

        Raises:
            ValueError: the lesson has no such exercise, or no written question.
        """
        is_written = self._is_written(exercise)
        source = "" if is_written else self._find(exercise).source
        lines = [line for line in source.splitlines() if not line.strip().startswith("### ")]
        source, written = "\n".join(lines).strip(), _written(self.info.notebook) if is_written else ""
        if not source and not written:
            return Solution(exercise, note="This copy of the course holds no solutions.")
        attempted = exercise in self._scores and self._scores[exercise].status != "not attempted"
        if not attempted and exercise not in self._solution_asked:
            self._solution_asked.add(exercise)
            return Solution(exercise, note="Try it first. Ask again, and the solution opens.")
        return Solution(exercise, source, written=written)

    def scorecard(self) -> ScoreCard:
        """This lesson's points: the best of each exercise, and how many predictions were right at the first guess.

        Returns:
            Plain data, read now, earlier sessions included; shows itself as a table.
        """
        stored = history.stored()
        rows = []
        for exercise in self.exercises.values():
            now = self._scores.get(exercise.name)
            before = stored.attempts.get((self.name, exercise.name), history.Attempt(self.name, exercise.name))
            best = max(0.0 if now is None else float(now), before.best_of(exercise.points))
            status = before.status if now is None else now.status
            if exercise.points and best >= exercise.points:
                status = "passed"  # what was earned once stays earned, whatever was tried after it
            rows.append(ScoreRow(exercise.name, best, float(exercise.points), status))
        # Questions that the lesson asks no longer are stored, and not counted.
        guesses = [stored.predictions.get((self.name, question)) for question in self._thoughts]
        answered = self._predictions | {guess.question: guess.first_right for guess in guesses if guess}
        by_hand = ("The written question is worth 2 points more, by hand.",) if self.info.points else ()
        return ScoreCard(self.info.title, tuple(rows), sum(answered.values()), len(answered), by_hand + self._notes)

    def _is_written(self, exercise: str) -> bool:
        return exercise == WRITTEN and self.info.points > 0

    def _find(self, exercise: str) -> Exercise:
        if exercise in self.exercises:
            return self.exercises[exercise]
        if not self.exercises:
            return Exercise(exercise, 0.0, _BARE, {})
        known = f"one of {', '.join(self.exercises)}."
        raise ValueError(explain(f"Lesson {self.name!r} has no exercise {exercise!r}.", known))


def _agrees(guess: Any, actual: Any) -> bool:
    if isinstance(actual, Mapping):
        return isinstance(guess, Mapping) and all(key in guess and _agrees(guess[key], actual[key]) for key in actual)
    if isinstance(guess, torch.Tensor) and isinstance(actual, torch.Tensor) and guess.dim():
        return guess.shape == actual.shape and torch.allclose(guess.double(), actual.double(), rtol=0.01)
    with contextlib.suppress(TypeError, ValueError):
        if isinstance(guess, str) and not isinstance(actual, str):
            guess = float(guess)  # "3" for 3
        if isinstance(actual, float) or (isinstance(actual, torch.Tensor) and actual.is_floating_point()):
            return math.isclose(float(guess), float(actual), rel_tol=0.01, abs_tol=1e-9)
        return bool(normal_value(guess) == normal_value(actual))
    return not isinstance(actual, (float, torch.Tensor)) and bool(guess == actual)


def _written(notebook: str) -> str:
    """The model answer of a lesson's written question; empty where the copy of the course holds no solutions."""
    path = SOLUTIONS / f"{notebook}.ipynb"
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"] if path.is_file() else []
    return next(("".join(cell["source"]).strip() for cell in cells if cell.get("id") == WRITTEN), "")
