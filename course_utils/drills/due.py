"""Which topic a learner should practise next, from what the course remembers of them (``due``)."""

import secrets
from collections.abc import Mapping, Sequence

from course_utils.progress.history import Told, told


def due(topics: Mapping[str, Sequence[str]]) -> tuple[str, str]:
    """A topic, and the reason for it as a sentence; no reason where nothing is remembered and the topic is any.

    First comes what is still open, any of it; then what was cleared up longest ago.

    Args:
        topics: each topic with the lessons whose misconceptions it practises.
    """
    by_lesson = {lesson: topic for topic, lessons in topics.items() for lesson in lessons}
    rows = [row for row in told() if _lesson(row) in by_lesson]
    is_open = [row for row in rows if row.cleared_at is None]
    if is_open:
        row = secrets.choice(is_open)
        return by_lesson[_lesson(row)], f"“{row.name}” is still open in `{row.exercise}`."
    if rows:
        row = min(rows, key=lambda row: row.cleared_at or "")
        return by_lesson[_lesson(row)], f"You cleared up “{row.name}” longest ago."
    return secrets.choice(list(topics)), ""


def _lesson(row: Told) -> str:
    return row.home.partition("/")[0]
