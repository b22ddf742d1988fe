"""Draws a memory timeline into axes (``draw_memory``)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import cycle
from typing import TYPE_CHECKING, Any

from course_utils.draw.frame import SMALL_SIZE, SUMMARY_SIZE, make_room
from course_utils.draw.labels import shortened
from course_utils.draw.style import (
    BLUE,
    GREEN,
    GREY,
    INK,
    ORANGE,
    PAPER,
    PURPLE,
    RULE,
    SKY,
    figure_size,
    text_width,
)
from course_utils.draw.timeline_picture import (
    LABEL_SIZE,
    Span,
    Strip,
    byte_unit,
    nested_levels,
    peak_words,
    phase_stem,
    phase_strip,
    timeline_heading,
)
from course_utils.memory.records import Timeline

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

_PEAK_ROOM = 34.0  # above the data, for the label of the peak


def draw_memory(ax: Axes, timeline: Timeline, title: str, x_is_time: bool) -> None:
    """Draws into axes, taking the room for title, names and legend from inside their place in the figure."""
    places = [time / 1e6 for time in timeline.time_ns] if x_is_time else list(range(len(timeline.current)))
    unit, divisor = byte_unit(max(timeline.peak, -min(timeline.current), 1))
    last = max(places[-1], 1e-9) if x_is_time else max(places[-1], 1)
    strip, shades = _strip(ax, timeline, places, last)
    handles = _areas(ax, timeline, places, divisor)
    handles += _key(strip, shades)
    note = f"too narrow to name: {', '.join(strip.left_out)}" if strip.left_out else ""
    frame = make_room(ax, timeline_heading(timeline, title), handles, note, strip=strip.height)
    ax.set_xlim(0, last)
    _limit_y(ax, timeline, divisor, frame[1])
    _shade(ax, timeline, places, shades, strip, frame[1])
    ax.set_xlabel(
        "milliseconds since the start" if x_is_time else "allocation or free (event number)", fontsize=SUMMARY_SIZE
    )
    ax.set_ylabel(f"{unit} above the start", fontsize=SUMMARY_SIZE)
    # Axes that were given have the colours of the learner's style.
    ax.set_facecolor(PAPER)
    ax.tick_params(labelsize=SMALL_SIZE, color=RULE, labelcolor=INK)
    for axis in (ax.xaxis, ax.yaxis):
        axis.label.set_color(INK)
    for side in ("left", "bottom"):
        ax.spines[side].set_color(RULE)
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)
    if timeline.peak_op:
        _mark_peak(ax, timeline, places, divisor, last, frame)


def _strip(ax: Axes, timeline: Timeline, places: Sequence[float], last: float) -> tuple[Strip, dict[str, str]]:
    figure_width, _ = figure_size(ax)
    width = ax.get_position().width * figure_width
    phases = _outermost(timeline)
    spans = [
        Span(phase.name, places[phase.first_event] / last * width, places[phase.last_event] / last * width)
        for phase in phases
    ]
    stems = list(dict.fromkeys(phase_stem(phase.name) for phase in phases))
    free = cycle(_MORE_SHADES)
    shades = {stem: _KNOWN_SHADES.get(stem.lower()) or next(free) for stem in stems}
    return phase_strip(spans, lambda text: text_width(text, LABEL_SIZE, True)), shades


def _outermost(timeline: Timeline) -> list[Any]:
    levels = nested_levels([(phase.first_event, phase.last_event) for phase in timeline.phases])
    return [phase for phase, level in zip(timeline.phases, levels, strict=True) if level == 0]


def _areas(ax: Axes, timeline: Timeline, places: Sequence[float], divisor: int) -> list[Any]:
    from matplotlib.patches import Patch

    handles, more = [], cycle(_MORE_STYLES)
    base = [value / divisor for value in timeline.older]
    if any(timeline.older):
        ax.fill_between(places, base, 0, step="post", facecolor="none", edgecolor=RULE, hatch="||", linewidth=0.5)
        handles.append(Patch(facecolor="none", edgecolor=RULE, hatch="||", label="older than the start, gone"))
    for name, values in timeline.categories.items():
        top = [below + value / divisor for below, value in zip(base, values, strict=True)]
        fill, hatch = CATEGORY_STYLES.get(name) or next(more)
        look: dict[str, Any] = {"facecolor": fill, "edgecolor": "#FFFFFFB0", "hatch": hatch}
        ax.fill_between(places, base, top, step="post", linewidth=0, zorder=2, **look)
        handles.append(Patch(label=name, linewidth=0, **look))
        base = top
    # Thousands of events would run together into one black area.
    thin = min(1.0, 600 / len(places))
    current = [value / divisor for value in timeline.current]
    ax.step(places, current, where="post", color=INK, linewidth=max(1.2 * thin, 0.4), zorder=3)
    if any(value < 0 for value in timeline.current):
        ax.axhline(0, color=RULE, linewidth=0.8, zorder=2.6)
    return handles


def _key(strip: Strip, shades: dict[str, str]) -> list[Any]:
    from matplotlib.patches import Patch

    return [
        Patch(
            facecolor=shades[stem],
            edgecolor=RULE,
            linewidth=0.5,
            label=f"{stem} ({count} phases)" if count > 1 else stem,
        )
        for stem, count in strip.key
    ]


def _limit_y(ax: Axes, timeline: Timeline, divisor: int, height: float) -> None:
    low = min(0, *timeline.current, *timeline.older) / divisor
    high = max(timeline.peak / divisor, low + 1e-9)
    if not any(timeline.current) and not low:
        high = 1.0
    room = min(_PEAK_ROOM, height * 0.4)
    ax.set_ylim(low * 1.05, low + (high - low) * height / (height - room))


def _shade(
    ax: Axes, timeline: Timeline, places: Sequence[float], shades: dict[str, str], strip: Strip, height: float
) -> None:
    from matplotlib.transforms import blended_transform_factory

    across = blended_transform_factory(ax.transData, ax.transAxes)
    top = 1 + strip.height / height
    for phase in _outermost(timeline):
        start, end = places[phase.first_event], places[phase.last_event]
        ax.add_patch(_band(start, end, top, shades[phase_stem(phase.name)], across))
    if strip.height:
        ax.plot([0, 1], [1, 1], transform=ax.transAxes, color="#B9B4A6", linewidth=0.8, zorder=0.5, clip_on=False)
    x_scale = ax.get_position().width * figure_size(ax)[0] / (ax.get_xlim()[1] - ax.get_xlim()[0])
    for label in strip.labels:
        ax.text(
            label.x / x_scale,
            1 + strip.height / height / 2,
            label.text,
            transform=across,
            ha="center",
            va="center",
            rotation=90 if label.upwards else 0,
            fontsize=LABEL_SIZE,
            fontweight="bold",
            color=INK,
            parse_math=False,
        )


def _band(start: float, end: float, top: float, shade: str, across: Any) -> Any:
    from matplotlib.patches import Rectangle

    return Rectangle(
        (start, 0),
        end - start,
        top,
        transform=across,
        facecolor=shade,
        edgecolor="#B9B4A6",
        linewidth=0.5,
        zorder=0,
        clip_on=False,
    )


def _mark_peak(
    ax: Axes, timeline: Timeline, places: Sequence[float], divisor: int, last: float, frame: tuple[float, float]
) -> None:
    """The label stands above the data, as near to the peak as the edges allow."""
    width, height = frame
    x, y = places[timeline.peak_event], timeline.peak / divisor
    low, high = ax.get_ylim()
    lines = [
        shortened(line, width - 8, lambda part: text_width(part, SMALL_SIZE, True)) for line in peak_words(timeline)
    ]
    half = max(text_width(line, SMALL_SIZE, True) for line in lines) / 2
    middle = min(max(x / last * width, half + 4), width - half - 4)
    level = (y - low) / (high - low) * height
    ax.plot([x], [y], marker="o", markersize=5, color=INK, zorder=5, clip_on=False)
    ax.annotate(
        "\n".join(lines),
        xy=(x, y),
        xytext=(middle, level + 9),
        textcoords="axes points",
        ha="center",
        va="bottom",
        fontsize=SMALL_SIZE,
        fontweight="bold",
        color=INK,
        linespacing=1.15,
        parse_math=False,
        arrowprops={"arrowstyle": "-", "color": INK, "linewidth": 0.8, "shrinkA": 0, "shrinkB": 2},
        zorder=6,
        annotation_clip=False,
    )
