"""What a drill is made of: choices that are the same on every machine (``Draw``), a program that is run while it is
written (``Page``), and the finished ``Program`` with its ``Question``s. What decides an answer is found by running, too:
``Page.finish`` takes the effect of one line out of the program, and looks whether the answer is another one then.
"""

from __future__ import annotations

import itertools
import random
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

import torch

from course_utils.drills.run import execute, space

T = TypeVar("T")
Answer = bool | str
Reader = Callable[[Sequence[str]], Mapping[str, Any]]  # runs a program's lines and reads the answers off it

# Without e, f, i, j, l, n and o, which are read as numbers, functions, counters or each other.
NAMES = "abcdghkmpqrstuvwxyz"
MOST_LINES, LINE_LENGTH = 12, 80
MOST_LINES_WITH_CLASS = 18  # a class has lines that hold nothing to think about
TOKEN = re.compile(r"\bN(\d+)_")  # a name before names are drawn: valid Python, so that the program can be run
_INDENT = "    "
# Which effects are asked first whether they decide: what a line causes; else what it might be taken to cause and does
# not; else what the line that makes the tensor does anyway.
CAUSE, TRAP, MAKER = range(3)


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


class Refused(Exception):
    """The program at hand comes to nothing, and another one is drawn. The text says why, for a topic's author."""


@dataclass(frozen=True)
class Effect:
    """What a line does, and the program in which it does not.

    Attributes:
        line: its number, from 1.
        rule: what it does, in words.
        changes: the program without that effect: line numbers with what stands there instead.
        about: the one key that it can decide; empty for any.
        rank: ``CAUSE``, ``TRAP`` or ``MAKER``.
        instead: the changes in words, "with ... instead"; empty where they show themselves.
        answers: the answers that the rule explains; empty for any.
        worth: how gladly it is asked about, where there is a choice.
    """

    line: int
    rule: str
    changes: Mapping[int, str]
    about: str = ""
    rank: int = CAUSE
    instead: str = ""
    answers: tuple[Answer, ...] = ()
    worth: float = 1.0

    def without(self, lines: Sequence[str]) -> list[str]:
        """The program without the effect. An entry can be several lines, so that the others keep their numbers."""
        made = list(lines)
        for line, text in self.changes.items():
            indent = made[line - 1][: len(made[line - 1]) - len(made[line - 1].lstrip())]
            made[line - 1] = "\n".join(indent + row for row in text.split("\n"))
        return made

    def said(self) -> str:
        """The changes in words."""
        texts = list(self.changes.values())
        if self.instead or len(texts) > 1 or "\n" in texts[0]:
            return self.instead
        return f"Without line {self.line}" if texts[0] in ("pass", "if True:") else f"With `{texts[0]}` instead"


@dataclass(frozen=True)
class Asked:
    """A question before it is known what decides it: its key, its words, the answer as a clause, what to choose from."""

    key: str
    asks: str
    says: Callable[[Answer], str]
    choices: Sequence[str] = ()


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


