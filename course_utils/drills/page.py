"""A program while it is drawn (``Page``): run piece by piece, and asked which line decides what."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from course_utils.drills.programs import Answer, Draw, Program, Question
from course_utils.drills.rules import CAUSE, RANKS, TRAP, Effect, Rule, indent_of
from course_utils.drills.run import space
from course_utils.drills.texts import TOKEN, Grammar, Texts

# Without e, f, i, j, l, n and o, which are read as numbers, functions, counters or each other.
NAMES = "abcdghkmpqrstuvwxyz"
MOST_LINES, LINE_LENGTH = 12, 80
MOST_LINES_WITH_CLASS = 18  # a class has lines that hold nothing to think about

Reader = Callable[[Sequence[str]], Mapping[str, Any]]  # runs a program's lines and reads the answers off it


class Refused(Exception):
    """The program at hand comes to nothing, and another one is drawn. The text says why, for a topic's author."""


@dataclass(frozen=True)
class Asked:
    """What may be asked.

    Attributes:
        key: the answer's key.
        asks: the question in words.
        says: what each answer says of the subject.
        choices: the texts to choose from; empty where the answer is True or False.
        subject: of the sentence that gives the answer; empty for the key.
    """

    key: str
    asks: str
    says: Mapping[Any, str]
    choices: tuple[str, ...] = ()
    subject: str = ""

    def clause(self, answer: Answer) -> str:
        return f"{self.subject or f'`{self.key}`'} {self.says[answer]}"


Rules = Sequence[Callable[["Page", int, str], Effect | None]]


