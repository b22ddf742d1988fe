"""Where the boxes of a layered graph go, and the lines between them (``layered``).

Layers by the longest path from the roots, order within a layer by barycentres, x by least squares under the gaps that
boxes need: the steps of Sugiyama, Tagawa and Toda (1981). Long lines get a lane of their own through every layer they
cross, so none runs through a box; lines to the same box share their lane. Plain numbers in, plain numbers out.
"""

from bisect import bisect_right, insort
from collections.abc import Sequence
from itertools import pairwise

from course_utils.draw.boxes import Box, Layout, Line

_GAP = 14.0  # smallest distance between boxes side by side
_ROW_GAP = 22.0  # distance between layers
_LANE_WIDTH = 10.0  # kept free for a line that crosses a layer
# A lane is kept straighter than a box is centred: a bend in a long line costs the reader more. And what leads on is
# kept straighter than what ends there.
_LANE_WEIGHT = 8.0
_ONWARD_WEIGHT = 4.0
_ORDER_SWEEPS = 12
_PLACE_SWEEPS = 24
# Bends smaller than this are straightened where there is room.
_NEARLY_STRAIGHT = 12.0


def layered(sizes: Sequence[tuple[float, float]], edges: Sequence[tuple[int, int]]) -> Layout:
    """Places boxes in layers, each edge pointing down.

    Args:
        sizes: width and height of each box.
        edges: pairs of box numbers, from the upper box to the lower one. Repeated edges are drawn once.

    Raises:
        ValueError: the edges form a circle.
    """
    edges = [edge for edge in dict.fromkeys(edges) if edge[0] != edge[1]]
    layer_of = _layers(len(sizes), edges)
    points, links = _with_lanes(len(sizes), edges, layer_of)
    layers = _ordered(points, links)
    widths = [sizes[point][0] if point < len(sizes) else _LANE_WIDTH for point in range(len(points))]
    x = _placed(layers, links, widths, lanes_from=len(sizes))
    return _drawn(sizes, points, layers, links, x, widths)


def _layers(count: int, edges: Sequence[tuple[int, int]]) -> list[int]:
    below: list[list[int]] = [[] for _ in range(count)]
    missing = [0] * count
    for upper, lower in edges:
        below[upper].append(lower)
        missing[lower] += 1
    layer = [0] * count
    ready = [box for box in range(count) if not missing[box]]
    done = 0
    while done < len(ready):
        box = ready[done]
        done += 1
        for lower in below[box]:
            layer[lower] = max(layer[lower], layer[box] + 1)
            missing[lower] -= 1
            if not missing[lower]:
                ready.append(lower)
    if done < count:
        raise ValueError("The edges form a circle; a layered drawing needs a direction.")
    return layer


def _with_lanes(
    count: int, edges: Sequence[tuple[int, int]], layer_of: list[int]
) -> tuple[list[int], list[tuple[int, int]]]:
    """Adds a point for every layer an edge crosses. Returns the layer of each point and the links between points of
    neighbouring layers; the first ``count`` points are the boxes.
    """
    points = list(layer_of)
    lane_of: dict[tuple[int, int], int] = {}
    links: dict[tuple[int, int], None] = {}
    for upper, lower in edges:
        at = upper
        for layer in range(layer_of[upper] + 1, layer_of[lower]):
            key = (lower, layer)  # one lane for all lines to the same box
            if key not in lane_of:
                lane_of[key] = len(points)
                points.append(layer)
            links[at, lane_of[key]] = None
            at = lane_of[key]
        links[at, lower] = None
    return points, list(links)


def _neighbours(count: int, links: Sequence[tuple[int, int]]) -> tuple[list[list[int]], list[list[int]]]:
    above: list[list[int]] = [[] for _ in range(count)]
    below: list[list[int]] = [[] for _ in range(count)]
    for upper, lower in links:
        above[lower].append(upper)
        below[upper].append(lower)
    return above, below


def _ordered(points: list[int], links: list[tuple[int, int]]) -> list[list[int]]:
    above, below = _neighbours(len(points), links)
    layers: list[list[int]] = [[] for _ in range(max(points, default=-1) + 1)]
    # Depth first, so that a branch starts out in one piece.
    seen = [False] * len(points)
    stack = [point for point in range(len(points)) if not above[point]][::-1]
    while stack:
        point = stack.pop()
        if seen[point]:
            continue
        seen[point] = True
        layers[points[point]].append(point)
        stack.extend(reversed(below[point]))

    best, fewest = [list(layer) for layer in layers], _crossings(layers, below)
    for sweep in range(_ORDER_SWEEPS):
        if not fewest:
            break
        downwards = sweep % 2 == 0
        for layer in layers[1:] if downwards else layers[-2::-1]:
            place = {point: at for other in layers for at, point in enumerate(other)}
            neighbours = above if downwards else below
            middle = {
                point: sum(place[other] for other in neighbours[point]) / len(neighbours[point])
                if neighbours[point]
                else place[point]
                for point in layer
            }
            layer.sort(key=middle.__getitem__)
        crossings = _crossings(layers, below)
        if crossings < fewest:
            best, fewest = [list(layer) for layer in layers], crossings
    return best


def _crossings(layers: list[list[int]], below: list[list[int]]) -> int:
    total = 0
    for layer, lower in pairwise(layers):
        place = {point: at for at, point in enumerate(lower)}
        ends: list[int] = []
        for point in layer:
            targets = sorted(place[other] for other in below[point])
            total += sum(len(ends) - bisect_right(ends, target) for target in targets)
            for target in targets:
                insort(ends, target)
    return total


