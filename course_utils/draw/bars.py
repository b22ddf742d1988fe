"""Panels side by side, so that they can be read across: bars of what ``compare`` returned (``plot_bars``), and of what
it does not measure, such as accuracy (``plot_panels``); images, and under them what each place of them is worth, all
maps in one scale of colours (``plot_maps``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from torch import Tensor

from course_utils.base import explain
from course_utils.base.text import describe, format_bytes
from course_utils.draw import style
from course_utils.draw.page import Drawing, new_page, require
from course_utils.draw.style import RULE, bold_width, sentence, shortened, text_width, wrapped
from course_utils.measure.compare import Comparison, format_count

# Bars differ without colour, too.
_COLORS = (style.BLUE, style.ORANGE, style.GREEN, style.PURPLE)
LOOKS: tuple[dict[str, Any], ...] = tuple(
    {"color": color, "hatch": hatch, "edgecolor": "#FFFFFFB0", "linewidth": 0, "height": 0.58}
    for color, hatch in zip(_COLORS, ("", "////", "....", "xxxx"), strict=True)
)
_ROW = 26.0  # points; of one alternative
_PANEL = 172.0  # points
_NAME = 150.0  # points; a longer name is broken
_MOST = 5


def plot_bars(costs: Comparison | Mapping[str, int], *, title: str = "") -> Drawing:
    """Draws what alternatives cost, side by side, the numbers beside the bars.

    Args:
        costs: what ``compare`` returned: one panel each for FLOPs, peak bytes, held bytes and time; or bytes by name.
        title: the line above the drawing.

    Returns:
        The drawing, with the figure in words.

    Raises:
        TypeError: ``costs`` is neither, or a number of bytes is no whole number.
        ValueError: it is empty.
    """
    if not isinstance(costs, Comparison):
        if not isinstance(costs, Mapping) or not all(isinstance(value, int) for value in costs.values()):
            wanted = "what compare() returned, or a dictionary of names and bytes."
            raise TypeError(explain(f"plot_bars was given {describe(costs)}.", wanted))
        return plot_panels({"bytes": costs}, title=title or "Bytes")
    panels: dict[str, Mapping[str, float]] = {
        "FLOPs": {cost.name: cost.flops for cost in costs.costs},
        "peak bytes": {cost.name: cost.peak_bytes for cost in costs.costs},
        "bytes held with the result": {cost.name: cost.held_bytes for cost in costs.costs},
    }
    if costs.rounds:
        panels["time"] = {cost.name: cost.time_ratio or 0.0 for cost in costs.costs}
    note = f"time: as a multiple of {costs.baseline}" if costs.rounds else ""
    return _drawn(panels, title or "What the alternatives cost", note, times="x")


def plot_panels(panels: Mapping[str, Mapping[str, float]], *, title: str, note: str = "") -> Drawing:
    """Draws a panel of bars for each kind of measurement, the alternatives in the same rows of each.

    Args:
        panels: values by alternative, by the panel's heading, with its unit; at most five, all with the same
            alternatives. Whole numbers under a heading that speaks of bytes are written as such, other whole numbers in
            powers of 1000, fractions with two decimals. No value may be negative.
        title: what the figure shows.
        note: the line below.

    Returns:
        The drawing, with the figure in words.

    Raises:
        ValueError: no panels, more than five, none or other alternatives in one of them, or a negative value.

    Example:
        >>> plot_panels({"FLOPs": {"all": 4000, "half": 2000}, "accuracy": {"all": 0.9, "half": 0.9}}, title="Two ways")
        Two ways. FLOPs: all 4 k, half 2 k. accuracy: all 0.90, half 0.90.
    """
    return _drawn(panels, title, note)


def _drawn(panels: Mapping[str, Mapping[str, float]], title: str, note: str, times: str = "") -> Drawing:
    """``times`` follows each fraction."""
    require(1 <= len(panels) <= _MOST, f"{len(panels)} panels were to be drawn.", f"one to {_MOST}, by heading.")
    names = list(next(iter(panels.values())))
    for heading, values in panels.items():
        found = f"The panel {heading!r} has the alternatives {', '.join(values) or 'none'}."
        require(values and set(values) == set(names), found, "the same ones in every panel, at least one.")
        require(min(values.values()) >= 0, f"The panel {heading!r} has a negative value.", "values of 0 or more.")
    words = {heading: [_written(heading, values[name], times) for name in names] for heading, values in panels.items()}
    with new_page(_PANEL * len(panels), _ROW * len(names)) as page:
        rows = ["\n".join(wrapped(name, _NAME, bold_width)) for name in names]
        page.name_rows(rows, fontweight="bold", linespacing=1.0)
        page.ax.tick_params(pad=7)
        for at, (heading, values) in enumerate(panels.items()):
            # A panel is as wide as one unit of the axis; the longest bar leaves room for every number.
            longest = max(0.1, 1 - (max(map(text_width, words[heading])) + 22) / _PANEL)
            most = max(values.values()) or 1.0
            lengths = [longest * values[name] / most for name in names]
            bars = page.ax.barh(range(len(names)), lengths, left=at, **LOOKS[at % len(LOOKS)])
            page.ax.bar_label(bars, words[heading], padding=5)
        page.ax.vlines(range(len(panels)), -0.5, len(names) - 0.5, color=RULE, linewidth=0.8, zorder=3)
        page.ax.set(xlim=(0, len(panels)), xticks=[])
        page.names_above(range(len(panels)), [shortened(name, _PANEL - 8, text_width) for name in panels], ha="left")
        page.ax.set_xlabel("\n".join(wrapped(note, page.room, text_width)), labelpad=8)
        page.heading(title, loc="center")
    said = [f"{heading}: {', '.join(map(' '.join, zip(names, words[heading], strict=True)))}." for heading in panels]
    return Drawing(page.figure, " ".join([sentence(title), *said]))


def _written(heading: str, value: float, times: str) -> str:
    if not isinstance(value, int):
        return f"{value:.2f}{times}"
    return format_bytes(value) if "byte" in heading.casefold() else format_count(value)


_SIDE = 84.0  # points; of a panel

Images = Sequence[tuple[str, Tensor]]


def plot_maps(images: Images, *rows: Images, title: str) -> Drawing:
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

    require(images and rows and all(rows), "plot_maps got no images or an empty row of maps.", "at least one of each.")
    for name, grid in (pair for row in (images, *rows) for pair in row):
        require(grid.dim() == 2, f"{name!r} has shape {tuple(grid.shape)}.", "height and width alone.")
    values = [grid.detach().cpu().double() for row in rows for _, grid in row]
    low = min(0.0, *(grid.min().item() for grid in values))
    high = max(0.0, *(grid.max().item() for grid in values))
    full = max(high, -low) or 1.0
    note = f"white: 0; full blue: {full:.2f}" + (f"; full orange: {-full:.2f}" if low < 0 else "")
    worth = LinearSegmentedColormap.from_list("worth", [style.VERMILION, style.PAPER, style.BLUE])
    shown = (images, *rows)
    # Names that are wider than their images keep these apart.
    wide = max(_SIDE, *(text_width(name) + 8 for row in shown for name, _ in row))
    with new_page(wide, _SIDE, rows=len(shown), columns=max(map(len, shown))) as page:
        for number, (row, axes) in enumerate(zip(shown, page.axes, strict=True)):
            look = {"cmap": worth, "vmin": -full, "vmax": full} if number else {"cmap": "gray_r"}
            for (name, grid), ax in zip(row, axes, strict=False):
                ax.imshow(grid.detach().cpu().double().numpy(), interpolation="nearest", **look)
                page.names_above([(grid.shape[1] - 1) / 2], [name], ax=ax)
                ax.set(xticks=[], yticks=[])
                ax.spines[:].set(color=RULE, linewidth=0.5)
            for ax in axes[len(row) :]:
                ax.set_axis_off()
        page.axes[-1][0].set_xlabel(note, color=style.QUIET_INK, loc="left", labelpad=8)
        page.heading(title)
    return Drawing(page.figure, _in_words(images, rows, title))


def _in_words(images: Images, rows: Sequence[Images], title: str) -> str:
    sentences = [f"{sentence(title)} Images: {', '.join(name for name, _ in images)}."]
    for name, grid in (pair for row in rows for pair in row):
        row, column = divmod(int(grid.argmax()), grid.shape[1])
        where = f"the most at row {row + 1}, column {column + 1}"
        sentences.append(f"{name}: from {grid.min().item():.2f} to {grid.max().item():.2f}, {where}.")
    return " ".join(sentences)
