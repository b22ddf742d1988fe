"""Text in figures: a title as a sentence (``sentence``), the unit of an axis (``byte_unit``), and text that has to fit,
shortened in the middle (``shortened``) or broken into lines (``wrapped``).
"""

import re
from collections.abc import Callable

Width = Callable[[str], float]
ELLIPSIS = "\N{HORIZONTAL ELLIPSIS}"
# After a dot, underscore, blank or comma, and before the capital of the next word: MaxPool|2D|With|Indices.
_BREAKS = re.compile(r"(?<=[._ ,/:-])(?=[^._ ,/:-])|(?<=[a-zA-Z0-9])(?=[A-Z][a-z])")


def sentence(title: str) -> str:
    """A title as a sentence: with a full stop, unless it asks."""
    return title if title.endswith("?") else f"{title}."


def byte_unit(largest: float) -> tuple[str, int]:
    """The unit for an axis that reaches ``largest`` bytes, and its bytes.

    Example:
        >>> byte_unit(1023), byte_unit(10_000_000)
        (('B', 1), ('MiB', 1048576))
    """
    units = [(name, 1024**power) for power, name in enumerate(("B", "KiB", "MiB", "GiB", "TiB"))]
    return max((unit for unit in units if unit[1] <= largest), key=lambda unit: unit[1], default=units[0])


def shortened(text: str, limit: float, width: Width) -> str:
    """The text, or its beginning and end around an ellipsis, no wider than ``limit`` where that is possible at all.

    Example:
        >>> shortened("encoder.layers.0.weight", 12, len), shortened("weight", 6, len), shortened("weight", 0, len)
        ('encode…eight', 'weight', '…')
    """
    if width(text) <= limit:
        return text
    for letters in range(len(text) - 1, 0, -1):
        tail = letters // 2
        cut = text[: letters - tail].rstrip() + ELLIPSIS + text[len(text) - tail :].lstrip()
        if width(cut) <= limit:
            return cut
    return ELLIPSIS


def wrapped(text: str, limit: float, width: Width) -> tuple[str, ...]:
    """The text in at most two lines, none wider than ``limit``, broken between words or parts of a name; where that is
    not enough, parts from the middle give way to an ellipsis.

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
