"""What a drill is made of, as plain data: choices that are the same on every machine (``Draw``), a program while it is
written (``Page``), why an answer is what it is (``Reason``), the finished ``Program`` and its ``Question``s.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TypeVar

T = TypeVar("T")

# Without e, f, i, j, l, n and o, which are read as numbers, functions, counters or each other.
NAMES = "abcdghkmpqrstuvwxyz"
MOST_LINES, LINE_LENGTH = 12, 80
MOST_LINES_WITH_CLASS = 18  # a class has lines that hold nothing to think about
ERROR, WRONG, RIGHT = "error", "wrong gradient", "right gradient"
_TOKEN = re.compile(r"@(\d+)@")
_INDENT = "    "


class Draw:
    """Random choices from a text, the same on every machine and in every version of Python.

    Of Python's generator only ``random()`` after a named seeder is promised to give the same numbers in later versions,
    so every choice is made of that. https://docs.python.org/3/library/random.html#notes-on-reproducibility

    Args:
        text: the seed. The seeder takes SHA-512 of it, not Python's ``hash``, which differs from process to process.
    """

    def __init__(self, text: str) -> None:
        generator = random.Random()
        generator.seed(text, version=2)
        self._next = generator.random

    def below(self, limit: int) -> int:
        """A whole number from 0 to ``limit - 1``."""
        return int(self._next() * limit)

    def chance(self, share: float) -> bool:
        """True in ``share`` of all draws."""
        return self._next() < share

    def choice(self, items: Sequence[T]) -> T:
        """One of the items, each as likely as the others."""
        return items[self.below(len(items))]

    def weighted(self, items: Mapping[T, float]) -> T:
        """One of the keys, as likely as its weight."""
        rest = self._next() * sum(items.values())
        for item, weight in items.items():
            rest -= weight
            if rest < 0:
                return item
        return item

    def sample(self, items: Sequence[T], count: int) -> list[T]:
        """``count`` different items in random order."""
        left = list(items)
        return [left.pop(self.below(len(left))) for _ in range(count)]


@dataclass(frozen=True, eq=False)
class Reason:
    """Why an answer is what it is.

    Attributes:
        line: the line of the program that decides it, counted from 1.
        rule: a key of ``rules.RULES``.
        facts: what the rule's text says of this program, such as the names of the operands.
        cuts: whether the answer would be True without this line.
        through: lines that only pass it on.
    """

    line: int
    rule: str
    facts: Mapping[str, str] = field(default_factory=dict)
    cuts: bool = False
    through: tuple[int, ...] = ()

    def passed_on(self, line: int) -> Reason:
        """The same reason, for what the given line makes of it."""
        return Reason(self.line, self.rule, self.facts, self.cuts, (*self.through, line))


@dataclass(frozen=True)
class Question:
    """One thing that a drill asks.

    Attributes:
        key: the answer's key.
        expected: the answer by the rules. A check compares with what the program does, never with this.
        line: the line that decides it, counted from 1.
        rule: a key of ``rules.RULES``.
        explanation: the rule in words, for this program.
        choices: the texts to choose from; empty where the answer is True or False.
    """

    key: str
    expected: bool | str
    line: int
    rule: str
    explanation: str
    choices: tuple[str, ...] = ()


@dataclass(frozen=True)
class Program:
    """A finished program and what is asked about it.

    Attributes:
        lines: its lines.
        questions: what is asked, in the order of the program.
        edited: (edits) the first and the last line of the edit, counted from 1; (gates) the lines that run the branches
            and that move them, where not the whole program is asked about; zeros elsewhere.
        loss: (edits) the line that makes the loss, counted from 1; 0 elsewhere.
    """

    lines: tuple[str, ...]
    questions: tuple[Question, ...]
    edited: tuple[int, int] = (0, 0)
    loss: int = 0

    @property
    def code(self) -> str:
        return "\n".join(self.lines)


class Page:
    """A program while it is written. Names are tokens until it is finished.

    Names come in the order of the alphabet, so that a reader finds the line where one is made; which ones they are is
    drawn last, when it is known how many are needed.
    """

    def __init__(self, draw: Draw) -> None:
        self.draw = draw
        self.lines: list[str] = []
        self._depth = 0
        self._names = 0

    def name(self) -> str:
        """A new name, as a token."""
        self._names += 1
        return f"@{self._names - 1}@"

    def write(self, text: str) -> int:
        """Adds a line; returns its number, from 1."""
        self.lines.append(_INDENT * self._depth + text)
        return len(self.lines)

    @contextmanager
    def block(self, text: str) -> Iterator[int]:
        """Adds a line that opens a block; yields its number. What is written meanwhile is indented."""
        line = self.write(text)
        self._depth += 1
        try:
            yield line
        finally:
            self._depth -= 1

    @property
    def fits(self) -> bool:
        """Whether the program is short enough to be read."""
        most = MOST_LINES_WITH_CLASS if any(line.startswith("class ") for line in self.lines) else MOST_LINES
        return len(self.lines) <= most and all(len(named(line, NAMES)) <= LINE_LENGTH for line in self.lines)

    def names(self) -> list[str]:
        """The names for all tokens so far, in their order."""
        return sorted(self.draw.sample(NAMES, self._names))


def named(text: str, names: Sequence[str]) -> str:
    """The text with its tokens replaced by names."""
    return _TOKEN.sub(lambda match: names[int(match[1])], text)


def listed(names: Sequence[str]) -> str:
    """Names in words: ```a``, ``a` and `b```, ```a`, `b` and `c```."""
    quoted = [f"`{name}`" for name in dict.fromkeys(names)]
    return quoted[0] if len(quoted) == 1 else ", ".join(quoted[:-1]) + " and " + quoted[-1]
