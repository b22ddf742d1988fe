"""Images, and under them what each place of them is worth, all maps in one scale of colours (``plot_maps``)."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from course_utils.draw.page import Drawing, new_page, require
from course_utils.draw.style import BLUE, PAPER, QUIET_INK, RULE, VERMILION, sentence, text_width

_SIDE = 84.0  # points; of a panel

Panels = Sequence[tuple[str, Tensor]]


def plot_maps(images: Panels, *rows: Panels, title: str) -> Drawing:
    """Draws images in grey, and below them rows of maps: blue above 0, orange below 0, white at 0.

    The colours of all maps have one scale, which the line below the figure gives, so that maps can be compared.

    Args:
        images: pairs (name, 2-D tensor), white at the smallest value and black at the greatest.
        *rows: for each row of maps, pairs (name, 2-D tensor).
        title: what the figure shows.

    Returns:
        The drawing, with the figure in words.

    Raises:
        ValueError: no images, no maps, or a tensor that is not 2-D.

    Example:
        >>> import torch
        >>> plot_maps([("a 1", torch.eye(2))], [("worth", torch.tensor([[0.0, 2.0], [-1.0, 0.0]]))], title="One digit")
        One digit. Images: a 1. worth: from -1.00 to 2.00, the most at row 1, column 2.
    """
    from matplotlib.colors import LinearSegmentedColormap

    require(images and rows and all(rows), "plot_maps got no images or an empty row of maps.", "at least one of each.")
    for name, grid in (pair for row in (images, *rows) for pair in row):
        require(grid.dim() == 2, f"{name!r} has shape {tuple(grid.shape)}.", "height and width alone.")
    values = [grid.detach().cpu().double() for row in rows for _, grid in row]
    low = min(0.0, *(grid.min().item() for grid in values))
    high = max(0.0, *(grid.max().item() for grid in values))
    full = max(high, -low) or 1.0
    note = f"white: 0; full blue: {full:.2f}" + (f"; full orange: {-full:.2f}" if low < 0 else "")
    worth = LinearSegmentedColormap.from_list("worth", [VERMILION, PAPER, BLUE])
    shown = (images, *rows)
    # Names that are wider than their images keep these apart.
    wide = max(_SIDE, *(text_width(name) + 8 for row in shown for name, _ in row))
    with new_page(wide, _SIDE, rows=len(shown), columns=max(map(len, shown))) as page:
        for number, (row, axes) in enumerate(zip(shown, page.axes, strict=True)):
            look = {"cmap": worth, "vmin": -full, "vmax": full} if number else {"cmap": "gray_r"}
            for (name, grid), ax in zip(row, axes, strict=False):
                ax.imshow(grid.detach().cpu().double().numpy(), interpolation="nearest", **look)
                page.names_above([(grid.shape[1] - 1) / 2], [name], ax=ax)
                ax.set(xticks=[], yticks=[])
                ax.spines[:].set(color=RULE, linewidth=0.5)
            for ax in axes[len(row) :]:
                ax.set_axis_off()
        page.axes[-1][0].set_xlabel(note, color=QUIET_INK, loc="left", labelpad=8)
        page.heading(title)
    return Drawing(page.figure, _in_words(images, rows, title))


def _in_words(images: Panels, rows: Sequence[Panels], title: str) -> str:
    sentences = [f"{sentence(title)} Images: {', '.join(name for name, _ in images)}."]
    for name, grid in (pair for row in rows for pair in row):
        row, column = divmod(int(grid.argmax()), grid.shape[1])
        where = f"the most at row {row + 1}, column {column + 1}"
        sentences.append(f"{name}: from {grid.min().item():.2f} to {grid.max().item():.2f}, {where}.")
    return " ".join(sentences)
