"""Lines over steps, sizes or batches, each named at its end (``plot_lines``)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import cycle
from typing import TYPE_CHECKING, Any

from course_utils.base.errors import explain
from course_utils.base.text import format_bytes
from course_utils.draw.labels import sentence
from course_utils.draw.style import (
    BLUE,
    GREEN,
    PAPER,
    PURPLE,
    RULE,
    SKY,
    VERMILION,
    Drawing,
    new_figure,
    style,
    text_width,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Colour, dashes and marker: each line differs from the others in all three, so that colour is never the only sign.
_LOOKS = (
    (BLUE, "-", "o"),
    (VERMILION, "--", "s"),
    (GREEN, "-.", "^"),
    (PURPLE, ":", "D"),
    (SKY, (0, (8, 2)), "v"),
    ("#000000", (0, (3, 1, 1, 1, 1, 1)), "P"),
)
_SIZE = 9.0  # points; of the names
_WIDTH, _HEIGHT = 600.0, 270.0  # points
_LEFT, _BOTTOM, _TOP = 64.0, 44.0, 30.0  # room for tick labels, the x label, the title


def plot_lines(
    lines: Mapping[str, Sequence[float]],
    *,
    x: str,
    y: str,
    title: str,
    at: Sequence[float] | None = None,
    ax: Axes | None = None,
) -> Drawing:
    """Draws one line for each name, and writes the name where the line ends.

    Args:
        lines: values by name, at most six names; bytes are shown as such where ``y`` speaks of bytes.
        x: what runs along the x axis, with its unit where it has one.
        y: what runs along the y axis, with its unit; bytes are counted in KiB, MiB and so on.
        title: what the figure shows.
        at: the x value of each point; 1, 2, 3 and so on where it is left out.
        ax: axes to draw into; by default a figure of its own.

    Returns:
        The drawing, with the figure in words.

    Raises:
        ValueError: no lines, more than six, an empty one, or one of another length than ``at``.

    Example:
        >>> plot_lines({"kept": [40, 80], "freed": [40, 40]}, x="batch", y="bytes alive", title="Two loops")
        Two loops. Up: bytes alive. Right: batch, from 1 to 2. kept: from 40 B to 80 B. freed: 40 B throughout.
    """
    _check(lines, at)
    in_bytes = "byte" in y.casefold()
    with style():
        own = ax is None
        if ax is None:
            right = max(text_width(name, _SIZE) for name in lines) + 26
            figure: Any = new_figure(_WIDTH, _HEIGHT)
            width, height = _WIDTH - _LEFT - right, _HEIGHT - _BOTTOM - _TOP
            ax = figure.add_axes((_LEFT / _WIDTH, _BOTTOM / _HEIGHT, width / _WIDTH, height / _HEIGHT))
        else:
            figure = ax.get_figure()
        ax.set_facecolor(PAPER)
        ends = {}
        for (name, values), (colour, dashes, marker) in zip(lines.items(), cycle(_LOOKS)):
            positions = list(at) if at is not None else list(range(1, len(values) + 1))
            few = len(values) <= 30
            ax.plot(
                positions,
                values,
                color=colour,
                linestyle=dashes,
                linewidth=1.8,
                marker=marker if few else "",
                markersize=4.5,
                label=name,
            )
            ends[name] = (positions[-1], values[-1], colour)
        ax.set_xlabel(x)
        ax.set_ylabel(y)
        ax.set_title(title, fontsize=11, loc="left")
        lowest = min(0.0, min(min(values) for values in lines.values()))
        ax.set_ylim(bottom=lowest - 0.03 * (ax.get_ylim()[1] - lowest))  # a line along zero is not hidden by the axis
        ax.margins(x=0.02)
        ax.spines[["top", "right"]].set_visible(False)
        _set_ticks(ax, in_bytes)
        _write_names(ax, ends, figure.dpi / 72)
    return Drawing(figure, ax, f"{sentence(title)} {lines_in_words(lines, x, y, at)}", own=own)


def _check(lines: Mapping[str, Sequence[float]], at: Sequence[float] | None) -> None:
    if not 1 <= len(lines) <= len(_LOOKS):
        raise ValueError(explain(f"plot_lines got {len(lines)} lines.", f"one to {len(_LOOKS)} lines, by name."))
    for name, values in lines.items():
        wanted = len(at) if at is not None else max(len(values), 1)
        if len(values) != wanted:
            raise ValueError(explain(f"Line {name!r} has {len(values)} values.", f"{wanted}, one for each x position."))


def _set_ticks(ax: Axes, in_bytes: bool) -> None:
    from matplotlib.ticker import FixedLocator, MaxNLocator

    ax.tick_params(labelsize=9)
    ax.xaxis.set_major_locator(MaxNLocator(nbins=10, integer=True))
    if in_bytes:
        top = ax.get_ylim()[1]
        step = _byte_step(top)
        ticks = [number * step for number in range(int(top // step) + 1)]
        ax.yaxis.set_major_locator(FixedLocator([float(tick) for tick in ticks]))
        ax.set_yticklabels([_short(tick) for tick in ticks])


def _byte_step(top: float) -> int:
    """A step of 1, 2 or 5 times a power of ten of a binary unit, so that ticks are round in that unit."""
    unit = 1
    while top >= unit * 1024:
        unit *= 1024
    for factor in (1, 2, 5, 10, 20, 50, 100, 200, 500):
        if top / (unit * factor) <= 5:
            if unit > 1 and top / unit < 3:  # few of the great unit: count in quarters of it
                return unit // 4 if top / unit < 1.5 else unit // 2
            return unit * factor
    return unit * 500


def _short(nbytes: float) -> str:
    return format_bytes(int(nbytes)).replace(".0 ", " ")


def _write_names(ax: Axes, ends: Mapping[str, tuple[float, float, Any]], scale: float) -> None:
    """Puts each name right of its line's end, moved up or down as far as needed to keep the names apart."""
    spots = sorted((ax.transData.transform((x, y))[1] / scale, name) for name, (x, y, _) in ends.items())
    gap = _SIZE * 1.35
    heights: list[float] = []
    for wanted, _ in spots:
        heights.append(max(wanted, heights[-1] + gap) if heights else wanted)
    frame = ax.get_window_extent()
    overflow = heights[-1] - frame.y1 / scale
    if overflow > 0:  # push the whole stack down from the top
        ceiling = frame.y1 / scale
        for index in reversed(range(len(heights))):
            heights[index] = min(heights[index], ceiling)
            ceiling = heights[index] - gap
    for (wanted, name), height in zip(spots, heights, strict=True):
        x, y, colour = ends[name]
        moved = abs(height - wanted) > 1
        ax.annotate(
            name,
            xy=(x, y),
            xytext=(14, height - wanted),
            textcoords="offset points",
            fontsize=_SIZE,
            va="center",
            annotation_clip=False,
            arrowprops={
                "arrowstyle": "-",
                "color": RULE if moved else colour,
                "linewidth": 0.8,
                "shrinkB": 2,
                "relpos": (0, 0.5),
            },
        )


def lines_in_words(lines: Mapping[str, Sequence[float]], x: str, y: str, at: Sequence[float] | None) -> str:
    """What the lines show, in words, without the figure's title; the arguments are those of ``plot_lines``."""
    in_bytes = "byte" in y.casefold()

    def number(value: float) -> str:
        return format_bytes(int(value)) if in_bytes else f"{value:.4g}"

    longest = max(len(values) for values in lines.values())
    first, last = (at[0], at[-1]) if at is not None else (1, longest)
    sentences = [f"Up: {y}. Right: {x}, from {first:g} to {last:g}."]
    for name, values in lines.items():
        low, high = min(values), max(values)
        if low == high:
            sentences.append(f"{name}: {number(low)} throughout.")
            continue
        text = f"{name}: from {number(values[0])} to {number(values[-1])}"
        inner = [value for value in (low, high) if value not in (values[0], values[-1])]
        if inner:
            text += f", between {number(low)} and {number(high)}"
        sentences.append(text + ".")
    return " ".join(sentences)
