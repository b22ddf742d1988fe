"""Drills as moves: a program is drawn from a topic's table and run, and what one of its lines alone decides is asked.

Which line decides is found by running the program once more for each move, without its effect: the card can prove it.
"""

import contextlib
import random
import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import zip_longest
from typing import NamedTuple, TypeVar

import torch

from course_utils.drills.moves import Answer, Move, Topic, space

T = TypeVar("T")
# Without e, f, i, j, l, n and o, which are read as numbers, functions, counters or each other.
NAMES = "abcdghkmpqrstuvwxyz"
MOST_LINES, MOST_LINES_WITH_CLASS, LINE_LENGTH = 12, 18, 78  # a class has lines that hold nothing to think about
MOST_QUESTIONS, MOST_DRAWS = 6, 1000
_TOKEN = re.compile(r"\bN\d+_")  # a name while the program is drawn
_HOLE = re.compile(r"\{([^{}\"'\n]+)\}")  # and not `{}` or `{"w": a}`, which are Python's own


@dataclass(frozen=True)
class Question:
    """One thing that a drill asks.

    Attributes:
        key, answer: what is asked about, and PyTorch's answer.
        line, explanation: which line decides it, from 1, and why.
        asks, choices: the question in words, and the values to choose from.
        without, otherwise: the proof: the program without that effect, and its answer.
    """

    key: str
    answer: Answer
    line: int
    explanation: str
    asks: str
    choices: tuple[Answer, ...]
    without: tuple[str, ...]
    otherwise: Answer


class Refused(Exception):
    """The program at hand comes to nothing, and another one is drawn. The text says why, for a topic's author."""


def written(topic: Topic, level: int, draw: random.Random) -> tuple[tuple[str, ...], tuple[Question, ...]]:
    """A program and its questions: the first one drawn of which enough is decided by one line alone.

    Raises:
        RuntimeError: none of many was; the message says why the last one was not.
    """
    for _ in range(MOST_DRAWS):
        try:
            with torch.enable_grad():
                return _Page(topic, level, draw).finished()
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


class _Made(NamedTuple):
    """A move that the program has: its first line, from 0, how many there are, and what its holes are filled with."""

    move: Move
    at: int
    length: int
    filled: dict[str, str]


class _Other(NamedTuple):
    """A program without the effect of a move: the first line that differs, from 1, and what is read off it."""

    made: _Made
    line: int
    lines: tuple[str, ...]
    answers: Mapping[str, Answer]


