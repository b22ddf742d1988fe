"""Text in figures: a title as a sentence (``sentence``), the unit of an axis (``byte_unit``), and text that has to fit,
shortened in the middle (``shortened``) or broken into lines (``wrapped``).

How wide a text is, the caller says, so that the same decisions hold for any font.
"""

import re
from collections.abc import Callable

Width = Callable[[str], float]

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")
ELLIPSIS = "\N{HORIZONTAL ELLIPSIS}"

# After a dot, underscore, blank or comma, and before the capital of the next word: MaxPool|2D|With|Indices.
_BREAKS = re.compile(r"(?<=[._ ,/:-])(?=[^._ ,/:-])|(?<=[a-zA-Z0-9])(?=[A-Z][a-z])")


def sentence(title: str) -> str:
    """A title as a sentence: with a full stop, unless it asks."""
    return title if title.endswith("?") else f"{title}."


def byte_unit(largest: int) -> tuple[str, int]:
    """The unit for an axis that reaches ``largest`` bytes, and its bytes.

    Example:
        >>> byte_unit(10_000_000)
        ('MiB', 1048576)
    """
    unit = 0
    while largest >= 1024 ** (unit + 1) and unit < len(_UNITS) - 1:
        unit += 1
    return _UNITS[unit], 1024**unit


def shortened(text: str, limit: float, width: Width) -> str:
    """The text, or its beginning and end around an ellipsis, no wider than ``limit`` where that is possible at all.

    The end of a name tells as much as its beginning: ``encoder.layers.0.weight`` becomes ``encode….weight``.

    Example:
        >>> shortened("encoder.layers.0.weight", 12, len)
        'encode…eight'
    """
    if width(text) <= limit:
        return text
    low, high = 0, len(text) - 1
    while low < high:  # the largest number of letters that fits
        middle = (low + high + 1) // 2
        if width(_around_ellipsis(text, middle)) <= limit:
            low = middle
        else:
            high = middle - 1
    return _around_ellipsis(text, low)


def _around_ellipsis(text: str, letters: int) -> str:
    tail = letters // 2
    return text[: letters - tail].rstrip() + ELLIPSIS + (text[len(text) - tail :].lstrip() if tail else "")


def wrapped(text: str, limit: float, width: Width) -> tuple[str, ...]:
    """The text in at most two lines, none wider than ``limit``, broken between words or parts of a name.

    Where that is not enough, parts from the middle give way to an ellipsis.

    Example:
        >>> wrapped("MaxPool2DWithIndices", 12, len)
        ('MaxPool2D', 'WithIndices')
        >>> wrapped("encoder.layers.0.self_attn.in_proj_weight", 14, len)
        ('encoder.…', 'proj_weight')
    """
    if width(text) <= limit:
        return (text,)
    parts = _BREAKS.split(text)
    for dropped in range(len(parts)):
        first = (len(parts) - dropped) // 2
        kept = [*parts[:first], ELLIPSIS, *parts[first + dropped :]] if dropped else parts
        halves = [("".join(kept[:at]).strip(), "".join(kept[at:]).strip()) for at in range(1, len(kept))]
        lines = min(halves, key=lambda pair: max(map(width, pair)), default=("".join(kept),))
        if max(map(width, lines)) <= limit:
            return lines
    return (shortened(text, limit, width),)
