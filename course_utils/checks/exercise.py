"""How an exercise is described (``Exercise``): its claims in a module, its words in a text file beside it.

``mean_loss.toml`` beside ``mean_loss.py`` has its number in the lesson, points, minutes, hints, the misconceptions that
the check recognises, and which errors show one.
"""

import dataclasses
import dis
import inspect
import itertools
import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from course_utils.base.files import require_fields
from course_utils.checks.misconceptions import Misconception, heading, read
from course_utils.checks.trial import Trial

Judge = Callable[[Trial], None]  # raises ``Missed`` where a claim does not hold


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
    judge: Judge
    weight: float = 1.0
    gate: bool = False


@dataclass
class Exercise:
    """An exercise whose answer is a function or a class.

    Attributes:
        name: what ``lesson.check`` takes.
        points: the most that it earns.
        hints: from the first nudge to the last; never the solution.
        misconceptions: what the check recognises, by a key that the claims use in ``Missed(key)``.
        raises: (part of "Type: message", key) for errors that show a misconception, first match wins.
        watches_side_effects: whether a last claim says that the answer changed nothing else.
        heading: the exercise's heading in the lesson's notebook; see ``misconceptions.heading``.
        source: the course's own answer, as its cell in the notebook has it.
    """

    name: str
    points: float
    hints: Sequence[str]
    misconceptions: Mapping[str, Misconception]
    raises: Sequence[tuple[str, str]] = ()
    watches_side_effects: bool = True
    heading: str = ""
    source: str = ""
    _rules: list[Rule] = field(default_factory=list, repr=False)

    @classmethod
    def read(cls, file: str, **more: Any) -> Self:
        """An exercise that has no claims yet, from the text file beside its module.

        Args:
            file: the module's ``__file__``.
            more: what the text file does not have.

        Raises:
            ValueError: the text file has a field that is unknown, lacks one, or is no TOML.
        """
        path = Path(file).with_suffix(".toml")
        fields = read(path)
        known = {each.name for each in dataclasses.fields(cls) if not each.name.startswith("_")} - more.keys()
        known = (known | {"number", "minutes", "answer"}) - {"name", "heading", "source"}
        require_fields(path, "the exercise", fields, {"hints"}, known)
        about = {"heading": heading(path, fields), "source": fields.pop("answer", "")} | more
        return cls(path.stem, **{name: fields[name] for name in fields if name not in ("number", "minutes")}, **about)

    def claim(self, text: str, *, weight: float = 1.0, gate: bool = False) -> Callable[[Judge], Judge]:
        """Adds a claim: a decorator for a function that raises ``Missed`` where the claim does not hold.

        Args:
            text, weight, gate: see ``Rule``.
        """

        def add(function: Judge) -> Judge:
            self._rules.append(Rule(text, function, weight, gate))
            return function

        return add

    # What follows gets the answer as the claims do: a mapping as a dict.

    def rules(self, answer: Any) -> Sequence[Rule]:
        """The claims to judge the answer by."""
        return self._rules

    def key_of(self, number: int, effects: Sequence[str]) -> str:
        """The misconception that side effects show which the claim of that number has seen; empty where none."""
        return ""

    def is_stub(self, answer: Any) -> bool:
        """Whether nothing has been written yet."""
        return is_blank(answer)

    def notes(self, answer: Any) -> Sequence[str]:
        """Remarks for the card, one line each."""
        return ()


def is_blank(answer: Any) -> bool:
    """Whether an answer is an untouched stub: None, ``...``, a function that does nothing, a class without a body."""
    if answer is None or answer is ...:
        return True
    if isinstance(answer, type):
        methods = (staticmethod, classmethod, types.FunctionType)
        return not any(isinstance(value, methods) for value in vars(answer).values())
    function = inspect.unwrap(answer) if isinstance(answer, types.FunctionType) else answer
    if not isinstance(function, types.FunctionType):
        return False
    steps = (step for step in dis.get_instructions(function) if step.opname not in ("RESUME", "NOP", "CACHE"))
    body = list(itertools.islice(steps, 3))  # a blank one has two; disassembling a long one to its end takes a while
    names = [step.opname for step in body]
    return names in (["LOAD_CONST", "RETURN_VALUE"], ["RETURN_CONST"]) and body[0].argval is None
