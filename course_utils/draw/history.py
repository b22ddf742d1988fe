"""The history of grad control as a figure: what could be written in which version (``plot_history``)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from course_utils.draw.canvas import canvas
from course_utils.draw.drawing import Drawing
from course_utils.draw.style import INK, QUIET_INK, RULE

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(frozen=True)
class Era:
    """A time in which a spelling did one thing.

    Attributes:
        row: the spelling.
        start: the year, with the part of it that had passed.
        end: the year in which it ended; None where it is still so.
        effect: what it does.
        lapsed: whether it does nothing any more.
    """

    row: str
    start: float
    end: float | None
    effect: str
    lapsed: bool = False


# The days of release: https://github.com/pytorch/pytorch/wiki/PyTorch-Versions; the first one is that of
# https://pytorch.org/blog/a-year-in/.
FIRST, V0_4, V1_9 = 2017 + 18 / 365, 2018 + 113 / 365, 2021 + 165 / 365

RELEASES = ((FIRST, "0.1", "January 2017"), (V0_4, "0.4", "April 2018"), (V1_9, "1.9", "June 2021"))
ERAS = (
    Era("Variable(x)", FIRST, V0_4, "a wrapper"),
    Era("Variable(x)", V0_4, None, "gives back a tensor: Variable and Tensor are one class", lapsed=True),
    Era("volatile=True", FIRST, V0_4, "an input's flag"),
    Era("volatile=True", V0_4, None, "a warning; the recording goes on", lapsed=True),
    Era("no_grad, enable_grad,\nset_grad_enabled", V0_4, None, "a mode of the thread, for a block of code"),
    Era("inference_mode", V1_9, None, "a stricter mode"),
)

_FILL, _LAPSED = "#BFE1F6", "#F3F1EA"
_LAST_YEAR = 2026.0
_WIDTH, _ROW = 560.0, 34.0  # points


def plot_history(
    *, ax: Axes | None = None, title: str = "Switching the recording off: what could be written when"
) -> Drawing:
    """Draws one row for each spelling, with what it did in which years.

    Args:
        ax: axes to draw into; by default a figure of its own.
        title: what the figure shows.

    Returns:
        The drawing, with the figure in words.
    """
    rows = list(dict.fromkeys(era.row for era in ERAS))
    with canvas(ax, _WIDTH, _ROW * len(rows), shrink=True) as page:
        page.ax.set_xlim(FIRST - 0.1, _LAST_YEAR)
        page.ax.set_ylim(len(rows) - 0.45, -0.55)
        for when, *_ in RELEASES:
            page.ax.axvline(when, color=RULE, linewidth=1, linestyle=(0, (4, 3)), zorder=1)
        for era in ERAS:
            _draw_era(page.ax, era, rows.index(era.row))
        page.ax.set_yticks(range(len(rows)), rows)
        page.ax.set_xticks(range(2018, int(_LAST_YEAR)))
        page.ax.set_xlabel("year")
        page.ax.tick_params(axis="y", length=0)
        page.ax.spines[["top", "right", "left"]].set_visible(False)
        dates = [f"{version}\n{date}" for _, version, date in RELEASES]
        page.names_above([when for when, *_ in RELEASES], dates, ha="left", ma="left")
        page.heading(title, loc="left")
    return page.drawing(_in_words(title, rows))


def _draw_era(ax: Axes, era: Era, row: int) -> None:
    from matplotlib.patches import Polygon

    half = 0.34
    # A point at the right end says that it goes on.
    end, tip = (_LAST_YEAR - 0.18, _LAST_YEAR - 0.02) if era.end is None else (era.end, era.end)
    corners = [(era.start, row - half), (end, row - half), (tip, row), (end, row + half), (era.start, row + half)]
    fill, hatch = (_LAPSED, "////") if era.lapsed else (_FILL, "")
    ax.add_patch(Polygon(corners, facecolor=fill, edgecolor="#B9B4A6" if era.lapsed else RULE, hatch=hatch, zorder=2))
    ax.add_patch(Polygon(corners, facecolor="none", edgecolor=RULE, linewidth=1, zorder=3))
    ax.annotate(
        era.effect,
        (era.start, row),
        (6, 0),
        textcoords="offset points",
        va="center",
        color=QUIET_INK if era.lapsed else INK,
        bbox={"facecolor": fill, "edgecolor": "none", "pad": 1.5},
        zorder=4,
    )


def _in_words(title: str, rows: list[str]) -> str:
    versions = {when: f"{version} ({date})" for when, version, date in RELEASES}
    sentences = []
    for row in rows:
        effects = []
        for era in (era for era in ERAS if era.row == row):
            until = "on" if era.end is None else f"to {versions[era.end]}"
            effects.append(f"from {versions[era.start]} {until}: {era.effect}")
        sentences.append(f"{' '.join(row.split())}, {'; '.join(effects)}.")
    return f"{title}. {' '.join(sentences)}"
