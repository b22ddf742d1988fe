"""Bars for measurements of several kinds, one panel each, so that they can be read across (``plot_panels``).

``plot_bars`` draws what ``compare`` returned; this draws it beside what ``compare`` does not measure, such as accuracy.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from course_utils.base.errors import explain
from course_utils.base.text import format_bytes
from course_utils.draw.bars import Panel, bars_size, draw_bars
from course_utils.draw.figures import _fitted
from course_utils.draw.labels import sentence
from course_utils.draw.style import Drawing, root_figure, style
from course_utils.measure.compare import format_count

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MOST = 5


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
        ax: axes to draw into; the picture is shrunk to fit. By default a figure of its own.

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
    drawn = []
    for heading, values in panels.items():
        numbers = tuple(values[name] for name in names)
        drawn.append(Panel(heading, numbers, tuple(_words(heading, number) for number in numbers)))
    with style():
        drawing_ax, own = _fitted(ax, *bars_size(names, drawn, note))[:2]
        draw_bars(drawing_ax, names, drawn, title, note)
    sentences = [sentence(title)]
    for panel in drawn:
        pairs = [f"{name} {words}" for name, words in zip(names, panel.words, strict=True)]
        sentences.append(f"{panel.name}: {', '.join(pairs)}.")
    return Drawing(root_figure(drawing_ax), drawing_ax, " ".join(sentences), own=own)


def _words(heading: str, value: float) -> str:
    if not isinstance(value, int):
        return f"{value:.2f}"
    return format_bytes(value) if "byte" in heading.casefold() else format_count(value)


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
