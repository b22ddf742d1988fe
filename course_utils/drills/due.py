"""Which topic a learner should practise next, from what the course remembers of them (``due``)."""

import secrets
from collections.abc import Sequence

from course_utils.progress.history import Told, told

# The drill that practises what a lesson's misconceptions are about.
_TOPICS = {
    "requires_grad": "flags",
    "leaf_tensors": "leaves",
    "detach": "edits",
    "volatile_history": "modes",
    "no_grad": "modes",
    "gated_branches": "gates",
    "forward_hooks": "hooks",
    "custom_function": "functions",
    "gradient_accumulation": "scale",
    "model_ensembling": "in_dims",
}


def due(topics: Sequence[str]) -> tuple[str, str]:
    """A topic, and the reason for it as a sentence; no reason where nothing is remembered and the topic is any.

    First comes what is still open, any of it; then what was cleared up longest ago.

    Args:
        topics: those that can be drawn from where nothing is remembered.
    """
    rows = [row for row in told() if _lesson(row) in _TOPICS]
    is_open = [row for row in rows if row.cleared_at is None]
    if is_open:
        row = secrets.choice(is_open)
        return _TOPICS[_lesson(row)], f"“{row.name}” is still open in `{row.exercise}`."
    if rows:
        row = min(rows, key=lambda row: row.cleared_at or "")
        return _TOPICS[_lesson(row)], f"You cleared up “{row.name}” longest ago."
    return secrets.choice(topics), ""


def _lesson(row: Told) -> str:
    return row.home.partition("/")[0]
