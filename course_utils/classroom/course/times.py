"""When something was handed in, as a ``timestamp.txt`` says it (``read_time``)."""

from __future__ import annotations

import re
from datetime import datetime

LONGEST = 100  # characters; nbgrader's parser takes a minute for a megabyte


def read_time(timestamp: str) -> tuple[datetime | None, str]:
    """Reads what ``timestamp.txt`` holds: the year first, without a zone UTC.

    Returns:
        The time in UTC, as nbgrader's own ``parse_utc`` reads it; None where the text is none. What the teacher should
        know of it, in one sentence; empty where it was read.
    """
    from nbgrader.utils import parse_utc

    if not timestamp:
        return None, ""
    try:
        if len(timestamp) > LONGEST or not re.match(r"\d{4}-", timestamp):  # 01/03/2027 is March in one country alone
            raise ValueError
        # parse_utc takes a third word for the name of a zone, which +01:00 is not: without the gap it is read.
        return parse_utc(re.sub(r"\s+(?=[+-]\d\d:?\d\d$)", "", timestamp)), ""
    except (ValueError, ArithmeticError, TypeError, OSError):  # what dateutil raises at a text that is no time
        said = (
            f"timestamp.txt holds {timestamp[:40]!r}, and not a time such as 2027-03-01 18:00 +01:00; until it does, "
        )
        return None, f"{said}nobody knows whether it was late."
