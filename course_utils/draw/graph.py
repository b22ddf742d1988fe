"""The recorded graph behind a loss, with the bytes that each node keeps (``plot_graph``)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from course_utils.base.errors import explain
from course_utils.draw.canvas import Canvas, canvas
from course_utils.draw.drawing import Drawing
from course_utils.draw.fold import MOST_NODES, Folding, folded, unfolded
from course_utils.draw.graph_card import LEADING, STACK, Card, Role, Shape, card_of, in_words, numbers_in_words, summary
from course_utils.draw.labels import Width, shortened
from course_utils.draw.layout import Box, Layout, Line, layered
from course_utils.draw.style import RULE
from course_utils.graph import GraphMemory, graph_memory
from course_utils.graph.names import tensor_names
from course_utils.graph.numbers import Numbers, numbers_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.patches import FancyBboxPatch

# Fill, colour of the border, its width, its dashes: what a box says about bytes shows without colour, too.
STYLES: dict[Role, tuple[str, str, float, object]] = {
    "keeps": ("#F7CF7B", "#7A4A00", 1.8, "solid"),
    "again": ("#FBEBC8", "#7A4A00", 1.0, (0, (3, 2))),
    "shares": ("#EFEFEF", "#4D4D4D", 1.0, (0, (1, 1.5))),
    "plain": ("#FFFFFF", "#7F7F7F", 0.8, "solid"),
    "leaf": ("#BFE1F6", "#0B4F7D", 1.0, "solid"),
}
_WORDS: dict[Role, str] = {
    "keeps": "keeps: only the graph holds these bytes",
    "again": "same: a box above counts these bytes",
    "shares": "shares: variables or other graphs hold these too",
    "plain": "operation that keeps nothing",
    "leaf": "leaf: the gradient ends here",
}
_WORDS_OF_NUMBERS: dict[Role, str] = {
    "plain": "operation: its result's value, and its gradient (d top / d result)",
    "leaf": "leaf: the gradient ends here",
}
# Drawn smaller than this, a graph in given axes is folded.
_SMALLEST = 0.6
_MOST_WITH_NUMBERS = 40
# A figure wider than this, in points, is shrunk by the page, and its texts with it.
_WIDEST = 870.0


@dataclass(frozen=True)
class Plan:
    """A graph laid out: what is in its boxes, and their places in points."""

    folding: Folding
    cards: tuple[Card, ...]
    layout: Layout


def plot_graph(
    *of: torch.Tensor | GraphMemory | torch.nn.Module | Mapping[str, Any],
    ax: Axes | None = None,
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
        ax: axes to draw into; the picture is shrunk to fit. By default a figure of its own, as large as it needs.
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
        ValueError: no tensor was given, or one has no history; with ``values``: the result has several numbers, a
            tensor on the way has more than six, or backward has freed what the graph had saved.
    """
    tensors = [thing for thing in of if isinstance(thing, torch.Tensor)]
    memories = [thing for thing in of if isinstance(thing, GraphMemory)]
    sources = [thing for thing in of if not isinstance(thing, (torch.Tensor, GraphMemory))]
    names = tensor_names(*sources, **named)
    memory = memories[0] if memories and not tensors else graph_memory(*tensors, names=names)
    modules = [source for source in sources if isinstance(source, torch.nn.Module)]
    kinds = {name: type(module).__name__ for model in modules for name, module in model.named_modules() if name}
    title = title or (f"Recorded graph of {type(modules[0]).__name__}" if modules else "Recorded graph")
    numbers = _numbers(memory, tensors, names) if values else []
    plan = graph_plan(memory, kinds, False if values else fold, numbers)
    with canvas(ax, plan.layout.width, plan.layout.height, shrink=True) as page:
        page.ax.set_axis_off()
        if ax is not None and fold is None and not values and _scale(page, plan.layout) < _SMALLEST:
            plan = max(plan, graph_plan(memory, kinds, True), key=lambda one: _scale(page, one.layout))
        said, words = ("", _WORDS_OF_NUMBERS) if values else (summary(memory, plan.folding), _WORDS)
        _write_around(page, plan, title, said, words)
        _draw(page, plan)
    return page.drawing(numbers_in_words(memory, numbers, title) if values else in_words(memory, plan.folding, title))


def plot_numbers(memory: GraphMemory, numbers: Sequence[Numbers], title: str) -> Drawing:
    """Draws a graph that comes as plain data, with numbers in its boxes: ``plot_graph(..., values=True)`` of another
    engine.

    Args:
        memory: its nodes.
        numbers: of each node, in the same order.
        title: the first line above the drawing.
    """
    plan = graph_plan(memory, {}, False, numbers)
    with canvas(None, plan.layout.width, plan.layout.height, shrink=True) as page:
        page.ax.set_axis_off()
        _write_around(page, plan, title, "", _WORDS_OF_NUMBERS)
        _draw(page, plan)
    return page.drawing(numbers_in_words(memory, numbers, title))


def _numbers(memory: GraphMemory, tensors: list[torch.Tensor], names: Mapping[str, torch.Tensor]) -> list[Numbers]:
    if len(tensors) != 1 or len(memory.nodes) > _MOST_WITH_NUMBERS:
        given = f"{len(tensors)} tensors" if len(tensors) != 1 else f"a graph of {len(memory.nodes)} nodes"
        raise ValueError(
            explain(
                f"plot_graph(..., values=True) was called with {given}.",
                f"one tensor with a graph of at most {_MOST_WITH_NUMBERS} nodes, with a few numbers in each.",
                try_this="leave values=True out, or draw a smaller part of the computation.",
            )
        )
    return numbers_of(tensors[0], names)


