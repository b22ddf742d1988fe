"""What happened to a learner, event after event, and all that they add up to (``History``).

An event is a kind and some fields that JSON can hold. It is stored once, and never changed or taken out.
"""

import json
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

from course_utils.catalogue import LESSONS


@dataclass(frozen=True)
class Attempt:
    """What is stored about one exercise.

    Attributes:
        lesson: the lesson's name.
        exercise: the exercise's name.
        earned: points of the last attempt.
        best: points of the best attempt.
        possible: points it can earn; 0 until it is attempted.
        status: a ``Score``'s status, of the last attempt; "not attempted" where only hints were taken.
        count: how often it was attempted.
        hints: how many of its hints have been seen.
        passed: whether any attempt passed.
    """

    lesson: str
    exercise: str
    earned: float = 0.0
    best: float = 0.0
    possible: float = 0.0
    status: str = "not attempted"
    count: int = 0
    hints: int = 0
    passed: bool = False

    def is_solved(self, points: float) -> bool:
        """Whether the best attempt has all ``points``; without points, whether any passed."""
        return self.best_of(points) >= points if points else self.passed

    @property
    def best_share(self) -> float:
        """The best attempt's share of the points that the exercise could earn, 0 to 1."""
        return min(self.best / self.possible, 1.0) if self.possible else 0.0

    def best_of(self, possible: float) -> float:
        """The best in points where the exercise is worth ``possible``: its share stays when its points change."""
        return self.best if self.possible == possible else self.best_share * possible


@dataclass(frozen=True)
class Showing:
    """A misconception that an answer shows.

    Attributes:
        home: its place in the course, ``"detach/snapshot/alias"``.
        claim: the text of the claim that shows it.
        name: what it is called.
        notebook, heading: where the course explains it.
    """

    home: str
    claim: str
    name: str
    notebook: str
    heading: str


@dataclass(frozen=True)
class Told(Showing):
    """A misconception that a learner was told of, in one exercise, as it was last told.

    Attributes:
        lesson, exercise: where it was told.
        count: how many answers showed it.
        first_at, last_at: when it was first and last told, as ISO 8601 in UTC.
        cleared_at: when a later answer to the same exercise was free of it; None while it is open.
    """

    lesson: str
    exercise: str
    count: int
    first_at: str
    last_at: str
    cleared_at: str | None = None


@dataclass(frozen=True)
class StoredPrediction:
    """What is stored about one prediction.

    Attributes:
        lesson: the lesson's name.
        question: what was asked.
        right: whether the last guess was right.
        first_right: whether the first guess was.
        count: how often a guess was made.
    """

    lesson: str
    question: str
    right: bool
    first_right: bool
    count: int


@dataclass(frozen=True)
class Drilled:
    """What was answered in all drills of one topic and level: of each key the first answer counts.

    Attributes:
        topic: the topic.
        level: 1 to 3.
        right: answers that were right.
        asked: answers that were given.
    """

    topic: str
    level: int
    right: int
    asked: int


