"""Axes on the course's paper, and what stands around them (``canvas``, ``Canvas``).

A figure says how large its axes should be; matplotlib measures what is written around them, and the page gets that
large. Axes that are given are laid out by matplotlib's constrained layout.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from course_utils.draw.drawing import Drawing
from course_utils.draw.labels import wrapped
from course_utils.draw.style import INK, PAPER, RULE, TEXT_SIZE, contrast, new_figure, style, text_width

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_PAD, _GAP = 10.0, 22.0  # points; around the whole, and between two axes
_SMALLEST = 6.0  # points; texts in axes that were given shrink with them down to this
_TITLE = 420.0  # points; a title is not broken before, however narrow the axes


@dataclass(frozen=True)
class Canvas:
    """Axes to draw into.

    Attributes:
        axes: rows of axes; one axes where they were given.
        wanted: their width and height in points in a figure of the course's own; None where axes were given.
        text_size: of all texts but titles, in points.
    """

    axes: Sequence[Sequence[Axes]]
    wanted: tuple[float, float] | None
    text_size: float = TEXT_SIZE

    @property
    def ax(self) -> Axes:
        """The first axes."""
        return self.axes[0][0]

    @property
    def size(self) -> tuple[float, float]:
        """Width and height of the axes in points; where they were given, what the texts drawn so far leave of them."""
        if self.wanted:
            return self.wanted
        root_figure(self.ax).draw_without_rendering()
        frame = self.ax.get_window_extent()
        return self._points(frame.width), self._points(frame.height)

    @functools.cached_property
    def width(self) -> float:
        """The axes' width in points when it was first asked for: close enough, and a layout takes time."""
        return self.size[0]

    def measure(self, text: str) -> float:
        """The width of a text in points."""
        return text_width(text, self.text_size)

    @property
    def names_height(self) -> float:
        """How high the names above the axes stand, in points; 0 without any."""
        names = [name for top in self.ax.child_axes for name in top.get_xticklabels()]
        heights = [self._points(name.get_window_extent().height) for name in names]
        return max(heights) + 6 if heights else 0.0

    def _points(self, pixels: float) -> float:
        return pixels * 72 / root_figure(self.ax).dpi

    @property
    def room(self) -> float:
        """The width in points that a title may take."""
        return max(self.width, _TITLE) if self.wanted else self.width

    def heading(self, title: str, summary: str = "", *, loc: Any = "center") -> None:
        """Writes a title above the axes, in bold where it stands in the middle, and a summary between them."""
        bold = loc == "center"
        lines = wrapped(title, self.room, lambda text: text_width(text, 1.2 * self.text_size, bold))
        look: dict[str, Any] = {"fontweight": "bold" if bold else "normal", "color": INK, "loc": loc}
        names = self.names_height
        above = 7 + names + ((summary.count("\n") + 1) * self.text_size * 1.4 + 3 if summary else 0)
        # Where nothing of ours stands above the axes, matplotlib finds a place above what there is of its own.
        self.ax.set_title("\n".join(lines), y=1 if names or summary else None, pad=above, **look)
        if summary:
            below: Any = {"xycoords": self.ax.title, "textcoords": "offset points", "ha": "center", "va": "top"}
            self.ax.annotate(summary, (0.5, 0), (0, -4), **below)

    def names_above(self, places: Sequence[float], names: Sequence[str], *, ax: Axes | None = None, **look: Any) -> Any:
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

    def legend(self, handles: Sequence[Any], *, title: str = "", room: float = 3.9, **look: Any) -> None:
        """Names what is in the axes in as many columns as fit below them, ``room`` lines of text away."""
        place: dict[str, Any] = {"loc": "upper center", "bbox_to_anchor": (0.5, 0), "borderaxespad": room}
        for columns in range(len(handles), 0, -1):
            made = self.ax.legend(handles=handles, ncols=columns, title=title or None, **place, **look)
            if self._points(made.get_window_extent().width) <= self.width:
                break

    def drawing(self, description: str) -> Drawing:
        """The figure with what it shows in words."""
        return Drawing(root_figure(self.ax), self.ax, description, own=self.wanted is not None)


