"""What a learner has attempted and earned, kept on disk in one small SQLite file for all lessons: store an attempt
(``record``), a prediction (``record_prediction``) or a hint taken (``record_hint``); read them back (``attempts``,
``predictions``, ``told``); show the whole course (``progress``); find the file (``location``); begin again
(``reset_progress``).
"""

from __future__ import annotations

import math
import os
from collections.abc import Collection, Iterable, Iterator
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

from course_utils.base.errors import explain
from course_utils.catalogue import LESSONS, find
from course_utils.progress import statements, store
from course_utils.progress.place import location as location
from course_utils.progress.place import location_or_raise, place, shown
from course_utils.progress.rows import Attempt as Attempt
from course_utils.progress.rows import Showing as Showing
from course_utils.progress.rows import StoredPrediction as StoredPrediction
from course_utils.progress.rows import Told as Told
from course_utils.progress.store import VARIABLE
from course_utils.progress.tables import LessonProgress as LessonProgress
from course_utils.progress.tables import Progress as Progress
from course_utils.progress.tables import Remembered


@dataclass(frozen=True, repr=False)
class Reset:
    """What ``reset_progress`` did.

    Attributes:
        text: in words, without a date.
        backup: the dated copy of what was there; None where nothing had to be kept.
    """

    text: str
    backup: Path | None = None

    def __repr__(self) -> str:
        return self.text


def record(
    lesson: str,
    exercise: str,
    *,
    earned: float,
    possible: float,
    status: str,
    told: Collection[Showing] = (),
    held: Collection[str] = (),
) -> str | None:
    """Stores an attempt and keeps the best one. An answer that was "not attempted" is no attempt: it changes nothing.

    Never raises for the state of the disk, and takes at most about two seconds when another program holds the file.

    Args:
        lesson: the lesson's name.
        exercise: the exercise's name.
        earned: points, from 0 to ``possible``.
        possible: the most that the exercise can earn.
        status: a ``Score``'s status.
        told: the misconceptions that the answer showed.
        held: the texts of the claims that were judged and held.

    Returns:
        None when it is stored, or need not be; else one line for the learner: what is not stored, why, what to do.

    Raises:
        ValueError: the points or the status are none.
    """
    earned, possible = float(earned), float(possible)
    if not (math.isfinite(possible) and 0 <= earned <= possible):
        raise ValueError(explain(f"An attempt earned {earned} of {possible} points.", "0 <= earned <= possible."))
    if status not in ("passed", "partial", "not attempted", "error"):
        raise ValueError(explain(f"An attempt has the status {status!r}.", "passed, partial, not attempted or error."))
    if status == "not attempted":
        return None
    values = {"lesson": lesson, "exercise": exercise, "earned": earned, "possible": possible, "status": status}
    names: dict[str, object] = {"lesson": lesson, "exercise": exercise, "status": status}
    shown = [(statements.RECORD_TOLD, {**names, **asdict(showing)}) for showing in told]
    cleared = [(statements.RECORD_CLEARED, {**names, "claim": claim}) for claim in held]
    return _store("This attempt", (statements.RECORD, values), *shown, *cleared)


def record_hint(lesson: str, exercise: str, number: int) -> str | None:
    """Stores that hint ``number`` (from 1) of an exercise was seen. Returns what ``record`` returns."""
    return _store(
        "This hint", (statements.RECORD_HINT, {"lesson": lesson, "exercise": exercise, "number": int(number)})
    )


def record_prediction(lesson: str, question: str, right: bool) -> str | None:
    """Stores whether a prediction was right: its first guess and its last one. Returns what ``record`` returns."""
    values = {"lesson": lesson, "question": question, "right": int(bool(right))}
    return _store("This prediction", (statements.RECORD_PREDICTION, values))


def attempts(lesson: str | None = None) -> tuple[Attempt, ...]:
    """What is stored about the exercises of one lesson, or of all: lessons in the course's order, exercises by name.

    Empty where nothing is stored or the file cannot be read; ``progress()`` says which.
    """
    return tuple(row for row in _read().attempts if lesson in (None, row.lesson))


def predictions(lesson: str | None = None) -> tuple[StoredPrediction, ...]:
    """What is stored about the predictions of one lesson, or of all, in the order in which they were first made.

    Empty where nothing is stored or the file cannot be read; ``progress()`` says which.
    """
    return tuple(row for row in _read().predictions if lesson in (None, row.lesson))


def told(lesson: str | None = None) -> tuple[Told, ...]:
    """The misconceptions that were told in one lesson, or in all, the one that was told longest ago first.

    Empty where nothing is stored or the file cannot be read; ``progress()`` says which.
    """
    return tuple(row for row in _read().told if lesson in (None, row.lesson))


def progress(show_location: bool = True) -> Progress:
    """The whole course, with a row for every lesson, also for those not begun.

    Args:
        show_location: whether a line says where it is stored: relative to the home directory, or "the file that
            COURSE_UTILS_PROGRESS names", so that the text is the same for everybody.

    Returns:
        Plain data, read now; a table with bars in a notebook, text elsewhere. Where the file cannot be read, ``notes``
        says so.
    """
    stored = _read()
    rows = []
    for info in LESSONS:
        mine = [row for row in stored.attempts if row.lesson == info.name]
        guesses = [row for row in stored.predictions if row.lesson == info.name]
        rows.append(
            LessonProgress(
                number=info.number,
                name=info.name,
                title=info.title,
                earned=min(math.fsum(row.best for row in mine), float(info.points)),
                possible=float(info.points),
                begun=bool(guesses) or any(row.count for row in mine),
                predictions_right=sum(row.right for row in guesses),
                predictions_asked=len(guesses),
                question=info.question,
            )
        )
    notes = (stored.trouble,) if stored.trouble else (place(),) if show_location else ()
    return Progress(tuple(rows), notes, tuple(_remembered(stored.told)))


