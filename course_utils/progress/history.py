"""What a learner has attempted and earned, kept on disk in one small SQLite file for all lessons: store an attempt
(``record``), a prediction (``record_prediction``), a hint taken (``record_hint``) or a drill's answers
(``record_drill``); read them back (``attempts``, ``predictions``, ``told``); show the whole course (``progress``); find
the file (``location``); begin again (``reset_progress``).
"""

import math
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from course_utils.base.errors import explain
from course_utils.catalogue import LESSONS, find
from course_utils.progress import store
from course_utils.progress.events import Attempt as Attempt
from course_utils.progress.events import History, StoredPrediction
from course_utils.progress.events import Showing as Showing
from course_utils.progress.events import Told as Told
from course_utils.progress.place import Unusable, place
from course_utils.progress.place import location as location
from course_utils.progress.tables import LessonProgress, Progress, Remembered
from course_utils.progress.written import is_answered


@dataclass(frozen=True, repr=False)
class Reset:
    """What ``reset_progress`` did, in words without a date, and the dated copy of what was there, if anything was."""

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
    """Stores an attempt: its points, a ``Score``'s status, the misconceptions that it showed, and the claims that were
    judged and held. An answer that was "not attempted" is none, and changes nothing.

    Returns:
        None when it is stored, or need not be; else one line for the learner: what is not stored, why, what to do. The
        state of the disk raises nothing.

    Raises:
        ValueError: the points or the status are none.
    """
    points = {"earned": float(earned), "possible": float(possible)}
    if not (math.isfinite(possible) and 0 <= earned <= possible):
        raise ValueError(explain(f"An attempt earned {earned} of {possible} points.", "0 <= earned <= possible."))
    if status not in ("passed", "partial", "not attempted", "error"):
        raise ValueError(explain(f"An attempt has the status {status!r}.", "passed, partial, not attempted or error."))
    if status == "not attempted":
        return None
    shown = [asdict(showing) for showing in told]
    return _store("attempt", lesson=lesson, exercise=exercise, **points, status=status, told=shown, held=list(held))


def record_hint(lesson: str, exercise: str, number: int) -> str | None:
    """Stores that hint ``number`` (from 1) of an exercise was seen. Returns what ``record`` returns."""
    return _store("hint", lesson=lesson, exercise=exercise, number=int(number))


def record_prediction(lesson: str, question: str, right: bool) -> str | None:
    """Stores whether a prediction was right: its first guess and its last one. Returns what ``record`` returns."""
    return _store("prediction", lesson=lesson, question=question, right=bool(right))


def record_drill(topic: str, level: int, seed: int | str, held: Mapping[str, bool]) -> str | None:
    """Stores for each key that was answered whether it was right. Returns what ``record`` returns."""
    return _store("drill", topic=topic, level=level, seed=str(seed), held=dict(held)) if held else None


# Of one lesson, or of all. Empty where nothing is stored or the file cannot be read; ``progress()`` says which.


def attempts(lesson: str | None = None) -> tuple[Attempt, ...]:
    """What is stored about exercises: lessons in the course's order, exercises by name."""
    return _read().attempts(lesson)


def predictions(lesson: str | None = None) -> tuple[StoredPrediction, ...]:
    """What is stored about predictions, in the order in which they were first made."""
    return _read().predictions(lesson)


def told(lesson: str | None = None) -> tuple[Told, ...]:
    """The misconceptions that were told, the one that was told longest ago first."""
    return _read().told(lesson)


