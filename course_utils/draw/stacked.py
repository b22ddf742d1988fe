"""A bill in bytes: one bar for each alternative, made of its parts, which add up (``plot_stacked``)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from course_utils.base.errors import explain
from course_utils.base.text import format_bytes
from course_utils.draw.bars import _COLORS, _HATCHES, BAR, ROW, TEXT_SIZE, TITLE_SIZE, _measure, _text, name_width
from course_utils.draw.figures import _fitted
from course_utils.draw.labels import sentence, shortened, wrapped
from course_utils.draw.style import RULE, Drawing, root_figure, style, text_width

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_BARS = 420.0  # points; of the longest bar and its number
_TOP = 62.0  # points; above the first bar: the title and the legend


def plot_stacked(bills: Mapping[str, Mapping[str, int]], *, title: str, ax: Axes | None = None) -> Drawing:
    """Draws one bar of bytes for each alternative, its parts end to end, and the sum behind it.

    Args:
        bills: the bytes of each part by its name, by alternative; at most four parts, the same ones in every bill.
        title: what the figure shows.
        ax: axes to draw into; the picture is shrunk to fit. By default a figure of its own.

    Returns:
        The drawing, with the figure in words.

    Raises:
        ValueError: no bills, more than four parts, or a bill with none or with other parts.

    Example:
        >>> plot_stacked({"all": {"kept": 40, "lost": 8}, "half": {"kept": 20, "lost": 0}}, title="Two ways")
        Two ways. all: 48 B (kept 40 B, lost 8 B). half: 20 B (kept 20 B, lost 0 B).
    """
    parts = _parts(bills)
    width, height = 14 + name_width(list(bills)) + 12 + _BARS + 14, _TOP + ROW * len(bills) + 16
    with style():
        drawing_ax, own = _fitted(ax, width, height)[:2]
        _text(
            drawing_ax, width / 2, 18, shortened(title, width - 28, _measure(TITLE_SIZE, True)), TITLE_SIZE, bold=True
        )
        _draw_legend(drawing_ax, width - 14 - _BARS, parts)
        _draw_bills(drawing_ax, width - 14 - _BARS, bills)
    sentences = [sentence(title)]
    for name, bill in bills.items():
        listed = ", ".join(f"{part} {format_bytes(size)}" for part, size in bill.items())
        sentences.append(f"{name}: {format_bytes(sum(bill.values()))} ({listed}).")
    return Drawing(root_figure(drawing_ax), drawing_ax, " ".join(sentences), own=own)


def _parts(bills: Mapping[str, Mapping[str, int]]) -> list[str]:
    parts = list(next(iter(bills.values()), ()))
    if not 1 <= len(parts) <= len(_COLORS):
        what = f"plot_stacked got {len(bills)} bills of {len(parts)} parts."
        raise ValueError(explain(what, f"at least one bill, of one to {len(_COLORS)} parts."))
    for name, bill in bills.items():
        if list(bill) != parts:
            what = f"The bill {name!r} has the parts {', '.join(bill) or 'none'}."
            raise ValueError(explain(what, f"{', '.join(parts)}, as the first one."))
    return parts


def _draw_bills(ax: Axes, left: float, bills: Mapping[str, Mapping[str, int]]) -> None:
    totals = {name: format_bytes(sum(bill.values())) for name, bill in bills.items()}
    room = _BARS - max(text_width(words, TEXT_SIZE) for words in totals.values()) - 6
    scale = room / max(*(sum(bill.values()) for bill in bills.values()), 1)
    ax.plot([left, left], [_TOP - 2, _TOP + ROW * len(bills) + 2], color=RULE, linewidth=0.8, zorder=3)
    for row, (name, bill) in enumerate(bills.items()):
        y, x = _TOP + ROW * (row + 0.5), left
        lines = wrapped(name, name_width(list(bills)), _measure(TEXT_SIZE, True))
        for number, line in enumerate(lines):
            height = y + (number - (len(lines) - 1) / 2) * 10.5
            _text(ax, left - 8, height, line, TEXT_SIZE, bold=True, align="right")
        for number, size in enumerate(bill.values()):
            _box(ax, x, y, scale * size, number)
            x += scale * size
        _text(ax, x + 5, y, totals[name], TEXT_SIZE, align="left")


def _draw_legend(ax: Axes, left: float, parts: list[str]) -> None:
    for number, part in enumerate(parts):
        _box(ax, left, 42, BAR, number)
        _text(ax, left + BAR + 5, 42, part, TEXT_SIZE, align="left")
        left += BAR + 5 + text_width(part, TEXT_SIZE) + 18


def _box(ax: Axes, x: float, y: float, length: float, number: int) -> None:
    from matplotlib.patches import Rectangle

    box = Rectangle((x, y - BAR / 2), length, BAR, facecolor=_COLORS[number], edgecolor="#FFFFFFB0", linewidth=0)
    box.set_hatch(_HATCHES[number])
    ax.add_patch(box)
