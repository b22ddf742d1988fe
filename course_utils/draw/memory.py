"""The bytes alive over time (``plot_memory``): what they were for, the phases, the peak, and the same in words."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from itertools import cycle
from typing import Any

from course_utils.base import explain
from course_utils.base.text import count_of, describe, format_bytes
from course_utils.draw import style
from course_utils.draw.page import Drawing, Page, new_page
from course_utils.draw.style import INK, RULE, bold_width, byte_unit, shortened, text_width
from course_utils.memory import MemoryTracker
from course_utils.memory.report import Timeline

# Fill and hatching: categories differ without colour, too.
CATEGORY_STYLES: dict[str, tuple[str, str]] = {
    "parameters": (style.SKY, ""),
    "gradients": (style.GREEN, "\\\\\\\\"),
    "optimizer state": (style.BLUE, "...."),
    "saved for backward": (style.ORANGE, "////"),
    "temporary": (style.GREY, ""),
    "other": (style.PURPLE, "xxxx"),
}
# Shades of phases, by the part of the name before its number.
_KNOWN_SHADES = {"forward": "#E3F1FB", "backward": "#FBE6D6"}
_MORE_SHADES = ("#EAEAE4", "#E2F3EA", "#F3E6F0", "#FBF6D0")
SHADES = (*_KNOWN_SHADES.values(), *_MORE_SHADES)
_EDGE = "#B9B4A6"  # of a phase
_WIDTH, _HEIGHT, _PEAK_ROOM = 580.0, 225.0, 34.0  # points; the last above the data, for the label of the peak
_NARROWEST, _LONGEST = 12.0, 82.0  # points; a name written upwards needs this width, and is shortened above this length


def plot_memory(memory: MemoryTracker | Timeline, *, title: str = "") -> Drawing:
    """Draws the bytes alive over time: what they were for, the phases, and the peak with its operation.

    Args:
        memory: a tracker, or its ``timeline()``.
        title: the first line above the drawing.

    Returns:
        The drawing, with the figure in words.

    Raises:
        TypeError: ``memory`` is neither.
    """
    timeline = memory.timeline() if isinstance(memory, MemoryTracker) else memory
    if not isinstance(timeline, Timeline):
        wanted = "a MemoryTracker, or what its timeline() returns: a report has sums, the figure needs every event."
        raise TypeError(explain(f"plot_memory was given {describe(memory)}.", wanted))
    title, said = title or f"Memory on {timeline.device}", _summary(timeline)
    with new_page(_WIDTH, _HEIGHT) as page:
        _draw(page, timeline, title, said)
    return Drawing(page.figure, _in_words(timeline, title, said))


def phase_stem(name: str) -> str:
    """A phase's name without the number at its end: "forward" of "forward3"."""
    return re.sub(r"[\s_#:(\[-]*\d+[)\]]*$", "", name) or name


def _outer(timeline: Timeline) -> list[Any]:
    """The phases that lie in no other one."""
    found: list[Any] = []
    for phase in timeline.phases:
        start, end = phase.first_event, phase.last_event
        if not any(one.first_event <= start < one.last_event and end <= one.last_event for one in found):
            found.append(phase)
    return found


def _draw(page: Page, timeline: Timeline, title: str, said: str) -> None:
    from matplotlib.patches import Patch, Rectangle

    ax, last = page.ax, max(len(timeline.current) - 1, 1)
    unit, divisor = byte_unit(max(timeline.peak, -min(timeline.current), 1))
    handles = _areas(ax, timeline, divisor)
    ax.set(xlim=(0, last), xlabel="allocation or free (event number)", ylabel=f"{unit} above the start")
    ax.spines[["top", "right"]].set_visible(False)
    spans = [(phase.name, phase.first_event, phase.last_event) for phase in _outer(timeline)]
    free, stems = cycle(_MORE_SHADES), dict.fromkeys(phase_stem(name) for name, *_ in spans)
    shades = {stem: _KNOWN_SHADES.get(stem.lower()) or next(free) for stem in stems}
    for stem, count in _name_phases(page, spans, _WIDTH / last).items():
        words = f"{stem} ({count} phases)" if count > 1 else stem
        handles.append(Patch(facecolor=shades[stem], edgecolor=RULE, linewidth=0.5, label=words))
    page.legend(handles)
    page.heading(title, shortened(said, _WIDTH, text_width), loc="center")
    top = 1 + page.names_height / _HEIGHT  # shades reach up behind the names
    for name, start, end in spans:
        look: dict[str, Any] = {"facecolor": shades[phase_stem(name)], "edgecolor": _EDGE, "linewidth": 0.5}
        look |= {"transform": ax.get_xaxis_transform(), "zorder": 0, "clip_on": False}
        ax.add_patch(Rectangle((start, 0), end - start, top, **look))
    low = min(0, *timeline.current, *timeline.older) / divisor
    high = max(timeline.peak / divisor, low + 1e-9) if any(timeline.current) or low else 1.0
    ax.set_ylim(low * 1.05, low + (high - low) * _HEIGHT / (_HEIGHT - _PEAK_ROOM))
    if timeline.peak_op:
        _mark_peak(ax, timeline, timeline.peak / divisor, last)


