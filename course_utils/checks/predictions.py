"""Exercises whose answer is a dict of predictions (``Predictions``): a claim for each key, judged by the engine."""

import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy
import torch

from course_utils.base.text import describe
from course_utils.checks import Missed
from course_utils.checks.exercise import Exercise, Rule, is_blank
from course_utils.checks.trial import Trial

_KINDS = {bool: "True or False", int: "a whole number", str: "a text in quotes", tuple: "a tuple"}


def normal_value(value: Any) -> Any:
    """The form in which predictions are compared.

    Truth values of Python, NumPy and torch, and 1 and 0, become bools; other whole numbers ints; texts lose outer
    spaces and case; tuples and lists become tuples of such values.

    Raises:
        TypeError: nothing of the kind; the message says what is expected.
    """
    if isinstance(value, (numpy.generic, numpy.ndarray, torch.Tensor)) and len(value.reshape(-1)) == 1:
        value = value.item()
    if isinstance(value, str):
        return value.strip().casefold()
    if isinstance(value, (tuple, list)):
        return tuple(map(normal_value, value))
    if isinstance(value, (int, float)) and value in (0, 1):
        return bool(value)
    if isinstance(value, int) or (isinstance(value, float) and value.is_integer()):
        return int(value)
    raise TypeError("True or False, a whole number, or a text in quotes")


@dataclass
class Predictions(Exercise):
    """An exercise whose answer is a dict: a claim for each of its ``keys``, of equal weight.

    In the text file, a wrong value is a row ``[key, wrong value, misconception]`` of ``readings``, or ``[key,
    misconception]`` for any other wrong value. Values that are wrong together are ``[[key, other key], [wrong value,
    other wrong value], misconception]``, or ``[[key, other key], misconception]``. The first row that fits wins.

    Attributes:
        keys: what is asked.
        readings: which misconception a wrong value shows.
        choices: the values that can be chosen from, for all keys or by key; empty where any of the right kind can.
        truth: computes the right value for each key, live, from fresh inputs; a frozenset where several are right.
        normal: brings a value into the form that is compared.
        may_be_constant: whether an answer with one value for all keys earns what is right of it; else it earns nothing.
    """

    watches_side_effects: bool = False
    keys: Sequence[str] = ()
    readings: Sequence[Sequence[Any]] = ()
    choices: Sequence[str] | Mapping[str, Sequence[str]] = ()
    truth: Callable[[Trial], Mapping[str, Any]] = lambda trial: {}
    normal: Callable[[Any], Any] = normal_value
    may_be_constant: bool = False

    def rules(self, answer: Any) -> Sequence[Rule]:
        """A claim for each key; where it is no dict, that alone; of one value for every key first that it is right."""
        if not isinstance(answer, dict):
            return [Rule("is a dict with one value a key", self._refuse, gate=True)]
        against = _Answer(self, answer)
        alike = [Rule("tells the keys apart", against.tells_apart, gate=True)] * against.is_constant
        return [*alike, *(Rule(f"`{key}`", partial(against.judge, key)) for key in self.keys)]

    def is_stub(self, answer: Any) -> bool:
        """Whether nothing has been predicted yet."""
        if isinstance(answer, dict):
            return all(is_blank(value) for key, value in answer.items() if key in self.keys)
        return is_blank(answer)

    def notes(self, answer: Any) -> Sequence[str]:
        """Remarks for the card, one line each."""
        extra = [describe(key, 30) for key in answer if key not in self.keys] if isinstance(answer, dict) else []
        ignored = "Ignored, since the exercise does not ask for it: " + ", ".join(extra[:6]) + "."
        return [ignored] * bool(extra)

    def _refuse(self, trial: Trial) -> None:
        raise Missed(expected="a dict with the keys " + ", ".join(self.keys), got=describe(trial.answer))


@dataclass
class _Answer:
    """One answer, held against the right values, which are computed once for all its claims."""

    asked: Predictions
    given: Mapping[str, Any]

    @cached_property
    def values(self) -> dict[str, Any]:
        """What was given, in the form that is compared; None where that cannot be."""
        values = dict.fromkeys(self.asked.keys)
        for key in values:
            with contextlib.suppress(TypeError, ValueError):
                values[key] = self.asked.normal(self.given.get(key))
        return values

    @cached_property
    def right(self) -> dict[str, set[Any]]:
        """The values that are right, by key."""
        truth = self.asked.truth(Trial(self.given, self.asked.name)).items()
        return {key: set(map(self.asked.normal, v if isinstance(v, frozenset) else (v,))) for key, v in truth}

    @cached_property
    def wrong(self) -> dict[str, Any]:
        """The wrong values by their keys."""
        return {key: v for key, v in self.values.items() if v is not None and v not in self.right[key]}

    @property
    def is_constant(self) -> bool:
        """Whether one value stands for all keys: where that is wrong for any of them, nothing was predicted."""
        values = {*self.values.values()}
        return len(self.values) > 1 == len(values) and None not in values and not self.asked.may_be_constant

    def tells_apart(self, _: Trial) -> None:
        for key in [*self.wrong][:1]:
            told, found = f"{describe(self.given[key], 30)} for each", f"something else for {len(self.wrong)} of them"
            raise Missed(self._shown(key), your_prediction=told, found=found)

    def judge(self, key: str, _: Trial) -> None:
        """Whether the value of one key is right."""
        given, right, choices = self.given.get(key), self.right[key], self.asked.choices
        kind, choices = type(next(iter(right))), choices[key] if isinstance(choices, Mapping) else choices
        if is_blank(given):
            raise Missed(your_prediction="none yet")
        shown = repr(given) if isinstance(given, str) else given  # 'False' in quotes is not False
        try:
            value = self.asked.normal(given)
            if choices and value not in choices:
                raise ValueError("one of " + ", ".join(map(repr, choices)))
            if type(value) is not kind:
                raise ValueError(_KINDS.get(kind, kind.__name__) + ", without quotes" * isinstance(given, str))
        except (TypeError, ValueError) as error:
            raise Missed(your_prediction=shown, expected=str(error)) from None
        if value not in right:
            # Of two values the other one is no secret.
            raise Missed(self._shown(key), your_prediction=shown, found=not value if kind is bool else "something else")

    def _shown(self, key: str) -> str:
        """The misconception that a wrong value shows, alone or together with other wrong values; empty where none."""
        for keys, *values, shown in self.asked.readings:
            if isinstance(keys, str):
                keys, values = [keys], [values] if values else []
            found = tuple(self.wrong.get(name) for name in keys)
            if key in keys and None not in found and (not values or normal_value(values[0]) == found):
                return shown
        return ""


def predict(
    file: str, truth: Callable[[Trial], Mapping[str, Any]], normal: Callable[[Any], Any] = normal_value
) -> Predictions:
    """An exercise in prediction, as ``Exercise.read`` gives it; ``truth`` and ``normal`` as in ``Predictions``."""
    return Predictions.read(file, truth=truth, normal=normal)
