"""How every figure of the course looks (``PAPER``, ``INK``, ``FILLS``, ``CATEGORY_COLORS``), and how it says in words
what it shows (``Drawing``).

Colours are those of Okabe and Ito, which colour-blind readers can tell apart; figures are drawn on paper of their own,
so that they read the same on a light and on a dark page. Imports matplotlib inside functions only.
"""

from __future__ import annotations

import html
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PAPER = "#FCFBF7"
EDGE = "#C9C5B8"
INK = "#1B1B1B"
QUIET_INK = "#4D4D4D"

ORANGE, SKY, GREEN, YELLOW = "#E69F00", "#56B4E9", "#009E73", "#F0E442"
BLUE, VERMILION, PURPLE, GREY = "#0072B2", "#D55E00", "#CC79A7", "#8C8C8C"


class Drawing:
    """A figure and what it says: shows itself in a notebook, and reads itself out.

    Attributes:
        figure: the matplotlib figure.
        ax: the axes that were drawn into.
        description: the figure in words.
    """

    def __init__(self, figure: Figure, ax: Axes, description: str) -> None:
        self.figure = figure
        self.ax = ax
        self.description = description
        _describe_on_display(figure, ax, description)

    def __repr__(self) -> str:
        return self.description

    def _ipython_display_(self) -> None:
        """Shows the figure once, here, and not again at the end of the cell."""
        import matplotlib.pyplot as plt
        from IPython.display import display

        display(self.figure)
        plt.close(self.figure)
