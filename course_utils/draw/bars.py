"""Draws bars for costs side by side, one panel for each kind of cost (``bars``)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from course_utils.draw.labels import shortened, wrapped
from course_utils.draw.style import BLUE, GREEN, INK, ORANGE, PURPLE, QUIET_INK, RULE, text_width

if TYPE_CHECKING:
    from matplotlib.axes import Axes

TITLE_SIZE, HEAD_SIZE, TEXT_SIZE = 11.0, 9.0, 8.5
ROW, BAR = 26.0, 15.0
NAME_WIDEST = 150.0
_GAP = 22.0
_COLORS = (BLUE, ORANGE, GREEN, PURPLE)
_HATCHES = ("", "////", "....", "xxxx")


@dataclass(frozen=True)
class Panel:
    """One kind of cost: its name, a value for each alternative, and how each value is written; None: not measured."""

    name: str
    values: tuple[float | None, ...]
    words: tuple[str, ...]


def name_width(names: Sequence[str]) -> float:
    """The width in points of the column of names."""
    return min(NAME_WIDEST, max(text_width(name, TEXT_SIZE, True) for name in names))


def bars_size(names: Sequence[str], panels: Sequence[Panel], note: str) -> tuple[float, float]:
    """Width and height in points that the bars need."""
    return name_width(names) + 40 + len(panels) * (150 + _GAP), (86 if note else 70) + ROW * len(names)


def draw_bars(ax: Axes, names: Sequence[str], panels: Sequence[Panel], title: str, note: str) -> None:
    """Draws into axes whose data coordinates are points, y downwards.

    Args:
        ax: the axes.
        names: of the alternatives, one row each.
        panels: side by side.
        title: the line above.
        note: the line below.
    """
    width, height = bars_size(names, panels, note)
    left = 14 + name_width(names) + 12
    room = (width - 14 - left - (len(panels) - 1) * _GAP) / len(panels)
    _text(ax, width / 2, 18, shortened(title, width - 28, _measure(TITLE_SIZE, True)), TITLE_SIZE, bold=True)
    for row, name in enumerate(names):
        lines = wrapped(name, NAME_WIDEST, _measure(TEXT_SIZE, True))
        y = 56 + ROW * (row + 0.5)
        for number, line in enumerate(lines):
            _text(ax, left - 8, y + (number - (len(lines) - 1) / 2) * 10.5, line, TEXT_SIZE, bold=True, align="right")
    for number, panel in enumerate(panels):
        x = left + number * (room + _GAP)
        _text(ax, x, 42, shortened(panel.name, room, _measure(HEAD_SIZE, False)), HEAD_SIZE, align="left")
        _draw_panel(ax, x, room, panel, _COLORS[number % 4], _HATCHES[number % 4])
    _text(ax, width / 2, height - 14, shortened(note, width - 28, _measure(TEXT_SIZE, False)), TEXT_SIZE, quiet=True)


def _draw_panel(ax: Axes, x: float, room: float, panel: Panel, color: str, hatch: str) -> None:
    from matplotlib.patches import Rectangle

    # The longest bar for which every number still fits behind its bar.
    lengths = [
        (room - text_width(words, TEXT_SIZE) - 6) / value
        for value, words in zip(panel.values, panel.words, strict=True)
        if value
    ]
    scale = max(min(lengths, default=0.0), 0.0)
    rows = len(panel.values)
    ax.plot([x, x], [54, 58 + ROW * rows], color=RULE, linewidth=0.8, zorder=3)
    for row, (value, words) in enumerate(zip(panel.values, panel.words, strict=True)):
        y = 56 + ROW * (row + 0.5)
        length = scale * (value or 0.0)
        if length:
            ax.add_patch(
                Rectangle(
                    (x, y - BAR / 2), length, BAR, facecolor=color, edgecolor="#FFFFFFB0", hatch=hatch, linewidth=0
                )
            )
        _text(ax, x + length + 5, y, words, TEXT_SIZE, align="left")


def _measure(size: float, bold: bool):
    return lambda text: text_width(text, size, bold)


def _text(
    ax: Axes, x: float, y: float, text: str, size: float, bold: bool = False, align: str = "center", quiet: bool = False
) -> None:
    scale = ax.bbox.width * 72 / ax.figure.dpi / abs(ax.get_xlim()[1] - ax.get_xlim()[0])
    ax.text(
        x,
        y,
        text,
        fontsize=size * scale,
        fontweight="bold" if bold else "normal",
        ha=align,
        va="center",
        color=QUIET_INK if quiet else INK,
        parse_math=False,
        zorder=4,
    )