def _areas(ax: Any, timeline: Timeline, divisor: int) -> list[Any]:
    handles, places = [], range(len(timeline.current))
    base = [value / divisor for value in timeline.older]
    if any(timeline.older):
        look: dict[str, Any] = {"facecolor": "none", "edgecolor": RULE, "hatch": "||", "linewidth": 0.5}
        handles.append(ax.fill_between(places, base, 0, step="post", label="older than the start, gone", **look))
    for name, values in timeline.categories.items():
        top = [below + value / divisor for below, value in zip(base, values, strict=True)]
        fill, hatch = CATEGORY_STYLES[name]
        look = {"facecolor": fill, "edgecolor": "#FFFFFFB0", "hatch": hatch, "linewidth": 0, "zorder": 2}
        handles.append(ax.fill_between(places, base, top, step="post", label=name, **look))
        base = top
    # Thousands of events would run together into one black area.
    thin, current = min(1.0, 600 / len(places)), [value / divisor for value in timeline.current]
    ax.step(places, current, where="post", color=INK, linewidth=max(1.2 * thin, 0.4), zorder=3)
    if any(value < 0 for value in current):
        ax.axhline(0, color=RULE, linewidth=0.8, zorder=2.6)
    return handles


def _name_phases(page: Page, spans: Sequence[tuple[str, int, int]], points: float) -> Counter[str]:
    """Names phases above the data, side by side or written upwards. Where some are too narrow even for that, those that
    cannot be named side by side are told by their colours.

    Returns:
        For the key of colours: how many phases have a name, without its number.
    """
    level = [(end - start) * points >= bold_width(name) + 5 for name, start, end in spans]
    room = all(flat or (end - start) * points >= _NARROWEST for flat, (_, start, end) in zip(level, spans, strict=True))
    shown = [(flat, span) for flat, span in zip(level, spans, strict=True) if flat or room]
    words = [name if flat else shortened(name, _LONGEST, bold_width) for flat, (name, *_) in shown]
    texts = page.names_above([(start + end) / 2 for _, (_, start, end) in shown], words, fontweight="bold")
    for text, (flat, _) in zip(texts, shown, strict=True):
        text.set_rotation(0 if flat else 90)
    if spans:
        page.ax.spines["top"].set(visible=True, color=_EDGE)
    return Counter(phase_stem(name) for flat, (name, *_) in zip(level, spans, strict=True) if not flat and not room)


def _mark_peak(ax: Any, timeline: Timeline, y: float, last: int) -> None:
    """The label stands above the data, beside the peak where that is near an edge."""
    ax.plot([timeline.peak_event], [y], marker="o", markersize=5, color=INK, zorder=5, clip_on=False)
    said = f"peak {format_bytes(timeline.peak)}", f"after {timeline.peak_op}"
    lines = [shortened(line, _WIDTH - 8, bold_width) for line in said]
    half, middle = max(map(bold_width, lines)) / 2, timeline.peak_event / last * _WIDTH
    side = "left" if middle < half else "right" if middle > _WIDTH - half else "center"
    place: dict[str, Any] = {"textcoords": "offset points", "ha": side, "va": "bottom", "annotation_clip": False}
    stem = {"arrowstyle": "-", "color": INK, "linewidth": 0.8, "shrinkA": 0, "shrinkB": 2}
    look: dict[str, Any] = {"fontweight": "bold", "linespacing": 1.15, "arrowprops": stem, "zorder": 6}
    ax.annotate("\n".join(lines), (timeline.peak_event, y), (0, 9), **look, **place)


def _summary(timeline: Timeline) -> str:
    if len(timeline.current) == 1:
        return "no tensor was allocated or freed"
    end = f"{format_bytes(timeline.current[-1])} at the end"
    if not timeline.peak_op:
        return end
    inside = [phase for phase in timeline.phases if phase.first_event < timeline.peak_event <= phase.last_event]
    where = f" in {inside[-1].name}" if inside else ""  # the innermost phase that the peak falls into
    return f"peak {format_bytes(timeline.peak)} after {timeline.peak_op}{where}; {end}"


def _in_words(timeline: Timeline, title: str, said: str) -> str:
    parts = [f"{title}, over {count_of(len(timeline.current) - 1, 'allocation')} and frees: {said}."]
    at_peak = [(name, values[timeline.peak_event]) for name, values in timeline.categories.items()]
    shares = [f"{name} {format_bytes(value)}" for name, value in at_peak if value]
    if shares and timeline.peak_op:
        parts.append(f"At the peak: {', '.join(shares)}.")
    nets = [f"{phase.name} {'+' * (phase.net > 0)}{format_bytes(phase.net)}" for phase in timeline.phases]
    if len(nets) > 8:
        nets[4:-3] = [f"{len(nets) - 7} more"]
    if nets:
        parts.append(f"Left behind by each phase: {', '.join(nets)}.")
    return " ".join(parts)
