"""A switch that is on or off, step by step, with a lane for each that looks at it (``plot_lanes``)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from course_utils.base.errors import explain
from course_utils.draw.canvas import canvas
from course_utils.draw.drawing import Drawing
from course_utils.draw.labels import sentence
from course_utils.draw.style import INK, ORANGE, PAPER, RULE, SKY

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Notes = Sequence[tuple[str, bool]]

MOST_STEPS = 16

_COLUMN, _ROW = 40.0, 26.0  # points
_GAP = 1.0  # rows; above each strip, for its name


def plot_lanes(strips: Mapping[str, Notes], *, title: str, ax: Axes | None = None) -> Drawing:
    """Draws one box for each note, in the column of its step and the lane of who made it.

    Args:
        strips: by name, the notes in their order, each as (who, on or off): one strip below the other, for comparing.
            At most 16 notes in each.
        title: what the figure shows.
        ax: axes to draw into; by default a figure of its own.

    Returns:
        The drawing, with the figure in words.

    Raises:
        ValueError: no strips, or one without notes or with more than 16.

    Example:
        >>> plot_lanes({"a thread": [("caller", False), ("thread", True)]}, title="Grad mode")
        Grad mode. a thread: 1 caller off, 2 thread on.
    """
    for name, notes in strips.items() or [("", ())]:
        if not 1 <= len(notes) <= MOST_STEPS:
            what = f"plot_lanes got {len(notes)} notes{f' for {name!r}' if name else ''}."
            raise ValueError(explain(what, f"1 to {MOST_STEPS} notes for each strip."))
    rows = list(_rows(strips))
    columns, height = max(map(len, strips.values())), rows[-1][2] + 0.5
    with canvas(ax, _COLUMN * columns, _ROW * height) as page:
        page.ax.set_xlim(0.5, columns + 0.5)
        for name, notes in strips.items():
            _draw_strip(page.ax, name, notes, {lane: y for strip, lane, y in rows if strip == name})
        page.ax.set_xticks(range(1, columns + 1))
        page.ax.set_xlabel("step")
        page.name_rows([lane for _, lane, _ in rows], [y for *_, y in rows])
        page.ax.set_ylim(height, 0)
        page.heading(title, loc="left")
    return page.drawing(_in_words(strips, title))


def _rows(strips: Mapping[str, Notes]) -> Iterator[tuple[str, str, float]]:
    """Each lane's strip, name and height on the page, in rows from the top."""
    y = 0.5
    for name, notes in strips.items():
        y += _GAP
        for lane in dict.fromkeys(who for who, _ in notes):
            yield name, lane, y
            y += 1


def _draw_strip(ax: Axes, name: str, notes: Notes, heights: Mapping[str, float]) -> None:
    from matplotlib.patches import Rectangle

    first = min(heights.values())
    ax.text(0.5, first - 0.62, name, fontweight="bold", va="bottom")
    for y in heights.values():
        ax.plot([0.5, len(notes) + 0.5], [y, y], color=RULE, linewidth=0.6, alpha=0.6, zorder=1)
    path = [heights[who] for who, _ in notes]
    ax.plot(range(1, len(notes) + 1), path, color=RULE, linewidth=1.2, zorder=2)
    for step, (who, is_on) in enumerate(notes, start=1):
        # A word, a colour and a hatch: none of them is the only sign.
        fill, hatch = (SKY, "") if is_on else (ORANGE, "////")
        corner = (step - 0.42, heights[who] - 0.38)
        ax.add_patch(Rectangle(corner, 0.84, 0.76, facecolor=fill, edgecolor=PAPER, hatch=hatch, zorder=3))
        ax.add_patch(Rectangle(corner, 0.84, 0.76, facecolor="none", edgecolor=INK, linewidth=0.8, zorder=4))
        box = {"facecolor": fill, "edgecolor": "none", "pad": 1.0}
        word = "on" if is_on else "off"
        ax.text(step, heights[who], word, ha="center", va="center", bbox=box, zorder=5)


def _in_words(strips: Mapping[str, Notes], title: str) -> str:
    sentences = [sentence(title)]
    for name, notes in strips.items():
        steps = [f"{step} {who} {'on' if is_on else 'off'}" for step, (who, is_on) in enumerate(notes, start=1)]
        sentences.append(f"{name}: {', '.join(steps)}.")
    return " ".join(sentences)
