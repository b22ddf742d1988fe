"""Which topic a learner should practise next, from what the course remembers of them (``due``)."""

import secrets
from collections.abc import Mapping, Sequence

from course_utils.progress.history import told


def due(topics: Mapping[str, Sequence[str]]) -> tuple[str, str]:
    """A topic, and the reason for it as a sentence; no reason where nothing is remembered and the topic is any.

    First comes what is still open, any of it; then what was cleared up longest ago.

    Args:
        topics: each topic with the lessons whose misconceptions it practises.
    """
    by_lesson = {lesson: topic for topic, lessons in topics.items() for lesson in lessons}
    rows = [(by_lesson[lesson], row) for row in told() if (lesson := row.home.partition("/")[0]) in by_lesson]
    is_open = [(topic, row) for topic, row in rows if row.cleared_at is None]
    if is_open:
        topic, row = secrets.choice(is_open)
        return topic, f"“{row.name}” is still open in `{row.exercise}`."
    if rows:
        topic, row = min(rows, key=lambda pair: pair[1].cleared_at or "")
        return topic, f"You cleared up “{row.name}” longest ago."
    return secrets.choice(list(topics)), ""
