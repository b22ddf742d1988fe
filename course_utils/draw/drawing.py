"""A figure, and what it shows in words (``Drawing``)."""

from __future__ import annotations

import functools
import html
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# JupyterLab's dark themes turn the picture above the words from paper to slate; hues stay what they are. In a notebook
# that is not trusted JupyterLab drops the rule, and the picture stays paper.
_ON_DARK = (
    '[data-jp-theme-light="false"] .jp-OutputArea-child:has(+ .jp-OutputArea-child .course-words) img'
    "{filter:invert(0.92) hue-rotate(180deg)}"
)


class Drawing:
    """A figure, and what it shows in words.

    As the last line of a cell it shows itself, once. After ``plt.show()``, or where it was drawn into axes that were
    given, the figure is shown as matplotlib does. In a notebook the words follow the picture, folded, and are its
    alternative text where the page takes one.

    Attributes:
        figure: the matplotlib figure.
        ax: the axes that were drawn into; the first ones where there are several.
        description: the figure in words.
    """

    def __init__(self, figure: Figure, ax: Axes, description: str, *, own: bool) -> None:
        self.figure = figure
        self.ax = ax
        self.description = description
        self._own = own
        _describe_when_shown(figure, description)

    def __repr__(self) -> str:
        return self.description

    def _ipython_display_(self) -> None:
        import matplotlib
        import matplotlib.pyplot as plt

        if not self._own:
            return
        if "inline" not in matplotlib.get_backend():
            print(self.description)
            return
        from IPython.display import display

        display(self.figure)
        plt.close(self.figure)  # or the backend would show it again when the cell ends


def _describe_when_shown(figure: Any, description: str) -> None:
    """Makes a figure bring its words along when a notebook shows it; a figure with several drawings brings them all.

    JupyterLab gives an image no alternative text, whatever its metadata say, so the words come as an output of their
    own, too; nbconvert and others do take ``alt`` from the metadata.
    """
    words = (*getattr(figure, "_course_words", ()), description)
    figure._course_words = words
    figure._ipython_display_ = functools.partial(_show, figure)


def _show(figure: Any) -> None:
    from IPython import get_ipython
    from IPython.display import display

    words = " ".join(figure._course_words)
    data: dict[str, Any] = {"text/plain": words}
    metadata: dict[str, Any] = {}
    shell = get_ipython()
    formatters = shell.display_formatter.formatters if shell else {}
    for mime in ("image/png", "image/jpeg", "image/svg+xml", "application/pdf"):
        made = formatters[mime](figure) if mime in formatters else None
        if made is not None:
            data[mime], about = made if isinstance(made, tuple) else (made, {})
            metadata[mime] = {**about, "alt": words}
    display(data, metadata=metadata, raw=True)
    if len(data) > 1:
        folded = f"<summary>The figure in words</summary><p>{html.escape(words)}</p>"
        folded = f'<details class="course-words">{folded}</details><style>{_ON_DARK}</style>'
        display({"text/html": folded, "text/plain": "The figure in words: see above."}, raw=True)
