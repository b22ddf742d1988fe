"""The order in which hooks were called, as a figure (``plot_hooks``)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import cycle
from typing import TYPE_CHECKING, Any

from course_utils.base.errors import explain
from course_utils.base.text import describe
from course_utils.draw.canvas import Canvas, canvas
from course_utils.draw.drawing import Drawing
from course_utils.draw.labels import sentence, wrapped
from course_utils.draw.style import INK, ORANGE, RULE, SKY, YELLOW, text_width

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_CALLS = 24

# A phase has a shade and its boxes a colour; its name stands above it, so that colour is not the only sign.
_LOOKS = (("#E3F1FB", SKY), ("#FBE6D6", ORANGE), ("#F3F1EA", YELLOW))
_SMALL = 7.5  # points; matplotlib calls it small
_ROW = 30.0  # points
_COLUMN = 76.0  # points; the widest that a call's column gets
_PAGE = 840.0  # points; a wider figure would be shrunk by the page, and its texts with it


def plot_hooks(
    calls: Mapping[str, Sequence[tuple[str, str]]], *, ax: Axes | None = None, title: str = "The order of hook calls"
) -> Drawing:
    """Draws hook calls in their order: one row for each kind of hook, one column for each call.

    Args:
        calls: by phase (``"forward"``, ``"backward"``), the calls in their order, each as (kind of hook, what it is
            registered on). At most 24 calls in all.
        ax: axes to draw into; by default a figure of its own.
        title: what the figure shows.

    Returns:
        The drawing, with the figure in words.

    Raises:
        TypeError: ``calls`` is no mapping, or a call is no pair of texts.
        ValueError: no calls, or more than 24.

    Example:
        >>> plot_hooks({"forward": [("pre", "0"), ("forward", "0")], "backward": [("full", "0")]}, title="One layer")
        One layer. forward: 1 pre at 0, 2 forward at 0. backward: 3 full at 0.
    """
    _check(calls)
    phases = {phase: list(pairs) for phase, pairs in calls.items() if pairs}
    flat = [pair for pairs in phases.values() for pair in pairs]
    rows = list(dict.fromkeys(kind for kind, _ in flat))
    names = max(text_width(where) for _, where in flat)
    column = min(max(names + 12, 36.0), _COLUMN, (_PAGE - max(map(text_width, rows))) / len(flat))
    with canvas(ax, column * len(flat), _ROW * len(rows), shrink=True) as page:
        _draw(page, phases, rows)
        page.heading(title, loc="left")
    return page.drawing(_in_words(phases, title))


def _check(calls: Any) -> None:
    pairs = [pair for phase in calls.values() for pair in phase] if isinstance(calls, Mapping) else [None]
    for pair in pairs:
        if not (isinstance(pair, (tuple, list)) and len(pair) == 2 and all(isinstance(part, str) for part in pair)):
            raise TypeError(
                explain(
                    f"plot_hooks was given {describe(calls if pair is None else pair)}.",
                    "a dictionary of phases, each a list of pairs (kind of hook, where it is registered).",
                    try_this='plot_hooks({"forward": [("forward hook", "conv1")]})',
                )
            )
    if not 1 <= len(pairs) <= MOST_CALLS:
        raise ValueError(
            explain(
                f"plot_hooks was given {len(pairs)} calls.",
                f"1 to {MOST_CALLS} calls.",
                "more of them cannot be told apart in one figure.",
                "fewer layers, or hooks on some of them only.",
            )
        )


def _draw(page: Canvas, phases: Mapping[str, Sequence[tuple[str, str]]], rows: Sequence[str]) -> None:
    ax, calls = page.ax, [pair for pairs in phases.values() for pair in pairs]
    numbers = range(1, len(calls) + 1)
    ax.set_xlim(0.5, len(calls) + 0.5)
    ax.set_xticks(numbers)
    ax.set_xlabel("call number")
    page.name_rows(rows)
    ax.plot(numbers, [rows.index(kind) for kind, _ in calls], color=RULE, linewidth=1.2, zorder=2)
    ax.hlines([y - 0.5 for y in range(1, len(rows))], 0.5, len(calls) + 0.5, color=RULE, linewidth=0.4, alpha=0.6)
    starts = [0.5 + sum(map(len, list(phases.values())[:number])) for number in range(len(phases))]
    page.names_above(starts, list(phases), ha="left", fontweight="bold")
    room = page.width / len(calls) * 0.92 - 6
    for start, pairs, (shade, color) in zip(starts, phases.values(), cycle(_LOOKS)):
        ax.axvspan(start, start + len(pairs), color=shade, linewidth=0, zorder=0)
        for number, (kind, where) in enumerate(pairs, start=int(start + 1)):
            _box(ax, number, rows.index(kind), where, color, room)


def _box(ax: Axes, x: int, y: int, where: str, color: str, room: float) -> None:
    from matplotlib.patches import Rectangle

    look: dict[str, Any] = {"facecolor": color, "edgecolor": INK, "linewidth": 0.8, "zorder": 3}
    ax.add_patch(Rectangle((x - 0.46, y - 0.37), 0.92, 0.74, **look))
    text, size = where, "medium"
    if text_width(text) > room:
        text, size = "\n".join(wrapped(where, room, lambda line: text_width(line, _SMALL))), "small"
    ax.text(x, y, text, ha="center", va="center", fontsize=size, zorder=4)


def _in_words(phases: Mapping[str, Sequence[tuple[str, str]]], title: str) -> str:
    sentences, number = [sentence(title)], 0
    for phase, pairs in phases.items():
        parts = []
        for kind, where in pairs:
            number += 1
            parts.append(f"{number} {kind} at {where}")
        sentences.append(f"{phase}: {', '.join(parts)}.")
    return " ".join(sentences)
