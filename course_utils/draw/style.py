"""How every figure of the course looks: its colours, and how wide a text in it is (``text_width``).

Colours are those of Okabe and Ito, which colour-blind readers can tell apart. Figures stand on paper of their own, and
a dark page turns it dark (``drawing``).
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PAPER = "#FCFBF7"
INK = "#1B1B1B"
QUIET_INK = "#474747"
RULE = "#6E6E6E"

ORANGE, SKY, GREEN, YELLOW = "#E69F00", "#56B4E9", "#009E73", "#F0E442"
BLUE, VERMILION, PURPLE, GREY = "#0072B2", "#D55E00", "#CC79A7", "#8C8C8C"

TEXT_SIZE = 9.0  # points; titles are 1.2 times as large

# Set before anything of the learner's own style could make a text unreadable on our paper.
_RC: dict[Any, Any] = {
    "font.family": ["DejaVu Sans"],  # ships with matplotlib: the same widths everywhere
    "font.size": TEXT_SIZE,
    "axes.titlesize": "large",
    "axes.labelsize": "medium",
    "xtick.labelsize": "medium",
    "ytick.labelsize": "medium",
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
    "text.usetex": False,
    "text.parse_math": False,
    "hatch.linewidth": 0.6,
}


@contextmanager
def style() -> Iterator[None]:
    """Draws everything inside the course's way, whatever style the learner has set."""
    import matplotlib.style
    from matplotlib import rc_context, rcParams

    dpi = rcParams["figure.dpi"]  # the notebook's sharpness is the learner's to set
    interactive = rcParams["interactive"]
    try:
        with rc_context():
            matplotlib.style.use("default")
            rcParams.update(_RC)
            rcParams.update({"figure.dpi": dpi, "interactive": interactive})
            yield
            # Where ours is the first figure, making it is what starts the notebook's backend, which sets this.
            interactive = rcParams["interactive"]
    finally:
        rcParams["interactive"] = interactive


def new_figure(width: float, height: float) -> Figure:
    """An empty figure on the course's paper; ``width`` and ``height`` in points. ``plt.show()`` shows it."""
    import matplotlib.pyplot as plt

    return plt.figure(figsize=(width / 72, height / 72), facecolor=PAPER)


def contrast(one: Any, other: Any) -> float:
    """The contrast of two colours, 1 to 21, as the Web Content Accessibility Guidelines define it; 4.5 reads well."""
    from matplotlib.colors import to_rgb

    lighter, darker = sorted((_luminance(to_rgb(one)), _luminance(to_rgb(other))), reverse=True)
    return (lighter + 0.05) / (darker + 0.05)


def _luminance(rgb: tuple[float, float, float]) -> float:
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in rgb]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


_DPI = 100.0  # at which texts are measured


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
