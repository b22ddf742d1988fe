"""Lines over steps, sizes or batches, each named at its end: in one panel (``plot_lines``) or more (``plot_trade``)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from course_utils.base.text import format_bytes
from course_utils.draw.layout import spread
from course_utils.draw.page import Drawing, Page, new_page, require
from course_utils.draw.style import BLUE, GREEN, PURPLE, RULE, SKY, TEXT_SIZE, VERMILION, byte_unit, sentence

Lines = Mapping[str, Sequence[float]]

# Colour, dashes and marker: each line differs from the others in all three, so that colour is never the only sign.
_LOOKS = (
    (BLUE, "-", "o"),
    (VERMILION, "--", "s"),
    (GREEN, "-.", "^"),
    (PURPLE, ":", "D"),
    (SKY, (0, (8, 2)), "v"),
    ("#000000", (0, (3, 1, 1, 1, 1, 1)), "P"),
)


def plot_lines(lines: Lines, *, x: str, y: str, title: str, at: Sequence[float] | None = None) -> Drawing:
    """Draws one line for each name, and writes the name where the line ends.

    Args:
        lines: values by name, at most six names; bytes are shown as such where ``y`` speaks of bytes.
        x: what runs along the x axis, with its unit where it has one.
        y: what runs along the y axis, with its unit.
        title: what the figure shows.
        at: the x value of each point; 1, 2, 3 and so on where it is left out.

    Returns:
        The drawing, with the figure in words.

    Raises:
        ValueError: no lines, more than six, an empty one, or one of another length than ``at``.

    Example:
        >>> plot_lines({"kept": [40, 80], "freed": [40, 40]}, x="batch", y="bytes alive", title="Two loops")
        Two loops. Up: bytes alive. Right: batch, from 1 to 2. kept: from 40 B to 80 B. freed: 40 B throughout.
    """
    from matplotlib.ticker import MaxNLocator

    return _drawn({y: lines}, x, at, title, lambda axis: axis.set_major_locator(MaxNLocator(nbins=10, integer=True)))


def plot_trade(
    panels: Mapping[str, Lines], *, x: str, at: Sequence[float], title: str, doubling: bool = False
) -> Drawing:
    """Draws one panel for each quantity, over a shared x axis, so that one can be weighed against the other.

    Args:
        panels: by the name and unit of a quantity, its lines by name; see ``plot_lines``.
        x: what runs along the x axis, with its unit where it has one.
        at: the x value of each point; each gets a mark on the axis.
        title: what the figure shows.
        doubling: whether equal steps along the x axis are factors of two.

    Returns:
        The drawing, with the figure in words.

    Raises:
        ValueError: no panels, lines that ``plot_lines`` refuses, or ``doubling`` with an x value that is not positive.

    Example:
        >>> sizes, times = {"measured": [80, 40]}, {"measured": [1.0, 1.2]}
        >>> plot_trade({"peak bytes": sizes, "time": times}, x="parts", at=[1, 2], title="A trade")
        A trade. Up: peak bytes. Right: parts, from 1 to 2. measured: from 80 B to 40 B. Up: time. Right: parts, \
