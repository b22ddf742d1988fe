"""Lessons and their exercises.

A learner makes a ``Lesson`` and asks it to ``check`` an answer, for a ``hint``, a ``solution`` or the ``scorecard``. An
author describes exercises with ``Exercise`` (write or repair something) and ``Predict`` (fill in a dict). Imports
judge, progress, card and the leaf modules; a lesson's own module is loaded by name.
"""

import importlib
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy
import torch

from course_utils import catalogue, solutions
from course_utils.card import Hint, Prediction, ScoreCard, ScoreRow, Solution
from course_utils.errors import explain
from course_utils.judge import Misconception, Rule, is_blank, judge
from course_utils.progress import attempts, predictions, record, record_hint, record_prediction
from course_utils.score import Claim, Score
from course_utils.text import describe
from course_utils.trial import Missed, Trial, plain

__all__ = ["Claim", "Exercise", "Lesson", "Misconception", "Missed", "Predict", "Score", "Trial", "plain"]


@dataclass
class Exercise:
    """An exercise whose answer is a function or a class.

    Attributes:
        name: what ``lesson.check`` takes.
        points: the most that it earns.
        hints: from the first nudge to the last; never the solution.
        misconceptions: what the check recognises, by a key that the claims use in ``Missed(key)``.
        raises: (part of "Type: message", key) for errors that show a misconception, first match wins.
        effects: (part of a side effect's text, key) for changes that show a misconception, first match wins.
        watches_side_effects: whether a last claim says that the answer changed nothing else.
    """

    name: str
    points: float
    hints: Sequence[str]
    misconceptions: Mapping[str, Misconception]
    raises: Sequence[tuple[str, str]] = ()
    effects: Sequence[tuple[str, str]] = ()
    watches_side_effects: bool = True
    _rules: list[Rule] = field(default_factory=list, repr=False)

    def claim(
        self, text: str, *, weight: float = 1.0, gate: bool = False
    ) -> Callable[[Callable[[Trial], None]], Callable[[Trial], None]]:
        """Adds a claim: a decorator for a function that raises ``Missed`` where the claim does not hold.

        Args:
            text: what must hold, as a phrase about the answer.
            weight: its share of the points; 0 for what earns nothing by itself but must hold.
            gate: later claims are judged only if this one holds.
        """

        def add(function: Callable[[Trial], None]) -> Callable[[Trial], None]:
            self._rules.append(Rule(text, function, weight, gate))
            return function

        return add

    def rules(self, answer: Any) -> Sequence[Rule]:
        return self._rules

    def is_stub(self, answer: Any) -> bool:
        return is_blank(answer)

    def notes(self, answer: Any) -> Iterable[str]:
        return ()


def normal_value(value: Any) -> Any:
    """The form in which predictions are compared.

    Truth values of Python, NumPy and torch, and 1 and 0, become bools; other whole numbers ints; texts lose outer
    spaces and case; tuples and lists become tuples of such values.

    Raises:
        TypeError: nothing of the kind; the message says what is expected.
    """
    kind = type(value)  # and not `isinstance`, which asks the value itself
    if issubclass(kind, (numpy.generic, numpy.ndarray)) or (issubclass(kind, torch.Tensor) and value.numel() == 1):
        value = value.item()
        kind = type(value)
    if issubclass(kind, str):
        return value.strip().casefold()
    if issubclass(kind, (tuple, list)):
        return tuple(normal_value(item) for item in value)
    if kind is bool or (issubclass(kind, (int, float)) and value in (0, 1)):
        return bool(value)
    if issubclass(kind, int) or (issubclass(kind, float) and value.is_integer()):
        return int(value)
    raise TypeError("True or False, a whole number, or a text in quotes")