@contextmanager
def canvas(
    ax: Axes | None,
    width: float,
    height: float,
    *,
    shrink: bool = False,
    rows: int = 1,
    columns: int = 1,
    **options: Any,
) -> Iterator[Canvas]:
    """Draws inside the course's way, on paper, into given axes or into a new figure.

    Args:
        ax: axes that were given. Their figure gets a constrained layout if it has none, and paper below them if it is
            too dark for our ink.
        width: of the axes, in points, that a new figure gives them whatever stands around them.
        height: the same.
        shrink: whether texts are smaller in given axes that are smaller.
        rows: of axes in a new figure.
        columns: of axes in a new figure.
        options: handed on to ``Figure.subplots``.
    """
    from matplotlib import rcParams

    with style():
        if ax is None:
            all_wide, all_high = columns * (width + _GAP) - _GAP, rows * (height + _GAP) - _GAP
            figure = new_figure(all_wide, all_high)
            figure.subplots_adjust(left=0, bottom=0, right=1, top=1, wspace=_GAP / width, hspace=_GAP / height)
            axes = figure.subplots(rows, columns, squeeze=False, **options)
            page = Canvas(axes.tolist(), (width, height))
            yield page
            _cut_to_size(figure)
        else:
            page = Canvas(((ax,),), None)
            if shrink:
                wide, high = page.size
                share = min(1.0, wide / width, high / height)
                page = Canvas(((ax,),), None, max(_SMALLEST, TEXT_SIZE * share))
                rcParams["font.size"] = page.text_size
            _adopt(ax)
            yield page


def root_figure(ax: Axes) -> Any:
    """The figure that axes are in, also where they are in one of its subfigures."""
    figure: Any = ax.get_figure()
    while getattr(figure, "figure", figure) is not figure:
        figure = figure.figure
    return figure


def _cut_to_size(figure: Any) -> None:
    """Makes a figure that is no larger than its axes as large as these and all that stands around them need."""
    (wide, high), around, pad = figure.get_size_inches(), figure.get_tightbbox(), _PAD / 72
    left, below = pad - min(around.x0, 0.0), pad - min(around.y0, 0.0)
    right, above = pad + max(around.x1 - wide, 0.0), pad + max(around.y1 - high, 0.0)
    all_wide, all_high = left + wide + right, below + high + above
    figure.set_size_inches(all_wide, all_high)
    figure.subplots_adjust(left / all_wide, below / all_high, 1 - right / all_wide, 1 - above / all_high)


def _adopt(ax: Axes) -> None:
    """Gives axes, made in a style of the learner's, the course's colours and layout."""
    from matplotlib import rcParams

    figure = root_figure(ax)
    if figure.get_layout_engine() is None:
        figure.set_layout_engine("constrained")
    ax.set_facecolor(PAPER)
    ax.tick_params(which="both", color=RULE, labelcolor=INK, labelsize=rcParams["font.size"])
    ax.spines[:].set_color(RULE)
    for axis in (ax.xaxis, ax.yaxis):
        axis.label.set(color=INK, fontsize=rcParams["font.size"])
    here: Any = ax.get_figure()
    if contrast(INK, here.get_facecolor()) < 7:
        here.add_artist(_paper(ax))


def _paper(ax: Axes) -> Any:
    """Paper below axes and all that stands around them, wherever the layout puts them."""
    from matplotlib.patches import Rectangle
    from matplotlib.transforms import Bbox, IdentityTransform

    class Paper(Rectangle):
        def draw(self, renderer: Any) -> None:
            around = Bbox.union([ax.bbox, ax.get_tightbbox(renderer) or ax.bbox]).padded(4)
            self.set_bounds(*around.bounds)
            super().draw(renderer)

    paper = Paper((0, 0), 0, 0, transform=IdentityTransform(), facecolor=PAPER, edgecolor="none", zorder=-1)
    paper.set_in_layout(False)
    return paper
