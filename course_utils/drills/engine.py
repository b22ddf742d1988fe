"""Drills as moves: a program is drawn from a topic's table, run, and asked which of its lines alone decides what.

Which line decides an answer is found by running the program once more for each effect of its moves, without it; so the
card can prove what it says.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from course_utils.drills.moves import KEYS, Answer, Draw, Effect, Move, Question, Topic, name_of
from course_utils.drills.run import space

# Without e, f, i, j, l, n and o, which are read as numbers, functions, counters or each other.
NAMES = "abcdghkmpqrstuvwxyz"
MOST_LINES, MOST_LINES_WITH_CLASS, LINE_LENGTH = 12, 18, 80  # a class has lines that hold nothing to think about
MOST_QUESTIONS, MOST_DRAWS = 6, 1000
_TOKEN = re.compile(r"\bN\d+_")  # a name while the program is drawn
_HOLE = re.compile(r"\{([^{}\"'\n]+)\}")  # and not `{}` or `{"w": a}`, which are Python's own


class Refused(Exception):
    """The program at hand comes to nothing, and another one is drawn. The text says why, for a topic's author."""


def written(topic: Topic, level: int, draw: Draw) -> tuple[tuple[str, ...], tuple[Question, ...]]:
    """A program and its questions: the first one drawn of which enough is decided by one line alone.

    Raises:
        RuntimeError: none of many was; the message says why the last one was not.
    """
    for _ in range(MOST_DRAWS):
        try:
            return _Page(topic, level, draw).finished()
        except Refused as refused:
            why = str(refused)
    raise RuntimeError(f"{MOST_DRAWS} programs of level {level} came to nothing. Of the last one: {why}.")


class _Other(NamedTuple):
    """A program without one effect."""

    line: int
    effect: Effect
    filled: dict[str, str]
    lines: tuple[str, ...]
    answers: Mapping[str, Answer]


