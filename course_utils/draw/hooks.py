"""The order in which hooks were called, as a figure (``plot_hooks``)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import cycle
from typing import TYPE_CHECKING, Any

from course_utils.base.errors import explain
from course_utils.base.text import describe
from course_utils.draw.labels import sentence, wrapped
from course_utils.draw.style import INK, ORANGE, PAPER, RULE, SKY, YELLOW, Drawing, new_figure, style, text_width

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_CALLS = 24

# A phase has a shade and its boxes a colour; its name stands above it, so that colour is not the only sign.
_LOOKS = (("#E3F1FB", SKY), ("#FBE6D6", ORANGE), ("#F3F1EA", YELLOW))
_SIZE, _SMALL = 9.0, 8.5
_ROW, _BOX = 30.0, 22.0  # points
_COLUMN = 76.0  # points; the widest that a call's column gets
_PAGE = 900.0  # points; a wider figure would be shrunk by the page, and its texts with it
_RIGHT, _TOP, _BOTTOM = 14.0, 54.0, 42.0  # points beside, above and below the rows


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
    with style():
        own = ax is None
        if ax is None:
            left = max(text_width(row, _SIZE) for row in rows) + 16
            widest = max(text_width(where, _SMALL) for _, where in flat) + 12
            column = min(max(widest, 36.0), _COLUMN, (_PAGE - left - _RIGHT) / len(flat))
            width, height = left + column * len(flat) + _RIGHT, _TOP + _ROW * len(rows) + _BOTTOM
            width = max(width, left + text_width(title, 11.0) + _RIGHT)
            place = (left / width, _BOTTOM / height, (width - left - _RIGHT) / width, _ROW * len(rows) / height)
            ax = new_figure(width, height).add_axes(place)
        figure: Any = ax.get_figure()
        _draw(ax, phases, rows)
        ax.set_title(title, fontsize=11, loc="left", pad=22)
    return Drawing(figure, ax, _in_words(phases, title), own=own)


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


def _draw(ax: Axes, phases: Mapping[str, Sequence[tuple[str, str]]], rows: Sequence[str]) -> None:
    count = sum(map(len, phases.values()))
    ax.set_facecolor(PAPER)
    ax.set_xlim(0.5, count + 0.5)
    ax.set_ylim(len(rows) - 0.5, -0.5)
    frame = ax.get_window_extent()
    scale = 72 / ax.figure.dpi
    column, row_height = frame.width * scale / count, frame.height * scale / len(rows)
    path = [(number, rows.index(kind)) for number, (kind, _) in enumerate(_flat(phases), start=1)]
    ax.plot(*zip(*path, strict=True), color=RULE, linewidth=1.2, zorder=2)
    for y in range(1, len(rows)):
        ax.axhline(y - 0.5, color=RULE, linewidth=0.4, alpha=0.6, zorder=1)
    first = 1
    for (phase, pairs), (shade, color) in zip(phases.items(), cycle(_LOOKS)):
        ax.axvspan(first - 0.5, first + len(pairs) - 0.5, color=shade, linewidth=0, zorder=0)
        ax.annotate(
            phase,
            (first - 0.5, 1),
            (4, 4),
            ("data", "axes fraction"),
            "offset points",
            fontsize=_SIZE,
            fontweight="bold",
            va="bottom",
        )
        for number, (kind, where) in enumerate(pairs, start=first):
            _box(ax, (number, rows.index(kind)), where, color, column, row_height)
        first += len(pairs)
    ax.set_xticks(range(1, count + 1))
    ax.set_yticks(range(len(rows)), rows)
    ax.tick_params(labelsize=_SIZE, length=0, labelcolor=INK)
    ax.set_xlabel("call number", fontsize=_SIZE, color=INK)
    ax.set_ylabel("")
    ax.spines[["top", "right", "left", "bottom"]].set_visible(False)


def _box(ax: Axes, place: tuple[int, int], where: str, color: str, column: float, row_height: float) -> None:
    from matplotlib.patches import Rectangle

    wide, high = 1 - 4 / column, min(_BOX / row_height, 0.9)
    x, y = place
    ax.add_patch(
        Rectangle((x - wide / 2, y - high / 2), wide, high, facecolor=color, edgecolor=INK, linewidth=0.8, zorder=3)
    )
    lines = wrapped(where, column - 8, lambda text: text_width(text, _SMALL))
    size = _SMALL if len(lines) == 1 else _SMALL - 1
    ax.text(x, y, "\n".join(lines), fontsize=size, ha="center", va="center", parse_math=False, zorder=4, color=INK)


def _flat(phases: Mapping[str, Sequence[tuple[str, str]]]) -> list[tuple[str, str]]:
    return [pair for pairs in phases.values() for pair in pairs]


def _in_words(phases: Mapping[str, Sequence[tuple[str, str]]], title: str) -> str:
    sentences, number = [sentence(title)], 0
    for phase, pairs in phases.items():
        parts = []
        for kind, where in pairs:
            number += 1
            parts.append(f"{number} {kind} at {where}")
        sentences.append(f"{phase}: {', '.join(parts)}.")
    return " ".join(sentences)
