"""Drills as moves: a program is drawn from a topic's table (``Topic`` of ``Move``) and run, and what one of its lines
alone decides is asked (``written``).

Which line decides is found by running the program once more for each move, without its effect: the card can prove it.
"""

import contextlib
import random
import re
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Any, NamedTuple, TypeVar

import torch
from torch import nn
from torch.nn import functional as F

T = TypeVar("T")
Answer = bool | str
NAMES = "abcdghkmpqrstuvwxyz"  # in order, so that a reader finds one; without those read as numbers or functions
MOST_LINES, MOST_LINES_WITH_CLASS, LINE_LENGTH = 12, 18, 78  # a class has lines that hold nothing to think about
MOST_QUESTIONS, MOST_DRAWS = 6, 1000
_NAME = re.compile(rf"(?<![.\w])[{NAMES}]\b")
_HOLE = re.compile(r"\{([^{}\"'\n]+)\}")  # and not `{}` or `{"w": a}`, which are Python's own


class Move(NamedTuple):
    """A line of a program, or a few: the line, the same without its effect, and the effect in words.

    Attributes:
        text: with holes. ``{new}`` is a new name, ``{2..9}`` a number, ``{sin|cos}`` one of the texts, ``{kind}`` the
            name of a value of that kind (``Topic.kinds``) or one of ``Topic.texts``; a number tells two of a kind
            apart. The same hole twice is filled alike, and one in capitals is the same in the whole program.
        without: what to edit, as ``"old -> new"``; without an ``old`` the whole text is another one. Several edits are
            tried in turn; without any, the move decides nothing.
        words: the effect, a sentence without its full stop; it must be true of each answer that the edit changes.
        level: the first level at which it is drawn.
        weight: how often it is drawn, beside the others of its group.
        usual: whether such a line does it anyway: it is told where nothing else decides, and of ``{new}`` alone.
    """

    text: str
    without: str | Sequence[str] = ()
    words: str = ""
    level: int = 1
    weight: float = 1.0
    usual: bool = False


class Ask(NamedTuple):
    """What is asked of a key: the question, a whole sentence, and the values to choose from, each with what it says, in
    words with ``{key}`` and ``{name}``; ``others`` says what a value says that is not among them, such as a number."""

    asks: str
    says: Mapping[Any, str]
    others: str = ""


@dataclass(frozen=True)
class Topic:
    """What a drill is about.

    Attributes:
        task, lessons: what is asked of the whole program; the lessons whose misconceptions it practises.
        asks: by the end of a key, what is asked of it; the first that fits.
        moves, plans: moves by group; by level, plans: a program has a move of each group of one, in order.
        read: runs a program and reads the answers off it, by key.
        kinds: by name, whether a value is of that kind; it is told how often the value has been named.
        texts: by name, texts of which one is filled in; they may have holes of their own.
    """

    task: str
    lessons: Sequence[str]
    asks: Mapping[str, Ask]
    moves: Mapping[str, Sequence[Move]]
    plans: Mapping[int, Sequence[str]]
    read: Callable[[Sequence[str]], Mapping[str, Answer]]
    kinds: Mapping[str, Callable[[Any, int], bool]] = field(default_factory=dict)
    texts: Mapping[str, Sequence[str]] = field(default_factory=dict)


@dataclass(frozen=True)
class Question:
    """One thing that a drill asks, and PyTorch's answer; which line decides it, from 1, and why; the question in words
    and the values to choose from; and the proof: the program without that effect, and its answer."""

    key: str
    answer: Answer
    line: int
    explanation: str
    asks: str
    choices: tuple[Answer, ...]
    without: tuple[str, ...]
    otherwise: Answer


class Refused(Exception):
    """The program at hand comes to nothing, and another one is drawn; why, for a topic's author."""


def space() -> dict[str, Any]:
    """What a program finds imported; what it draws, it draws from a fixed seed."""
    torch.default_generator.manual_seed(0)
    return {"__name__": "drill", "torch": torch, "nn": nn, "F": F}


def execute(lines: Sequence[str], names: dict[str, Any] | None = None) -> dict[str, Any]:
    """Runs a program, or the rest of one that has made the names, where grad mode is on; returns its names. A last line
    that goes backward may fail: a program without a line's effect can have nothing to go through."""
    names, end = space() if names is None else names, len(lines) - lines[-1].endswith("backward()")
    with torch.enable_grad():
        exec("\n".join(lines[:end]), names)
        with contextlib.suppress(RuntimeError):
            exec("\n".join(lines[end:]), names)
    return names


