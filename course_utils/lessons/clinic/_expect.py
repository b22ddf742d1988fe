"""What a promise expects (``expect``)."""

from typing import Any

from course_utils.checks.claims import Missed


def expect(holds: bool, key: str = "", **details: Any) -> None:
    """It holds, or ``Missed(key, **details)`` is raised.

    Args:
        holds: what must be true.
        key: the misconception that its failure shows.
        details: as for ``Missed``.
    """
    if not holds:
        raise Missed(key, **details)
