"""How an author describes an exercise: ``exercise`` (write or repair something), ``predict`` (fill in a dict).

Its prose stands in a text file beside the module, ``mean_loss.toml`` beside ``mean_loss.py``: its number in the lesson,
points, minutes, hints, the misconceptions that the check recognises, and which errors and side effects show one.
"""

import contextlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy
import torch

from course_utils.base.text import describe
from course_utils.checks.judge import Rule, is_blank
from course_utils.checks.misconceptions import Misconception, heading, read
from course_utils.checks.missed import Missed
from course_utils.checks.plain import plain
from course_utils.checks.score import Claim, Score
from course_utils.checks.trial import Trial

__all__ = ["Claim", "Exercise", "Misconception", "Missed", "Predict", "Score", "Trial", "plain"]


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
        heading: the exercise's heading in the lesson's notebook; see ``misconceptions.heading``.
    """

    name: str
    points: float
    hints: Sequence[str]
    misconceptions: Mapping[str, Misconception]
    raises: Sequence[tuple[str, str]] = ()
    effects: Sequence[tuple[str, str]] = ()
    watches_side_effects: bool = True
    heading: str = ""
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
        truth: computes the right value for each key, live, from fresh inputs; a frozenset where several are right.
        hints: from the first nudge to the last.
        misconceptions: what the check recognises, by key.
        readings: which misconception a wrong value shows: (key, wrong value) or (key, ...) for any wrong value; with
            a tuple of keys, what they show where all of them are wrong. The first that fits wins.
        normal: brings a value into the form that is compared; see ``normal_value``.
        choices: the values that can be chosen from, where the contract lists them.
        heading: the exercise's heading in the lesson's notebook; see ``misconceptions.heading``.
    """

    name: str
    points: float
    truth: Callable[[Trial], Mapping[str, Any]]
    keys: Sequence[str]
    hints: Sequence[str]
    misconceptions: Mapping[str, Misconception]
    readings: Mapping[tuple[str | tuple[str, ...], Any], str]
    normal: Callable[[Any], Any] = normal_value
    choices: Sequence[str] = ()
    raises: Sequence[tuple[str, str]] = ()
    effects: Sequence[tuple[str, str]] = ()
    watches_side_effects: bool = False
    heading: str = ""

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
            right = truth(trial)[key]
            accepted = {self.normal(value) for value in (right if type(right) is frozenset else (right,))}
            kind = type(next(iter(accepted)))
            given = answer.get(key, ...)
            if _is_no_answer(given):
                raise Missed(your_prediction="none yet")
            shown = repr(given) if type(given) is str else given  # 'False' in quotes is not False
            try:
                value = self.normal(given)
            except (TypeError, ValueError) as error:
                raise Missed(your_prediction=shown, expected=str(error)) from None
            if self.choices and value not in self.choices:
                raise Missed(your_prediction=shown, expected="one of " + ", ".join(map(repr, self.choices)))
            if type(value) is not kind:
                raise Missed(your_prediction=shown, expected=_kind(kind))
            if value not in accepted:
                reading = self._together(key, answer, truth(trial)) or self.readings.get((key, value))
                reading = reading or self.readings.get((key, ...), "")
                raise Missed(reading, your_prediction=shown, found="something else")

        return judge_key

    def _together(self, key: str, answer: dict, truth: Mapping[str, Any]) -> str:
        """What the answer's wrong values show in one, if ``key`` is among them; empty where that is nothing known."""
        right = {name: value if type(value) is frozenset else (value,) for name, value in truth.items()}
        values = {name: self._value(answer.get(name)) for name in self.keys}
        wrong = {name for name, value in values.items() if value not in (None, *map(self._value, right[name]))}
        groups = ((names, shown) for (names, _), shown in self.readings.items() if type(names) is tuple)
        return next((shown for names, shown in groups if key in names and wrong.issuperset(names)), "")

    def _value(self, given: Any) -> Any:
        with contextlib.suppress(TypeError, ValueError):
            return self.normal(given)
        return None


def _is_no_answer(value: Any) -> bool:
    return value is None or value is ...


def _kind(kind: type) -> str:
    names = {bool: "True or False", int: "a whole number", str: "a text in quotes", tuple: "a tuple"}
    return names.get(kind, kind.__name__)


def exercise(file: str) -> Exercise:
    """An exercise that has no claims yet, from the text file beside its module.

    Args:
        file: the module's ``__file__``.

    Raises:
        ValueError: the text file has a field that is unknown, lacks one, or is no TOML.
    """
    fields = _read(file, {"points", "hints", "misconceptions"}, {"raises", "effects", "watches_side_effects"})
    return Exercise(Path(file).stem, **fields)


def predict(
    file: str, truth: Callable[[Trial], Mapping[str, Any]], normal: Callable[[Any], Any] = normal_value
) -> Predict:
    """An exercise in prediction, from the text file beside its module.

    In the file, ``readings`` is a list of ``[key, wrong value, misconception]``, or ``[key, misconception]`` for any
    other wrong value, or ``[[key, other key], misconception]`` where these are all wrong.

    Args:
        file: the module's ``__file__``.
        truth: computes the right value for each key, live, from fresh inputs; a frozenset where several are right.
        normal: brings a value into the form that is compared; see ``normal_value``.

    Raises:
        ValueError: the text file has a field that is unknown, lacks one, or is no TOML.
    """
    fields = _read(file, {"points", "hints", "misconceptions", "keys", "readings"}, {"choices"})
    fields["readings"] = {
        (_plain(key), _plain(value[0]) if value else ...): shown for key, *value, shown in fields["readings"]
    }
    return Predict(Path(file).stem, truth=truth, normal=normal, **fields)


def _read(file: str, needed: set[str], more: set[str]) -> dict[str, Any]:
    path = Path(file).with_suffix(".toml")
    fields, needed = read(path), needed | {"number", "minutes"}
    if not needed <= fields.keys() <= needed | more:
        wrong = ", ".join(sorted((needed - fields.keys()) | (fields.keys() - needed - more)))
        raise ValueError(f"{path} lacks these fields, or has too many: {wrong}.")
    return {"heading": heading(path, fields)} | {
        name: value for name, value in fields.items() if name not in ("number", "minutes")
    }


def _plain(value: Any) -> Any:
    return tuple(map(_plain, value)) if isinstance(value, list) else value
