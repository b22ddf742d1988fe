"""What happened to a learner, event after event, and all that they add up to (``History``); and the file that they are
stored in (``location``, ``where``).

An event is a kind and some fields that JSON can hold. It is one transaction of SQLite's: stored whole or not at all,
whichever kernel writes beside it or is killed. Rows are added to one table (``append``), none is ever changed or taken
out. Read all (``read``), copy the file (``copy``).
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import sqlite3
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

VARIABLE = "COURSE_UTILS_PROGRESS"
ELSEWHERE = f"name another file in the environment variable {VARIABLE}"
WAIT_SECONDS = 30.0  # for other kernels: a write takes milliseconds, and of many at once each gets its turn
SCHEMA_VERSION = 2
APPLICATION_ID = int.from_bytes(b"AgCt", "big")  # says that the file is ours: https://www.sqlite.org/fileformat2.html
TABLE = "CREATE TABLE IF NOT EXISTS event (number INTEGER PRIMARY KEY, at TEXT, kind TEXT, fields TEXT)"
EARLIER = ("exercise", "prediction", "misconception")  # the tables of 1.1; 1.0 had the first two

Event = tuple[str, str, str]  # when, as ISO 8601 in UTC; its kind; its fields, as JSON


class Unusable(Exception):
    """There is no file to read or write here: what is wrong and what to do, as one clause without a full stop."""


def location() -> Path | None:
    """Where progress is stored: ``~/.autograd-control/progress.sqlite3``, or the file that the environment variable
    ``COURSE_UTILS_PROGRESS`` names. The file need not exist yet.

    Returns:
        The path; None where nothing is stored, because the variable is ``off``, nbgrader is grading, or there is no
        home directory.
    """
    return where()[0]


def where() -> tuple[Path | None, str]:
    """The ``location``, and a sentence about it that is the same for everybody."""
    chosen = os.environ.get(VARIABLE, "")
    if os.environ.get("NBGRADER_EXECUTION"):
        return None, "Nothing is stored while nbgrader runs a notebook."
    if chosen.lower() == "off":
        return None, f"Nothing is stored, because {VARIABLE} is off."
    try:
        if chosen:
            return Path(chosen).expanduser(), f"Stored in the file that {VARIABLE} names."
        return Path.home() / ".autograd-control" / "progress.sqlite3", "Stored in ~/.autograd-control/progress.sqlite3."
    except RuntimeError:  # what pathlib raises where the home directory cannot be found out
        return None, f"Nothing is stored, because your home directory cannot be found; {ELSEWHERE}."


def append(path: Path, kind: str, fields: Mapping[str, object]) -> None:
    """Adds an event; makes the file, and its own folder, where they are missing. Raises ``Unusable``."""
    event = (datetime.now(UTC).isoformat(timespec="microseconds"), kind, json.dumps(fields))
    with _open(path) as file:
        file.execute("BEGIN IMMEDIATE")
        file.execute(TABLE)
        file.execute("INSERT INTO event (at, kind, fields) VALUES (?, ?, ?)", event)
        file.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        file.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
        file.execute("COMMIT")


def read(path: Path) -> list[Event]:
    """All events, in order; none where there is no file. What version 1 stored stays in its own tables, and comes
    first, as an event for each row. Raises ``Unusable``."""
    if not path.exists():
        return []
    found: list[Event] = []
    with _open(path) as file:
        tables = {name for (name,) in file.execute("SELECT name FROM sqlite_master")}
        for table in (name for name in EARLIER if name in tables):
            rows = file.execute(f"SELECT * FROM {table} ORDER BY first_at")
            for row in rows:
                fields = dict(zip((column for column, *_ in rows.description), row, strict=True))
                found.append((fields.pop("last_at"), f"{table} of version 1", json.dumps(fields)))
        if "event" in tables:
            found += file.execute("SELECT at, kind, fields FROM event ORDER BY number")
    return found


def copy(path: Path) -> Path:
    """Makes a dated copy of the file beside it, and returns the copy's path. Raises ``Unusable``."""
    made = path.with_name(f"{path.stem}-before-reset-{datetime.now():%Y-%m-%d-%H%M%S-%f}{path.suffix}")
    with _open(path) as file:
        file.execute("VACUUM INTO ?", [str(made)])
    return made


@contextmanager
def _open(path: Path) -> Iterator[sqlite3.Connection]:
    import sqlite3

    shown = " ".join(str(path).split())  # on one line
    try:
        path.parent.mkdir(exist_ok=True)  # not those above: what is not mounted must not be papered over
        with closing(sqlite3.connect(path, timeout=WAIT_SECONDS, isolation_level=None)) as file:
            table = file.execute("SELECT name FROM sqlite_master").fetchone()  # first: another kernel may make it now
            (version,) = file.execute("PRAGMA user_version").fetchone()
            (ours,) = file.execute("PRAGMA application_id").fetchone()
            if table and ours != APPLICATION_ID:
                raise Unusable(f"{shown} is another program's; {ELSEWHERE}")
            if version > SCHEMA_VERSION:
                raise Unusable(f"{shown} was written by a newer version of the course; update it, or {ELSEWHERE}")
            yield file
    except (sqlite3.Error, OSError) as error:
        said = error.strerror if isinstance(error, OSError) else error
        raise Unusable(f"{shown} cannot be used ({said}); mend that, or {ELSEWHERE}") from error


