"""How every figure of the course looks: its colours, what matplotlib is told of them (``RC``), and how wide a text is
(``text_width``).

Colours are those of Okabe and Ito, which colour-blind readers can tell apart. Figures stand on paper of their own, and
a dark page turns it dark (``page``).
"""

import functools
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