class History:
    """What events add up to.

    Args:
        events: when each happened, its kind, its fields as JSON; in the order in which they were stored.
        trouble: why they could not be read, as one line.
        is_damaged: whether that is damage to a file of the course, which ``reset_progress`` may put aside.

    Attributes:
        unreadable: how many of them were no event. They change nothing: one that is damaged does not cost the others.
        latest: when a lesson was last worked on, and which; without a lesson where nothing was, or all was reset.
    """

    def __init__(
        self, events: Iterable[tuple[str, str, str]] = (), trouble: str = "", is_damaged: bool = False
    ) -> None:
        self._attempts: dict[tuple[str, str], Attempt] = {}
        self._predictions: dict[tuple[str, str], StoredPrediction] = {}
        self._told: dict[tuple[str, str, str], Told] = {}
        self._drills: dict[tuple[str, int], dict[tuple[str, str], bool]] = {}  # by topic and level; by seed and key
        self.latest = ("", "")
        self.trouble, self.is_damaged = trouble, is_damaged
        self.unreadable = 0
        for at, kind, fields in events:
            try:
                values = json.loads(fields)
                KINDS[kind](self, at, **values)
                if "lesson" in values:
                    self.latest = max(self.latest, (at, values["lesson"] or ""))
            except (KeyError, TypeError, ValueError):
                self.unreadable += 1

    def attempts(self, lesson: str | None = None) -> tuple[Attempt, ...]:
        """Of one lesson, or of all: lessons in the course's order and any others by name, exercises by name."""
        order = {info.name: info.number for info in LESSONS}
        rows = (row for row in self._attempts.values() if lesson in (None, row.lesson))
        return tuple(sorted(rows, key=lambda row: (order.get(row.lesson, math.inf), row.lesson, row.exercise)))

    def predictions(self, lesson: str | None = None) -> tuple[StoredPrediction, ...]:
        """Of one lesson, or of all, in the order in which they were first made."""
        return tuple(row for row in self._predictions.values() if lesson in (None, row.lesson))

    def told(self, lesson: str | None = None) -> tuple[Told, ...]:
        """Of one lesson, or of all, the one that was told longest ago first."""
        rows = (row for row in self._told.values() if lesson in (None, row.lesson))
        return tuple(sorted(rows, key=lambda row: (row.last_at, row.home)))

    def drills(self) -> tuple[Drilled, ...]:
        """Of each topic and level, in the order in which they were first answered."""
        return tuple(Drilled(*key, sum(row.values()), len(row)) for key, row in self._drills.items())

    # One method for each kind of event; its parameters are the event's fields.

    def _attempt(
        self,
        at: str,
        lesson: str,
        exercise: str,
        earned: float,
        possible: float,
        status: str,
        told: list[dict[str, Any]],
        held: list[str],
    ) -> None:
        key = (lesson, exercise)
        before = self._attempts.get(key, Attempt(*key))
        best = max(earned, before.best_of(possible))
        passed = before.passed or status == "passed"
        self._attempts[key] = replace(
            before, earned=earned, best=best, possible=possible, status=status, count=before.count + 1, passed=passed
        )
        # An answer is free of what was told where the claim that showed it was judged and held, not where that was
        # never reached. One that passed is free of all, also where a claim has other words by now.
        for place, row in self._told.items():
            if place[:2] == key and row.cleared_at is None and (status == "passed" or row.claim in held):
                self._told[place] = replace(row, cleared_at=at)
        for home, showing in {showing["home"]: showing for showing in told}.items():
            earlier = self._told.get((*key, home))
            count, first_at = (earlier.count, earlier.first_at) if earlier else (0, at)
            self._told[*key, home] = Told(
                **showing, lesson=lesson, exercise=exercise, count=count + 1, first_at=first_at, last_at=at
            )

    def _hint(self, at: str, lesson: str, exercise: str, number: int) -> None:
        before = self._attempts.get((lesson, exercise), Attempt(lesson, exercise))
        self._attempts[lesson, exercise] = replace(before, hints=max(before.hints, number))

    def _prediction(self, at: str, lesson: str, question: str, right: bool) -> None:
        before = self._predictions.get((lesson, question), StoredPrediction(lesson, question, right, right, 0))
        self._predictions[lesson, question] = replace(before, right=right, count=before.count + 1)

    def _drill(self, at: str, topic: str, level: int, seed: str, held: dict[str, bool]) -> None:
        answered = {(seed, key): bool(is_right) for key, is_right in dict(held).items()}
        self._drills[topic, level] = answered | self._drills.get((topic, level), {})

    def _reset(self, at: str, lesson: str | None, exercise: str | None) -> None:
        def kept(rows: dict) -> dict:
            return {
                key: row for key, row in rows.items() if lesson not in (None, key[0]) or exercise not in (None, key[1])
            }

        self._attempts, self._told = kept(self._attempts), kept(self._told)
        if exercise is None:
            self._predictions = kept(self._predictions)
        if lesson is None:
            self._drills = {}

    # What files of version 1 hold: three tables whose rows were updated in place.

    def _earlier_exercise(self, at: str, first_at: str, **row: Any) -> None:
        self._attempts[row["lesson"], row["exercise"]] = Attempt(**row, passed=row["status"] == "passed")

    def _earlier_prediction(
        self, at: str, first_at: str, lesson: str, question: str, first_right: int, last_right: int, count: int
    ) -> None:
        row = StoredPrediction(lesson, question, bool(last_right), bool(first_right), count)
        self._predictions[lesson, question] = row

    def _earlier_misconception(self, at: str, **row: Any) -> None:
        self._told[row["lesson"], row["exercise"], row["home"]] = Told(last_at=at, **row)


KINDS: dict[str, Callable[..., None]] = {
    "attempt": History._attempt,
    "hint": History._hint,
    "prediction": History._prediction,
    "drill": History._drill,
    "reset": History._reset,
    "exercise of version 1": History._earlier_exercise,
    "prediction of version 1": History._earlier_prediction,
    "misconception of version 1": History._earlier_misconception,
}
