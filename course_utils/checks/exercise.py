"""How an author describes an exercise: ``exercise`` reads its text file, ``Exercise.claim`` adds what must hold.

Its prose stands in a text file beside the module, ``mean_loss.toml`` beside ``mean_loss.py``: its number in the lesson,
points, minutes, hints, the misconceptions that the check recognises, and which errors and side effects show one.
"""

import dis
import inspect
import itertools
import types
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from course_utils.base.text import describe
from course_utils.checks.misconceptions import Misconception, heading, read
from course_utils.checks.missed import Missed
from course_utils.checks.trial import Trial


@dataclass(frozen=True)
class Rule:
    """One claim of an exercise, before it is judged.

    Attributes:
        text: what must hold, as a phrase about the answer.
        judge: raises ``Missed`` where it does not.
        weight: its share of the points; 0 for what earns nothing by itself but must hold.
        gate: whether the claims after it are judged only if this one holds.
    """

    text: str
    judge: Callable[[Trial], None]
    weight: float = 1.0
    gate: bool = False


@dataclass
class Exercise:
    """An exercise whose answer is a function, a class, or a dict of predictions.

    Attributes:
        name: what ``lesson.check`` takes.
        points: the most that it earns.
        hints: from the first nudge to the last; never the solution.
        misconceptions: what the check recognises, by a key that the claims use in ``Missed(key)``.
        raises: (part of "Type: message", key) for errors that show a misconception, first match wins.
        watches_side_effects: whether a last claim says that the answer changed nothing else.
        remark: what a card says of how the answer was judged, beside what it found.
        heading: the exercise's heading in the lesson's notebook; see ``misconceptions.heading``.
        source: the course's own answer, as its cell in the notebook has it.
        keys: those of the dict that is the answer; empty where the answer is a function or a class.
        first_rules: which rules come before the claims for a dict of predictions.
    """

    name: str
    points: float
    hints: Sequence[str]
    misconceptions: Mapping[str, Misconception]
    raises: Sequence[tuple[str, str]] = ()
    watches_side_effects: bool = True
    remark: str = ""
    heading: str = ""
    source: str = ""
    keys: Sequence[str] = ()
    first_rules: Callable[[dict], Sequence[Rule]] = lambda answer: ()
    _rules: list[Rule] = field(default_factory=list, repr=False)

    def claim(
        self, text: str, *, weight: float = 1.0, gate: bool = False
    ) -> Callable[[Callable[[Trial], None]], Callable[[Trial], None]]:
        """Adds a claim: a decorator for a function that raises ``Missed`` where the claim does not hold.

        Args:
            text, weight, gate: see ``Rule``.
        """

        def add(function: Callable[[Trial], None]) -> Callable[[Trial], None]:
            self._rules.append(Rule(text, function, weight, gate))
            return function

        return add

    # What follows gets the answer as the claims do: a mapping as a dict.

    def rules(self, answer: Any) -> Sequence[Rule]:
        """The claims to judge; for what is no dict of predictions where one was asked for, that alone."""
        if self.keys and type(answer) is not dict:
            return [Rule("is a dict with one value a key", self._refuse, gate=True)]
        return [*self.first_rules(answer), *self._rules] if self.keys else self._rules

    def key_of(self, effects: Sequence[str]) -> str:
        """The misconception that side effects show; empty where nothing is known of them."""
        return ""

    def is_stub(self, answer: Any) -> bool:
        """Whether nothing has been written yet."""
        if self.keys and type(answer) is dict:
            return all(is_no_value(value) for key, value in answer.items() if key in self.keys)
        # A set with ... in it is what a dict literal without keys leaves.
        dots = bool(self.keys) and type(answer) is set and all(item is ... for item in answer)
        return dots or is_blank(answer)

    def notes(self, answer: Any) -> Iterable[str]:
        """Remarks for the card, one line each."""
        if self.remark:
            yield " ".join(self.remark.split())
        if self.keys and type(answer) is dict:
            extra = [describe(key, 30) for key in answer if key not in self.keys]
            if extra:
                yield "Ignored, since the exercise does not ask for it: " + ", ".join(extra[:6]) + "."

    def _refuse(self, trial: Trial) -> None:
        raise Missed(expected="a dict with the keys " + ", ".join(self.keys), got=describe(trial.answer))


def is_no_value(value: Any) -> bool:
    """Whether a prediction is still to be made."""
    return value is None or value is ...


def is_blank(answer: Any) -> bool:
    """Whether an answer is an untouched stub: None, ``...``, a function that does nothing, a class without a body."""
    if is_no_value(answer):
        return True
    if issubclass(type(answer), type):
        methods = (staticmethod, classmethod, types.FunctionType)
        return not any(issubclass(type(value), methods) for value in vars(answer).values())
    try:
        code = getattr(inspect.unwrap(answer), "__code__", None) if callable(answer) else None
    except Exception:  # it answers for its attributes itself, so it was written
        return False
    if not isinstance(code, types.CodeType) or code.co_flags & inspect.CO_GENERATOR:
        return False
    steps = (step for step in dis.get_instructions(code) if step.opname not in ("RESUME", "NOP", "CACHE"))
    body = list(itertools.islice(steps, 3))  # a blank one has two; disassembling a long one to its end takes a while
    names = [step.opname for step in body]
    return names in (["LOAD_CONST", "RETURN_VALUE"], ["RETURN_CONST"]) and body[0].argval is None


def exercise(file: str) -> Exercise:
    """An exercise that has no claims yet, from the text file beside its module.

    Args:
        file: the module's ``__file__``.

    Raises:
        ValueError: the text file has a field that is unknown, lacks one, or is no TOML.
    """
    fields = read_fields(
        file, {"points", "hints", "misconceptions"}, {"answer", "raises", "watches_side_effects", "remark"}
    )
    return Exercise(Path(file).stem, **fields)


def read_fields(file: str, needed: set[str], more: set[str]) -> dict[str, Any]:
    """The fields of the text file beside a module, ``number`` and ``minutes`` made into the ``heading``.

    Raises:
        ValueError: it has a field that is unknown, lacks one, or is no TOML; the message names the file.
    """
    path = Path(file).with_suffix(".toml")
    fields, needed = read(path), needed | {"number", "minutes"}
    if not needed <= fields.keys() <= needed | more:
        wrong = ", ".join(sorted((needed - fields.keys()) | (fields.keys() - needed - more)))
        raise ValueError(f"{path} lacks these fields, or has too many: {wrong}.")
    return {"heading": heading(path, fields), "source": fields.get("answer", "")} | {
        name: value for name, value in fields.items() if name not in ("number", "minutes", "answer")
    }