from 1 to 2. measured: from 1 to 1.2.
    """
    require(not doubling or min(at) > 0, f"plot_trade(at={list(at)}, doubling=True).", "x values above 0.")

    def mark(axis: Any) -> None:
        axis.set_ticks(at, [f"{position:g}" for position in at])
        axis.axes.minorticks_off()

    return _drawn(panels, x, at, title, mark, doubling)


def _drawn(
    panels: Mapping[str, Lines], x: str, at: Sequence[float] | None, title: str, mark: Any, doubling: bool = False
) -> Drawing:
    require(panels, "There is no panel to draw.", "at least one quantity with its lines.")
    for y, lines in panels.items():
        require(1 <= len(lines) <= len(_LOOKS), f"{y!r} has {len(lines)} lines.", f"one to {len(_LOOKS)}, by name.")
        for name, values in lines.items():
            wanted = len(at) if at is not None else max(len(values), 1)
            require(len(values) == wanted, f"Line {name!r} has {len(values)} values.", f"{wanted}, one for each x.")
    with new_page(460.0, 190.0, rows=len(panels), sharex=True) as page:
        page.heading(title)
        for (ax,), (y, lines) in zip(page.axes, panels.items(), strict=True):
            if doubling:
                ax.set_xscale("log", base=2)
            _draw(page, ax, lines, y, at)
        mark(ax.xaxis)
        ax.set_xlabel(x)
    words = (_in_words(lines, x, y, at) for y, lines in panels.items())
    return Drawing(page.figure, " ".join([sentence(title), *words]))


def _draw(page: Page, ax: Any, lines: Lines, y: str, at: Sequence[float] | None) -> None:
    drawn = []
    for (name, values), (colour, dashes, marker) in zip(lines.items(), _LOOKS, strict=False):
        places = at or range(1, len(values) + 1)
        look: dict[str, Any] = {"color": colour, "linestyle": dashes, "linewidth": 1.8, "markersize": 4.5}
        (line,) = ax.plot(places, values, label=name, marker=marker if len(values) <= 30 else None, **look)
        drawn.append((line, (places[-1], values[-1])))
    ax.set_ylabel(y)
    lowest = min(0.0, min(min(values) for values in lines.values()))
    ax.set_ylim(bottom=lowest - 0.03 * (ax.get_ylim()[1] - lowest))  # a line along zero is not hidden by the axis
    ax.margins(x=0.02)
    ax.spines[["top", "right"]].set_visible(False)
    if _in_bytes(y):
        _count_in_bytes(ax)
    _write_names(page, ax, drawn)


def _in_bytes(y: str) -> bool:
    return "byte" in y.casefold()


def _count_in_bytes(ax: Any) -> None:
    """Ticks at numbers that are round in KiB, MiB and so on."""
    from matplotlib.ticker import MaxNLocator

    top = ax.get_ylim()[1]
    _, unit = byte_unit(top)
    # Quarters and halves of a unit are whole numbers of bytes, fifths and tenths are not.
    steps = [1, 2.5, 5, 10] if unit > 1 and top < 5 * unit else [1, 2, 5, 10]
    ticks = MaxNLocator(5, steps=steps, integer=unit == 1).tick_values(0, top / unit)
    inside = sorted({int(tick * unit) for tick in ticks if 0 <= tick * unit <= top})
    ax.set_yticks(inside, [format_bytes(tick).replace(".0 ", " ") for tick in inside])


def _write_names(page: Page, ax: Any, lines: list[Any]) -> None:
    """Puts each name right of its line's end, moved up or down as far as needed to keep the names apart."""
    gap, last = TEXT_SIZE * 1.35, len(lines) - 1
    to_share = ax.transScale + ax.transLimits
    lines = sorted(lines, key=lambda line: line[1][1])
    heights = [page.height * to_share.transform(end)[1] for _, end in lines]
    # None so high that those above it leave the axes, none so low that those below do.
    wanted = [min(max(at, gap * place), page.height - gap * (last - place)) for place, at in enumerate(heights)]
    apart = spread(wanted, [1.0] * len(lines), [gap] * len(lines), gap=0.0)
    for (line, end), at, place in zip(lines, heights, apart, strict=True):
        color = RULE if abs(place - at) > 1 else line.get_color()
        look: dict[str, Any] = {"arrowstyle": "-", "color": color, "linewidth": 0.8, "shrinkB": 2, "relpos": (0, 0.5)}
        shift: dict[str, Any] = {"xytext": (14, place - at), "textcoords": "offset points", "va": "center"}
        ax.annotate(str(line.get_label()), end, arrowprops=look, annotation_clip=False, **shift)


def _in_words(lines: Lines, x: str, y: str, at: Sequence[float] | None) -> str:
    def number(value: float) -> str:
        return format_bytes(int(value)) if _in_bytes(y) else f"{value:.4g}"

    first, last = (at[0], at[-1]) if at is not None else (1, max(map(len, lines.values())))
    sentences = [f"Up: {y}. Right: {x}, from {first:g} to {last:g}."]
    for name, values in lines.items():
        low, high, ends = min(values), max(values), (values[0], values[-1])
        if low == high:
            sentences.append(f"{name}: {number(low)} throughout.")
            continue
        between = "" if low in ends and high in ends else f", between {number(low)} and {number(high)}"
        sentences.append(f"{name}: from {number(ends[0])} to {number(ends[1])}{between}.")
    return " ".join(sentences)
