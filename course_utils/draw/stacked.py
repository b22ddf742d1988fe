"""One bar of bytes for each alternative, made of its parts (``plot_stacked``)."""

from __future__ import annotations

from collections.abc import Mapping

from course_utils.base.text import format_bytes
from course_utils.draw.bars import LOOKS, ROW, name_bars
from course_utils.draw.labels import sentence
from course_utils.draw.page import Drawing, new_page, require
from course_utils.draw.style import RULE


def plot_stacked(bills: Mapping[str, Mapping[str, int]], *, title: str) -> Drawing:
    """Draws one bar of bytes for each alternative, its parts end to end, and the sum behind it.

    Args:
        bills: the bytes of each part by its name, by alternative; at most four parts, the same ones in every bill.
        title: what the figure shows.

    Returns:
        The drawing, with the figure in words.

    Raises:
        ValueError: no bills, more than four parts, or a bill with none or with other parts.

    Example:
        >>> plot_stacked({"all": {"kept": 40, "lost": 8}, "half": {"kept": 20, "lost": 0}}, title="Two ways")
        Two ways. all: 48 B (kept 40 B, lost 8 B). half: 20 B (kept 20 B, lost 0 B).
    """
    parts = list(next(iter(bills.values()), ()))
    require(1 <= len(parts) <= len(LOOKS), f"A bill has {len(parts)} parts.", f"one bill or more of 1 to {len(LOOKS)}.")
    for name, bill in bills.items():
        require(list(bill) == parts, f"The bill {name!r} has the parts {', '.join(bill)}.", f"{', '.join(parts)}.")
    totals = [format_bytes(sum(bill.values())) for bill in bills.values()]
    with new_page(420.0, ROW * len(bills)) as page:
        name_bars(page, list(bills))
        ends, stacks = [0] * len(bills), []
        for part, look in zip(parts, LOOKS, strict=False):
            sizes = [bill[part] for bill in bills.values()]
            stacks.append(page.ax.barh(range(len(bills)), sizes, left=ends, label=part, **look))
            ends = [end + size for end, size in zip(ends, sizes, strict=True)]
        page.ax.bar_label(stacks[-1], totals, padding=5)
        page.ax.axvline(0, color=RULE, linewidth=0.8, zorder=3)
        page.ax.set(xlim=(0, 1.2 * max(*ends, 1)), xticks=[])
        page.legend(stacks, room=0.8)
        page.heading(title, loc="center")
    said = [sentence(title)]
    for (name, bill), total in zip(bills.items(), totals, strict=True):
        said.append(f"{name}: {total} ({', '.join(f'{part} {format_bytes(size)}' for part, size in bill.items())}).")
    return Drawing(page.figure, " ".join(said))
