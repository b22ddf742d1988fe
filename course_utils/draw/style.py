"""How every figure of the course looks, and how it says in words what it shows (``new_figure``, ``Drawing``,
``text_width``).

Colours are those of Okabe and Ito, which colour-blind readers can tell apart. Figures stand on paper of their own, so
that they read the same on a light and on a dark page.
"""

from __future__ import annotations

import functools
import html
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PAPER = "#FCFBF7"
INK = "#1B1B1B"
QUIET_INK = "#474747"
RULE = "#6E6E6E"

ORANGE, SKY, GREEN, YELLOW = "#E69F00", "#56B4E9", "#009E73", "#F0E442"
BLUE, VERMILION, PURPLE, GREY = "#0072B2", "#D55E00", "#CC79A7", "#8C8C8C"

# Set before anything of the learner's own style could make a text unreadable on our paper.
_RC: dict[Any, Any] = {
    "font.family": ["DejaVu Sans"],  # ships with matplotlib: the same widths everywhere
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.edgecolor": RULE,
    "axes.facecolor": PAPER,
    "xtick.color": INK,
    "ytick.color": INK,
    "text.usetex": False,
    "hatch.linewidth": 0.6,
}


class Drawing:
    """A figure, and what it shows in words.

    As the last line of a cell it shows itself, once. After ``plt.show()``, or where it was drawn into axes that were
    given, the figure is shown as matplotlib does. In a notebook the words follow the picture, folded, and are its
    alternative text where the page takes one.

    Attributes:
        figure: the matplotlib figure.
        ax: the axes that were drawn into; the first ones where there are several.
        description: the figure in words.
    """

    def __init__(self, figure: Figure, ax: Axes, description: str, *, own: bool) -> None:
        self.figure = figure
        self.ax = ax
        self.description = description
        self._own = own
        _describe_when_shown(figure, description)

    def __repr__(self) -> str:
        return self.description

    def _ipython_display_(self) -> None:
        import matplotlib
        import matplotlib.pyplot as plt

        if not self._own:
            return
        if "inline" not in matplotlib.get_backend():
            print(self.description)
            return
        from IPython.display import display

        display(self.figure)
        plt.close(self.figure)  # or the backend would show it again when the cell ends


def _describe_when_shown(figure: Any, description: str) -> None:
    """Makes a figure bring its words along when a notebook shows it; a figure with several drawings brings them all.

    JupyterLab gives an image no alternative text, whatever its metadata say, so the words come as an output of their
    own, too; nbconvert and others do take ``alt`` from the metadata.
    """
    words = (*getattr(figure, "_course_words", ()), description)
    figure._course_words = words
    figure._ipython_display_ = functools.partial(_show, figure)


def _show(figure: Any) -> None:
    from IPython import get_ipython
    from IPython.display import display

    words = " ".join(figure._course_words)
    data: dict[str, Any] = {"text/plain": words}
    metadata: dict[str, Any] = {}
    shell = get_ipython()
    formatters = shell.display_formatter.formatters if shell else {}
    for mime in ("image/png", "image/jpeg", "image/svg+xml", "application/pdf"):
        made = formatters[mime](figure) if mime in formatters else None
        if made is not None:
            data[mime], about = made if isinstance(made, tuple) else (made, {})
            metadata[mime] = {**about, "alt": words}
    display(data, metadata=metadata, raw=True)
    if len(data) > 1:
        folded = f"<details><summary>The figure in words</summary><p>{html.escape(words)}</p></details>"
        display({"text/html": folded, "text/plain": "The figure in words: see above."}, raw=True)


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


def root_figure(ax: Axes) -> Figure:
    """The figure that axes are in, also where they are in one of its subfigures."""
    figure: Any = ax.get_figure()
    while getattr(figure, "figure", figure) is not figure:
        figure = figure.figure
    return figure


def figure_size(ax: Axes) -> tuple[float, float]:
    """Width and height, in points, of the figure or subfigure that axes are in."""
    figure: Any = ax.get_figure()
    return figure.bbox.width * 72 / figure.dpi, figure.bbox.height * 72 / figure.dpi


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


def lay_paper(ax: Axes, left: float = 0.0, below: float = 0.0) -> None:
    """Puts paper under axes that were given in a figure too dark for our ink.

    Args:
        ax: the axes, at their final place.
        left: room beside the axes that belongs to them, in points.
        below: room below the axes that belongs to them, in points.
    """
    from matplotlib.patches import Rectangle

    figure: Any = ax.get_figure()
    if contrast(INK, figure.get_facecolor()) >= 7:
        return
    wide, high = figure_size(ax)
    place = ax.get_position()
    figure.add_artist(
        Rectangle(
            (place.x0 - left / wide, place.y0 - below / high),
            place.width + (left + 8) / wide,
            place.height + below / high,
            transform=figure.transSubfigure,
            facecolor=PAPER,
            edgecolor="none",
            zorder=-1,
        )
    )


_DPI = 100.0  # at which texts are measured


@functools.cache
def _renderer() -> Any:
    from matplotlib.backends.backend_agg import RendererAgg

    return RendererAgg(1, 1, _DPI)


@functools.lru_cache(maxsize=4096)
def text_width(text: str, size: float, bold: bool = False) -> float:
    """The width of a text in points, as matplotlib would draw it."""
    from matplotlib.font_manager import FontProperties

    font = FontProperties(family="DejaVu Sans", size=size, weight="bold" if bold else "normal")
    width, _, _ = _renderer().get_text_width_height_descent(text, font, ismath=False)
    return width * 72 / _DPI
