"""Draws a graph picture into axes (``draw_graph``)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from course_utils.draw.graph_card import STACK, Role
from course_utils.draw.graph_picture import Box, GraphPicture
from course_utils.draw.style import INK, QUIET_INK, RULE

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Fill, colour of the border, its width, its dashes: what a box says about bytes shows without colour, too.
STYLES: dict[Role, tuple[str, str, float, object]] = {
    "keeps": ("#F7CF7B", "#7A4A00", 1.8, "solid"),
    "again": ("#FBEBC8", "#7A4A00", 1.0, (0, (3, 2))),
    "shares": ("#EFEFEF", "#4D4D4D", 1.0, (0, (1, 1.5))),
    "plain": ("#FFFFFF", "#7F7F7F", 0.8, "solid"),
    "leaf": ("#BFE1F6", "#0B4F7D", 1.0, "solid"),
}


def draw_graph(ax: Axes, picture: GraphPicture, scale: float) -> None:
    """Draws into axes whose data coordinates are the picture's points, y downwards.

    Args:
        ax: the axes.
        picture: what to draw.
        scale: size of a point of the picture in points of the figure; texts and lines shrink with it.
    """
    _draw_lines(ax, picture, scale)
    for box in picture.boxes:
        _draw_box(ax, box, scale)
    for label in picture.labels:
        ax.text(
            label.x,
            label.y,
            label.text,
            fontsize=label.size * scale,
            fontweight="bold" if label.bold else "normal",
            color=QUIET_INK if label.quiet else INK,
            ha="center" if label.centred else "left",
            va="center",
            parse_math=False,
            zorder=4,
        )


def _draw_lines(ax: Axes, picture: GraphPicture, scale: float) -> None:
    from matplotlib.collections import PathCollection
    from matplotlib.path import Path

    curves, heads = [], []
    for line in picture.lines:
        tip = line.y1 - (5 if line.arrow else 0)
        reach = (tip - line.y0) * 0.55
        if line.x0 == line.x1:
            curves.append(Path([(line.x0, line.y0), (line.x1, tip)]))
        else:
            points = [(line.x0, line.y0), (line.x0, line.y0 + reach), (line.x1, tip - reach), (line.x1, tip)]
            curves.append(Path(points, [Path.MOVETO, Path.CURVE4, Path.CURVE4, Path.CURVE4]))
        if line.arrow:
            heads.append(Path([(line.x1 - 2.8, tip), (line.x1 + 2.8, tip), (line.x1, line.y1), (line.x1 - 2.8, tip)]))
    for paths, fill in ((curves, "none"), (heads, RULE)):
        ax.add_collection(
            PathCollection(
                paths, facecolors=fill, edgecolors=RULE, linewidths=scale, zorder=2, transform=ax.transData, sizes=None
            ),
            autolim=False,
        )


def _draw_box(ax: Axes, box: Box, scale: float) -> None:
    from matplotlib.patches import FancyBboxPatch

    fill, border, width, dashes = STYLES[box.role]
    corner = min(6.0, box.height / 3)
    form = "square,pad=0" if box.shape == "square" else f"round,pad=0,rounding_size={corner}"
    out = min(STACK, box.height / 4)
    behind = [(out, -out), (out / 2, -out / 2)] if box.shape == "stack" else []
    for right, up in [*behind, (0.0, 0.0)]:
        ax.add_patch(
            FancyBboxPatch(
                (box.x + right, box.y + up),
                box.width,
                box.height,
                boxstyle=form,
                facecolor=fill,
                edgecolor=border,
                linewidth=(0.8 if up else width) * scale,
                linestyle=dashes,
                zorder=3,
            )
        )