@dataclass(frozen=True)
class Attempt:
    """What is stored about one exercise: points of the last attempt and of the best one, and the most it can earn (0
    until it is attempted); the last attempt's status; how often it was attempted; how many hints have been seen;
    whether any attempt passed."""

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

    def best_of(self, possible: float) -> float:
        """The best in points where the exercise is worth ``possible``: its share stays when its points change."""
        if self.possible in (0, possible):
            return self.best
        return min(self.best / self.possible, 1.0) * possible


@dataclass(frozen=True)
class Showing:
    """A misconception that an answer shows: its place in the course (``"detach/snapshot/alias"``), the claim that shows
    it, what it is called, and the notebook and heading that explain it."""

    home: str
    claim: str
    name: str
    notebook: str
    heading: str


@dataclass(frozen=True)
class Told(Showing):
    """A misconception that a learner was told of in one exercise, as it was last told: how many answers showed it, when
    first and last, and when a later answer was free of it (None while it is open). Times are ISO 8601 in UTC."""

    lesson: str
    exercise: str
    count: int
    first_at: str
    last_at: str
    cleared_at: str | None = None

    @property
    def is_open(self) -> bool:
        """Whether no later answer was free of it."""
        return self.cleared_at is None


@dataclass(frozen=True)
class StoredPrediction:
    """What is stored about one prediction: whether its last and its first guess were right, and how many there were."""

    lesson: str
    question: str
    right: bool
    first_right: bool
    count: int


class History:
    """What events add up to.

    Args:
        events: when each happened, its kind, its fields as JSON; in the order in which they were stored.
        trouble: why they could not be read, as one line.

    Attributes:
        attempts: by lesson and exercise. All are in the order in which they first were stored.
        predictions: by lesson and question.
        told: by lesson, exercise and the misconception's home.
        drills: by topic and level; by seed and key, whether the first answer was right.
        latest: when a lesson was last worked on, and which; without a lesson where nothing was, or all was reset.
    """

    def __init__(self, events: Iterable[tuple[str, str, str]] = (), trouble: str = "") -> None:
        self.attempts: dict[tuple[str, str], Attempt] = {}
        self.predictions: dict[tuple[str, str], StoredPrediction] = {}
        self.told: dict[tuple[str, str, str], Told] = {}
        self.drills: dict[tuple[str, int], dict[tuple[str, str], bool]] = {}
        self.latest, self.trouble = ("", ""), trouble
        for at, kind, fields in events:
            values = json.loads(fields)
            getattr(self, "_" + kind.replace(" ", "_"))(at, **values)
            if "lesson" in values:
                self.latest = max(self.latest, (at, values["lesson"] or ""))

    # One method for each kind of event, named like it; its parameters are the event's fields.

    def _attempt(self, at: str, lesson: str, exercise: str, told: list[dict], held: list[str], **last: Any) -> None:
        key = (lesson, exercise)
        before = self.attempts.get(key, Attempt(*key))
        best = max(last["earned"], before.best_of(last["possible"]))
        has_passed = last["status"] == "passed"
        self.attempts[key] = replace(
            before, **last, best=best, count=before.count + 1, passed=before.passed or has_passed
        )
        # An answer is free of what was told where the claim that showed it was judged and held, not where that was
        # never reached. One that passed is free of all, also where a claim has other words by now.
        for place, row in self.told.items():
            if place[:2] == key and row.is_open and (has_passed or row.claim in held):
                self.told[place] = replace(row, cleared_at=at)
        for home, showing in {showing["home"]: showing for showing in told}.items():
            earlier = self.told.get((*key, home))
            count, first_at = (earlier.count, earlier.first_at) if earlier else (0, at)
            self.told[*key, home] = Told(
                **showing, lesson=lesson, exercise=exercise, count=count + 1, first_at=first_at, last_at=at
            )

    def _hint(self, at: str, lesson: str, exercise: str, number: int) -> None:
        before = self.attempts.get((lesson, exercise), Attempt(lesson, exercise))
        self.attempts[lesson, exercise] = replace(before, hints=max(before.hints, number))

    def _prediction(self, at: str, lesson: str, question: str, right: bool) -> None:
        before = self.predictions.get((lesson, question), StoredPrediction(lesson, question, right, right, 0))
        self.predictions[lesson, question] = replace(before, right=right, count=before.count + 1)

    def _drill(self, at: str, topic: str, level: int, seed: str, held: dict[str, bool]) -> None:
        answered = {(seed, key): bool(is_right) for key, is_right in dict(held).items()}
        self.drills[topic, level] = answered | self.drills.get((topic, level), {})

    def _reset(self, at: str, lesson: str | None, exercise: str | None) -> None:
        def kept(rows: dict) -> dict:
            return {of: row for of, row in rows.items() if lesson not in (None, of[0]) or exercise not in (None, of[1])}

        self.attempts, self.told = kept(self.attempts), kept(self.told)
        if exercise is None:
            self.predictions = kept(self.predictions)
        if lesson is None:
            self.drills = {}

    # What files of version 1 hold: three tables whose rows were updated in place.

    def _exercise_of_version_1(self, at: str, first_at: str, **row: Any) -> None:
        self.attempts[row["lesson"], row["exercise"]] = Attempt(**row, passed=row["status"] == "passed")

    def _prediction_of_version_1(self, at: str, first_at: str, last_right: int, first_right: int, **row: Any) -> None:
        found = StoredPrediction(right=bool(last_right), first_right=bool(first_right), **row)
        self.predictions[found.lesson, found.question] = found

    def _misconception_of_version_1(self, at: str, **row: Any) -> None:
        self.told[row["lesson"], row["exercise"], row["home"]] = Told(last_at=at, **row)
