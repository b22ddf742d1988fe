"""The recorded graph behind a loss, with the bytes that each node keeps (``plot_graph``)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from course_utils.draw import boxes
from course_utils.draw.layout import Box, Layout, Line, layered
from course_utils.draw.page import Drawing, new_page, require
from course_utils.draw.style import RULE, text_width, wrapped
from course_utils.graph import GraphMemory
from course_utils.graph.numbers import Numbers, numbers_of
from course_utils.graph.walk import graph_memory, tensor_names

# Fill, colour of the border, its width, its dashes: what a box says about bytes shows without colour, too.
STYLES: dict[boxes.Role, tuple[str, str, float, object]] = {
    "keeps": ("#F7CF7B", "#7A4A00", 1.8, "solid"),
    "again": ("#FBEBC8", "#7A4A00", 1.0, (0, (3, 2))),
    "shares": ("#EFEFEF", "#4D4D4D", 1.0, (0, (1, 1.5))),
    "plain": ("#FFFFFF", "#7F7F7F", 0.8, "solid"),
    "leaf": ("#BFE1F6", "#0B4F7D", 1.0, "solid"),
}
_WORDS: dict[boxes.Role, str] = {
    "keeps": "keeps: only the graph holds these bytes",
    "again": "same: a box above counts these bytes",
    "shares": "shares: variables or other graphs hold these too",
    "plain": "operation that keeps nothing",
    "leaf": "leaf: the gradient ends here",
}
_WORDS_OF_NUMBERS: dict[boxes.Role, str] = {
    "plain": "operation: its result's value, and its gradient (d top / d result)",
    "leaf": "leaf: the gradient ends here",
}
_MOST_WITH_NUMBERS = 40
# A figure wider than this, in points, is shrunk by the page, and its texts with it.
_WIDEST = 870.0


@dataclass(frozen=True)
class Plan:
    """A graph laid out: its nodes in groups, each with what is in its box, and the boxes' places in points."""

    groups: Sequence[boxes.Group]
    labels: Sequence[boxes.Label]
    layout: Layout


def plot_graph(
    *of: torch.Tensor | GraphMemory | torch.nn.Module | Mapping[str, Any],
    title: str = "",
    fold: bool | None = None,
    values: bool = False,
    **named: torch.Tensor | torch.nn.Module,
) -> Drawing:
    """Draws the recorded graph behind a loss, with the bytes that each node keeps, or with the numbers in it.

    Nodes stand where backward meets them: the loss on top, the leaves below. Above 80 nodes those that belong to one
    module are folded into one box.

    Args:
        *of: tensors (the loss), or what ``graph_memory`` returned; then modules or mappings that name tensors:
            ``plot_graph(loss, model)``, ``plot_graph(loss, {"w": w})``.
        title: the first line above the drawing.
        fold: True or False to fold or not to, whatever the number of nodes.
        values: write into each box the value that was computed there and, below it, the gradient of the result by that
            value; for small graphs of small tensors. A graph does not list its intermediate values: those of tensors
            that you name are shown, those that some node has saved, and of the others that they are "not kept". The
            gradients come from one backward pass more, which fills no ``.grad`` and keeps the graph; hooks on tensors
            and the backward of custom Functions run once more.
        **named: more names by keyword: ``plot_graph(loss, w=w, x=x)``.

    Returns:
        The drawing, with the figure in words.

    Raises:
        TypeError: something given is neither tensor, module nor mapping, or a name stands for something that is neither
            a tensor nor a module.
        ValueError: no tensor was given, or one has no history; with ``values``: more than 40 nodes, a result of several
            numbers, a tensor on the way of more than six, or what the graph had saved was freed by backward.
    """
    tensors = [thing for thing in of if isinstance(thing, torch.Tensor)]
    memories = [thing for thing in of if isinstance(thing, GraphMemory)]
    sources = [thing for thing in of if not isinstance(thing, (torch.Tensor, GraphMemory))]
    names = tensor_names(*sources, **named)
    memory = memories[0] if memories and not tensors else graph_memory(*tensors, names=names)
    modules = [source for source in sources if isinstance(source, torch.nn.Module)]
    kinds = {name: type(module).__name__ for model in modules for name, module in model.named_modules() if name}
    title = title or (f"Recorded graph of {type(modules[0]).__name__}" if modules else "Recorded graph")
    if values:
        return plot_numbers(memory, _numbers(memory, tensors, names), title)
    plan = graph_plan(memory, kinds, fold)
    said = boxes.summary(memory, len(plan.groups))
    return _drawn(plan, title, said, _WORDS, boxes.in_words(memory, plan.groups, title))


def plot_numbers(memory: GraphMemory, numbers: Sequence[Numbers], title: str) -> Drawing:
    """Draws a graph that comes as plain data, with numbers in its boxes: ``plot_graph(..., values=True)`` of another
    engine.

    Args:
        memory: its nodes.
        numbers: of each node, in the same order.
        title: the first line above the drawing.

    Returns:
        The drawing, with the figure in words.
    """
    plan = graph_plan(memory, {}, False, numbers)
    return _drawn(plan, title, "", _WORDS_OF_NUMBERS, boxes.numbers_in_words(memory, numbers, title))


