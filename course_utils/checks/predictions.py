"""Exercises whose answer is a dict of predictions (``predict``): a claim for each key, judged by the engine itself."""

import contextlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy
import torch

from course_utils.base.text import describe
from course_utils.checks.exercise import Exercise, Rule, is_no_value, read_fields
from course_utils.checks.missed import Missed
from course_utils.checks.trial import Trial

Truth = Callable[[Trial], Mapping[str, Any]]
Readings = Mapping[tuple[str | tuple[str, ...], Any], str]

_KINDS = {bool: "True or False", int: "a whole number", str: "a text in quotes", tuple: "a tuple"}


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


def predict(file: str, truth: Truth, normal: Callable[[Any], Any] = normal_value) -> Exercise:
    """An exercise in prediction, from the text file beside its module.

    In the file, ``keys`` are what is asked, ``choices`` the values that can be chosen from, where the contract lists
    them, and ``readings`` is a list of ``[key, wrong value, misconception]``, or ``[key, misconception]`` for any other
    wrong value, or ``[[key, other key], misconception]`` where these are all wrong; ``[[key, other key], [wrong value,
    other wrong value], misconception]`` where they are all wrong in this way.

    Args:
        file: the module's ``__file__``.
        truth: computes the right value for each key, live, from fresh inputs; a frozenset where several are right.
        normal: brings a value into the form that is compared.

    Raises:
        ValueError: the text file has a field that is unknown, lacks one, or is no TOML.
    """
    fields = read_fields(file, {"points", "hints", "misconceptions", "keys", "readings"}, {"choices", "answer"})
    rows, choices = fields.pop("readings"), fields.pop("choices", ())
    readings = {(_plain(key), _plain(value[0]) if value else ...): shown for key, *value, shown in rows}
    made = Exercise(Path(file).stem, watches_side_effects=False, **fields)
    return add_predictions(made, truth, readings, dict.fromkeys(made.keys, choices), normal)


def add_predictions(
    made: Exercise,
    truth: Truth,
    readings: Readings,
    choices: Mapping[str, Sequence[str]],
    normal: Callable[[Any], Any] = normal_value,
) -> Exercise:
    """Gives an exercise a claim for each of its ``keys``, of equal weight. Returns the exercise.

    An answer with one and the same value for all keys is judged by that first (``first_rules``).

    Args:
        made: an exercise that asks for ``keys``.
        truth: see ``predict``; it runs once a check.
        readings: which misconception a wrong value shows: (key, wrong value) or (key, ...) for any wrong value; with a
            tuple of keys, what they show where all of them are wrong, or have these wrong values. The first that fits
            wins.
        choices: for each key the values to choose from; any of the right kind where that is empty.
        normal: see ``predict``.
    """
    predictions = _Predictions(made.keys, truth, readings, normal)
    for key in made.keys:

        def judge(trial: Trial, key: str = key) -> None:
            predictions.judge(trial, key, choices.get(key, ()))

        made.claim(f"`{key}`")(judge)
    made.first_rules = predictions.rules_of_constants
    return made


@dataclass(frozen=True)
class _Predictions:
    keys: Sequence[str]
    truth: Truth
    readings: Readings
    normal: Callable[[Any], Any]

    def rules_of_constants(self, answer: dict) -> Sequence[Rule]:
        """A rule before all others, for an answer that has one value for all keys: where that is wrong for any of them,
        nothing has been predicted, and nothing is earned."""
        values = [self._value(answer.get(key)) for key in self.keys]
        is_constant = len(values) > 1 and values[0] is not None and all(value == values[0] for value in values)
        return [Rule("tells the cases apart", self._judge_constant, weight=0, gate=True)] if is_constant else []

    def _judge_constant(self, trial: Trial) -> None:
        truth = trial.once(self.truth)
        value, count = self._value(trial.answer[self.keys[0]]), len(self.keys)
        wrong = [key for key in self.keys if not self._is_right(truth[key], value)]
        if wrong:
            shown = f"{describe(trial.answer[self.keys[0]], 30)} for each of the {count} keys"
            shows = self._shown(wrong[0], value, trial.answer, truth)
            raise Missed(shows, your_prediction=shown, found=f"something else for {len(wrong)} of them")

    def judge(self, trial: Trial, key: str, choices: Sequence[str]) -> None:
        truth = trial.once(self.truth)
        accepted = set(map(self.normal, _each(truth[key])))
        kind = type(next(iter(accepted)))
        given = trial.answer.get(key, ...)
        if is_no_value(given):
            raise Missed(your_prediction="none yet")
        shown = repr(given) if type(given) is str else given  # 'False' in quotes is not False
        try:
            value = self.normal(given)
        except (TypeError, ValueError) as error:
            raise Missed(your_prediction=shown, expected=str(error)) from None
        if choices and value not in choices:
            raise Missed(your_prediction=shown, expected="one of " + ", ".join(map(repr, choices)))
        if type(value) is not kind:
            quotes = ", without quotes" * (type(given) is str)
            raise Missed(your_prediction=shown, expected=_KINDS.get(kind, kind.__name__) + quotes)
        if value not in accepted:
            shows = self._shown(key, value, trial.answer, truth)
            # Of two values the other one is no secret.
            raise Missed(shows, your_prediction=shown, found=not value if kind is bool else "something else")

    def _shown(self, key: str, value: Any, answer: dict, truth: Mapping[str, Any]) -> str:
        """What a wrong value shows."""
        alone = self.readings.get((key, value)) or self.readings.get((key, ...), "")
        return self._together(key, answer, truth) or alone

    def _together(self, key: str, answer: dict, truth: Mapping[str, Any]) -> str:
        """What the answer's wrong values show together, if ``key`` is among them; empty where that is nothing known."""
        values = {name: self._value(answer.get(name)) for name in self.keys}
        wrong = {name for name, value in values.items() if value is not None and not self._is_right(truth[name], value)}
        groups = [(names, ways, shown) for (names, ways), shown in self.readings.items() if type(names) is tuple]
        fits = (
            shown
            for names, ways, shown in groups
            if key in names and wrong.issuperset(names) and ways in (..., tuple(values[name] for name in names))
        )
        return next(fits, "")

    def _is_right(self, truth: Any, value: Any) -> bool:
        return value in map(self._value, _each(truth))

    def _value(self, given: Any) -> Any:
        with contextlib.suppress(TypeError, ValueError):
            return self.normal(given)
        return None


def _each(right: Any) -> Iterable[Any]:
    return right if type(right) is frozenset else (right,)


def _plain(value: Any) -> Any:
    return tuple(map(_plain, value)) if isinstance(value, list) else value