class Page(Texts):
    """A program while it is drawn. Every piece is run as it is added, so that the next one can ask what is there.

    Args:
        draw: where choices come from.
        grammar: the texts of the topic.
        more: those of this program: one text for each name.

    Attributes:
        lines: the program so far, names as tokens.
        space: what its names stand for.
        flags: for each line, which names required grad before it.
        facts: what the words of rules say of this program.
        facts_of: the same of a key.
    """

    def __init__(self, draw: Draw, grammar: Grammar, more: Mapping[str, str]) -> None:
        super().__init__(draw, {**grammar, **{name: {text: 1.0} for name, text in more.items()}})
        self.lines: list[str] = []
        self.space = space()
        self.flags: list[dict[str, bool]] = []
        self.facts: dict[str, Any] = {}
        self.facts_of: dict[str, dict[str, Any]] = {}
        self._tried: dict[tuple[str, ...], Mapping[str, Any]] = {}
        torch.default_generator.manual_seed(0)

    # Writing.

    def add(self, text: str, run: bool = True) -> int:
        """Fills a text, runs it and adds it to the program; returns the number of its last line.

        Raises:
            Refused: it cannot be run here; nothing is added.
        """
        count, after = self.count, dict(self.space)
        try:
            lines = [line for line in self.fill(text).split("\n") if line.strip()]
            exec("\n".join(lines) if run else "", after)
        except Exception as error:
            if isinstance(error, (SyntaxError, KeyError)):
                raise  # the author's
            self.count = count
            raise Refused(f"{text}: {error}") from error
        self.flags += [{name: value.requires_grad for name, value in self.tensors().items()}] * len(lines)
        self.lines += lines
        self.space = after
        return len(self.lines)

    def grow(self, names: Callable[[], Mapping[str, float]], goal: int) -> None:
        """Adds texts of the grammar, drawn by weight, until the program has so many lines."""
        for _ in range(60):
            if len(self.lines) >= goal:
                return
            try:
                self.add(f"<<{self.draw.weighted(names())}>>")
            except Refused:
                continue
        raise Refused("nothing more can be added")

    def tensors(self) -> dict[str, torch.Tensor]:
        found = {name: value for name, value in self.space.items() if TOKEN.fullmatch(name)}
        return {name: value for name, value in found.items() if isinstance(value, torch.Tensor)}

    def rest(self, line: int) -> str:
        """The program from a line on, without the line's indent."""
        return "\n".join(self.lines[line - 1 :]).lstrip()

    # Finishing.

    def finish(self, asked: Sequence[Asked], rules: Rules, read: Reader, least: int = 3, most: int = 6) -> Program:
        """The program with its questions: those of which one line alone decides the answer.

        Args:
            asked: what may be asked.
            rules: what lines do, see ``deciding``.
            read: runs a program and reads the answers off it.
            least: the fewest questions, with two different answers.
            most: the most questions of one kind.

        Raises:
            Refused: too long, or too little of it is decided by one line alone.
        """
        self._fit()
        found = read(self.lines)
        decided = self.deciding([one.key for one in asked], rules, read, found)
        kinds: dict[str, dict[str, tuple[Answer, float]]] = {}
        for one in asked:
            effect = decided[one.key]
            if effect is not None:
                kinds.setdefault(one.asks, {})[one.key] = found[one.key], effect.worth
        keys = [key for kind in kinds.values() for key in _balanced(self.draw, kind, most)]
        if len(keys) < least or len({found[key] for key in keys}) < 2:
            raise Refused(f"one line alone decides {keys}, with the answers {[found[key] for key in keys]}")
        code = "\n".join(self.lines)
        tokens = dict.fromkeys(TOKEN.findall(code))
        # In the order of the alphabet, so that a reader finds the line where one is made.
        names = dict(zip(tokens, sorted(self.draw.sample(NAMES, len(tokens))), strict=True))

        def named(text: str) -> str:
            return TOKEN.sub(lambda match: names[match[0]], text)

        questions = [self._question(one, decided[one.key], found, read, named) for one in asked if one.key in keys]
        return Program(tuple(named(code).split("\n")), tuple(questions))

    def _fit(self) -> None:
        most = MOST_LINES_WITH_CLASS if any(line.startswith("class ") for line in self.lines) else MOST_LINES
        if len(self.lines) > most or any(len(TOKEN.sub("x", line)) > LINE_LENGTH for line in self.lines):
            raise Refused("too long to be read")

    def deciding(
        self, keys: Sequence[str], rules: Rules, read: Reader, found: Mapping[str, Any]
    ) -> dict[str, Effect | None]:
        """For each key the effect without which its answer is another one; None where no line or more than one has one.

        Args:
            keys: what is asked.
            rules: what lines do; of those of one line the first one that decides is told.
            read: runs a program and reads the answers off it.
            found: the answers of this program.
        """
        rests = map(self.rest, range(1, len(self.lines) + 1))
        fit = [[rule for rule in rules if not isinstance(rule, Rule) or rule.fits(rest)] for rest in rests]
        return {key: self._decides(key, found[key], fit, read) for key in keys}

    def tried(self, read: Reader, effect: Effect) -> Mapping[str, Any]:
        """The answers without an effect; none where that is no program any more."""
        if effect.lines not in self._tried:
            try:
                self._tried[effect.lines] = read(effect.lines)
            except SyntaxError as error:
                error.add_note(f"This is the program where it is not so that: {effect.words}")
                raise
            except Exception:  # such as a name that nobody makes now: that says nothing about the line
                self._tried[effect.lines] = {}
        return self._tried[effect.lines]

    def effects(self, key: str, answer: Answer, rules: Sequence[Rules], rank: str) -> list[list[Effect]]:
        """What each line has to do with an answer, by its rules of that rank."""
        found: list[list[Effect]] = [[] for _ in rules]
        for line, fit in enumerate(rules, 1):
            for rule in fit:
                effect = rule(self, line, key) if getattr(rule, "rank", rank) == rank else None
                if effect is not None and effect.rank == rank and answer in (effect.answers or (answer,)):
                    found[line - 1].append(effect)
        return found

    def _decides(self, key: str, answer: Answer, rules: Sequence[Rules], read: Reader) -> Effect | None:
        """The effect without which the answer is another one, where just one line has one."""
        for rank in RANKS:
            lines = self.effects(key, answer, rules, rank)
            first = (next((e for e in line if self._flips(read, e, key, answer)), None) for line in lines)
            flips = [effect for effect in first if effect is not None]
            if flips:
                # Of several lines that might be taken to cause something the last one is the nearest.
                return flips[-1] if len(flips) == 1 or rank == TRAP else None
        return None

    def _flips(self, read: Reader, effect: Effect, key: str, answer: Answer) -> bool:
        return self.tried(read, effect).get(key, answer) != answer

    def _question(
        self, one: Asked, effect: Effect | None, found: Mapping[str, Any], read: Reader, named: Callable[[str], str]
    ) -> Question:
        assert effect is not None
        answer, other = found[one.key], self.tried(read, effect)
        through = _through(self.lines, one.key, effect, found, other) if effect.rank == CAUSE else []
        passed = f" Line {through[0]} passes it on." if len(through) == 1 else ""
        if len(through) > 1:
            passed = f" Lines {' and '.join(map(str, through))} pass it on."
        proof = effect.proof(self.lines, other[one.key])
        text = named(f"{effect.words}.{passed} So {one.clause(answer)}.{proof}")
        without = tuple(named("\n".join(effect.lines)).split("\n"))
        words, asks = named(effect.words), named(one.asks)
        return Question(named(one.key), answer, effect.line, words, text, asks, without, other[one.key], one.choices)


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


def _through(
    lines: Sequence[str], key: str, effect: Effect, found: Mapping[str, Any], other: Mapping[str, Any]
) -> list[int]:
    """The later lines that pass an effect on to the tensor of this name, not those of its own block."""
    wanted, through, depth = {key}, [], indent_of(lines[effect.line - 1])
    for number in range(len(lines), effect.line, -1):
        name, _, text = lines[number - 1].strip().partition(" = ")
        flips = name in wanted and found.get(name) != other.get(name, found.get(name))
        if flips and indent_of(lines[number - 1]) <= depth and text:
            through.append(number)
            wanted.update(TOKEN.findall(text))
    return through[::-1]


def has_marks(code: str, marks: Mapping[int, str], level: int) -> bool:
    """Whether a program has what its level must have, and nothing of the next one."""
    code = TOKEN.sub("x", code)
    has = [bool(re.search(marks[one], code)) if one in marks else one == level for one in (level, level + 1)]
    return has == [True, False]


def listed(names: Sequence[str]) -> str:
    """Names in words: ```a``, ``a` and `b```, ```a`, `b` and `c```."""
    quoted = [f"`{name}`" for name in dict.fromkeys(names)]
    return quoted[0] if len(quoted) == 1 else ", ".join(quoted[:-1]) + " and " + quoted[-1]
