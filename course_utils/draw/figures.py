"""Figures of what was measured: the recorded graph (``plot_graph``), bytes over time (``plot_memory``), costs side by
side (``plot_bars``).

Each returns a ``Drawing``: the figure, and the same in words. matplotlib is imported when a figure is drawn.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

import torch

from course_utils.base.errors import explain
from course_utils.base.text import describe, format_bytes
from course_utils.draw.graph_picture import GraphPicture, graph_picture
from course_utils.draw.style import Drawing, lay_paper, new_figure, root_figure, style, text_width
from course_utils.draw.timeline_picture import timeline_words
from course_utils.graph import GraphMemory, graph_memory
from course_utils.graph.names import tensor_names
from course_utils.measure.compare import Comparison, format_count
from course_utils.memory import MemoryTracker
from course_utils.memory.records import Timeline

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from course_utils.draw.bars import Panel

# Width and height of a timeline, in points.
_TIMELINE = (660.0, 330.0)
# Room for its numbers and names, beside and below the axes.
_LEFT, _BELOW = 62.0, 50.0
# Drawn smaller than this, a graph in given axes is folded.
_SMALLEST = 0.6
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
        *of: tensors (the loss), or what ``graph_memory`` returned; then modules or mappings that name tensors:
            ``plot_graph(loss, model)``, ``plot_graph(loss, {"w": w})``.
        ax: axes to draw into; the picture is shrunk to fit. By default a figure of its own, as large as it needs.
        title: the first line above the drawing.
        fold: True or False to fold or not to, whatever the number of nodes.
        **named: more names by keyword: ``plot_graph(loss, w=w, x=x)``.

    Returns:
        The drawing, with the figure in words.

    Raises:
        TypeError: something given is neither tensor, module nor mapping, or a name stands for something that is neither
            a tensor nor a module.
        ValueError: no tensor was given, or one has no history.
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
        if ax is not None and fold is None and _scale(ax, picture.width, picture.height) < _SMALLEST:
            smaller = graph_picture(memory, text_width, title=title, kinds=kinds, fold=True, widest=_WIDEST)
            picture = max((picture, smaller), key=lambda one: _scale(ax, one.width, one.height))
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

    Returns:
        The drawing, with the figure in words.

    Raises:
        TypeError: ``memory`` is neither.
        ValueError: ``x`` is neither.
    """
    from course_utils.draw.memory_axes import draw_memory

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
                (_LEFT / width, _BELOW / height, 1 - (_LEFT + 16) / width, 1 - (_BELOW + 12) / height)
            )
        else:
            lay_paper(ax, left=_LEFT, below=_BELOW)
        draw_memory(ax, timeline, title, x_is_time=x == "time")
        return Drawing(root_figure(ax), ax, timeline_words(timeline, title), own=own)


def plot_bars(costs: Comparison | Mapping[str, int], *, ax: Axes | None = None, title: str = "") -> Drawing:
    """Draws what alternatives cost, side by side, the numbers beside the bars.

    Args:
        costs: what ``compare`` returned: one panel each for FLOPs, peak bytes, held bytes and time; or bytes by name:
            one panel.
        ax: axes to draw into; the picture is shrunk to fit. By default a figure of its own.
        title: the line above the drawing.

    Returns:
        The drawing, with the figure in words.

    Raises:
        TypeError: ``costs`` is neither, or a number of bytes is no whole number.
        ValueError: it is empty.
    """
    from course_utils.draw.bars import bars_size, draw_bars

    names, panels, note = _panels(costs)
    heading = title or ("What the alternatives cost" if isinstance(costs, Comparison) else "Bytes")
    with style():
        drawing_ax, own = _fitted(ax, *bars_size(names, panels, note))[:2]
        draw_bars(drawing_ax, names, panels, heading, note)
        words = [f"{heading}."]
        for panel in panels:
            pairs = [f"{name} {value}" for name, value in zip(names, panel.words, strict=True)]
            words.append(f"{panel.name}: {', '.join(pairs)}.")
        return Drawing(root_figure(drawing_ax), drawing_ax, " ".join(words), own=own)


def _panels(costs: Comparison | Mapping[str, int]) -> tuple[list[str], list[Panel], str]:
    from course_utils.draw.bars import Panel

    if isinstance(costs, Comparison):
        names = [cost.name for cost in costs.costs]
        flops = tuple(cost.flops for cost in costs.costs)
        panels = [Panel("FLOPs", flops, tuple(map(format_count, flops)))]
        for heading, sizes in (
            ("peak bytes", tuple(cost.peak_bytes for cost in costs.costs)),
            ("bytes held with the result", tuple(cost.held_bytes for cost in costs.costs)),
        ):
            panels.append(Panel(heading, sizes, tuple(map(format_bytes, sizes))))
        ratios = tuple(cost.time_ratio for cost in costs.costs)
        if None not in ratios:
            panels.append(Panel("time", ratios, tuple(f"{ratio:.2f}x" for ratio in ratios)))
        return names, panels, f"time: as a multiple of {costs.baseline}" if costs.rounds else ""
    if not isinstance(costs, Mapping) or not all(isinstance(value, int) for value in costs.values()):
        raise TypeError(
            explain(
                f"plot_bars was given {describe(costs)}.",
                "what compare() returned, or a dictionary of names and bytes.",
                try_this='plot_bars(compare({"multiply": first, "skip": second}))',
            )
        )
    if not costs:
        raise ValueError(explain("plot_bars was given an empty dictionary.", "at least one name with its bytes."))
    sizes = tuple(costs.values())
    return list(costs), [Panel("bytes", sizes, tuple(map(format_bytes, sizes)))], ""


def _drawn(picture: GraphPicture, ax: Axes | None) -> Drawing:
    from course_utils.draw.graph_axes import draw_graph

    ax, own, scale = _fitted(ax, picture.width, picture.height)
    draw_graph(ax, picture, scale)
    return Drawing(root_figure(ax), ax, picture.description, own=own)


def _fitted(ax: Axes | None, width: float, height: float) -> tuple[Axes, bool, float]:
    """Axes whose data coordinates are points of a picture of that size, y downwards, shrunk where it does not fit.

    Returns:
        The axes, whether the figure was made here, and the size of a point of the picture in points of the figure.
    """
    own = ax is None
    if ax is None:
        ax = new_figure(width, height).add_axes((0.0, 0.0, 1.0, 1.0))
    else:
        lay_paper(ax)
    wide, high = _points(ax)
    scale = _scale(ax, width, height)
    side, above = (wide / scale - width) / 2, (high / scale - height) / 2
    ax.set_axis_off()
    ax.set_xlim(-side, width + side)
    ax.set_ylim(height + above, -above)
    return ax, own, scale


def _points(ax: Axes) -> tuple[float, float]:
    frame = ax.get_window_extent()
    dpi = root_figure(ax).dpi
    return frame.width * 72 / dpi, frame.height * 72 / dpi


def _scale(ax: Axes, width: float, height: float) -> float:
    wide, high = _points(ax)
    return min(wide / width, high / height, 1.0)