class _Page:
    """A program while it is drawn. Every move is run as it is added, so that the next one can ask what is there."""

    def __init__(self, topic: Topic, level: int, draw: random.Random) -> None:
        self.topic, self.level, self.draw = topic, level, draw
        self.lines: list[str] = []
        self.made: list[_Made] = []
        self.space = space()
        self.everywhere: dict[str, str] = {}  # what holes in capitals are filled with
        self.count = 0
        for group in draw.choice(topic.plans[level]).split():
            self._add_one([move for move in topic.moves[group] if move.level <= level])

    def _add_one(self, moves: list[Move]) -> None:
        while moves:
            weights = [move.weight * (1 + (move.level == self.level)) for move in moves]
            move = self.draw.choices(moves, weights)[0]
            try:
                return self._add(move)
            except Refused:
                moves.remove(move)
        raise Refused("no move of a group can be added")

    def _add(self, move: Move) -> None:
        filled: dict[str, str] = {}
        text = self._fill(move.text, filled)
        lines, values = text.split("\n"), {line.partition(" = ")[2] for line in self.lines}
        said = lines[0].partition(" = ")[2]
        if (len(lines) > 1 and move in [made.move for made in self.made]) or (_TOKEN.search(said) and said in values):
            raise Refused("it is there already")
        with contextlib.suppress(Exception):  # a line may fail here: whether the program runs is found when it is read
            exec(text, self.space)
        self.made.append(_Made(move, len(self.lines), len(lines), filled))
        self.lines += lines

    def _fill(self, text: str, filled: dict[str, str]) -> str:
        def value(found: re.Match[str]) -> str:
            hole = found[1]
            values = self.everywhere if hole.isupper() else filled
            if hole not in values:
                values[hole] = self._value(hole, filled)
            return values[hole]

        return _HOLE.sub(value, text)

    def _value(self, hole: str, filled: Mapping[str, str]) -> str:
        if "|" in hole:
            return self.draw.choice(hole.split("|"))
        if ".." in hole:
            return str(self.draw.randint(*map(int, hole.split(".."))))
        kind = hole.rstrip("0123456789")
        if kind in self.topic.texts:
            return self._fill(self.draw.choice(self.topic.texts[kind]), {})
        if kind == "new" or kind.isupper():
            self.count += 1
            return f"N{self.count}_"
        program, fits = "\n".join(self.lines), self.topic.kinds[kind]
        uses = {name: program.count(name) for name in self.space if _TOKEN.fullmatch(name)}
        names = [name for name, n in uses.items() if fits(self.space[name], n) and name not in filled.values()]
        if not names:
            raise Refused(f"there is no {kind}")
        # Unused ones before the others, and the newest before older ones.
        return self.draw.choices(names, [4.0 if uses[name] == 1 else 1 + at / 4 for at, name in enumerate(names)])[0]

    def finished(self) -> tuple[tuple[str, ...], tuple[Question, ...]]:
        if not any(made.move.level == self.level for made in self.made):
            raise Refused("nothing of its level is in it")
        most = MOST_LINES_WITH_CLASS if any(line.startswith("class ") for line in self.lines) else MOST_LINES
        if len(self.lines) > most or any(len(_TOKEN.sub("x", line)) > LINE_LENGTH for line in self.lines):
            raise Refused("it is too long to be read")
        try:
            found = self.topic.read(self.lines)
        except Exception as error:
            raise Refused(f"it cannot be read: {error}") from error
        others = [other for made in self.made for other in self._others(made)]
        deciding = {key: other for key, answer in found.items() if (other := self._deciding(key, answer, others))}
        # Answers in turn, so that none is lopsided.
        groups: dict[tuple[str, Answer], list[str]] = {}
        for key in self.draw.sample(list(deciding), len(deciding)):
            groups.setdefault((self._end(key), found[key]), []).append(key)
        chosen = [key for turn in zip_longest(*groups.values()) for key in turn if key][:MOST_QUESTIONS]
        if len(chosen) < 3 or len({found[key] for key in chosen}) < 2:
            raise Refused(f"one line alone decides no more than {chosen}")
        values = {value for one in (found, *(other.answers for other in others)) for value in one.values()}
        named = self._names()
        questions = [self._question(key, found[key], deciding[key], values, named) for key in found if key in chosen]
        return tuple(map(named, self.lines)), tuple(questions)

    def _others(self, made: _Made) -> Iterator[_Other]:
        text, without = made.move.text, made.move.without
        for edit in [without] if isinstance(without, str) else without:
            old, _, new = (part.strip(" ") for part in edit.partition("->"))
            edited = self._fill(text.replace(old, new) if old else new, made.filled).split("\n")
            lines = (*self.lines[: made.at], *edited, *self.lines[made.at + made.length :])
            pairs = enumerate(zip_longest(self.lines, lines, fillvalue=""), 1)
            line = next((number for number, (one, other) in pairs if one.strip() != other.strip()), 0)
            with contextlib.suppress(Exception):  # such as a name that nobody makes now: that says nothing of the line
                yield _Other(made, line, lines, self.topic.read(lines))

    def _deciding(self, key: str, answer: Answer, others: Iterable[_Other]) -> _Other | None:
        """The program in which the answer is another one, where just one move lacks its effect in such."""
        flips = [
            other
            for other in others
            if other.answers.get(key, answer) != answer and key.endswith(other.made.move.about)
        ]
        causes = [other for other in flips if not other.made.move.usual]
        mine = [other for other in flips if _name(key) in (other.made.filled.get(f"new{n}") for n in ("", 1, 2))]
        flips = causes or mine
        return flips[0] if len({other.made.at for other in flips}) == 1 else None

    def _question(
        self, key: str, answer: Answer, other: _Other, values: set[Answer], named: Callable[[str], str]
    ) -> Question:
        ask = self.topic.asks[self._end(key)]
        choices = list(ask.says)
        if ask.others:
            left = sorted(values - {answer, *choices}, key=str)
            some = self.draw.sample(left, min(3, len(left)))
            choices = [*sorted({answer, *some} - {*choices}, key=float), *choices]
        words = self._fill(other.made.move.words, other.made.filled)
        clause = ask.says.get(answer, ask.others).format(key=key, name=_name(key), answer=answer)
        changed = [two.strip() for one, two in zip_longest(self.lines, other.lines, fillvalue="") if one != two]
        is_gone, otherwise = changed[0] in ("pass", "if True:"), other.answers[key]
        proof = f"Without line {other.line}" if is_gone else f"With `{changed[0]}` instead"
        if len(changed) > 1:
            proof = "Without that"
        explanation = named(f"{words}. So {clause}. {proof} the answer would be {otherwise!r}.")
        without = tuple(map(named, other.lines))
        return Question(named(key), answer, other.line, explanation, ask.asks, tuple(choices), without, otherwise)

    def _end(self, key: str) -> str:
        return next(end for end in self.topic.asks if key.endswith(end))

    def _names(self) -> Callable[[str], str]:
        """Puts letters in the place of names, in the order of the alphabet: so a reader finds where one is made."""
        tokens = list(dict.fromkeys(_TOKEN.findall("\n".join(self.lines))))
        letters = dict(zip(tokens, sorted(self.draw.sample(NAMES, len(tokens))), strict=True))
        return lambda text: _TOKEN.sub(lambda token: letters[token[0]], text)


def _name(key: str) -> str:
    """The name that a key is about: that of ``"a counted"`` and of ``"a.grad"`` is ``"a"``."""
    return re.split(r"[ .]", key, maxsplit=1)[0]
