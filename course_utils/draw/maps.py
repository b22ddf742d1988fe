"""Images, and under them what each place of them is worth, all maps in one scale of colours (``plot_maps``)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from torch import Tensor

from course_utils.base.errors import explain
from course_utils.draw.labels import sentence
from course_utils.draw.style import (
    BLUE,
    PAPER,
    QUIET_INK,
    RULE,
    VERMILION,
    Drawing,
    new_figure,
    style,
    text_width,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_SIZE, _SMALL = 9.0, 8.5
_SIDE, _GAP, _NAME = 84.0, 14.0, 18.0  # points: a panel's side, the room between two (or two names), and for a name
_LEFT, _TOP, _BOTTOM = 12.0, 26.0, 24.0

Panels = Sequence[tuple[str, Tensor]]


def plot_maps(images: Panels, *rows: Panels, title: str) -> Drawing:
    """Draws images in grey, and below them rows of maps: blue above 0, orange below 0, white at 0.

    The colours of all maps have one scale, which the line below the figure gives, so that maps can be compared.

    Args:
        images: pairs (name, 2-D tensor), white at the smallest value and black at the greatest.
        *rows: for each row of maps, pairs (name, 2-D tensor).
        title: what the figure shows.

    Returns:
        The drawing, with the figure in words.

    Raises:
        ValueError: no images, no maps, or a tensor that is not 2-D.

    Example:
        >>> import torch
        >>> plot_maps([("a 1", torch.eye(2))], [("worth", torch.tensor([[0.0, 2.0], [-1.0, 0.0]]))], title="One digit")
        One digit. Images: a 1. worth: from -1.00 to 2.00, the most at row 1, column 2.
    """
    from matplotlib.colors import LinearSegmentedColormap

    _check(images, rows)
    values = [grid.detach().cpu().double() for row in rows for _, grid in row]
    low = min(0.0, *(grid.min().item() for grid in values))
    high = max(0.0, *(grid.max().item() for grid in values))
    full = max(high, -low) or 1.0
    note = f"white: 0; full blue: {full:.2f}" + (f"; full orange: {-full:.2f}" if low < 0 else "")
    with style():
        worth = LinearSegmentedColormap.from_list("worth", [VERMILION, PAPER, BLUE])
        columns = max(map(len, (images, *rows)))
        wide = max(_SIDE, *(text_width(name, _SIZE) for row in (images, *rows) for name, _ in row))
        left = _LEFT + (wide - _SIDE) / 2  # names stand over the middle of their panels
        width = _LEFT + max((wide + _GAP) * columns, text_width(title, 11) + 8, text_width(note, _SMALL) + 8)
        height = _TOP + (_SIDE + _NAME) * (1 + len(rows)) + _BOTTOM
        figure = new_figure(width, height)
        axes = []
        for number, row in enumerate((images, *rows)):
            for column, (name, grid) in enumerate(row):
                bottom = height - _TOP - (number + 1) * (_SIDE + _NAME)
                place = ((left + column * (wide + _GAP)) / width, bottom / height, _SIDE / width, _SIDE / height)
                axes.append(figure.add_axes(place))
                look = {"cmap": worth, "vmin": -full, "vmax": full} if number else {"cmap": "gray_r"}
                axes[-1].imshow(grid.detach().cpu().double().numpy(), interpolation="nearest", **look)
                _frame(axes[-1], name)
        figure.text(_LEFT / width, 1 - 6 / height, title, fontsize=11, va="top")
        figure.text(_LEFT / width, 8 / height, note, fontsize=_SMALL, color=QUIET_INK)
    return Drawing(figure, axes[0], _in_words(images, rows, title), own=True)


def _check(images: Panels, rows: Sequence[Panels]) -> None:
    if not images or not rows or not all(rows):
        raise ValueError(explain("plot_maps got no images or an empty row of maps.", "at least one of each."))
    for name, grid in (pair for row in (images, *rows) for pair in row):
        if grid.dim() != 2:
            raise ValueError(explain(f"{name!r} has shape {tuple(grid.shape)}.", "height and width alone."))


def _frame(ax: Axes, name: str) -> None:
    ax.set_xticks([])
    ax.set_yticks([])
    ax.spines[:].set_color(RULE)
    ax.spines[:].set_linewidth(0.5)
    ax.set_title(name, fontsize=_SIZE, pad=3)


def _in_words(images: Panels, rows: Sequence[Panels], title: str) -> str:
    sentences = [f"{sentence(title)} Images: {', '.join(name for name, _ in images)}."]
    for name, grid in (pair for row in rows for pair in row):
        row, column = divmod(int(grid.argmax()), grid.shape[1])
        where = f"the most at row {row + 1}, column {column + 1}"
        sentences.append(f"{name}: from {grid.min().item():.2f} to {grid.max().item():.2f}, {where}.")
    return " ".join(sentences)
