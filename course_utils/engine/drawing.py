"""The graph of an engine of one's own, drawn as PyTorch's is, with the numbers in it (``plot_own_graph``)."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from course_utils.draw.drawing import Drawing
from course_utils.draw.graph import plot_numbers
from course_utils.graph import GraphMemory, GraphNode
from course_utils.graph.numbers import NOT_KEPT, Numbers


def plot_own_graph(result: Any, title: str = "Your engine's graph", **named: Any) -> Drawing:
    """Draws what an engine recorded behind a result: in each box the value, and below it the gradient of the result.

    Args:
        result: a tensor of the engine's, one number.
        title: the first line above the drawing.
        **named: tensors by name. A node does not hold what it made, so the values of these are shown.

    Returns:
        The drawing, with the figure in words.
    """
    nodes = [result.engine.target(result).node]
    for node in nodes:
        nodes += [other for other in dict.fromkeys(node.inputs) if other not in nodes]
    tensors = {"": result} | named
    names = {id(target.node): name for name, x in tensors.items() if (target := x.engine.target(x))}
    gradients = _gradients(result)
    numbers = [Numbers(_value(node, tensors), _text(gradients.get(id(node), [None])[0])) for node in nodes]
    return plot_numbers(_memory(nodes, names), numbers, title)


def _gradients(result: Any) -> dict[int, list[Any]]:
    """What each node is handed, by one backward pass in which no ``.grad`` is filled."""
    engine, found = result.engine, dict[int, list[Any]]()
    run = engine.run

    def noted(node: Any, gradients: list[Any]) -> Any:
        pairs = run(node, gradients)
        found[id(node)] = list(gradients)
        return pairs

    engine.run, engine.accumulate, engine.accumulated = noted, lambda x, gradient: None, lambda x: None
    try:
        result.backward(retain_graph=True)
    finally:
        del engine.run, engine.accumulate, engine.accumulated
    return found


def _value(node: Any, tensors: Mapping[str, Any]) -> str:
    for x in tensors.values():
        target = x.engine.target(x)
        if target and target.node is node:
            return _text(x.data)
    return NOT_KEPT


def _text(value: Any) -> str:
    def written(part: Any) -> str:
        if isinstance(part, list):
            return f"[{', '.join(map(written, part))}]"
        return str(int(part)) if float(part).is_integer() and abs(part) < 1e6 else f"{part:.4g}"

    return "none" if value is None else written(np.asarray(value).tolist())


def _memory(nodes: list[Any], names: Mapping[int, str]) -> GraphMemory:
    place = {id(node): index for index, node in enumerate(nodes)}
    rows = tuple(
        GraphNode(
            index,
            node.name,
            tuple(place[id(other)] for other in node.inputs),
            leaf_shape=node.shapes[0] if node.name == "leaf" else None,
            tensor_name=names.get(id(node), ""),
        )
        for index, node in enumerate(nodes)
    )
    return GraphMemory(rows, (), 0, 0, 0, 0, 0)
