"""Bars for measurements of several kinds, one panel each, so that they can be read across: what ``compare`` returned
(``plot_bars``), and what it does not measure beside it, such as accuracy (``plot_panels``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from course_utils.base.errors import explain
from course_utils.base.text import describe, format_bytes
from course_utils.draw.canvas import Canvas, canvas
from course_utils.draw.drawing import Drawing
from course_utils.draw.labels import sentence, shortened, wrapped
from course_utils.draw.style import BLUE, GREEN, ORANGE, PURPLE, RULE, bold_width
from course_utils.measure.compare import Comparison, format_count

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Bars differ without colour, too.
LOOKS: tuple[dict[str, Any], ...] = tuple(
    {"color": color, "hatch": hatch, "edgecolor": "#FFFFFFB0", "linewidth": 0, "height": 0.58}
    for color, hatch in zip((BLUE, ORANGE, GREEN, PURPLE), ("", "////", "....", "xxxx"), strict=True)
)
ROW = 26.0  # points; of one alternative
_PANEL = 172.0  # points
_NAME = 150.0  # points; a longer name is broken
_MOST = 5


@dataclass(frozen=True)
class _Panel:
    """One kind of cost: its name, a value for each alternative, and how each value is written; None: not measured."""

    name: str
    values: tuple[float | None, ...]
    words: tuple[str, ...]


def plot_bars(costs: Comparison | Mapping[str, int], *, ax: Axes | None = None, title: str = "") -> Drawing:
    """Draws what alternatives cost, side by side, the numbers beside the bars.

    Args:
        costs: what ``compare`` returned: one panel each for FLOPs, peak bytes, held bytes and time; or bytes by name:
            one panel.
        ax: axes to draw into. By default a figure of its own.
        title: the line above the drawing.

    Returns:
        The drawing, with the figure in words.

    Raises:
        TypeError: ``costs`` is neither, or a number of bytes is no whole number.
        ValueError: it is empty.
    """
    note = ""
    if isinstance(costs, Comparison):
        names, panels = [cost.name for cost in costs.costs], _compared(costs)
        note = f"time: as a multiple of {costs.baseline}" if costs.rounds else ""
        title = title or "What the alternatives cost"
    elif not isinstance(costs, Mapping) or not all(isinstance(value, int) for value in costs.values()):
        raise TypeError(
            explain(
                f"plot_bars was given {describe(costs)}.",
                "what compare() returned, or a dictionary of names and bytes.",
                try_this='plot_bars(compare({"multiply": first, "skip": second}))',
            )
        )
    elif not costs:
        raise ValueError(explain("plot_bars was given an empty dictionary.", "at least one name with its bytes."))
    else:
        sizes = tuple(costs.values())
        names, panels = list(costs), [_Panel("bytes", sizes, tuple(map(format_bytes, sizes)))]
    return _drawn(names, panels, title or "Bytes", note, ax, f"{title or 'Bytes'}.")


def plot_panels(
    panels: Mapping[str, Mapping[str, float]], *, title: str, note: str = "", ax: Axes | None = None
) -> Drawing:
    """Draws a panel of bars for each kind of measurement, the alternatives in the same rows of each.

    Args:
        panels: values by alternative, by the panel's heading, with its unit; at most five, all with the same
            alternatives. Whole numbers under a heading that speaks of bytes are written as such, other whole numbers in
            powers of 1000, fractions with two decimals. No value may be negative.
        title: what the figure shows.
        note: the line below.
        ax: axes to draw into. By default a figure of its own.

    Returns:
        The drawing, with the figure in words.

    Raises:
        ValueError: no panels, more than five, none or other alternatives in one of them, or a negative value.

    Example:
        >>> plot_panels({"FLOPs": {"all": 4000, "half": 2000}, "accuracy": {"all": 0.9, "half": 0.9}}, title="Two ways")
        Two ways. FLOPs: all 4 k, half 2 k. accuracy: all 0.90, half 0.90.
    """
    _check(panels)
    names = list(next(iter(panels.values())))
    made = []
    for heading, values in panels.items():
        numbers = tuple(values[name] for name in names)
        made.append(_Panel(heading, numbers, tuple(_words(heading, number) for number in numbers)))
    return _drawn(names, made, title, note, ax, sentence(title))


def name_bars(page: Canvas, names: Sequence[str]) -> None:
    """Names the bars at their left, in bold, long names in two lines."""
    page.name_rows(["\n".join(wrapped(name, _NAME, bold_width)) for name in names], fontweight="bold", linespacing=1.0)
    page.ax.tick_params(pad=7)


def _compared(costs: Comparison) -> list[_Panel]:
    flops = tuple(cost.flops for cost in costs.costs)
    panels = [_Panel("FLOPs", flops, tuple(map(format_count, flops)))]
    for heading, sizes in (
        ("peak bytes", tuple(cost.peak_bytes for cost in costs.costs)),
        ("bytes held with the result", tuple(cost.held_bytes for cost in costs.costs)),
    ):
        panels.append(_Panel(heading, sizes, tuple(map(format_bytes, sizes))))
    ratios = tuple(cost.time_ratio for cost in costs.costs)
    if None not in ratios:
        panels.append(_Panel("time", ratios, tuple(f"{ratio:.2f}x" for ratio in ratios)))
    return panels


def _words(heading: str, value: float) -> str:
    if not isinstance(value, int):
        return f"{value:.2f}"
    return format_bytes(value) if "byte" in heading.casefold() else format_count(value)


def _drawn(
    names: Sequence[str], panels: Sequence[_Panel], title: str, note: str, ax: Axes | None, words: str
) -> Drawing:
    with canvas(ax, _PANEL * len(panels), ROW * len(names), shrink=True) as page:
        name_bars(page, names)
        width = page.width / len(panels)
        for number, panel in enumerate(panels):
            # A panel is as wide as one unit of the axis, so that all stand in one axes; the longest bar leaves room for
            # every number.
            values = [value or 0.0 for value in panel.values]
            longest = max(0.1, 1 - (max(page.measure(words) for words in panel.words) + 22) / width)
            lengths = [longest * value / (max(values) or 1.0) for value in values]
            bars = page.ax.barh(range(len(names)), lengths, left=number, **LOOKS[number % len(LOOKS)])
            page.ax.bar_label(bars, panel.words, padding=5)
        page.ax.vlines(range(len(panels)), -0.5, len(names) - 0.5, color=RULE, linewidth=0.8, zorder=3)
        page.ax.set_xlim(0, len(panels))
        page.ax.set_xticks([])
        headings = [shortened(panel.name, width - 8, page.measure) for panel in panels]
        page.names_above(range(len(panels)), headings, ha="left")
        page.ax.set_xlabel("\n".join(wrapped(note, page.room, page.measure)), labelpad=8)
        page.heading(title)
    for panel in panels:
        pairs = [f"{name} {value}" for name, value in zip(names, panel.words, strict=True)]
        words += f" {panel.name}: {', '.join(pairs)}."
    return page.drawing(words)


def _check(panels: Mapping[str, Mapping[str, float]]) -> None:
    if not 1 <= len(panels) <= _MOST:
        raise ValueError(explain(f"plot_panels got {len(panels)} panels.", f"one to {_MOST}, by heading."))
    names = set(next(iter(panels.values())))
    for heading, values in panels.items():
        if not values or set(values) != names:
            raise ValueError(
                explain(
                    f"The panel {heading!r} has the alternatives {', '.join(values) or 'none'}.",
                    "the same ones in every panel, at least one.",
                    "the figure is read across its rows.",
                )
            )
        if min(values.values()) < 0:
            raise ValueError(explain(f"The panel {heading!r} has a negative value.", "values of 0 or more."))