class Page:
    """A program while it is written. Every statement is run as it is added, so that the next one can ask what is there.

    Names come in the order of the alphabet, so that a reader finds the line where one is made; which ones they are is
    drawn last, when it is known how many are needed.

    Attributes:
        lines: the program so far, names as tokens.
        space: what its names stand for.
        effects: what its lines do, in words.
        asked: what may be asked.
        depth: how many blocks are open.
    """

    def __init__(self, draw: Draw) -> None:
        self.draw = draw
        self.lines: list[str] = []
        self.space = space()
        torch.default_generator.manual_seed(0)
        self.effects: list[Effect] = []
        self.asked: dict[str, Asked] = {}
        self.depth = 0
        self._names = itertools.count()
        self._tried: dict[tuple[str, ...], Mapping[str, Any]] = {}

    # Writing.

    def name(self) -> str:
        """A new name, as a token."""
        return f"N{next(self._names)}_"

    def write(self, text: str, run: bool = True) -> int:
        """Adds a statement and runs it; returns the number of its first line, from 1.

        Raises:
            Refused: it cannot be run here; nothing is added.
        """
        try:
            exec(text if run else "", self.space)
        except Exception as error:
            raise Refused(f"{text}: {error}") from error
        self.lines += [_INDENT * self.depth + line for line in text.split("\n")]
        return len(self.lines) - text.count("\n")

    @contextmanager
    def block(self, context: str) -> Iterator[int]:
        """Adds a ``with`` line and enters its context; yields its number. What is written meanwhile is indented."""
        with eval(context, self.space):
            line = self.write(f"with {context}:", run=False)
            self.depth += 1
            yield line
            self.depth -= 1

    def effect(
        self, line: int, rule: str, without: str | Mapping[int, str] = "pass", about: str = "", **more: Any
    ) -> None:
        """Says what a line does. ``without``: what stands there where it does not, or in several lines (see Effect)."""
        changes = {line: without} if isinstance(without, str) else without
        self.effects.append(Effect(line, rule, changes, about, **more))

    def made(self, name: str, text: str, rule: str, without: str | Mapping[int, str], **more: Any) -> int:
        """Writes what makes a tensor, with the rule that holds of it alone; what held of its name before is forgotten.

        Args:
            without: what is assigned where the line has not that effect; or the changed lines.
        """
        line = self.write(f"{name} = {text}")
        self.effects = [old for old in self.effects if (old.about, old.rank) != (name, MAKER)]
        self.effect(
            line, rule, f"{name} = {without}" if isinstance(without, str) else without, name, rank=MAKER, **more
        )
        return line

    def ask(self, key: str, asks: str, says: Callable[[Answer], str], choices: Sequence[str] = ()) -> None:
        """Puts a question, in place of an earlier one with that key. It is asked if one line alone decides it."""
        self.asked[key] = Asked(key, asks, says, choices)

    # Finishing.

    def tried(self, read: Reader, effect: Effect) -> Mapping[str, Any]:
        """The answers without the effect; none where that is no program any more."""
        lines = tuple(effect.without(self.lines))
        if lines not in self._tried:
            try:
                self._tried[lines] = read(lines)
            except SyntaxError:
                raise
            except Exception:  # such as a name that nobody makes now: that says nothing about the line
                self._tried[lines] = {}
        return self._tried[lines]

    def finish(self, read: Reader, least: int = 3, most: int = 6) -> Program:
        """The program with its questions.

        Args:
            read: runs a program and reads the answers off it; a key that it does not give has none there.
            least: the fewest questions, and with two different answers.
            most: the most questions of one kind.

        Raises:
            Refused: too long, or too little of it is decided by one line alone.
        """
        self._fit()
        found = read(self.lines)
        decided = {}
        for key in self.asked:
            flip = self._decides(key, found[key], read)
            if flip is not None:
                decided[key] = flip
        kinds: dict[str, dict[str, tuple[Answer, float]]] = {}
        for key, (effect, _) in decided.items():
            kinds.setdefault(self.asked[key].asks, {})[key] = found[key], effect.worth
        keys = [key for kind in kinds.values() for key in _balanced(self.draw, kind, most)]
        if len(keys) < least or len({found[key] for key in keys}) < 2:
            raise Refused(f"of {len(self.asked)} keys one line alone decides {list(decided)}")
        names = sorted(self.draw.sample(NAMES, next(self._names)))
        questions = tuple(
            self._question(self.asked[key], found, *decided[key], names) for key in self.asked if key in keys
        )
        return Program(tuple(named(line, names) for line in self.lines), questions)

    def _fit(self) -> None:
        most = MOST_LINES_WITH_CLASS if any(line.startswith("class ") for line in self.lines) else MOST_LINES
        if len(self.lines) > most or any(len(named(line, NAMES)) > LINE_LENGTH for line in self.lines):
            raise Refused("too long to be read")

    def _decides(self, key: str, answer: Answer, read: Reader) -> tuple[Effect, Mapping[str, Any]] | None:
        """The effect without which the answer is another one, and the answers there, where just one line has one."""
        for rank in (CAUSE, TRAP, MAKER):
            flips = []
            for effect in self.effects:
                fits = effect.about in ("", key) and (not effect.answers or answer in effect.answers)
                if effect.rank == rank and fits:
                    other = self.tried(read, effect)
                    if other.get(key, answer) != answer:
                        flips.append((effect, other))
            if flips:
                # Of several rules of one line that which is about this key says most.
                is_one = len({effect.line for effect, _ in flips}) == 1
                return max(flips, key=lambda flip: bool(flip[0].about)) if is_one else None
        return None

    def _question(
        self, asked: Asked, found: Mapping[str, Any], effect: Effect, other: Mapping[str, Any], names: Sequence[str]
    ) -> Question:
        answer, otherwise = found[asked.key], other[asked.key]
        through = self._through(asked.key, effect, found, other)
        passed = ""
        if through:
            lines = " and ".join(map(str, through))
            passed = f" Line {lines} passes it on." if len(through) == 1 else f" Lines {lines} pass it on."
        would = f"{effect.said()} the answer would be {otherwise!r}." if effect.said() else ""
        text = f"{effect.rule}.{passed} So {asked.says(answer)}. {would}".strip()
        return Question(
            named(asked.key, names),
            answer,
            effect.line,
            named(effect.rule, names),
            named(text, names),
            named(asked.asks, names),
            tuple(named(line, names) for line in effect.without(self.lines)),
            otherwise,
            tuple(asked.choices),
        )

    def _through(self, key: str, effect: Effect, found: Mapping[str, Any], other: Mapping[str, Any]) -> list[int]:
        """The later lines that pass an effect on to the tensor of this name, not those of its own block."""
        wanted, lines = {key}, []
        depth = _depth(self.lines[effect.line - 1])
        for number in range(len(self.lines), effect.line, -1):
            name, _, text = self.lines[number - 1].strip().partition(" = ")
            flips = name in wanted and found.get(name) != other.get(name, found.get(name))
            if flips and _depth(self.lines[number - 1]) <= depth and text:
                lines.append(number)
                wanted.update(match[0] for match in TOKEN.finditer(text))
        return lines[::-1] if effect.rank == CAUSE and not effect.about else []


