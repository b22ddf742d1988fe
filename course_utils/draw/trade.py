"""What one quantity costs in another: panels over the same x axis, one under the other (``plot_trade``)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from course_utils.base.errors import explain
from course_utils.draw.labels import sentence
from course_utils.draw.lines import lines_in_words, plot_lines
from course_utils.draw.style import Drawing, new_figure, style, text_width

_NAME_SIZE = 9.0  # points; as in ``lines``
_WIDTH, _PANEL = 640.0, 190.0  # points
_LEFT, _BOTTOM, _TOP, _GAP = 64.0, 44.0, 30.0, 22.0  # points beside, below, above and between the panels


def plot_trade(
    panels: Mapping[str, Mapping[str, Sequence[float]]],
    *,
    x: str,
    at: Sequence[float],
    title: str,
    doubling: bool = False,
) -> Drawing:
    """Draws one panel for each quantity, over a shared x axis, so that one can be weighed against the other.

    Args:
        panels: by the name and unit of a quantity, its lines by name; see ``plot_lines``.
        x: what runs along the x axis, with its unit where it has one.
        at: the x value of each point.
        title: what the figure shows.
        doubling: whether equal steps along the x axis are factors of two.

    Returns:
        The drawing, with the figure in words; its ``ax`` is the upper panel's.

    Raises:
        ValueError: no panels, lines that ``plot_lines`` refuses, or ``doubling`` with an x value that is not positive.

    Example:
        >>> sizes, times = {"measured": [80, 40]}, {"measured": [1.0, 1.2]}
        >>> plot_trade({"peak bytes": sizes, "time": times}, x="parts", at=[1, 2], title="A trade")
        A trade. Up: peak bytes. Right: parts, from 1 to 2. measured: from 80 B to 40 B. Up: time. Right: parts, \
from 1 to 2. measured: from 1 to 1.2.
    """
    if not panels:
        raise ValueError(explain("plot_trade got no panels.", "at least one quantity with its lines."))
    if not all(panels.values()):
        raise ValueError(explain("plot_trade got a panel without lines.", "at least one line a quantity."))
    if doubling and min(at) <= 0:
        raise ValueError(explain(f"plot_trade(at={list(at)}, doubling=True).", "x values above 0.", "0 never doubles."))
    with style():
        right = max(text_width(name, _NAME_SIZE) for lines in panels.values() for name in lines) + 26
        height = _TOP + len(panels) * _PANEL + (len(panels) - 1) * _GAP + _BOTTOM
        figure: Any = new_figure(_WIDTH, height)
        axes = []
        words = [sentence(title)]
        for number, (y, lines) in enumerate(panels.items()):
            bottom = height - _TOP - (number + 1) * _PANEL - number * _GAP
            place = (_LEFT / _WIDTH, bottom / height, (_WIDTH - _LEFT - right) / _WIDTH, _PANEL / height)
            ax = figure.add_axes(place)
            plot_lines(lines, x=x, y=y, title=title, at=at, ax=ax)
            words.append(lines_in_words(lines, x, y, at))
            axes.append(ax)
        for ax in axes:
            _set_x(ax, at, doubling)
        for ax in axes[1:]:
            ax.set_title("", loc="left")
        for ax in axes[:-1]:
            ax.set_xlabel("")
            ax.tick_params(labelbottom=False)
    figure._course_words = ()  # each panel has brought its own words along; the figure's are these, once
    return Drawing(figure, axes[0], " ".join(words), own=True)


def _set_x(ax: Any, at: Sequence[float], doubling: bool) -> None:
    from matplotlib.ticker import FixedLocator, NullLocator

    if doubling:
        ax.set_xscale("log", base=2)
    ax.xaxis.set_major_locator(FixedLocator(list(at)))
    ax.xaxis.set_minor_locator(NullLocator())
    ax.set_xticklabels([f"{position:g}" for position in at])
