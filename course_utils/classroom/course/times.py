"""When something was handed in, as a ``timestamp.txt`` says it (``read_time``)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime

LONGEST = 100  # characters; nbgrader's parser takes a minute for a megabyte
_DOTTED = re.compile(r"(\d{1,2})\.(\d{1,2})\.(\d{4})\b")
_TWO_WAYS = re.compile(r"(\d{1,2})([/-])(\d{1,2})\2\d{4}\b")  # day first in one country, month first in another


@dataclass(frozen=True)
class Time:
    """What a text says.

    Attributes:
        time: in UTC, as nbgrader reads it; None where the text is no time, or could be two.
        text: the same as a text that nobody reads otherwise.
        remark: what the teacher should know of it, in one sentence; mostly empty.
    """

    time: datetime | None
    text: str = ""
    remark: str = ""


def read_time(timestamp: str) -> Time:
    """Reads what ``timestamp.txt`` holds. A date with dots begins with the day; without a zone, it is UTC."""
    from nbgrader.utils import parse_utc

    wrong = f"timestamp.txt does not hold a time but {timestamp[:40]!r}; nobody knows whether it was late."
    if len(timestamp) > LONGEST or not re.search("[0-9]{4}", timestamp):  # without a year, today's would be read
        return Time(None, remark=wrong if timestamp else "")
    if (date := _TWO_WAYS.search(timestamp)) and date[1] != date[3] and max(int(date[1]), int(date[3])) <= 12:
        said = f"timestamp.txt holds {timestamp!r}, which can be read in two ways; write the year first, as 2027-03-01."
        return Time(None, remark=f"{said} Until then, nobody knows whether it was late.")
    text = _DOTTED.sub(lambda date: f"{date[3]}-{date[2]:0>2}-{date[1]:0>2}", timestamp)
    try:
        time = parse_utc(text)
    except (ValueError, ArithmeticError, TypeError, OSError):  # what dateutil raises at a text that is no time
        return Time(None, remark=wrong)
    said = f"timestamp.txt holds {timestamp!r}, which was read day first, as {text}."
    return Time(time, text, said if text != timestamp else "")
