"""A drawing as plain numbers: boxes and the lines between them (``Layout``)."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Box:
    """A box: its centre and size. y grows downwards."""

    x: float
    y: float
    width: float
    height: float


@dataclass(frozen=True)
class Line:
    """One piece of a line between boxes, from (x0, y0) down to (x1, y1); it leaves and arrives vertically.

    Attributes:
        arrow: the piece ends at a box.
    """

    x0: float
    y0: float
    x1: float
    y1: float
    arrow: bool


@dataclass(frozen=True)
class Layout:
    """A drawing: ``boxes`` in the order they were given, ``lines``, and the size of the whole from (0, 0)."""

    boxes: tuple[Box, ...]
    lines: tuple[Line, ...]
    width: float
    height: float
