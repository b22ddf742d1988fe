"""CSV that a spreadsheet shows and never runs (``as_csv``)."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable

from course_utils.base.markup import visible

_NUMBER = re.compile(r"[+-]?[0-9]+(\.[0-9]+)?(e[+-]?[0-9]+)?")
# With these a formula begins, also in their wide forms: https://owasp.org/www-community/attacks/CSV_Injection
_SIGNS = tuple("=+-@\t\uff1d\uff0b\uff0d\uff20")


def as_csv(rows: Iterable[Iterable[object]]) -> str:
    """The rows as CSV. An apostrophe stands before a text that a spreadsheet would take for a formula."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(map(_cell, row) for row in rows)
    return text.getvalue()


def _cell(value: object) -> object:
    if not isinstance(value, str):
        return value
    text = visible(value).replace("\n", " ")
    return f"'{text}" if text.lstrip(" ").startswith(_SIGNS) and not _NUMBER.fullmatch(text) else text
