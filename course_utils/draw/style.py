"""How every figure of the course looks: its colours, what matplotlib is told of them (``RC``), how wide a text is
(``text_width``); a title as a sentence (``sentence``), the unit of an axis (``byte_unit``), and text that has to fit,
shortened in the middle (``shortened``) or broken into lines (``wrapped``).

Colours are those of Okabe and Ito, which colour-blind readers can tell apart. Figures stand on paper of their own, and
a dark page turns it dark (``page``).
"""

import functools
import re
from collections.abc import Callable
from typing import Any

PAPER, INK, QUIET_INK, RULE = "#FCFBF7", "#1B1B1B", "#474747", "#6E6E6E"
ORANGE, SKY, GREEN, YELLOW = "#E69F00", "#56B4E9", "#009E73", "#F0E442"
BLUE, VERMILION, PURPLE, GREY = "#0072B2", "#D55E00", "#CC79A7", "#8C8C8C"

TEXT_SIZE = 9.0  # points; titles are 1.2 times as large
_DPI = 100.0  # at which texts are measured

# Set before anything of the learner's own style could make a text unreadable on our paper.
RC: dict[Any, Any] = {
    "font.family": ["DejaVu Sans"],  # ships with matplotlib: the same widths everywhere
    "font.size": TEXT_SIZE,
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.edgecolor": RULE,
    "axes.facecolor": PAPER,
    "xtick.color": RULE,
    "xtick.labelcolor": INK,
    "ytick.color": RULE,
    "ytick.labelcolor": INK,
    "legend.labelcolor": QUIET_INK,
    "legend.frameon": False,
    "text.parse_math": False,
    "hatch.linewidth": 0.6,
}


@functools.cache
def _renderer() -> Any:
    from matplotlib.backends.backend_agg import RendererAgg

    return RendererAgg(1, 1, _DPI)


@functools.lru_cache(maxsize=4096)
def text_width(text: str, size: float = TEXT_SIZE, bold: bool = False) -> float:
    """The width of a text in points, as matplotlib would draw it."""
    from matplotlib.font_manager import FontProperties

    font = FontProperties(family="DejaVu Sans", size=size, weight="bold" if bold else "normal")
    width, _, _ = _renderer().get_text_width_height_descent(text, font, ismath=False)
    return width * 72 / _DPI


def bold_width(text: str) -> float:
    """The same of a bold text."""
    return text_width(text, bold=True)


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
