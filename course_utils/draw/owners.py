"""The bytes alive over time, coloured by who made them (``plot_owners``)."""

from dataclasses import replace

from course_utils.draw.memory import plot_memory
from course_utils.draw.page import Drawing
from course_utils.memory import MemoryTracker


def plot_owners(memory: MemoryTracker, *, title: str = "") -> Drawing:
    """Draws what ``plot_memory`` draws, with each storage in the colour of the phase that made it, until it is gone.

    Args:
        memory: a tracker with phases.
        title: the first line above the drawing.

    Returns:
        The drawing, with the figure in words.
    """
    timeline, owners = memory.timeline(), dict[int, str]()
    names = [*dict.fromkeys(phase.name for phase in timeline.phases), ""]
    series = {name: [0] for name in names}
    for event in memory.events:
        owner = owners.setdefault(event.storage, event.phase)
        for name, values in series.items():
            values.append(values[-1] + (event.delta if name == owner and event.op != "before the start" else 0))
    labels = {name: f"made in {name}" if name else "made outside of phases" for name in names}
    categories = {labels[name]: tuple(values) for name, values in series.items() if any(values)}
    return plot_memory(replace(timeline, categories=categories), title=title)
