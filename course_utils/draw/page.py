"""The page that every figure stands on: axes and what stands around them (``new_page``, ``Page``), and the figure with
its words (``Drawing``).
"""

from __future__ import annotations

import functools
import html
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from course_utils.base import explain
from course_utils.draw.style import INK, PAPER, RC, TEXT_SIZE, text_width, wrapped

_PAD, _GAP = 10.0, 22.0  # points; around the whole, and between two axes
_TITLE = 420.0  # points; a title is not broken before, however narrow the axes
# JupyterLab's dark themes turn the picture above the words from paper to slate; hues stay what they are. In a notebook
# that is not trusted JupyterLab drops the rule, and the picture stays paper.
_ON_DARK = (
    '[data-jp-theme-light="false"] .jp-OutputArea-child:has(+ .jp-OutputArea-child .course-words) img'
    "{filter:invert(0.92) hue-rotate(180deg)}"
)


class Drawing:
    """A figure, and what it shows in words.

    As the last line of a cell it shows itself, once; after ``plt.show()`` the figure is shown as matplotlib does. In a
    notebook the words follow the picture, folded, and are its alternative text where the page takes one.

    Attributes:
        figure: the matplotlib figure.
        ax: its axes; the first ones where there are several.
        description: the figure in words.
    """

    def __init__(self, figure: Any, description: str) -> None:
        self.figure, self.ax, self.description = figure, figure.axes[0], description
        figure._ipython_display_ = functools.partial(_show, figure, description)
        # Letters are wider at some sharpness than at another: a file is cut where its own texts end.
        figure.savefig = functools.partial(figure.savefig, bbox_inches="tight", pad_inches=_PAD / 72)

    def __repr__(self) -> str:
        return self.description

    def _ipython_display_(self) -> None:
        import matplotlib
        import matplotlib.pyplot as plt

        if "inline" not in matplotlib.get_backend():
            print(self.description)
            return
        _show(self.figure, self.description)
        plt.close(self.figure)  # or the backend would show it again when the cell ends


def _show(figure: Any, words: str) -> None:
    """Shows the picture with its words: as ``alt`` in the metadata, which nbconvert and others take, and as an output
    of their own, since JupyterLab gives an image no alternative text.
    """
    from IPython import get_ipython
    from IPython.display import display

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
        folded = f"<summary>The figure in words</summary><p>{html.escape(words)}</p>"
        folded = f'<details class="course-words">{folded}</details><style>{_ON_DARK}</style>'
        display({"text/html": folded, "text/plain": "The figure in words: see above."}, raw=True)