def graph_plan(
    memory: GraphMemory, kinds: Mapping[str, str], fold: bool | None, numbers: Sequence[Numbers] = ()
) -> Plan:
    """Lays a graph out.

    Args:
        memory: the graph.
        kinds: the class of each module, by its qualified name.
        fold: whether to fold nodes by module; None: above 80 nodes, or above 40 where it is too wide for a page.
        numbers: of each node, to be written into its box.
    """
    count = len(memory.nodes)
    folding = folded(memory) if fold or (fold is None and count > MOST_NODES) else unfolded(memory)
    plan = _planned(folding, kinds, numbers)
    if fold is None and MOST_NODES // 2 < count <= MOST_NODES and plan.layout.width > _WIDEST:
        return _planned(folded(memory), kinds)
    return plan


def _planned(folding: Folding, kinds: Mapping[str, str], numbers: Sequence[Numbers] = ()) -> Plan:
    cards = tuple(card_of(group, kinds, numbers) for group in folding.groups)
    sizes = [(card.width + card.behind, card.height + card.behind) for card in cards]
    return Plan(folding, cards, layered(sizes, folding.edges))


def _scale(page: Canvas, layout: Layout) -> float:
    wide, high = page.size
    return min(wide / layout.width, high / layout.height, 1.0)


def _write_around(page: Canvas, plan: Plan, title: str, said: str, meanings: Mapping[Role, str]) -> None:
    from matplotlib.legend_handler import HandlerBase
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    signs: dict[Any, tuple[Role, Shape]] = {}
    for role, words in meanings.items():
        if any(card.role == role for card in plan.cards):
            signs[Patch(label=words)] = role, "square" if role == "leaf" else "round"
    if any(card.behind for card in plan.cards):
        signs[Patch(label="stacked: several nodes in one box")] = "plain", "stack"

    class Sign(HandlerBase):
        def create_artists(self, legend: Any, handle: Any, x: Any, y: Any, width: Any, height: Any, *rest: Any) -> Any:
            frames = _frames(Box(width / 2 - x, height / 2 - y, 11.0, 8.0), *signs[handle], up=1)
            for frame in frames:
                frame.set_transform(rest[-1])
            return frames

    way: dict[str, Any] = {"linestyle": "", "marker": "v", "color": RULE}
    handles = [*signs, Line2D([], [], label="the way gradients go in backward", **way)]
    page.heading(title, "\n".join(_clauses(said, page.room, page.measure)))
    page.legend(handles, room=1.0, handlelength=1.4, handler_map={Patch: Sign()})


def _clauses(text: str, limit: float, width: Width) -> list[str]:
    """Lines that break after a semicolon."""
    lines: list[str] = []
    for clause in text.split("; "):
        if lines and width(f"{lines[-1]}; {clause}") <= limit:
            lines[-1] += f"; {clause}"
        else:
            lines.append(clause)
    return [shortened(line, limit, width) for line in lines]


def _draw(page: Canvas, plan: Plan) -> None:
    """Draws in points, y downwards; texts and lines shrink with what has no room."""
    scale, (wide, high), layout = _scale(page, plan.layout), page.size, plan.layout
    side, above = (wide / scale - layout.width) / 2, (high / scale - layout.height) / 2
    page.ax.set_xlim(-side, layout.width + side)
    page.ax.set_ylim(layout.height + above, -above)
    _draw_lines(page.ax, layout.lines, scale)
    for card, box in zip(plan.cards, layout.boxes, strict=True):
        # The lowest box of a stack is the one that is read; the others look out above it, on the right.
        x, y = box.x - card.behind / 2, box.y + card.behind / 2
        for frame in _frames(Box(x, y, card.width, card.height), card.role, card.shape, up=-1, scale=scale):
            page.ax.add_patch(frame)
        y -= sum(size for _, size, _ in card.text) * LEADING / 2
        for text, size, bold in card.text:
            y += size * LEADING / 2
            weight = "bold" if bold else "normal"
            page.ax.text(x, y, text, fontsize=size * scale, fontweight=weight, ha="center", va="center", zorder=4)
            y += size * LEADING / 2


def _draw_lines(ax: Axes, lines: Sequence[Line], scale: float) -> None:
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
    look: dict[str, Any] = {"edgecolors": RULE, "linewidths": scale, "zorder": 2, "transform": ax.transData}
    for paths, fill in ((curves, "none"), (heads, RULE)):
        ax.add_collection(PathCollection(paths, sizes=None, facecolors=fill, **look), autolim=False)


def _frames(box: Box, role: Role, shape: Shape, *, up: int, scale: float = 1.0) -> list[FancyBboxPatch]:
    """The frame of a box, with those that look out behind it before it; ``up``: the sign of upwards."""
    from matplotlib.patches import FancyBboxPatch

    fill, border, width, dashes = STYLES[role]
    corner = min(6.0, box.height / 3)
    form = "square,pad=0" if shape == "square" else f"round,pad=0,rounding_size={corner}"
    out = min(STACK, box.height / 4)
    left, low, frames = box.x - box.width / 2, box.y - box.height / 2, []
    for shift in (out, out / 2, 0.0) if shape == "stack" else (0.0,):
        look: dict[str, Any] = {"facecolor": fill, "edgecolor": border, "linestyle": dashes, "boxstyle": form}
        look["linewidth"] = (0.8 if shift else width) * scale
        corner_of = left + shift, low + up * shift
        frames.append(FancyBboxPatch(corner_of, box.width, box.height, zorder=3, clip_on=False, **look))
    return frames