def _placed(layers: list[list[int]], links: list[tuple[int, int]], widths: list[float], lanes_from: int) -> list[float]:
    above, below = _neighbours(len(widths), links)
    x = [0.0] * len(widths)
    for layer in layers:
        at = 0.0
        for point in layer:
            x[point] = at + widths[point] / 2
            at += widths[point] + _GAP

    def pull(upper: int, lower: int) -> float:
        if upper >= lanes_from and lower >= lanes_from:
            return _LANE_WEIGHT
        return _ONWARD_WEIGHT if below[lower] else 1.0

    for sweep in range(_PLACE_SWEEPS):
        downwards = sweep % 2 == 0
        for layer in layers if downwards else layers[::-1]:
            wanted, weights = [], []
            for point in layer:
                # Both sides count from the start, the side that the sweep comes from more.
                pulls = [(x[other], pull(other, point) * (2.0 if downwards else 1.0)) for other in above[point]]
                pulls += [(x[other], pull(point, other) * (1.0 if downwards else 2.0)) for other in below[point]]
                weight = sum(strength for _, strength in pulls)
                wanted.append(sum(at * strength for at, strength in pulls) / weight if weight else x[point])
                weights.append(max((strength for _, strength in pulls), default=1.0))
            for point, at in zip(layer, _spread(wanted, weights, [widths[p] for p in layer]), strict=True):
                x[point] = at
    _straighten(x, layers, links, widths, lanes_from)
    left = min((x[point] - widths[point] / 2 for point in range(len(x))), default=0.0)
    return [at - left for at in x]


def _straighten(
    x: list[float], layers: list[list[int]], links: list[tuple[int, int]], widths: list[float], lanes_from: int
) -> None:
    """Moves points straight below those that lead to them, where the difference is small and the gaps allow it."""
    above, below = _neighbours(len(widths), links)
    for _ in range(3):
        for layer in layers[1:]:
            for position, point in enumerate(layer):
                # The lane that this one goes on, or the box that leads nowhere else.
                sources = [other for other in above[point] if other >= lanes_from and point >= lanes_from]
                sources = sources or [other for other in above[point] if _onward(other, point, below)]
                if len(sources) != 1 or abs(x[sources[0]] - x[point]) > _NEARLY_STRAIGHT:
                    continue
                wanted = x[sources[0]]
                if position:
                    other = layer[position - 1]
                    wanted = max(wanted, x[other] + (widths[other] + widths[point]) / 2 + _GAP)
                if position + 1 < len(layer):
                    other = layer[position + 1]
                    wanted = min(wanted, x[other] - (widths[other] + widths[point]) / 2 - _GAP)
                x[point] = wanted


def _onward(upper: int, lower: int, below: list[list[int]]) -> bool:
    leading_on = [point for point in below[upper] if below[point]]
    return leading_on == [lower] or below[upper] == [lower]


def _spread(wanted: list[float], weights: list[float], widths: list[float]) -> list[float]:
    """The places nearest to the wanted ones, in least squares, that keep order and gaps (pool adjacent violators)."""
    offsets, at = [], 0.0
    for index, width in enumerate(widths):
        at += width / 2 + (_GAP + widths[index - 1] / 2 if index else 0.0)
        offsets.append(at)
    blocks: list[tuple[float, float, int]] = []  # mean, weight, how many
    for want, weight, offset in zip(wanted, weights, offsets, strict=True):
        block = (want - offset, weight, 1)
        while blocks and blocks[-1][0] >= block[0]:
            mean, heavy, many = blocks.pop()
            both = heavy + block[1]
            block = ((mean * heavy + block[0] * block[1]) / both, both, many + block[2])
        blocks.append(block)
    means = [mean for mean, _, many in blocks for _ in range(many)]
    return [mean + offset for mean, offset in zip(means, offsets, strict=True)]


def _drawn(
    sizes: Sequence[tuple[float, float]],
    points: list[int],
    layers: list[list[int]],
    links: list[tuple[int, int]],
    x: list[float],
    widths: list[float],
) -> Layout:
    heights = [max((sizes[point][1] for point in layer if point < len(sizes)), default=0.0) for layer in layers]
    tops, at = [], 0.0
    for height in heights:
        tops.append(at)
        at += height + _ROW_GAP
    boxes = tuple(Box(x[box], tops[points[box]] + heights[points[box]] / 2, *sizes[box]) for box in range(len(sizes)))

    def bottom(point: int) -> float:
        return (
            boxes[point].y + boxes[point].height / 2
            if point < len(boxes)
            else tops[points[point]] + heights[points[point]]
        )

    lines = []
    for upper, lower in links:
        is_box = lower < len(boxes)
        end = boxes[lower].y - boxes[lower].height / 2 if is_box else tops[points[lower]]
        lines.append(Line(x[upper], bottom(upper), x[lower], end, arrow=is_box))
    for point in range(len(boxes), len(points)):
        top = tops[points[point]]
        lines.append(Line(x[point], top, x[point], top + heights[points[point]], arrow=False))
    width = max((x[point] + widths[point] / 2 for point in range(len(x))), default=0.0)
    return Layout(boxes, tuple(lines), width, max(at - _ROW_GAP, 0.0))
