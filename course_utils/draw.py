"""Figures of what was measured: the recorded graph (``plot_graph``).

Each returns a ``Drawing``: the figure, and the same in words. matplotlib is imported when a figure is drawn. Imports
``course_utils.graph``, ``graph_picture``, ``draw_style``, ``draw_graph``, ``errors`` and ``text``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

import torch

from course_utils.draw_style import Drawing, new_figure, style, text_width
from course_utils.errors import explain
from course_utils.graph import GraphMemory, graph_memory, tensor_names
from course_utils.graph_picture import graph_picture
from course_utils.memory import MemoryTracker
from course_utils.memory_records import Timeline
from course_utils.text import describe
from course_utils.timeline_picture import timeline_words

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Width and height of a timeline, in points.
_TIMELINE = (660.0, 330.0)
# A figure wider than this is shrunk by the page, and its texts with it.
_WIDEST = 900.0


def plot_graph(
    *of: torch.Tensor | GraphMemory | torch.nn.Module | Mapping[str, Any],
    ax: Axes | None = None,
    title: str = "",
    fold: bool | None = None,
    **named: torch.Tensor | torch.nn.Module,
) -> Drawing:
    """Draws the recorded graph behind a loss, with the bytes that each node keeps.

    Nodes stand where backward meets them: the loss on top, the leaves below. Above 80 nodes those that belong to one
    module are folded into one box.

    Args:
        of: tensors (the loss), or what ``graph_memory`` returned; then modules or mappings that name tensors:
            ``plot_graph(loss, model)``, ``plot_graph(loss, {"w": w})``.
        ax: axes to draw into; the picture is shrunk to fit. By default a figure of its own, as large as it needs.
        title: the first line above the drawing.
        fold: True or False to fold or not to, whatever the number of nodes.
        named: more names by keyword: ``plot_graph(loss, w=w, x=x)``.

    Raises:
        TypeError, ValueError: as ``graph_memory``; and TypeError for a name given to something that is no tensor.
    """
    tensors = [thing for thing in of if isinstance(thing, torch.Tensor)]
    memories = [thing for thing in of if isinstance(thing, GraphMemory)]
    sources = [thing for thing in of if not isinstance(thing, (torch.Tensor, GraphMemory))]
    names = tensor_names(*sources, **named)
    memory = memories[0] if memories and not tensors else graph_memory(*tensors, names=names)
    modules = [source for source in sources if isinstance(source, torch.nn.Module)]
    kinds = {name: type(module).__name__ for model in modules for name, module in model.named_modules() if name}
    if not title and modules:
        title = f"Recorded graph of {type(modules[0]).__name__}"
    with style():
        picture = graph_picture(memory, text_width, title=title, kinds=kinds, fold=fold, widest=_WIDEST)
        return _drawn(picture, ax)


def plot_memory(
    memory: MemoryTracker | Timeline,
    *,
    ax: Axes | None = None,
    title: str = "",
    x: Literal["event", "time"] = "event",
) -> Drawing:
    """Draws the bytes alive over time: what they were for, the phases, and the peak with its operation.

    Args:
        memory: a tracker, or its ``timeline()``.
        ax: axes to draw into; by default a figure of its own.
        title: the first line above the drawing.
        x: ``"event"`` counts allocations and frees, the same in every run; ``"time"`` is in milliseconds.

    Raises:
        TypeError: ``memory`` is neither.
        ValueError: ``x`` is neither.
    """
    from course_utils.draw_memory import draw_memory

    timeline = memory.timeline() if isinstance(memory, MemoryTracker) else memory
    if not isinstance(timeline, Timeline):
        raise TypeError(
            explain(
                f"plot_memory was given {describe(memory)}.",
                "a MemoryTracker, or what its timeline() returns.",
                "a report has sums only; the figure needs every event.",
                "with MemoryTracker(model) as mem: ...  then plot_memory(mem)",
            )
        )
    if x not in ("event", "time"):
        raise ValueError(explain(f"plot_memory(x={x!r}) was called.", 'x is "event" or "time".'))
    with style():
        own = ax is None
        if ax is None:
            width, height = _TIMELINE
            ax = new_figure(width, height).add_axes(
                (62 / width, 52 / height, 1 - (62 + 16) / width, 1 - (52 + 12) / height)
            )
        draw_memory(ax, timeline, title, x_is_time=x == "time")
        return Drawing(ax.get_figure(), ax, timeline_words(timeline, title), own=own)


def _drawn(picture: Any, ax: Axes | None) -> Drawing:
    from course_utils.draw_graph import draw_graph

    own = ax is None
    if ax is None:
        ax = new_figure(picture.width, picture.height).add_axes((0.0, 0.0, 1.0, 1.0))
    figure = ax.get_figure()
    frame = ax.get_window_extent()
    wide, high = frame.width * 72 / figure.dpi, frame.height * 72 / figure.dpi
    scale = min(wide / picture.width, high / picture.height, 1.0)
    ax.set_axis_off()
    side, above = (wide / scale - picture.width) / 2, (high / scale - picture.height) / 2
    ax.set_xlim(-side, picture.width + side)
    ax.set_ylim(picture.height + above, -above)
    draw_graph(ax, picture, scale)
    return Drawing(figure, ax, picture.description, own=own)