def tensors(names: Mapping[str, Any]) -> dict[str, torch.Tensor]:
    """Those among a program's names."""
    return {name: value for name, value in names.items() if isinstance(value, torch.Tensor)}


def written(topic: Topic, level: int, draw: random.Random) -> tuple[tuple[str, ...], tuple[Question, ...]]:
    """A program and its questions: the first one drawn of which enough is decided by one line alone.

    Raises:
        RuntimeError: none of many was; the message says why the last one was not.
    """
    for _ in range(MOST_DRAWS):
        try:
            with torch.enable_grad():
                return _Draft(topic, level, draw).finished()
        except Refused as refused:
            why = str(refused)
    raise RuntimeError(f"{MOST_DRAWS} programs of level {level} came to nothing. Of the last one: {why}.")


def apart(function: Callable[[], T]) -> T:
    """What the function returns or raises, in a thread of its own: there grad mode is on and no other mode is active,
    with float32 as default dtype. The caller's modes, default dtype and random state stay as they are."""
    before = torch.get_default_dtype()
    with torch.random.fork_rng(devices=[]), warnings.catch_warnings(), torch.autograd.set_detect_anomaly(False):
        warnings.simplefilter("ignore")  # reading `.grad` of a tensor that is no leaf warns; here it is the question
        torch.set_default_dtype(torch.float32)
        try:
            with ThreadPoolExecutor(1) as thread:
                return thread.submit(function).result()
        finally:
            torch.set_default_dtype(before)


@dataclass(eq=False)
class _Made:
    """A move that the program has, its lines, and what its holes are filled with; and the program without its effect,
    once for each edit, with what is read off it."""

    move: Move
    lines: list[str]
    filled: dict[str, str]
    others: list[tuple[list[str], Mapping[str, Answer]]] = field(default_factory=list)

    def flips(self, key: str, answer: Answer) -> list[tuple[list[str], Answer]]:
        """The programs without its effect in which the answer is another one, each with that answer."""
        return [(lines, other[key]) for lines, other in self.others if other.get(key, answer) != answer]


