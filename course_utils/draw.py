"""Figures: the recorded graph (``plot_graph``).

The only module that knows matplotlib, and it imports it when a figure is drawn. Imports ``course_utils.graph``,
``layout`` and ``text``.
"""

from typing import Any

import torch

from course_utils.graph import graph_memory, tensor_names
from course_utils.layout import layered
from course_utils.text import format_bytes


def plot_graph(*tensors: torch.Tensor, ax: Any = None, title: str = "", **named: Any) -> Any:
    """Draws the graph behind a loss: ``plot_graph(loss, model)``, ``plot_graph(loss, {"w": w})``, ``plot_graph(loss, w=w)``."""
    import matplotlib.pyplot as plt
    from matplotlib.patches import FancyBboxPatch, PathPatch
    from matplotlib.path import Path

    roots = [t for t in tensors if isinstance(t, torch.Tensor)]
    names = tensor_names(*(t for t in tensors if not isinstance(t, torch.Tensor)), **named)
    memory = graph_memory(*roots, names=names)
    sizes = [(100.0, 34.0) for _ in memory.nodes]
    layout = layered(sizes, memory.edges)
    if ax is None:
        _, ax = plt.subplots(figsize=((layout.width + 40) / 72, (layout.height + 90) / 72))
    for line in layout.lines:
        middle = (line.y0 + line.y1) / 2
        path = Path([(line.x0, line.y0), (line.x0, middle), (line.x1, middle), (line.x1, line.y1)], [1, 4, 4, 4])
        ax.add_patch(PathPatch(path, fill=False, edgecolor="#555", linewidth=1))
    for node, box in zip(memory.nodes, layout.boxes, strict=True):
        leaf = node.leaf_shape is not None
        color = "#BFE3F5" if leaf else "#FADFA1" if node.kept else "#F0F0F0"
        ax.add_patch(
            FancyBboxPatch(
                (box.x - box.width / 2, box.y - box.height / 2),
                box.width,
                box.height,
                boxstyle="square,pad=0" if leaf else "round,pad=0,rounding_size=6",
                facecolor=color,
                edgecolor="#444",
            )
        )
        label = (node.tensor_name or "leaf") if leaf else node.label
        below = (
            "×".join(map(str, node.leaf_shape)) if leaf else (f"keeps {format_bytes(node.kept)}" if node.kept else "")
        )
        ax.text(box.x, box.y - 5, label[:15], ha="center", va="center", fontsize=8, weight="bold")
        ax.text(box.x, box.y + 9, below, ha="center", va="center", fontsize=7)
    ax.set_xlim(-10, layout.width + 10)
    ax.set_ylim(layout.height + 10, -10)
    ax.set_axis_off()
    ax.set_title(
        f"{title or 'Recorded graph'}\n{len(memory.nodes)} nodes; the graph alone keeps"
        f" {format_bytes(memory.exclusive)}; it shares {format_bytes(memory.shared)} with variables",
        fontsize=9,
    )
    return ax
