"""The bytes alive over time (``plot_memory``): what they were for, the phases, the peak, and the same in words."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import cycle
from typing import TYPE_CHECKING, Any, Literal

from course_utils.base.errors import explain
from course_utils.base.text import count_of, describe, format_bytes
from course_utils.draw.canvas import Canvas, canvas
from course_utils.draw.drawing import Drawing
from course_utils.draw.labels import byte_unit, shortened
from course_utils.draw.style import BLUE, GREEN, GREY, INK, ORANGE, PURPLE, RULE, SKY, bold_width, text_width
from course_utils.memory import MemoryTracker
from course_utils.memory.report import Timeline

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Fill and hatching: categories differ without colour, too.
CATEGORY_STYLES: dict[str, tuple[str, str]] = {
    "parameters": (SKY, ""),
    "gradients": (GREEN, "\\\\\\\\"),
    "optimizer state": (BLUE, "...."),
    "saved for backward": (ORANGE, "////"),
    "temporary": (GREY, ""),
    "other": (PURPLE, "xxxx"),
}
# Of other categories, in their order.
_MORE_STYLES = ((ORANGE, "////"), (SKY, ""), (GREEN, "\\\\\\\\"), (PURPLE, "xxxx"), (BLUE, "...."), (GREY, "----"))
# Shades of phases, by the part of the name before its number.
_KNOWN_SHADES = {"forward": "#E3F1FB", "backward": "#FBE6D6"}
_MORE_SHADES = ("#EAEAE4", "#E2F3EA", "#F3E6F0", "#FBF6D0")
SHADES = (*_KNOWN_SHADES.values(), *_MORE_SHADES)

_EDGE = "#B9B4A6"  # of a phase

_WIDTH, _HEIGHT = 580.0, 225.0  # points
_PEAK_ROOM = 34.0  # points; above the data, for the label of the peak
_NARROWEST = 12.0  # points; a name written upwards needs this width
_LONGEST = 82.0  # points; and is shortened above this length


def plot_memory(
    memory: MemoryTracker | Timeline,
    *,
    ax: Axes | None = None,
    title: str = "",
    x: Literal["event", "time"] = "event",
) -> Drawing:
    """Draws the bytes alive over time: what they were for, the phases, and the peak with its operation.

    Args:
        memory: a tracker, or its ``timeline()``.
        ax: axes to draw into; by default a figure of its own.
        title: the first line above the drawing.
        x: ``"event"`` counts allocations and frees, the same in every run; ``"time"`` is in milliseconds.

    Returns:
        The drawing, with the figure in words.

    Raises:
        TypeError: ``memory`` is neither.
        ValueError: ``x`` is neither.
    """
    timeline = memory.timeline() if isinstance(memory, MemoryTracker) else memory
    if not isinstance(timeline, Timeline):
        raise TypeError(
            explain(
                f"plot_memory was given {describe(memory)}.",
                "a MemoryTracker, or what its timeline() returns.",
                "a report has sums only; the figure needs every event.",
                "with MemoryTracker(model) as mem: ...  then plot_memory(mem)",
            )
        )
    if x not in ("event", "time"):
        raise ValueError(explain(f"plot_memory(x={x!r}) was called.", 'x is "event" or "time".'))
    heading = title or f"Memory on {timeline.device}", _summary(timeline)
    with canvas(ax, _WIDTH, _HEIGHT) as page:
        _draw(page, timeline, heading, x_is_time=x == "time")
    return page.drawing(_in_words(timeline, heading))


@dataclass(frozen=True)
class Names:
    """Names of phases above the data.

    Attributes:
        written: those with room, as (number of the phase, text, whether it is written upwards).
        key: for the legend, where most phases are too narrow for a name: (name without number, how many have it).
        left_out: names without room, where the others have it.
    """

    written: tuple[tuple[int, str, bool], ...]
    key: tuple[tuple[str, int], ...] = ()
    left_out: tuple[str, ...] = ()


def phase_names(phases: Sequence[tuple[str, float]], width: Callable[[str], float]) -> Names:
    """Finds room for the names: side by side, written upwards, or in a key of colours where neither fits.

    Args:
        phases: each phase's name and its room in points.
        width: the width of a text in points.
    """
    written, left_out = [], []
    for index, (name, room) in enumerate(phases):
        if width(name) + 5 <= room:
            written.append((index, name, False))
        elif room >= _NARROWEST:
            written.append((index, shortened(name, _LONGEST, width), True))
        else:
            left_out.append(name)
    if len(left_out) <= len(phases) / 3:
        return Names(tuple(written), left_out=tuple(left_out))
    # One wide phase among many narrow ones keeps its name; the others are told by their colours.
    level = [name for name in written if not name[2]]
    stems = Counter(phase_stem(name) for name, room in phases if width(name) + 5 > room)
    return Names(tuple(level), key=tuple(stems.items()))


def phase_stem(name: str) -> str:
    """A phase's name without the number at its end.

    Example:
        >>> phase_stem("forward3"), phase_stem("epoch [2]"), phase_stem("7")
        ('forward', 'epoch', '7')
    """
    return re.sub(r"[\s_#:(\[-]*\d+[)\]]*$", "", name) or name


def nested_levels(ranges: Sequence[tuple[int, int]]) -> list[int]:
    """How many of the ranges before it each range lies in: 0 for a phase, 1 for one inside it.

    Example:
        >>> nested_levels([(0, 9), (0, 4), (4, 9), (9, 12)])
        [0, 1, 1, 0]
    """
    open_until: list[tuple[int, int]] = []
    levels = []
    for start, end in ranges:
        open_until = [
            (first, last)
            for first, last in open_until
            if end <= last and start < last and (start, end) != (first, last)
        ]
        levels.append(len(open_until))
        open_until.append((start, end))
    return levels


def _draw(page: Canvas, timeline: Timeline, heading: tuple[str, str], x_is_time: bool) -> None:
    from matplotlib.patches import Patch, Rectangle

    ax = page.ax
    places = [time / 1e6 for time in timeline.time_ns] if x_is_time else list(range(len(timeline.current)))
    last = max(places[-1], 1e-9 if x_is_time else 1)
    unit, divisor = byte_unit(max(timeline.peak, -min(timeline.current), 1))
    handles = _areas(ax, timeline, places, divisor)
    ax.set_xlim(0, last)
    ax.set_xlabel("milliseconds since the start" if x_is_time else "allocation or free (event number)")
    ax.set_ylabel(f"{unit} above the start")
    ax.spines[["top", "right"]].set_visible(False)
    levels = nested_levels([(phase.first_event, phase.last_event) for phase in timeline.phases])
    phases = [phase for phase, level in zip(timeline.phases, levels, strict=True) if not level]
    spans = [(phase.name, places[phase.first_event], places[phase.last_event]) for phase in phases]
    names, shades = _name_phases(page, spans), _shades(spans)
    key = [(shades[stem], f"{stem} ({count} phases)" if count > 1 else stem) for stem, count in names.key]
    handles += [Patch(facecolor=shade, edgecolor=RULE, linewidth=0.5, label=words) for shade, words in key]
    page.legend(handles, title=f"too narrow to name: {', '.join(names.left_out)}" if names.left_out else "")
    page.heading(heading[0], shortened(heading[1], page.width, text_width))
    height = page.size[1]
    top = 1 + page.names_height / height  # shades reach up behind the names
    for name, start, end in spans:
        look: dict[str, Any] = {"facecolor": shades[phase_stem(name)], "edgecolor": _EDGE, "linewidth": 0.5}
        look |= {"transform": ax.get_xaxis_transform(), "zorder": 0, "clip_on": False}
        ax.add_patch(Rectangle((start, 0), end - start, top, **look))
    low = min(0, *timeline.current, *timeline.older) / divisor
    high = max(timeline.peak / divisor, low + 1e-9) if any(timeline.current) or low else 1.0
    ax.set_ylim(low * 1.05, low + (high - low) * height / (height - min(_PEAK_ROOM, height * 0.4)))
    if timeline.peak_op:
        _mark_peak(page, timeline, places[timeline.peak_event], timeline.peak / divisor, height)


def _areas(ax: Axes, timeline: Timeline, places: Sequence[float], divisor: int) -> list[Any]:
    handles, more = [], cycle(_MORE_STYLES)
    base = [value / divisor for value in timeline.older]
    if any(timeline.older):
        look: dict[str, Any] = {"facecolor": "none", "edgecolor": RULE, "hatch": "||", "linewidth": 0.5}
        handles.append(ax.fill_between(places, base, 0, step="post", label="older than the start, gone", **look))
    for name, values in timeline.categories.items():
        top = [below + value / divisor for below, value in zip(base, values, strict=True)]
        fill, hatch = CATEGORY_STYLES.get(name) or next(more)
        look = {"facecolor": fill, "edgecolor": "#FFFFFFB0", "hatch": hatch, "linewidth": 0, "zorder": 2}
        handles.append(ax.fill_between(places, base, top, step="post", label=name, **look))
        base = top
    # Thousands of events would run together into one black area.
    thin = min(1.0, 600 / len(places))
    current = [value / divisor for value in timeline.current]
    ax.step(places, current, where="post", color=INK, linewidth=max(1.2 * thin, 0.4), zorder=3)
    if any(value < 0 for value in timeline.current):
        ax.axhline(0, color=RULE, linewidth=0.8, zorder=2.6)
    return handles


def _shades(spans: Sequence[tuple[str, float, float]]) -> dict[str, str]:
    """The colour of phases, by the part of their name before its number."""
    free = cycle(_MORE_SHADES)
    stems = dict.fromkeys(phase_stem(name) for name, *_ in spans)
    return {stem: _KNOWN_SHADES.get(stem.lower()) or next(free) for stem in stems}


def _name_phases(page: Canvas, spans: Sequence[tuple[str, float, float]]) -> Names:
    points = page.width / page.ax.get_xlim()[1]
    rooms = [(name, (end - start) * points) for name, start, end in spans]
    names = phase_names(rooms, bold_width)
    middles = [sum(spans[index][1:]) / 2 for index, *_ in names.written]
    texts = page.names_above(middles, [text for _, text, _ in names.written], fontweight="bold")
    for text, (*_, upwards) in zip(texts, names.written, strict=True):
        text.set_rotation(90 if upwards else 0)
    if spans:
        page.ax.spines["top"].set(visible=True, color=_EDGE)
    return names


def _mark_peak(page: Canvas, timeline: Timeline, x: float, y: float, height: float) -> None:
    """The label stands above the data, beside the peak where that is near an edge."""
    ax, width = page.ax, page.width
    ax.plot([x], [y], marker="o", markersize=5, color=INK, zorder=5, clip_on=False)
    if height < 2 * _PEAK_ROOM:
        return  # no room: what is above the axes says the same
    said = f"peak {format_bytes(timeline.peak)}", f"after {timeline.peak_op}"
    lines = [shortened(line, width - 8, bold_width) for line in said]
    half, middle = max(map(bold_width, lines)) / 2, x / ax.get_xlim()[1] * width
    side = "left" if middle < half else "right" if middle > width - half else "center"
    place: dict[str, Any] = {"textcoords": "offset points", "ha": side, "va": "bottom", "annotation_clip": False}
    stem = {"arrowstyle": "-", "color": INK, "linewidth": 0.8, "shrinkA": 0, "shrinkB": 2}
    ax.annotate(
        "\n".join(lines), (x, y), (0, 9), fontweight="bold", linespacing=1.15, arrowprops=stem, zorder=6, **place
    )


def _summary(timeline: Timeline) -> str:
    if len(timeline.current) == 1:
        return "no tensor was allocated or freed"
    end = f"{format_bytes(timeline.current[-1])} at the end"
    if not timeline.peak_op:
        return end
    # The innermost phase that the peak falls into.
    inside = [phase for phase in timeline.phases if phase.first_event < timeline.peak_event <= phase.last_event]
    where = f" in {inside[-1].name}" if inside else ""
    return f"peak {format_bytes(timeline.peak)} after {timeline.peak_op}{where}; {end}"


def _in_words(timeline: Timeline, heading: tuple[str, str]) -> str:
    events = count_of(len(timeline.current) - 1, "allocation")
    parts = [f"{heading[0]}, over {events} and frees: {heading[1]}."]
    at_peak = [(name, values[timeline.peak_event]) for name, values in timeline.categories.items()]
    shares = [f"{name} {format_bytes(value)}" for name, value in at_peak if value]
    if shares and timeline.peak_op:
        parts.append(f"At the peak: {', '.join(shares)}.")
    if timeline.phases:
        shown = timeline.phases if len(timeline.phases) <= 8 else (*timeline.phases[:4], *timeline.phases[-3:])
        nets = [f"{phase.name} {_signed(phase.net)}" for phase in shown]
        if len(shown) < len(timeline.phases):
            nets.insert(4, f"{len(timeline.phases) - len(shown)} more")
        parts.append(f"Left behind by each phase: {', '.join(nets)}.")
    return " ".join(parts)


def _signed(nbytes: int) -> str:
    return f"+{format_bytes(nbytes)}" if nbytes > 0 else format_bytes(nbytes)