def _drawn(plan: Plan, title: str, said: str, meanings: Mapping[boxes.Role, str], words: str) -> Drawing:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    roles = {label.role for label in plan.labels}
    signs = [Patch(label=meaning, **_look(role)) for role, meaning in meanings.items() if role in roles]
    way = Line2D([], [], linestyle="", marker="v", color=RULE, label="the way gradients go in backward")
    with new_page(plan.layout.width, plan.layout.height) as page:
        page.ax.set_axis_off()
        page.heading(title, "\n".join(wrapped(said, page.room, text_width)), loc="center")
        page.legend([*signs, way], room=1.0, handlelength=1.4)
        page.ax.set(xlim=(0, plan.layout.width), ylim=(plan.layout.height, 0))  # in points, y downwards
        _draw_lines(page.ax, plan.layout.lines)
        for label, box in zip(plan.labels, plan.layout.boxes, strict=True):
            _draw_box(page.ax, label, box)
    return Drawing(page.figure, words)


def _look(role: boxes.Role) -> dict[str, Any]:
    return dict(zip(("facecolor", "edgecolor", "linewidth", "linestyle"), STYLES[role], strict=True))


def _draw_box(ax: Any, label: boxes.Label, box: Box) -> None:
    from matplotlib.patches import FancyBboxPatch

    corner, where = min(6.0, box.height / 3), (box.x - box.width / 2, box.y - box.height / 2)
    form = "square,pad=0" if label.is_leaf else f"round,pad=0,rounding_size={corner}"
    look: dict[str, Any] = {"boxstyle": form, "zorder": 3, "clip_on": False, **_look(label.role)}
    ax.add_patch(FancyBboxPatch(where, box.width, box.height, **look))
    y = box.y - sum(size for _, size, _ in label.text) * boxes.LEADING / 2
    for text, size, bold in label.text:
        font = {"size": size, "weight": "bold" if bold else "normal"}
        ax.text(box.x, y + size * boxes.LEADING / 2, text, fontdict=font, ha="center", va="center", zorder=4)
        y += size * boxes.LEADING


def _numbers(memory: GraphMemory, tensors: list[torch.Tensor], names: Mapping[str, torch.Tensor]) -> list[Numbers]:
    given = f"{len(tensors)} tensors" if len(tensors) != 1 else f"a graph of {len(memory.nodes)} nodes"
    found = f"plot_graph(..., values=True) was called with {given}."
    wanted = f"one tensor with a graph of at most {_MOST_WITH_NUMBERS} nodes, with a few numbers in each."
    require(len(tensors) == 1 and len(memory.nodes) <= _MOST_WITH_NUMBERS, found, wanted)
    return numbers_of(tensors[0], names)


def graph_plan(
    memory: GraphMemory, kinds: Mapping[str, str], fold: bool | None, numbers: Sequence[Numbers] = ()
) -> Plan:
    """Lays a graph out, with ``numbers`` in its boxes where there are any.

    With ``fold=None`` it is folded above 80 nodes, or above 40 where it is too wide for a page.
    """
    count = len(memory.nodes)
    if fold or (fold is None and count > boxes.MOST_NODES):
        groups, edges = boxes.folded(memory)
    else:
        groups, edges = [boxes.Group((node,)) for node in memory.nodes], memory.edges
    labels = [boxes.label_of(group, kinds, numbers) for group in groups]
    layout = layered([(label.width, label.height) for label in labels], edges)
    if fold is None and boxes.MOST_NODES // 2 < count <= boxes.MOST_NODES and layout.width > _WIDEST:
        return graph_plan(memory, kinds, True)
    return Plan(groups, labels, layout)


def _draw_lines(ax: Any, lines: Sequence[Line]) -> None:
    from matplotlib.collections import PathCollection
    from matplotlib.path import Path

    curves, heads = [], []
    for line in lines:
        tip = line.y1 - (5 if line.arrow else 0)
        reach = (tip - line.y0) * 0.55
        points = [(line.x0, line.y0), (line.x0, line.y0 + reach), (line.x1, tip - reach), (line.x1, tip)]
        curves.append(Path(points, [Path.MOVETO, Path.CURVE4, Path.CURVE4, Path.CURVE4]))
        if line.arrow:
            heads.append(Path([(line.x1 - 2.8, tip), (line.x1 + 2.8, tip), (line.x1, line.y1), (line.x1 - 2.8, tip)]))
    look: dict[str, Any] = {"edgecolors": RULE, "linewidths": 1.0, "zorder": 2, "transform": ax.transData}
    for paths, fill in ((curves, "none"), (heads, RULE)):
        ax.add_collection(PathCollection(paths, sizes=None, facecolors=fill, **look), autolim=False)
