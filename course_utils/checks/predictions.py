"""Exercises whose answer is a dict of predictions (``predict``): a claim for each key, judged by the engine itself."""

import contextlib
from collections.abc import Callable, Mapping, Sequence
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
# Keys of which all are wrong, their wrong values (``...`` for any), and the misconception that they show together.
Reading = tuple[tuple[str, ...], Any, str]

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
    made = Exercise(Path(file).stem, watches_side_effects=False, **fields)
    return add_predictions(made, truth, list(map(_reading, rows)), dict.fromkeys(made.keys, choices), normal)


def _reading(row: Sequence[Any]) -> Reading:
    keys, *values, shown = row
    if isinstance(keys, str):
        keys, values = [keys], [values] * bool(values)
    return tuple(keys), _plain(values[0]) if values else ..., shown


def add_predictions(
    made: Exercise,
    truth: Truth,
    readings: Sequence[Reading],
    choices: Mapping[str, Sequence[str]],
    normal: Callable[[Any], Any] = normal_value,
) -> Exercise:
    """Gives an exercise a claim for each of its ``keys``, of equal weight. Returns the exercise.

    An answer with one and the same value for all keys is judged by that first (``first_rules``).

    Args:
        made: an exercise that asks for ``keys``.
        truth: see ``predict``; it runs once a check.
        readings: what wrong values show. Those of several keys come before those of one, and values before any value;
            of the others the first that fits wins.
        choices: for each key the values to choose from; any of the right kind where that is empty.
        normal: see ``predict``.
    """
    ordered = sorted(readings, key=lambda reading: (-1, False) if len(reading[0]) > 1 else (0, reading[1] is ...))
    predictions = _Predictions(made.keys, truth, ordered, choices, normal)
    for key in made.keys:

        def judge(trial: Trial, key: str = key) -> None:
            predictions.judge(trial, key)

        made.claim(f"`{key}`")(judge)
    made.first_rules = predictions.rules_of_constants
    return made


@dataclass(frozen=True)
class _Predictions:
    keys: Sequence[str]
    truth: Truth
    readings: Sequence[Reading]
    choices: Mapping[str, Sequence[str]]
    normal: Callable[[Any], Any]

    def rules_of_constants(self, answer: dict) -> Sequence[Rule]:
        """A rule before all others, for an answer that has one value for all keys: where that is wrong for any of them,
        nothing has been predicted, and nothing is earned."""
        values = [self._value(answer.get(key)) for key in self.keys]
        is_constant = len(values) > 1 and values[0] is not None and all(value == values[0] for value in values)
        return [Rule("tells the cases apart", self._judge_constant, weight=0, gate=True)] if is_constant else []

    def _judge_constant(self, trial: Trial) -> None:
        wrong, count = self._wrong(trial), len(self.keys)
        if wrong:
            first, value = next(iter(wrong)), describe(trial.answer[self.keys[0]], 30)
            found = f"something else for {len(wrong)} of them"
            raise Missed(
                self._shown(first, wrong), your_prediction=f"{value} for each of the {count} keys", found=found
            )

    def judge(self, trial: Trial, key: str) -> None:
        given, accepted = trial.answer.get(key, ...), self._accepted(trial, key)
        kind = type(next(iter(accepted)))
        if is_no_value(given):
            raise Missed(your_prediction="none yet")
        shown = repr(given) if type(given) is str else given  # 'False' in quotes is not False
        try:
            value = self.normal(given)
            if self.choices.get(key) and value not in self.choices[key]:
                raise ValueError("one of " + ", ".join(map(repr, self.choices[key])))
            if type(value) is not kind:
                raise ValueError(_KINDS.get(kind, kind.__name__) + ", without quotes" * (type(given) is str))
        except (TypeError, ValueError) as error:
            raise Missed(your_prediction=shown, expected=str(error)) from None
        if value not in accepted:
            # Of two values the other one is no secret.
            found = not value if kind is bool else "something else"
            raise Missed(self._shown(key, self._wrong(trial)), your_prediction=shown, found=found)

    def _shown(self, key: str, wrong: Mapping[str, Any]) -> str:
        """The misconception that a wrong value shows, alone or together with other wrong values; empty where none."""
        fits = (
            shown
            for keys, values, shown in self.readings
            if key in keys and wrong.keys() >= set(keys) and values in (..., tuple(wrong[name] for name in keys))
        )
        return next(fits, "")

    def _wrong(self, trial: Trial) -> dict[str, Any]:
        """The wrong values by their keys."""
        values = {key: self._value(trial.answer.get(key)) for key in self.keys}
        return {key: v for key, v in values.items() if v is not None and v not in self._accepted(trial, key)}

    def _accepted(self, trial: Trial, key: str) -> set[Any]:
        right = trial.once(self.truth)[key]
        return set(map(self.normal, right if type(right) is frozenset else (right,)))

    def _value(self, given: Any) -> Any:
        with contextlib.suppress(TypeError, ValueError):
            return self.normal(given)
        return None


def _plain(value: Any) -> Any:
    return tuple(map(_plain, value)) if isinstance(value, list) else value
