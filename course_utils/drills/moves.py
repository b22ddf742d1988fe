"""What a drill's topic is made of: a table of moves (``Move``, ``Topic``), and what they are drawn with (``Draw``).

A move is a line of code, the same line without its effect, and what the effect is, in words.
"""

from __future__ import annotations

import bisect
import itertools
import random
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

Answer = bool | str
Reader = Callable[[Sequence[str]], Mapping[str, Answer]]  # a program's lines -> the answers, by running it

KEYS = ("first", "second", "third", "fourth")  # what `{key}` stands for, in turn


class Effect(NamedTuple):
    """What a line does: ``old`` in the move's text is ``new`` where it does not; no ``old``: ``new`` is the whole text.

    ``words`` say it in a sentence without its full stop, with the move's holes, ``{name}``, the name that is asked
    about, and what ``Topic.facts`` gives. ``about``: the keys that it explains, as a regular expression with holes;
    empty for any. ``is_usual``: such a line does it anyway; it is told where nothing else decides, and then about what
    the line makes (``{new}``) unless ``about`` says otherwise.
    """

    old: str
    new: str
    words: str
    about: str = ""
    is_usual: bool = False


USUAL = True


class Move:
    """One line, or a few, of a program, and its effects.

    ``text`` has holes: ``{new}`` a new name; ``{key}`` the next of ``KEYS``; ``{2..9}`` a number; ``{sin|cos}`` one of
    the texts; the name of one of ``Topic.values`` or ``Topic.texts``; else the name of a tensor of that kind
    (``Topic.kinds``), two of which are told apart by a number. The same hole twice is filled alike. ``effects``: the
    fields of an ``Effect`` each. ``level``: the first at which it is drawn; ``weight``: how often, in its group.
    """

    def __init__(self, text: str, *effects: tuple[Any, ...], level: int = 1, weight: float = 1.0) -> None:
        self.text, self.level, self.weight = text, level, weight
        self.effects = [Effect(*effect) for effect in effects]


@dataclass(frozen=True)
class Ask:
    """What is asked of a key: the question (the values come where dots stand, else at the end), what each answer says
    of the subject, and what any ``others`` say, with ``{}`` in their place; some of the program's are then to choose.
    """

    asks: str
    says: Mapping[Any, str]
    others: str = ""
    subject: str = "`{key}`"

    def clause(self, key: str, answer: Answer) -> str:
        subject = self.subject.format(key=key, name=name_of(key))
        return f"{subject} {self.says.get(answer) or self.others.format(answer)}"


@dataclass(frozen=True)
class Topic:
    """What a drill is about.

    Attributes:
        task, lessons: what is asked of the whole program; the lessons whose misconceptions it practises.
        asks: by the end of a key, what is asked of it; the first that fits.
        moves, plans: moves by group; by level, plans: a program has a move of each group of one, in order. What a group
            makes of which the name begins with ``end`` is not run while the program is drawn.
        read: runs a program and reads the answers off it.
        kinds: by name, whether a value is of that kind; it is told in how many lines the value has been named.
        texts, values: texts of which one is filled in; what is drawn once and is the same in the whole program.
        facts: what ``words`` say of this program, by its lines and a key.
        explained: what no lesson says, by a part of the program that calls for it.
    """

    task: str
    lessons: Sequence[str]
    asks: Mapping[str, Ask]
    moves: Mapping[str, Sequence[Move]]
    plans: Mapping[int, Sequence[str]]
    read: Reader
    kinds: Mapping[str, Callable[[Any, int], bool]] = field(default_factory=dict)
    texts: Mapping[str, Sequence[str]] = field(default_factory=dict)
    values: Callable[[Draw, int], Mapping[str, object]] = lambda draw, level: {}
    facts: Callable[[Sequence[str], str], Mapping[str, str]] = lambda lines, key: {}
    explained: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Question:
    """One thing that a drill asks: the answer's key, PyTorch's answer, the line that decides it (from 1) and why, the
    question in words, the values to choose from, and the program in which it is another one (``otherwise``)."""

    key: str
    answer: Answer
    line: int
    explanation: str
    asks: str
    choices: tuple[Answer, ...]
    without: tuple[str, ...]
    otherwise: Answer


class Draw:
    """Random choices from a text, the same on every machine and in every version of Python.

    Of Python's generator only ``random()`` after a named seeder is promised to give the same numbers in later versions,
    so every choice is made of that. https://docs.python.org/3/library/random.html#notes-on-reproducibility
    """

    def __init__(self, text: str) -> None:
        self._generator = random.Random()
        self._generator.seed(text, version=2)

    def below(self, limit: int) -> int:
        """A whole number from 0 to ``limit - 1``."""
        return int(self._generator.random() * limit)

    def choice(self, items: Sequence[Any], weights: Sequence[float] = ()) -> Any:
        """One of the items, as likely as its weight."""
        ends = list(itertools.accumulate(weights or [1.0] * len(items)))
        return items[bisect.bisect_right(ends, self._generator.random() * ends[-1], hi=len(items) - 1)]


def name_of(key: str) -> str:
    """The name that a key is about: that of ``"a counted"`` and of ``"a.grad"`` is ``"a"``."""
    return re.split(r"[ .]", key, maxsplit=1)[0]
