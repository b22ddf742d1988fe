"""What a memory timeline shows, decided before it is drawn: where the names of phases go (``phase_strip``), the unit
(``byte_unit``), the two lines above it (``timeline_heading``) and the same in words (``timeline_words``).

Plain numbers in points and texts.
"""

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from course_utils.base.text import count_of, format_bytes
from course_utils.draw.labels import shortened
from course_utils.memory.records import Timeline

LABEL_SIZE = 8.5
_LINE = 14.0  # height of a row of horizontal names
_NARROWEST = 11.0  # a name written upwards needs this width
_LONGEST = 78.0  # and is shortened above this length
_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")


@dataclass(frozen=True)
class Span:
    """A phase on the axis, from ``x0`` to ``x1`` in points from its left end; ``stem`` is its name without number."""

    name: str
    x0: float
    x1: float

    @property
    def stem(self) -> str:
        return phase_stem(self.name)


@dataclass(frozen=True)
class StripLabel:
    """The name of one phase in the strip above the data: its middle, and whether it is written upwards."""

    text: str
    x: float
    upwards: bool


@dataclass(frozen=True)
class Strip:
    """The strip with the names of phases above the data.

    Attributes:
        labels: the names that have room.
        height: of the strip, in points; 0 without phases.
        key: for the legend, where most phases are too narrow for a name: (stem, how many phases have it).
        left_out: names without room, where the others have it.
    """

    labels: tuple[StripLabel, ...]
    height: float
    key: tuple[tuple[str, int], ...] = ()
    left_out: tuple[str, ...] = ()


def phase_stem(name: str) -> str:
    """A phase's name without the number at its end.

    Example:
        >>> phase_stem("forward3"), phase_stem("epoch [2]"), phase_stem("7")
        ('forward', 'epoch', '7')
    """
    return re.sub(r"[\s_#:(\[-]*\d+[)\]]*$", "", name) or name


def phase_strip(spans: Sequence[Span], width: Callable[[str], float]) -> Strip:
    """Finds room for the names: side by side, written upwards, or in a key of colours where neither fits.

    Args:
        spans: the phases, none inside another.
        width: the width of a text in points, at ``LABEL_SIZE``, bold.
    """
    labels, left_out = [], []
    for span in spans:
        room = span.x1 - span.x0
        middle = (span.x0 + span.x1) / 2
        if width(span.name) + 5 <= room:
            labels.append(StripLabel(span.name, middle, upwards=False))
        elif room >= _NARROWEST:
            labels.append(StripLabel(shortened(span.name, _LONGEST, width), middle, upwards=True))
        else:
            left_out.append(span.name)
    if len(left_out) > len(spans) / 3:
        # One wide phase among many narrow ones keeps its name; the others are told by their colours.
        labels = [label for label in labels if not label.upwards]
        stems = Counter(span.stem for span in spans if width(span.name) + 5 > span.x1 - span.x0)
        return Strip(tuple(labels), _LINE if labels else 6.0, key=tuple(stems.items()))
    upwards = [width(label.text) for label in labels if label.upwards]
    height = max(upwards) + 8 if upwards else _LINE if labels else 0.0
    return Strip(tuple(labels), height, left_out=tuple(left_out))


def nested_levels(ranges: Sequence[tuple[int, int]]) -> list[int]:
    """How many of the ranges before it each range lies in: 0 for a phase, 1 for one inside it.

    Example:
        >>> nested_levels([(0, 9), (0, 4), (4, 9), (9, 12)])
        [0, 1, 1, 0]
    """
    open_until: list[tuple[int, int]] = []
    levels = []
    for start, end in ranges:
        open_until = [
            (first, last)
            for first, last in open_until
            if end <= last and start < last and (start, end) != (first, last)
        ]
        levels.append(len(open_until))
        open_until.append((start, end))
    return levels


def byte_unit(largest: int) -> tuple[str, int]:
    """The unit for an axis that reaches ``largest`` bytes, and its bytes.

    Example:
        >>> byte_unit(10_000_000)
        ('MiB', 1048576)
    """
    unit = 0
    while largest >= 1024 ** (unit + 1) and unit < len(_UNITS) - 1:
        unit += 1
    return _UNITS[unit], 1024**unit


def peak_phase(timeline: Timeline) -> str:
    """The innermost phase that the peak falls into, "" for none."""
    inside = [phase for phase in timeline.phases if phase.first_event < timeline.peak_event <= phase.last_event]
    return inside[-1].name if inside else ""


def peak_words(timeline: Timeline) -> tuple[str, str]:
    """The two lines beside the peak: how much, and after which operation."""
    return f"peak {format_bytes(timeline.peak)}", f"after {timeline.peak_op}" if timeline.peak_op else "at the start"


def timeline_heading(timeline: Timeline, title: str) -> tuple[str, str]:
    """The title, and the summary below it."""
    if len(timeline.current) == 1:
        return title or f"Memory on {timeline.device}", "no tensor was allocated or freed"
    end = f"{format_bytes(timeline.current[-1])} at the end"
    if not timeline.peak_op:
        return title or f"Memory on {timeline.device}", end
    phase = peak_phase(timeline)
    where = f" in {phase}" if phase else ""
    summary = f"peak {format_bytes(timeline.peak)} after {timeline.peak_op}{where}; {end}"
    return title or f"Memory on {timeline.device}", summary


def timeline_words(timeline: Timeline, title: str) -> str:
    """The figure in words."""
    heading, summary = timeline_heading(timeline, title)
    events = len(timeline.current) - 1
    parts = [f"{heading}, over {count_of(events, 'allocation')} and frees: {summary}."]
    at_peak = [(name, values[timeline.peak_event]) for name, values in timeline.categories.items()]
    shares = [f"{name} {format_bytes(value)}" for name, value in at_peak if value]
    if shares and timeline.peak_op:
        parts.append(f"At the peak: {', '.join(shares)}.")
    if timeline.phases:
        shown = timeline.phases if len(timeline.phases) <= 8 else (*timeline.phases[:4], *timeline.phases[-3:])
        nets = [f"{phase.name} {_signed(phase.net)}" for phase in shown]
        if len(shown) < len(timeline.phases):
            nets.insert(4, f"{len(timeline.phases) - len(shown)} more")
        parts.append(f"Left behind by each phase: {', '.join(nets)}.")
    return " ".join(parts)


def _signed(nbytes: int) -> str:
    return f"+{format_bytes(nbytes)}" if nbytes > 0 else format_bytes(nbytes)
