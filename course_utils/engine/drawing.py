"""The graph of an engine of one's own, drawn as PyTorch's is, with the numbers in it (``plot_own_graph``)."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from course_utils.draw.graph import plot_numbers
from course_utils.draw.page import Drawing
from course_utils.engine.whole import Tensor
from course_utils.graph import GraphMemory, GraphNode
from course_utils.graph.numbers import NOT_KEPT, Numbers, written


def plot_own_graph(result: Any, title: str = "Your engine's graph", **named: Any) -> Drawing:
    """Draws what an engine recorded behind a result: in each box the value, and below it the gradient of the result.

    Args:
        result: a tensor of the engine's, one number.
        title: the first line above the drawing.
        **named: tensors by name. A node does not hold what it made, so the values of these are shown.

    Returns:
        The drawing, with the figure in words.
    """
    nodes = [result.engine.end(result)]
    for node in nodes:
        nodes += [other for other in dict.fromkeys(node.inputs) if other not in nodes]
    made_by = {x.engine.end(x): (name, x) for name, x in ({"": result} | named).items() if x.requires_grad}
    gradients = _gradients(result)
    values = [_text(made_by[node][1]) if node in made_by else NOT_KEPT for node in nodes]
    numbers = [Numbers(value, _text(gradients[node])) for node, value in zip(nodes, values, strict=True)]
    return plot_numbers(_memory(nodes, {node: name for node, (name, _) in made_by.items()}), numbers, title)


def _gradients(result: Any) -> dict[Any, Any]:
    """What each node is handed, by one backward pass in which no ``.grad`` is filled."""
    engine, found, visit = result.engine, dict[Any, Any](), result.engine.visit

    def noted(node: Any, gradient: Any) -> Any:
        found[node] = visit(node, gradient)
        return found[node]

    engine.visit, engine.accumulate = noted, lambda x, gradient: None
    try:
        result.backward(retain_graph=True)
    finally:
        del engine.visit, engine.accumulate
    return found


def _text(value: Any) -> str:
    return written(np.asarray(value.data if isinstance(value, Tensor) else value).tolist())


def _memory(nodes: list[Any], names: Mapping[Any, str]) -> GraphMemory:
    rows = []
    for index, node in enumerate(nodes):
        inputs, leaf_shape = tuple(map(nodes.index, node.inputs)), None if node.ways else node.shape
        rows.append(GraphNode(index, node.name, inputs, leaf_shape=leaf_shape, tensor_name=names.get(node, "")))
    return GraphMemory(tuple(rows), (), 0, 0, 0)
