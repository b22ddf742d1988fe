"""A bill in bytes: one bar for each alternative, made of its parts, which add up (``plot_stacked``)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from course_utils.base.errors import explain
from course_utils.base.text import format_bytes
from course_utils.draw.canvas import canvas
from course_utils.draw.drawing import Drawing
from course_utils.draw.labels import sentence
from course_utils.draw.panels import LOOKS, ROW, name_bars
from course_utils.draw.style import RULE

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_WIDTH = 420.0  # points; of the longest bar and its number


def plot_stacked(bills: Mapping[str, Mapping[str, int]], *, title: str, ax: Axes | None = None) -> Drawing:
    """Draws one bar of bytes for each alternative, its parts end to end, and the sum behind it.

    Args:
        bills: the bytes of each part by its name, by alternative; at most four parts, the same ones in every bill.
        title: what the figure shows.
        ax: axes to draw into. By default a figure of its own.

    Returns:
        The drawing, with the figure in words.

    Raises:
        ValueError: no bills, more than four parts, or a bill with none or with other parts.

    Example:
        >>> plot_stacked({"all": {"kept": 40, "lost": 8}, "half": {"kept": 20, "lost": 0}}, title="Two ways")
        Two ways. all: 48 B (kept 40 B, lost 8 B). half: 20 B (kept 20 B, lost 0 B).
    """
    parts = _parts(bills)
    totals = {name: format_bytes(sum(bill.values())) for name, bill in bills.items()}
    with canvas(ax, _WIDTH, ROW * len(bills)) as page:
        name_bars(page, list(bills))
        ends, stacks = [0] * len(bills), []
        for part, look in zip(parts, LOOKS, strict=False):
            sizes = [bill[part] for bill in bills.values()]
            stacks.append(page.ax.barh(range(len(bills)), sizes, left=ends, label=part, **look))
            ends = [end + size for end, size in zip(ends, sizes, strict=True)]
        page.ax.bar_label(stacks[-1], list(totals.values()), padding=5)
        page.ax.axvline(0, color=RULE, linewidth=0.8, zorder=3)
        page.ax.set_xlim(0, 1.2 * max(*ends, 1))
        page.ax.set_xticks([])
        page.legend(stacks, room=0.8)
        page.heading(title)
    words = [sentence(title)]
    for name, bill in bills.items():
        listed = ", ".join(f"{part} {format_bytes(size)}" for part, size in bill.items())
        words.append(f"{name}: {totals[name]} ({listed}).")
    return page.drawing(" ".join(words))


def _parts(bills: Mapping[str, Mapping[str, int]]) -> list[str]:
    parts = list(next(iter(bills.values()), ()))
    if not 1 <= len(parts) <= len(LOOKS):
        what = f"plot_stacked got {len(bills)} bills of {len(parts)} parts."
        raise ValueError(explain(what, f"at least one bill, of one to {len(LOOKS)} parts."))
    for name, bill in bills.items():
        if list(bill) != parts:
            what = f"The bill {name!r} has the parts {', '.join(bill) or 'none'}."
            raise ValueError(explain(what, f"{', '.join(parts)}, as the first one."))
    return parts