class _Page:
    """A program while it is drawn. Every move is run as it is added, so that the next one can ask what is there."""

    def __init__(self, topic: Topic, level: int, draw: Draw) -> None:
        self.topic, self.level, self.draw = topic, level, draw
        self.values = {name: str(value) for name, value in topic.values(draw, level).items()}
        self.lines: list[str] = []
        self.made: list[tuple[int, int, Move, dict[str, str]]] = []  # first line, number of lines, move, what fills it
        self.space = space()
        self.count = {"new": 0, "key": 0}
        for group in draw.choice(topic.plans[level]).split():
            self._grow(group)

    def _grow(self, group: str) -> None:
        """Adds one of the group's moves; of those of several lines that begin alike, one comes in a program."""
        used = {move.text.split("\n")[0] for _, count, move, _ in self.made if count > 1}
        moves = [move for move in self.topic.moves[group] if move.level <= self.level]
        left = [move for move in moves if move.text.split("\n")[0] not in used]
        while left:
            move = self.draw.choice(left, [move.weight * (1 + (move.level == self.level)) for move in left])
            try:
                return self._add(move, run=not group.startswith("end"))
            except Refused:
                left.remove(move)
        raise Refused(f"nothing of {group!r} can be added")

    def _add(self, move: Move, run: bool) -> None:
        filled: dict[str, str] = {}
        count, after = dict(self.count), dict(self.space)
        try:
            text = self._fill(move.text, filled)
            said = {line.partition(" = ")[2] for line in self.lines if _TOKEN.search(line.partition(" = ")[2])}
            if text.partition(" = ")[2] in said:
                raise Refused("it is there already")
            if run:
                exec(text, after)
        except SyntaxError:
            raise  # the author's
        except Exception as error:
            self.count = count
            raise Refused(f"{move.text}: {error}") from error
        self.made.append((len(self.lines), text.count("\n") + 1, move, filled))
        self.space, self.lines = after, [*self.lines, *text.split("\n")]

    def _fill(self, text: str, filled: dict[str, str]) -> str:
        def value(hole: re.Match[str]) -> str:
            if hole[1] not in filled:
                filled[hole[1]] = self._value(hole[1], filled)
            return filled[hole[1]]

        return _HOLE.sub(value, text)

    def _value(self, hole: str, filled: Mapping[str, str]) -> str:
        word = hole.rstrip("0123456789")
        if "|" in hole:
            return self.draw.choice(hole.split("|"))
        if number := re.fullmatch(r"(\d+)\.\.(\d+)", hole):
            return str(int(number[1]) + self.draw.below(int(number[2]) - int(number[1]) + 1))
        if word in self.values:
            return self.values[word]
        if word in self.topic.texts:
            return self._fill(self.draw.choice(self.topic.texts[word]), {})
        if word in self.count:
            self.count[word] += 1
            if word == "key" and self.count[word] > len(KEYS):
                raise Refused("no key is left")
            return f"N{self.count[word]}_" if word == "new" else KEYS[self.count[word] - 1]
        program, fits = "\n".join(self.lines), self.topic.kinds[word]
        uses = {name: program.count(name) for name in self.space if _TOKEN.fullmatch(name)}
        names = [name for name, n in uses.items() if fits(self.space[name], n) and name not in filled.values()]
        if not names:
            raise Refused(f"there is no {word}")
        # Unused ones before the others, and the newest before older ones.
        return self.draw.choice(names, [4.0 if uses[name] == 1 else 1 + at / 4 for at, name in enumerate(names)])

    def finished(self) -> tuple[tuple[str, ...], tuple[Question, ...]]:
        if not any(move.level == self.level for _, _, move, _ in self.made):
            raise Refused("nothing of its level is in it")
        most = MOST_LINES_WITH_CLASS if any(line.startswith("class ") for line in self.lines) else MOST_LINES
        if len(self.lines) > most or any(len(_TOKEN.sub("x", line)) > LINE_LENGTH for line in self.lines):
            raise Refused("it is too long to be read")
        found = self.topic.read(self.lines)
        others = [other for made in self.made for other in self._others(*made)]
        groups: dict[tuple[str, Answer], list[Question]] = {}
        for key, answer in found.items():
            if other := self._deciding(key, answer, others):
                question = self._question(key, answer, other, found, others)
                groups.setdefault((question.asks, answer), []).append(question)
        chosen: list[Question] = []
        while any(groups.values()) and len(chosen) < MOST_QUESTIONS:  # of each answer in turn, so that none is lopsided
            group = self.draw.choice([group for group in groups.values() if group])
            rest = [one for one in groups.values() if one is not group and one]
            for one in [group, *rest][: MOST_QUESTIONS - len(chosen)]:
                chosen.append(one.pop(self.draw.below(len(one))))
        if len(chosen) < 3 or len({question.answer for question in chosen}) < 2:
            raise Refused(f"one line alone decides {[(question.key, question.answer) for question in chosen]}")
        chosen.sort(key=lambda question: list(found).index(question.key))
        return self._named(chosen)

    def _others(self, at: int, count: int, move: Move, filled: dict[str, str]) -> list[_Other]:
        found = []
        for effect in move.effects:
            try:
                text = move.text.replace(effect.old, effect.new) if effect.old else effect.new
                new = self._fill(text, filled).split("\n")
                lines = (*self.lines[:at], *new, *self.lines[at + count :])
                pairs = zip([*self.lines, ""], [*lines, ""], strict=False)
                line = next(number for number, (one, other) in enumerate(pairs, 1) if one.strip() != other.strip())
                found.append(_Other(line, effect, filled, lines, self.topic.read(lines)))
            except SyntaxError as error:
                error.add_note(f"This is {move.text!r} without its effect.")
                raise
            except Exception:  # such as a name that nobody makes now: that says nothing about the line
                continue
        return found

    def _deciding(self, key: str, answer: Answer, others: Sequence[_Other]) -> _Other | None:
        """The effect without which the answer is another one, where just one line has one."""
        for is_usual in (False, True):
            flips = [
                other
                for other in others
                if other.effect.is_usual is is_usual and other.answers.get(key, answer) != answer
                if self._is_about(key, other)
            ]
            if flips:
                return flips[0] if len({other.line for other in flips}) == 1 else None
        return None

    def _is_about(self, key: str, other: _Other) -> bool:
        about = other.effect.about or "{new}" * (other.effect.is_usual and "new" in other.filled)
        return not about or re.fullmatch(self._fill(about, other.filled), key) is not None

    def _question(
        self, key: str, answer: Answer, other: _Other, found: Mapping[str, Answer], others: Sequence[_Other]
    ) -> Question:
        ask = next(ask for end, ask in self.topic.asks.items() if key.endswith(end))
        choices = tuple(ask.says)
        if ask.others:
            seen = {value for one in (found, *(one.answers for one in others)) for value in one.values()}
            left = sorted(seen - {answer, *choices}, key=lambda value: float(value))
            some = [left.pop(self.draw.below(len(left))) for _ in range(min(3, len(left)))]
            choices = (*sorted({answer, *some} - {*choices}, key=float), *choices)
        facts = {"name": name_of(key), **self.topic.facts(self.lines, key), **other.filled}
        words, otherwise = self._fill(other.effect.words, facts), other.answers[key]
        said = f"{words}. So {ask.clause(key, answer)}. {self._proof(other)} the answer would be {otherwise!r}."
        return Question(key, answer, other.line, said, ask.asks, choices, other.lines, otherwise)

    def _proof(self, other: _Other) -> str:
        """What is otherwise in the program without an effect, in words."""
        pairs = list(zip(self.lines, other.lines, strict=False))
        changed = [two.strip() for one, two in pairs if one.strip() != two.strip()]
        if sorted(self.lines) == sorted(other.lines):
            return "In another order"
        if len(self.lines) != len(other.lines) or len(changed) > 1:
            return "Without that"
        return f"Without line {other.line}" if changed[0] in ("pass", "if True:") else f"With `{changed[0]}` instead"

    def _named(self, questions: Sequence[Question]) -> tuple[tuple[str, ...], tuple[Question, ...]]:
        """Names in the order of the alphabet, so that a reader finds the line where one is made."""
        tokens, left = list(dict.fromkeys(_TOKEN.findall("\n".join(self.lines)))), list(NAMES)
        letters = sorted(left.pop(self.draw.below(len(left))) for _ in tokens)
        names = dict(zip(tokens, letters, strict=True))

        def named(text: str) -> str:
            return _TOKEN.sub(lambda token: names[token[0]], text)

        return tuple(map(named, self.lines)), tuple(
            Question(
                named(q.key),
                q.answer,
                q.line,
                named(q.explanation),
                q.asks,
                q.choices,
                tuple(map(named, q.without)),
                q.otherwise,
            )
            for q in questions
        )