@dataclass
class Predict:
    """An exercise whose answer is a dict of predictions. The engine's own answers are computed when it is checked.

    Attributes:
        name: what ``lesson.check`` takes.
        points: the most that it earns, shared equally by the keys.
        truth: computes the right value for each key, live, from fresh inputs.
        hints: from the first nudge to the last.
        misconceptions: what the check recognises, by key.
        readings: which misconception a wrong value shows: (key, wrong value) or (key, ...) for any wrong value.
        normal: brings a value into the form that is compared; see ``normal_value``.
        choices: the values that can be chosen from, where the contract lists them.
    """

    name: str
    points: float
    truth: Callable[[Trial], Mapping[str, Any]]
    keys: Sequence[str]
    hints: Sequence[str]
    misconceptions: Mapping[str, Misconception]
    readings: Mapping[tuple[str, Any], str]
    normal: Callable[[Any], Any] = normal_value
    choices: Sequence[str] = ()
    raises: Sequence[tuple[str, str]] = ()
    effects: Sequence[tuple[str, str]] = ()
    watches_side_effects: bool = False

    def rules(self, answer: Any) -> Sequence[Rule]:
        if type(answer) is not dict:
            return [Rule("is a dict with one value a key", self._refuse, 1.0, gate=True)]
        found: dict[str, Any] = {}

        def truth(trial: Trial) -> Mapping[str, Any]:
            # One run of the engine serves all keys.
            if not found:
                found.update(self.truth(trial))
            return found

        return [Rule(f"`{key}`", self._judge(key, answer, truth), 1.0, gate=False) for key in self.keys]

    def is_stub(self, answer: Any) -> bool:
        if type(answer) is dict:
            return all(_is_no_answer(value) for key, value in answer.items() if key in self.keys)
        # A set with ... in it is what a dict literal without keys leaves.
        return is_blank(answer) or (type(answer) is set and all(item is ... for item in answer))

    def notes(self, answer: Any) -> Iterable[str]:
        if type(answer) is dict:
            extra = [describe(key, 30) for key in answer if key not in self.keys]
            if extra:
                yield "Ignored, since the exercise does not ask for it: " + ", ".join(extra[:6]) + "."

    def _refuse(self, trial: Trial) -> None:
        raise Missed(expected="a dict with the keys " + ", ".join(self.keys), got=describe(trial.answer))

    def _judge(self, key: str, answer: dict, truth: Callable[[Trial], Mapping[str, Any]]) -> Callable[[Trial], None]:
        def judge_key(trial: Trial) -> None:
            right = self.normal(truth(trial)[key])
            given = answer.get(key, ...)
            if _is_no_answer(given):
                raise Missed(your_prediction="none yet")
            try:
                value = self.normal(given)
            except (TypeError, ValueError) as error:
                raise Missed(your_prediction=given, expected=str(error)) from None
            if self.choices and value not in self.choices:
                raise Missed(your_prediction=given, expected="one of " + ", ".join(map(repr, self.choices)))
            if type(value) is not type(right):
                raise Missed(your_prediction=given, expected=f"{_kind(right)}")
            if value != right:
                reading = self.readings.get((key, value)) or self.readings.get((key, ...), "")
                raise Missed(reading, your_prediction=given, the_engine="says something else")

        return judge_key


def _is_no_answer(value: Any) -> bool:
    return value is None or value is ...


def _kind(value: Any) -> str:
    return {bool: "True or False", int: "a whole number", str: "a text in quotes", tuple: "a tuple"}.get(
        type(value), type(value).__name__
    )


