"""What stands around the data of a figure: two lines above and a legend below (``make_room``)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from course_utils.draw.labels import shortened
from course_utils.draw.style import INK, QUIET_INK, figure_size, text_width

if TYPE_CHECKING:
    from matplotlib.axes import Axes

TITLE_SIZE, SUMMARY_SIZE, SMALL_SIZE = 11.0, 9.0, 8.5

_NUMBERS_AND_NAME = 50.0  # below the axes
_LINE = SMALL_SIZE * 1.7
_SIGN, _AFTER_SIGN, _BETWEEN = 16.0, 22.0, 16.0  # in the legend: the sign, where its word starts, the gap to the next


def make_room(
    ax: Axes, heading: tuple[str, str], handles: list[Any], note: str, *, strip: float = 0.0
) -> tuple[float, float]:
    """Moves the edges of axes inwards and writes into the room, so that nothing leaves the place they had.

    Args:
        ax: the axes.
        heading: a title and a line below it; shortened where they are too long.
        handles: patches with labels, for the legend: as many rows as they need.
        note: a last line, or "".
        strip: room in points to leave free above the data.

    Returns:
        The new width and height of the axes, in points.
    """
    figure_width, figure_height = figure_size(ax)
    position = ax.get_position()
    left, width = position.x0 * figure_width, position.width * figure_width
    y = position.y1 * figure_height
    for text, size, bold in ((heading[0], TITLE_SIZE, True), (heading[1], SUMMARY_SIZE, False)):
        y -= size * 1.4
        fitted = shortened(text, width, _measure(size, bold))
        _write(ax, left + width / 2, y + size * 0.7, fitted, size, bold=bold, color=INK)
    rows = _rows(handles, width)
    below = (len(rows) + bool(note)) * _LINE
    bottom = max(position.y0 * figure_height, _NUMBERS_AND_NAME) + below
    top = y - 6 - strip
    ax.set_position((position.x0, bottom / figure_height, position.width, (top - bottom) / figure_height))
    y = bottom - _NUMBERS_AND_NAME + SMALL_SIZE
    for row in rows:
        _write_row(ax, row, left, width, y)
        y -= _LINE
    if note:
        fitted = shortened(note, width, _measure(SMALL_SIZE, False))
        _write(ax, left + width / 2, y, fitted, SMALL_SIZE, color=QUIET_INK)
    return width, top - bottom


def _measure(size: float, bold: bool) -> Callable[[str], float]:
    return lambda text: text_width(text, size, bold)


def _entry(handle: Any) -> float:
    return _AFTER_SIGN + text_width(handle.get_label(), SMALL_SIZE) + _BETWEEN


def _rows(handles: list[Any], width: float) -> list[list[Any]]:
    rows: list[list[Any]] = []
    used = width + 1
    for handle in handles:
        if used + _entry(handle) - _BETWEEN > width:
            rows.append([])
            used = 0.0
        rows[-1].append(handle)
        used += _entry(handle)
    return rows


def _write_row(ax: Axes, row: list[Any], left: float, width: float, y: float) -> None:
    from matplotlib.patches import Rectangle

    figure: Any = ax.get_figure()
    figure_width, figure_height = figure_size(ax)
    x = left + (width - sum(map(_entry, row)) + _BETWEEN) / 2
    for handle in row:
        sign = Rectangle((x / figure_width, (y - 4) / figure_height), _SIGN / figure_width, 8 / figure_height)
        sign.update_from(handle)
        sign.set_transform(figure.transSubfigure)
        figure.add_artist(sign)
        _write(ax, x + _AFTER_SIGN, y, handle.get_label(), SMALL_SIZE, color=QUIET_INK, align="left")
        x += _entry(handle)


def _write(
    ax: Axes, x: float, y: float, text: str, size: float, *, color: str, bold: bool = False, align: str = "center"
) -> None:
    figure: Any = ax.get_figure()
    figure_width, figure_height = figure_size(ax)
    figure.text(
        x / figure_width,
        y / figure_height,
        text,
        ha=align,
        va="center",
        fontsize=size,
        fontweight="bold" if bold else "normal",
        color=color,
        parse_math=False,
    )