def _remembered(rows: Iterable[Told]) -> Iterator[Remembered]:
    """The latest first; one that was told in several exercises is open until all are free of it."""
    by_home: dict[str, list[Told]] = {}
    for row in sorted(rows, key=lambda row: row.last_at, reverse=True):
        by_home.setdefault(row.home, []).append(row)
    for latest, *earlier in by_home.values():
        is_open = any(row.cleared_at is None for row in (latest, *earlier))
        yield Remembered(latest.name, latest.notebook, latest.heading, is_open)


def reset_progress(lesson: str | None = None, exercise: str | None = None) -> Reset:
    """Begins again: with one exercise, one lesson, or the whole course.

    What was there is kept first, in a dated copy beside the file. A damaged file is kept as it is, under a dated name,
    and the next attempt begins a new one; that is done only when everything is reset.

    Args:
        lesson: the lesson's name; None for all.
        exercise: the exercise's name; None for the whole lesson, its predictions included.

    Returns:
        What was done, in words, or why nothing was; ``backup`` is the path of the copy, None where there was nothing to
        keep.

    Raises:
        ValueError: an exercise without its lesson, or a lesson that the course does not have.
    """
    if lesson is None and exercise is not None:
        raise ValueError(
            explain(
                f"reset_progress(exercise={exercise!r}) was called.",
                "the lesson as well, since two lessons may each have an exercise of that name.",
                try_this=f'reset_progress("detach", {exercise!r})',
            )
        )
    path = location()
    if path is None:
        return Reset(f"Nothing to reset. {place()}")
    stored = _read()
    if lesson not in {None, *(row.lesson for row in stored.attempts), *(row.lesson for row in stored.predictions)}:
        find(lesson)
    if stored.damaged and lesson is None:
        return _put_aside(path)
    if stored.trouble:
        return Reset(f"Nothing was reset. {stored.trouble}")
    what = " ".join(name for name in (lesson, exercise) if name) or "the course"
    exercises = [row for row in stored.attempts if lesson in (None, row.lesson) and exercise in (None, row.exercise)]
    guesses = [row for row in stored.predictions if lesson in (None, row.lesson) and exercise is None]
    if not exercises and not guesses:
        return Reset(f"Nothing to reset: nothing is stored for {what}.")
    try:
        with store.transaction_with_copy(path) as (connection, copy):
            connection.execute(statements.RESET_EXERCISES, {"lesson": lesson, "exercise": exercise})
            connection.execute(statements.RESET_PREDICTIONS, {"lesson": lesson, "exercise": exercise})
            connection.execute(statements.RESET_MISCONCEPTIONS, {"lesson": lesson, "exercise": exercise})
    except store.failures() as error:
        return Reset(f"Nothing was reset: {store.reason(error, shown(path))}.")
    return Reset(f"Reset: {what} begins again. What was there is kept in a dated copy beside the file.", copy)


def _put_aside(path: Path) -> Reset:
    try:
        aside = store.put_aside(path)
    except OSError as error:
        return Reset(f"Nothing was reset: {store.reason(error, shown(path))}.")
    return Reset("Reset: the course begins again. The damaged file is kept under a dated name beside it.", aside)


def _store(what: str, *changes: tuple[str, dict[str, object]]) -> str | None:
    path = None
    try:
        path = location_or_raise()
        if path is None:
            return None
        now = datetime.now(UTC).isoformat(timespec="microseconds")
        with store.transaction(path, writing=True) as connection:
            for statement, values in changes:
                connection.execute(statement, {**values, "now": now})
    except store.failures() as error:
        return f"{what} is not stored: {_reason(error, path)}."
    return None


@dataclass(frozen=True)
class _Stored:
    attempts: tuple[Attempt, ...] = ()
    predictions: tuple[StoredPrediction, ...] = ()
    told: tuple[Told, ...] = ()
    trouble: str = ""  # one line, where the file could not be read
    damaged: bool = False  # and is a file of ours that reset_progress() may put aside


def _read() -> _Stored:
    path = None
    try:
        path = location_or_raise()
        if path is None or not path.exists():
            return _Stored()
        with store.transaction(path, writing=False) as connection:
            if store.is_empty(connection):
                return _Stored()
            rows = connection.execute(statements.ATTEMPTS).fetchall()
            guesses = connection.execute(statements.PREDICTIONS).fetchall()
            kept = store.has(connection, "misconception")
            told = [Told(*row) for row in connection.execute(statements.MISCONCEPTIONS)] if kept else []
    except store.failures() as error:
        trouble = f"What was stored cannot be read: {_reason(error, path)}."
        return _Stored(trouble=trouble, damaged=_is_damaged(error, path))
    order = {info.name: info.number for info in LESSONS}
    attempts = sorted((Attempt(*row) for row in rows), key=lambda row: order.get(row.lesson, math.inf))
    predictions = (StoredPrediction(name, text, bool(last), bool(first), n) for name, text, last, first, n in guesses)
    return _Stored(tuple(attempts), tuple(predictions), tuple(told))


def _is_damaged(error: Exception, path: Path | None) -> bool:
    """Whether this is damage to a file of the course: it lies where only we put files, or bears our mark."""
    if path is None or not store.is_damage(error):
        return False
    return not os.environ.get(VARIABLE) or store.has_our_mark(path)


def _reason(error: Exception, path: Path | None) -> str:
    file = shown(path) if path else ""
    if not store.is_damage(error):
        return store.reason(error, file)
    if _is_damaged(error, path):
        return f"{file} is damaged; course_utils.reset_progress() keeps it under another name and begins a new file"
    return f"{file} is no progress file and is left as it is; {store.ELSEWHERE}"
