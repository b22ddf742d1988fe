"""What a drill is made of: choices that are the same on every machine (``Draw``), a ``Program``, its questions."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

T = TypeVar("T")
Answer = bool | str


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


@dataclass(frozen=True)
class Question:
    """One thing that a drill asks.

    Attributes:
        key: the answer's key.
        answer: what PyTorch answers.
        line: the line that decides it, counted from 1.
        rule: what that line does, in words.
        explanation: the rule, what follows from it, and what the answer would be without it.
        asks: the question in words.
        without: the program without that effect, in which the answer is another one.
        otherwise: the answer there.
        choices: the texts to choose from; empty where the answer is True or False.
    """

    key: str
    answer: Answer
    line: int
    rule: str
    explanation: str
    asks: str
    without: tuple[str, ...]
    otherwise: Answer
    choices: tuple[str, ...] = ()


@dataclass(frozen=True)
class Program:
    """A finished program and what is asked about it, in the order of the program."""

    lines: tuple[str, ...]
    questions: tuple[Question, ...]

    @property
    def code(self) -> str:
        return "\n".join(self.lines)