class Lesson:
    """A lesson as a learner meets it: the set-up cell of each notebook makes one.

    Args:
        name: one of the names of the course's map, for example ``"detach"``.

    Raises:
        ValueError: there is no such lesson; the message names those there are.
    """

    def __init__(self, name: str) -> None:
        self.info = catalogue.find(name)
        self.name = name
        module = importlib.import_module(f"course_utils.lessons.{name}")
        self.exercises: dict[str, Exercise | Predict] = {exercise.name: exercise for exercise in module.EXERCISES}
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
            ValueError: the lesson has no such exercise; the message names those it has.
        """
        found = self._find(exercise)
        score = judge(found, answer, self.name)
        self._scores[exercise] = score
        not_stored = record(self.name, exercise, earned=float(score), possible=score.possible, status=score.status)
        if not_stored:
            score.notes += (not_stored,)
        return score

    def predict(self, question: str, guess: Any, actual: Any) -> Prediction:
        """Compares a prediction with what the engine says. Ungraded; counted in the score card.

        Args:
            question: what was asked.
            guess: the learner's prediction; while it is ``...``, it is asked for and nothing is given away.
            actual: what the engine says. Numbers agree within 1 %, whole numbers and everything else exactly.

        Returns:
            What a learner sees.
        """
        if guess is ... or (guess is None and actual is not None):
            return Prediction(question)
        right = _agrees(guess, actual)
        self._predictions[question] = right
        not_stored = record_prediction(self.name, question, right)
        self._notes = (not_stored,) if not_stored else ()
        return Prediction(question, describe(guess), describe(actual), right)

    def hint(self, exercise: str) -> Hint:
        """The next hint each time; says when there are no more."""
        hints = self._find(exercise).hints
        given = self._hints_given.get(exercise, 0)
        self._hints_given[exercise] = given + 1
        if given < len(hints):
            record_hint(self.name, exercise, given + 1)
            return Hint(exercise, hints[given], given + 1, len(hints))
        return Hint(exercise, "", len(hints), len(hints))

    def solution(self, exercise: str) -> Solution:
        """The course's own answer, from the solution notebook.

        Before the first attempt it asks you to try; asked again, it opens. A classroom copy has no solutions and says
        so.
        """
        self._find(exercise)
        attempted = exercise in self._scores and self._scores[exercise].status != "not attempted"
        if not attempted and exercise not in self._solution_asked:
            self._solution_asked.add(exercise)
            return Solution(exercise, "", "Try it first. Ask again, and the solution opens.")
        code = solutions.find(self.info.notebook, self.name, exercise)
        if code is None:
            return Solution(exercise, "", "This copy of the course holds no solutions.")
        return Solution(exercise, code, "")

    def scorecard(self) -> ScoreCard:
        """This lesson's points: the best of each exercise, and how many predictions were right."""
        stored = {attempt.exercise: attempt for attempt in attempts(self.name)}
        rows = []
        for exercise in self.exercises.values():
            now = self._scores.get(exercise.name)
            before = stored.get(exercise.name)
            best = max(float(now) if now is not None else 0.0, before.best if before else 0.0)
            status = now.status if now is not None else (before.status if before else "not attempted")
            if exercise.points and best >= exercise.points:
                status = "passed"  # what was earned once stays earned, whatever was tried after it
            rows.append(ScoreRow(exercise.name, best, float(exercise.points), status))
        answered = {prediction.question: prediction.right for prediction in predictions(self.name)}
        answered |= self._predictions
        return ScoreCard(self.info.title, tuple(rows), sum(answered.values()), len(answered), self._notes)

    def _find(self, exercise: str) -> Exercise | Predict:
        if exercise in self.exercises:
            return self.exercises[exercise]
        raise ValueError(
            explain(
                f"Lesson {self.name!r} has no exercise {exercise!r}.",
                "one of " + ", ".join(self.exercises) + ".",
            )
        )


def _agrees(guess: Any, actual: Any) -> bool:
    if isinstance(guess, torch.Tensor) and isinstance(actual, torch.Tensor) and guess.dim():
        return guess.shape == actual.shape and torch.allclose(guess.double(), actual.double(), rtol=0.01)
    if isinstance(actual, Mapping):
        return isinstance(guess, Mapping) and all(key in guess and _agrees(guess[key], actual[key]) for key in actual)
    if isinstance(actual, float) or (isinstance(actual, torch.Tensor) and actual.is_floating_point()):
        try:
            return math.isclose(float(guess), float(actual), rel_tol=0.01, abs_tol=1e-9)
        except (TypeError, ValueError):
            return False
    try:
        return bool(normal_value(guess) == normal_value(actual))
    except TypeError:
        return bool(guess == actual)
