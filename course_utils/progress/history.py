"""What a learner has attempted and earned, kept on disk in one small SQLite file for all lessons: store an attempt
(``record``), a prediction (``record_prediction``), a hint taken (``record_hint``) or a drill's answers
(``record_drill``); read all back (``stored``); show the whole course (``progress``); find
the file (``location``); begin again (``reset_progress``).
"""

import contextlib
import json
import math
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from course_utils.base import explain
from course_utils.catalogue import LESSONS, find
from course_utils.progress import events
from course_utils.progress.events import Attempt as Attempt
from course_utils.progress.events import History
from course_utils.progress.events import Showing as Showing
from course_utils.progress.events import location as location
from course_utils.progress.tables import LessonProgress, Progress

STUB = "*Your answer here.*"  # what `nbgrader_config.py` puts in the place of a written question's model answer


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
    """
    points = {"earned": float(earned), "possible": float(possible)}
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


def stored() -> History:
    """What is stored; nothing where the file cannot be read, and then ``trouble`` says why."""
    path = location()
    try:
        return History(events.read(path) if path is not None else ())
    except events.Unusable as error:
        return History(trouble=f"What was stored cannot be read: {error}.")


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
    known = stored()
    rows = []
    for info in LESSONS:
        worth = info.exercises
        mine = {row.exercise: row for row in known.attempts.values() if row.lesson == info.name}
        guesses = [row for row in known.predictions.values() if row.lesson == info.name]
        begun = bool(guesses) or any(row.count for row in mine.values())
        row = LessonProgress(
            number=info.number,
            name=info.name,
            title=info.title,
            earned=math.fsum(mine[name].best_of(points) for name, points in worth.items() if name in mine),
            possible=float(info.points),
            begun=begun,
            predictions_right=sum(row.first_right for row in guesses),
            predictions_asked=len(guesses),
            question=info.question,
            open_exercises=tuple(name for name in worth if name not in mine or not mine[name].is_solved(worth[name])),
            is_written=_is_answered(info.notebook) if begun else None,
        )
        rows.append(row)
    # Of a misconception that several exercises were told of, one where it is still open.
    by_home = {row.home: row for row in sorted(known.told.values(), key=lambda row: (row.is_open, row.last_at))}
    told = sorted(by_home.values(), key=lambda row: row.last_at, reverse=True)
    notes = [known.trouble or events.where()[1]] * bool(known.trouble or show_location)
    return Progress(tuple(rows), tuple(notes), tuple(told), known.drills, known.latest[1])


def _is_answered(notebook: str) -> bool | None:
    """Whether anything is written over the stub, in the notebook of this name in the current folder; None where there
    is no such notebook, or no written question in it."""
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError, AttributeError):
        for cell in json.loads(Path(f"{notebook}.ipynb").read_bytes())["cells"]:
            if cell["cell_type"] == "markdown" and cell["metadata"].get("nbgrader", {}).get("solution"):
                return "".join(cell["source"]).strip() not in ("", STUB)
    return None


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
    path, told_where = events.where()
    if path is None:
        return Reset(f"Nothing to reset. {told_where}")
    known = stored()
    begun = [*known.attempts, *known.predictions]
    if lesson not in {None, *(name for name, _ in begun)}:
        find(lesson)
    what = " ".join(name for name in (lesson, exercise) if name) or "the course"
    if known.trouble:
        return Reset(f"Nothing was reset. {known.trouble}")
    taken = any(lesson in (None, name) and exercise in (None, one) for name, one in begun)
    if not taken and not (lesson is None and known.drills):
        return Reset(f"Nothing to reset: nothing is stored for {what}.")
    try:
        copy = events.copy(path)
        events.append(path, "reset", {"lesson": lesson, "exercise": exercise})
    except events.Unusable as error:
        return Reset(f"Nothing was reset: {error}.")
    return Reset(f"Reset: {what} begins again. What was there is kept in a dated copy beside the file.", copy)


def _store(kind: str, **fields: object) -> str | None:
    path = location()
    try:
        if path is not None:
            events.append(path, kind, fields)
    except events.Unusable as error:
        return f"This {kind} is not stored: {error}."
    return None
