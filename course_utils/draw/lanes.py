"""Boxes in lanes along an axis: hook calls in their order (``plot_hooks``), and a switch that is on or off step by step
(``plot_lanes``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import cycle
from typing import Any

from course_utils.base import explain
from course_utils.base.text import describe
from course_utils.draw.page import Drawing, new_page, require
from course_utils.draw.style import ORANGE, PAPER, RULE, SKY, YELLOW, sentence, text_width, wrapped

Calls = Sequence[tuple[str, str]]
Notes = Sequence[tuple[str, bool]]
MOST_CALLS, MOST_STEPS = 24, 16

# A phase has a shade and its boxes a colour; its name stands above it, so that colour is not the only sign.
_LOOKS = (("#E3F1FB", SKY), ("#FBE6D6", ORANGE), ("#F3F1EA", YELLOW))
_SMALL = 7.5  # points; matplotlib calls it small


def plot_hooks(calls: Mapping[str, Calls], *, title: str = "The order of hook calls") -> Drawing:
    """Draws hook calls in their order: one row for each kind of hook, one column for each call.

    Args:
        calls: by phase (``"forward"``, ``"backward"``), the calls in their order, each as (kind of hook, what it is
            registered on). At most 24 calls in all.
        title: what the figure shows.

    Returns:
        The drawing, with the figure in words.

    Raises:
        TypeError: ``calls`` is no mapping, or a call is no pair.
        ValueError: no calls, or more than 24.

    Example:
        >>> plot_hooks({"forward": [("pre", "0"), ("forward", "0")], "backward": [("full", "0")]}, title="One layer")
        One layer. forward: 1 pre at 0, 2 forward at 0. backward: 3 full at 0.
    """
    if not isinstance(calls, Mapping) or not all(len(pair) == 2 for pairs in calls.values() for pair in pairs):
        wanted = 'pairs by phase: {"forward": [("forward hook", "conv1")]}.'
        raise TypeError(explain(f"plot_hooks was given {describe(calls)}.", wanted))
    phases = {phase: list(pairs) for phase, pairs in calls.items() if pairs}
    flat = [pair for pairs in phases.values() for pair in pairs]
    require(1 <= len(flat) <= MOST_CALLS, f"plot_hooks was given {len(flat)} calls.", f"1 to {MOST_CALLS} calls.")
    rows = list(dict.fromkeys(kind for kind, _ in flat))
    names = max(text_width(where) for _, where in flat)
    column = min(max(names + 12, 36.0), 76.0, (840.0 - max(map(text_width, rows))) / len(flat))
    room = column * 0.92 - 6
    said, start = [sentence(title)], 0
    with new_page(column * len(flat), 30.0 * len(rows)) as page:
        ax, numbers = page.ax, range(1, len(flat) + 1)
        ax.set(xlim=(0.5, len(flat) + 0.5), xticks=numbers, xlabel="call number")
        page.name_rows(rows)
        ax.plot(numbers, [rows.index(kind) for kind, _ in flat], color=RULE, linewidth=1.2, zorder=2)
        ax.hlines([y - 0.5 for y in range(1, len(rows))], 0.5, len(flat) + 0.5, color=RULE, linewidth=0.4, alpha=0.6)
        starts = [0.5 + sum(map(len, list(phases.values())[:number])) for number in range(len(phases))]
        page.names_above(starts, list(phases), ha="left", fontweight="bold")
        for (phase, pairs), (shade, color) in zip(phases.items(), cycle(_LOOKS)):
            ax.axvspan(start + 0.5, start + len(pairs) + 0.5, color=shade, linewidth=0, zorder=0)
            numbered = list(enumerate(pairs, start + 1))
            for x, (kind, where) in numbered:
                _box(ax, x - 0.46, rows.index(kind), 0.92, color)
                text, size = where, "medium"
                if text_width(text) > room:
                    text, size = "\n".join(wrapped(where, room, lambda line: text_width(line, _SMALL))), "small"
                ax.text(x, rows.index(kind), text, ha="center", va="center", fontsize=size, zorder=4)
            said.append(f"{phase}: {', '.join(f'{x} {kind} at {where}' for x, (kind, where) in numbered)}.")
            start += len(pairs)
        page.heading(title)
    return Drawing(page.figure, " ".join(said))


def plot_lanes(strips: Mapping[str, Notes], *, title: str) -> Drawing:
    """Draws one box for each note, in the column of its step and the lane of who made it.

    Args:
        strips: by name, the notes in their order, each as (who, on or off): one strip below the other, for comparing.
            At most 16 notes in each.
        title: what the figure shows.

    Returns:
        The drawing, with the figure in words.

    Raises:
        ValueError: no strips, or one without notes or with more than 16.

    Example:
        >>> plot_lanes({"a thread": [("caller", False), ("thread", True)]}, title="Grad mode")
        Grad mode. a thread: 1 caller off, 2 thread on.
    """
    for name, notes in strips.items() or [("", ())]:
        found = f"plot_lanes got {len(notes)} notes for {name!r}."
        require(1 <= len(notes) <= MOST_STEPS, found, f"1 to {MOST_STEPS} notes for each strip.")
    lanes: dict[str, dict[str, float]] = {}  # by strip and by who: the height on the page, in rows from the top
    height = 0.0
    for name, notes in strips.items():
        first = height + 1.5  # a row above it is for the strip's name
        lanes[name] = {who: first + at for at, who in enumerate(dict.fromkeys(who for who, _ in notes))}
        height += 1 + len(lanes[name])
    said, columns = [sentence(title)], max(map(len, strips.values()))
    with new_page(40.0 * columns, 26.0 * height) as page:
        ax = page.ax
        for name, notes in strips.items():
            heights = [lanes[name][who] for who, _ in notes]
            ax.text(0.5, min(heights) - 0.62, name, fontweight="bold", va="bottom")
            ax.hlines(sorted(set(heights)), 0.5, len(notes) + 0.5, color=RULE, linewidth=0.6, alpha=0.6, zorder=1)
            ax.plot(range(1, len(notes) + 1), heights, color=RULE, linewidth=1.2, zorder=2)
            for step, ((_, is_on), y) in enumerate(zip(notes, heights, strict=True), start=1):
                # A word, a colour and a hatch: none of them is the only sign.
                word, fill, hatch = ("on", SKY, "") if is_on else ("off", ORANGE, "////")
                _box(ax, step - 0.42, y, 0.84, fill, hatch)
                box = {"facecolor": fill, "edgecolor": "none", "pad": 1.0}
                ax.text(step, y, word, ha="center", va="center", bbox=box, zorder=5)
            steps = [f"{step} {who} {'on' if is_on else 'off'}" for step, (who, is_on) in enumerate(notes, start=1)]
            said.append(f"{name}: {', '.join(steps)}.")
        ax.set(xlim=(0.5, columns + 0.5), xticks=range(1, columns + 1), xlabel="step")
        rows = [row for heights in lanes.values() for row in heights.items()]
        page.name_rows([who for who, _ in rows], [y for _, y in rows])
        ax.set_ylim(height, 0)
        page.heading(title)
    return Drawing(page.figure, " ".join(said))


def _box(ax: Any, x: float, y: float, wide: float, fill: str, hatch: str = "") -> None:
    """A box from x on in row y, hatched where it is not to be told by its colour alone."""
    from matplotlib.patches import Rectangle

    corner, height = (x, y - 0.37), 0.74
    ax.add_patch(Rectangle(corner, wide, height, facecolor=fill, edgecolor=PAPER, hatch=hatch, zorder=2.5))
    ax.add_patch(Rectangle(corner, wide, height, facecolor="none", edgecolor=RULE, linewidth=1, zorder=3))
