"""Ratios over two quantities, one cell for each pair, coloured by how far from 1 they are (``plot_heat_map``)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from course_utils.base.errors import explain
from course_utils.draw.canvas import canvas
from course_utils.draw.drawing import Drawing
from course_utils.draw.labels import sentence
from course_utils.draw.style import BLUE, PAPER, QUIET_INK, VERMILION, contrast

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.patches import Patch

_CELL_WIDTH, _CELL_HEIGHT = 86.0, 34.0  # points
# From this ratio on, and from its inverse down, a cell has the full colour.
_FULL = 8.0


def plot_heat_map(
    ratios: Sequence[Sequence[float]],
    *,
    rows: tuple[str, Sequence[object]],
    columns: tuple[str, Sequence[object]],
    title: str,
    below: str = "below 1",
    above: str = "above 1",
    ax: Axes | None = None,
) -> Drawing:
    """Draws one cell for each ratio, its number inside. The first row stands on top.

    The number says it all; the colour, orange below 1 and blue above, says it at a glance. It is full at 8 and at 1/8.

    Args:
        ratios: one sequence for each row, each with one number above 0 for each column.
        rows: what runs down, with its unit where it has one, and the value of each row.
        columns: what runs to the right, and the value of each column.
        title: what the figure shows.
        below: what a ratio below 1 means; stands beside its colour under the cells.
        above: what a ratio above 1 means.
        ax: axes to draw into; by default a figure of its own.

    Returns:
        The drawing, with the figure in words.

    Raises:
        ValueError: no cells, another number of ratios than rows and columns ask for, or a ratio that is not above 0.

    Example:
        >>> plot_heat_map([[0.5, 2]], rows=("models", [10]), columns=("width", [8, 64]), title="Gain")
        Gain. Down: models. Right: width. Below 1: below 1; above 1: above 1. models 10: 0.50x at 8, 2.0x at 64.
    """
    _check(ratios, rows, columns)
    with canvas(ax, _CELL_WIDTH * len(columns[1]), _CELL_HEIGHT * len(rows[1]), shrink=True) as page:
        _draw_cells(page.ax, ratios)
        page.ax.set_xticks(range(len(columns[1])), [str(value) for value in columns[1]])
        page.name_rows([str(value) for value in rows[1]])
        page.ax.set(xlabel=columns[0], ylabel=rows[0])
        page.heading(title, loc="left")
        page.legend([_sign(1 / _FULL, below), _sign(_FULL, above)])
    return page.drawing(_in_words(ratios, rows, columns, title, below, above))


def written(ratio: float) -> str:
    """A ratio as it stands in its cell: two digits that count, never more than one needs.

    Example:
        >>> written(0.123), written(0.97), written(2.345), written(25.1)
        ('0.12x', '0.97x', '2.3x', '25x')
    """
    if ratio < 0.995:
        return f"{ratio:.2f}x" if ratio >= 0.0995 else f"{ratio:.2g}x"
    return f"{ratio:.1f}x" if ratio < 9.95 else f"{ratio:.0f}x"


def colour(ratio: float) -> tuple[float, float, float]:
    """The colour of a cell: paper at 1, and the further from it on a logarithmic scale, the fuller."""
    from matplotlib.colors import to_rgb

    share = min(abs(math.log(ratio)) / math.log(_FULL), 1.0)
    full = to_rgb(BLUE if ratio > 1 else VERMILION)
    red, green, blue = (p + share * (f - p) for p, f in zip(to_rgb(PAPER), full, strict=True))
    return red, green, blue


def _check(
    ratios: Sequence[Sequence[float]], rows: tuple[str, Sequence[object]], columns: tuple[str, Sequence[object]]
) -> None:
    shape = f"{len(rows[1])} rows of {len(columns[1])}"
    if not rows[1] or not columns[1]:
        raise ValueError(explain(f"plot_heat_map got {shape} ratios.", "at least one row and one column."))
    if len(ratios) != len(rows[1]) or any(len(row) != len(columns[1]) for row in ratios):
        found = f"{len(ratios)} rows of {sorted({len(row) for row in ratios})}"
        raise ValueError(explain(f"plot_heat_map got {found} ratios.", f"{shape}, as rows and columns name them."))
    for row in ratios:
        for ratio in row:
            if not (ratio > 0 and math.isfinite(ratio)):
                why = "colours follow the logarithm, so that 2x and 0.5x are equally far from 1."
                raise ValueError(explain(f"plot_heat_map got the ratio {ratio}.", "finite numbers above 0.", why))


def _draw_cells(ax: Axes, ratios: Sequence[Sequence[float]]) -> None:
    from matplotlib.patches import Rectangle

    ax.set_facecolor(PAPER)
    ax.set_xlim(-0.5, len(ratios[0]) - 0.5)
    for y, row in enumerate(ratios):
        for x, ratio in enumerate(row):
            fill = colour(ratio)
            ax.add_patch(Rectangle((x - 0.5, y - 0.5), 1, 1, facecolor=fill, edgecolor=PAPER, linewidth=2))
            ink = max(("#000000", "#FFFFFF"), key=lambda ink: contrast(ink, fill))
            ax.text(x, y, written(ratio), ha="center", va="center", color=ink)


def _sign(ratio: float, label: str) -> Patch:
    from matplotlib.patches import Patch

    return Patch(facecolor=colour(ratio), edgecolor=QUIET_INK, linewidth=0.5, label=label)


def _in_words(
    ratios: Sequence[Sequence[float]],
    rows: tuple[str, Sequence[object]],
    columns: tuple[str, Sequence[object]],
    title: str,
    below: str,
    above: str,
) -> str:
    sentences = [f"{sentence(title)} Down: {rows[0]}. Right: {columns[0]}."]
    sentences.append(f"Below 1: {below}; above 1: {above}.")
    for name, row in zip(rows[1], ratios, strict=True):
        cells = [f"{written(ratio)} at {value}" for ratio, value in zip(row, columns[1], strict=True)]
        sentences.append(f"{rows[0]} {name}: {', '.join(cells)}.")
    return " ".join(sentences)
