"""The bytes alive over time, coloured by who made them (``plot_owners``)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from course_utils.draw.drawing import Drawing
from course_utils.draw.memory import plot_memory
from course_utils.memory import MemoryTracker
from course_utils.record.storages import OLD

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def plot_owners(memory: MemoryTracker, *, title: str = "", ax: Axes | None = None) -> Drawing:
    """Draws what ``plot_memory`` draws, with each storage in the colour of the phase that made it, until it is gone.

    Args:
        memory: a tracker with phases.
        title: the first line above the drawing.
        ax: axes to draw into; by default a figure of its own.

    Returns:
        The drawing, with the figure in words.
    """
    timeline, owners = memory.timeline(), dict[int, str]()
    names = [*dict.fromkeys(phase.name for phase in timeline.phases), ""]
    series = {name: [0] for name in names}
    for event in memory.events:
        owner = owners.setdefault(event.storage, event.phase)
        for name, values in series.items():
            values.append(values[-1] + (event.delta if name == owner and event.op != OLD else 0))
    labels = {name: f"made in {name}" if name else "made outside of phases" for name in names}
    categories = {labels[name]: tuple(values) for name, values in series.items() if any(values)}
    return plot_memory(replace(timeline, categories=categories), title=title, ax=ax)