class _Draft:
    """A program while it is drawn. Every move is run as it is added, so that the next one can ask what is there."""

    def __init__(self, topic: Topic, level: int, draw: random.Random) -> None:
        self.topic, self.level, self.draw = topic, level, draw
        self.lines: list[str] = []
        self.made: list[_Made] = []
        self.space, self.names = space(), iter(NAMES)
        self.everywhere: dict[str, str] = {}  # what holes in capitals are filled with
        for group in draw.choice(topic.plans[level]).split():
            moves = [move for move in topic.moves[group] if move.level <= level]
            (move,) = draw.choices(moves, [move.weight * (1 + (move.level == level)) for move in moves])
            filled: dict[str, str] = {}
            text = self._fill(move.text, filled)
            lines, values = text.split("\n"), {line.partition(" = ")[2] for line in self.lines}
            said = lines[0].partition(" = ")[2]
            if (len(lines) > 1 and move in [one.move for one in self.made]) or (_NAME.search(said) and said in values):
                raise Refused("it is there already")
            with contextlib.suppress(Exception):  # it may fail here: whether the program runs is found when it is read
                exec(text, self.space)
            self.made.append(_Made(move, lines, filled))
            self.lines += lines

    def _fill(self, text: str, filled: dict[str, str]) -> str:
        def value(found: re.Match[str]) -> str:
            values = self.everywhere if found[1].isupper() else filled
            if found[1] not in values:
                values[found[1]] = self._value(found[1], filled)
            return values[found[1]]

        return _HOLE.sub(value, text)

    def _value(self, hole: str, filled: Mapping[str, str]) -> str:
        kind = hole.rstrip("0123456789")
        if "|" in hole:
            return self.draw.choice(hole.split("|"))
        if ".." in hole:
            return str(self.draw.randint(*map(int, hole.split(".."))))
        if kind in self.topic.texts:
            return self._fill(self.draw.choice(self.topic.texts[kind]), {})
        if kind == "new" or kind.isupper():
            return next(self.names)
        named = _NAME.findall("\n".join(self.lines))
        uses = {name: named.count(name) for name in NAMES if name in self.space and name not in filled.values()}
        names = [name for name in uses if self.topic.kinds[kind](self.space[name], uses[name])]
        if not names:
            raise Refused(f"there is no {kind}")
        # Unused ones before the others, and the newest before older ones.
        return self.draw.choices(names, [4.0 if uses[name] == 1 else 1 + at / 4 for at, name in enumerate(names)])[0]

    def finished(self) -> tuple[tuple[str, ...], tuple[Question, ...]]:
        if not any(made.move.level == self.level for made in self.made):
            raise Refused("nothing of its level is in it")
        most = MOST_LINES_WITH_CLASS if any(line.startswith("class ") for line in self.lines) else MOST_LINES
        if len(self.lines) > most or max(map(len, self.lines)) > LINE_LENGTH:
            raise Refused("it is too long to be read")
        try:
            found = self.topic.read(self.lines)
        except Exception as error:
            raise Refused(f"it cannot be read: {error}") from error
        for made in self.made:
            made.others = list(self._others(made))
        deciding = {key: move for key, answer in found.items() if (move := self._deciding(key, answer))}
        ends = {key: next(end for end in self.topic.asks if key.endswith(end)) for key in found}
        # Answers in turn, so that none is lopsided.
        groups: dict[tuple[str, Answer], list[str]] = {}
        for key in self.draw.sample(list(deciding), len(deciding)):
            groups.setdefault((ends[key], found[key]), []).append(key)
        chosen = [key for turn in zip_longest(*groups.values()) for key in turn if key][:MOST_QUESTIONS]
        if len(chosen) < 3 or len({found[key] for key in chosen}) < 2:
            raise Refused(f"one line alone decides no more than {chosen}")
        questions = [self._question(key, found, deciding[key], ends[key]) for key in found if key in chosen]
        return tuple(self.lines), tuple(questions)

    def _others(self, made: _Made) -> Iterator[tuple[list[str], Mapping[str, Answer]]]:
        text, without = made.move.text, made.move.without
        for edit in [without] if isinstance(without, str) else without:
            old, _, new = (part.strip(" ") for part in edit.partition("->"))
            edited = self._fill(text.replace(old, new) if old else new, made.filled).split("\n")
            lines = [line for one in self.made for line in (edited if one is made else one.lines)]
            with contextlib.suppress(Exception):  # such as a name that nobody makes now: that says nothing of the line
                yield lines, self.topic.read(lines)

    def _deciding(self, key: str, answer: Answer) -> _Made | None:
        """The move without whose effect the answer is another one, where there is just one such."""
        flips = [made for made in self.made if made.flips(key, answer)]
        causes = [made for made in flips if not made.move.usual]
        causes = causes or [made for made in flips if _name(key) in map(made.filled.get, ("new", "new1", "new2"))]
        return causes[0] if len(causes) == 1 else None

    def _question(self, key: str, found: Mapping[str, Answer], made: _Made, end: str) -> Question:
        ask, answer = self.topic.asks[end], found[key]
        lines, otherwise = made.flips(key, answer)[0]
        choices = list(ask.says)
        if ask.others:
            choices = [*sorted({otherwise, *found.values()} - {*choices}, key=float), *choices]
        pairs = enumerate(zip_longest(self.lines, lines, fillvalue=""), 1)
        changed = [(number, new.strip()) for number, (old, new) in pairs if old.strip() != new.strip()]
        line, instead = changed[0]
        proof = f"Without line {line}" if instead in ("pass", "if True:") else f"With `{instead}` instead"
        proof = "Otherwise" if len(changed) > 1 else proof
        clause = ask.says.get(answer, ask.others).format(key=key, name=_name(key), answer=answer)
        words = self._fill(made.move.words, made.filled)
        explanation = f"{words}. So {clause}. {proof} the answer would be {as_typed(otherwise)}."
        return Question(key, answer, line, explanation, ask.asks, tuple(choices), tuple(lines), otherwise)


def as_typed(answer: Answer) -> str:
    """An answer as a learner types it: a number or a truth value as it is, and a word in quotes."""
    return str(answer) if re.fullmatch(r"-?[\d.]+|True|False", str(answer)) else repr(answer)


def _name(key: str) -> str:
    return re.split(r"[ .]", key, maxsplit=1)[0]  # of "a counted" and of "a.grad" it is "a"