class Page:
    """Axes to draw into, of a known size.

    Attributes:
        figure: the matplotlib figure.
        axes: rows of axes.
        ax: the first ones.
        width: of each axes, in points.
        height: likewise.
        room: the width in points that a title may take.
    """

    def __init__(self, figure: Any, axes: Any, width: float, height: float) -> None:
        self.figure, self.axes, self.width, self.height = figure, axes.tolist(), width, height
        self.ax, self.room = self.axes[0][0], max(width, _TITLE)

    def _points(self, pixels: float) -> float:
        return pixels * 72 / self.figure.dpi

    @property
    def names_height(self) -> float:
        """How high the names above the axes stand, in points; 0 without any."""
        names = [name for top in self.ax.child_axes for name in top.get_xticklabels()]
        return max((self._points(name.get_window_extent().height) + 6 for name in names), default=0.0)

    def heading(self, title: str, summary: str = "", *, loc: Any = "left") -> None:
        """Writes a title above the axes, in bold where it stands in the middle, and a summary between them."""
        bold = loc == "center"
        lines = wrapped(title, self.room, lambda text: text_width(text, 1.2 * TEXT_SIZE, bold))
        names = self.names_height
        above = 7 + names + ((summary.count("\n") + 1) * TEXT_SIZE * 1.4 + 3 if summary else 0)
        look: dict[str, Any] = {"fontweight": "bold" if bold else "normal", "color": INK, "loc": loc}
        # Where nothing of ours stands above the axes, matplotlib finds a place above what there is of its own.
        self.ax.set_title("\n".join(lines), y=1 if names or summary else None, pad=above, **look)
        if summary:
            below: Any = {"xycoords": self.ax.title, "textcoords": "offset points", "ha": "center", "va": "top"}
            self.ax.annotate(summary, (0.5, 0), (0, -4), **below)

    def names_above(self, places: Sequence[float], names: Sequence[str], *, ax: Any = None, **look: Any) -> Any:
        """Writes names above axes, at places on the x axis; the title stands above them. Returns their texts."""
        top = (ax or self.ax).secondary_xaxis("top")
        top.set_xticks(places, names, **look)
        top.tick_params(length=0)
        top.spines[:].set_visible(False)
        return top.get_xticklabels()

    def name_rows(self, names: Sequence[str], places: Sequence[float] | None = None, **look: Any) -> None:
        """Names rows at their left, the first one on top, and leaves out all lines around the axes."""
        self.ax.set_yticks(range(len(names)) if places is None else places, names, **look)
        self.ax.set_ylim(len(names) - 0.5, -0.5)
        self.ax.tick_params(length=0)
        self.ax.spines[:].set_visible(False)

    def legend(self, handles: Sequence[Any], *, room: float = 3.9, **look: Any) -> None:
        """Names what is in the axes in as many columns as fit below them, ``room`` lines of text away."""
        place: dict[str, Any] = {"loc": "upper center", "bbox_to_anchor": (0.5, 0), "borderaxespad": room}
        for columns in range(len(handles), 0, -1):
            made = self.ax.legend(handles=handles, ncols=columns, **place, **look)
            if self._points(made.get_window_extent().width) <= self.width:
                break


@contextmanager
def new_page(width: float, height: float, *, rows: int = 1, columns: int = 1, **options: Any) -> Iterator[Page]:
    """Draws the course's way, whatever style the learner has set, into a new figure on paper.

    Args:
        width: of each axes, in points; the page gets as large as these and all that stands around them need.
        height: the same.
        rows: of axes.
        columns: of axes.
        options: handed on to ``Figure.subplots``.
    """
    import matplotlib.pyplot as plt
    import matplotlib.style
    from matplotlib import rc_context, rcParams

    kept = {name: rcParams[name] for name in ("figure.dpi", "interactive")}  # the learner's to set
    try:
        with rc_context():
            matplotlib.style.use("default")
            rcParams.update(RC | kept)
            wide, high = columns * (width + _GAP) - _GAP, rows * (height + _GAP) - _GAP
            figure = plt.figure(figsize=(wide / 72, high / 72), facecolor=PAPER)
            # The first figure starts the notebook's backend: that sets it.
            kept["interactive"] = rcParams["interactive"]
            figure.subplots_adjust(left=0, bottom=0, right=1, top=1, wspace=_GAP / width, hspace=_GAP / height)
            yield Page(figure, figure.subplots(rows, columns, squeeze=False, **options), width, height)
            _cut_to_size(figure)
    finally:
        rcParams["interactive"] = kept["interactive"]


def _cut_to_size(figure: Any) -> None:
    """Makes the page as large as what is drawn, the axes staying as large as they are."""
    (wide, high), around, pad = figure.get_size_inches(), figure.get_tightbbox(), _PAD / 72
    left, below = pad - min(around.x0, 0.0), pad - min(around.y0, 0.0)
    all_wide = left + wide + pad + max(around.x1 - wide, 0.0)
    all_high = below + high + pad + max(around.y1 - high, 0.0)
    figure.set_size_inches(all_wide, all_high)
    figure.subplots_adjust(left / all_wide, below / all_high, (left + wide) / all_wide, (below + high) / all_high)


def require(holds: object, got: str, expected: str, why: str = "") -> None:
    """Refuses what cannot be drawn.

    Raises:
        ValueError: it does not hold.
    """
    if not holds:
        raise ValueError(explain(got, expected, why))