def progress(show_location: bool = True) -> Progress:
    """The whole course, with a row for every lesson; what to do next, which exercises of a begun lesson are open, and
    what became of drills. Whether a written question is answered is read from its notebook, as it was last saved, where
    that lies in the folder that the kernel runs in.

    Args:
        show_location: whether a line says where it is stored, in words that are the same for everybody.

    Returns:
        Plain data, read now; a table with bars in a notebook, text elsewhere. Where the file cannot be read, ``notes``
        says so.
    """
    stored = _read()
    rows = []
    for info in LESSONS:
        mine, guesses = stored.attempts(info.name), stored.predictions(info.name)
        begun = bool(guesses) or any(row.count for row in mine)
        solved = {row.exercise for row in mine if row.is_solved(info.exercises.get(row.exercise, 0.0))}
        row = LessonProgress(
            number=info.number,
            name=info.name,
            title=info.title,
            earned=min(math.fsum(row.best for row in mine), float(info.points)),
            possible=float(info.points),
            begun=begun,
            predictions_right=sum(row.first_right for row in guesses),
            predictions_asked=len(guesses),
            question=info.question,
            open_exercises=tuple(name for name in info.exercises if name not in solved),
            is_written=is_answered(info.notebook) if begun else None,
        )
        rows.append(row)
    notes: tuple[str, ...] = (stored.trouble,) if stored.trouble else (place(),) if show_location else ()
    return Progress(tuple(rows), notes, tuple(_remembered(stored.told())), stored.drills(), stored.latest[1])


def _remembered(rows: Iterable[Told]) -> Iterator[Remembered]:
    """The latest first; one that was told in several exercises is open until all are free of it."""
    by_home: dict[str, list[Told]] = {}
    for row in sorted(rows, key=lambda row: row.last_at, reverse=True):
        by_home.setdefault(row.home, []).append(row)
    for latest, *earlier in by_home.values():
        is_open = any(row.cleared_at is None for row in (latest, *earlier))
        yield Remembered(latest.name, latest.notebook, latest.heading, is_open)


def reset_progress(lesson: str | None = None, exercise: str | None = None) -> Reset:
    """Begins again: with one exercise, one lesson, or the whole course. What was there is kept in a dated copy.

    Args:
        lesson: the lesson's name; None for all, drills included.
        exercise: the exercise's name; None for the whole lesson, its predictions included.

    Returns:
        What was done, in words, or why nothing was; ``backup`` is the path of the copy, None where there is none.

    Raises:
        ValueError: an exercise without its lesson, or a lesson that the course does not have.
    """
    if lesson is None and exercise is not None:
        what = "the lesson as well, since two lessons may each have an exercise of that name."
        try_this = f'reset_progress("detach", {exercise!r})'
        raise ValueError(explain(f"reset_progress(exercise={exercise!r}) was called.", what, try_this=try_this))
    path = location()
    if path is None:
        return Reset(f"Nothing to reset. {place()}")
    stored = _read()
    exercises, guesses = stored.attempts(), stored.predictions()
    if lesson not in {None, *(row.lesson for row in exercises), *(row.lesson for row in guesses)}:
        find(lesson)
    what = " ".join(name for name in (lesson, exercise) if name) or "the course"
    if stored.trouble:
        return Reset(f"Nothing was reset. {stored.trouble}")
    taken = [row for row in exercises if lesson in (None, row.lesson) and exercise in (None, row.exercise)]
    others = () if exercise else (*stored.predictions(lesson), *(stored.drills() if lesson is None else ()))
    if not taken and not others:
        return Reset(f"Nothing to reset: nothing is stored for {what}.")
    try:
        copy = store.append_after_copy(path, "reset", {"lesson": lesson, "exercise": exercise})
    except Unusable as error:
        return Reset(f"Nothing was reset: {error}.")
    return Reset(f"Reset: {what} begins again. What was there is kept in a dated copy beside the file.", copy)


def _store(kind: str, **fields: object) -> str | None:
    path = location()
    try:
        if path is not None:
            store.append(path, kind, fields)
    except Unusable as error:
        return f"This {kind} is not stored: {error}."
    return None


def _read() -> History:
    """What is stored; empty where it cannot be read."""
    path = location()
    try:
        return History(store.read(path) if path is not None else ())
    except Unusable as error:
        return History(trouble=f"What was stored cannot be read: {error}.")