def _depth(line: str) -> int:
    return len(line) - len(line.lstrip())


def _balanced(draw: Draw, keys: Mapping[str, tuple[Answer, float]], most: int) -> list[str]:
    """Some of the keys, of the answers in turn, so that none is lopsided; those of more worth first."""
    groups = {answer: {key: worth for key, (a, worth) in keys.items() if a == answer} for answer, _ in keys.values()}
    turn, picked = draw.sample(list(groups), len(groups)), list[str]()
    while len(picked) < most and any(groups.values()):
        for answer in turn:
            if groups[answer] and len(picked) < most:
                picked.append(draw.weighted(groups[answer]))
                del groups[answer][picked[-1]]
    return picked


def reader(look: Callable[[str, Any], Mapping[str, Any]]) -> Reader:
    """Reads the answers off what the names of a program stand for when it has run: ``look`` gets each tensor or bool."""

    def read(lines: Sequence[str]) -> Mapping[str, Any]:
        values = execute(lines).items()
        pairs = [look(name, value) for name, value in values if isinstance(value, (torch.Tensor, bool))]
        return {key: answer for pair in pairs for key, answer in pair.items()}

    return read


def named(text: str, names: Sequence[str]) -> str:
    """The text with its tokens replaced by names."""
    return TOKEN.sub(lambda match: names[int(match[1])], text)


def listed(names: Sequence[str]) -> str:
    """Names in words: ```a``, ``a` and `b```, ```a`, `b` and `c```."""
    quoted = [f"`{name}`" for name in dict.fromkeys(names)]
    return quoted[0] if len(quoted) == 1 else ", ".join(quoted[:-1]) + " and " + quoted[-1]
