"""Sums up a tracked run: by category over time (``build_timeline``), and in one report (``build_report``)."""

from collections.abc import Mapping
from collections.abc import Set as AbstractSet

from course_utils.memory.categories import categorise
from course_utils.memory.ledger import Ledger
from course_utils.memory.records import CATEGORIES, MemoryReport, Timeline
from course_utils.memory.statistics import Totals


def build_timeline(ledger: Ledger, places: Mapping[str, AbstractSet[int]], start_ns: int) -> Timeline:
    """Bytes by category after each change of a ledger.

    Args:
        ledger: the counted changes of one device.
        places: category -> numbers of the storages that were found in its place.
        start_ns: what times are counted from.
    """
    category = categorise((change.block for change, *_ in ledger.changes), places)
    sums = dict.fromkeys((*CATEGORIES, "older"), 0)
    series: dict[str, list[int]] = {name: [0] for name in sums}
    for change, *_ in ledger.changes:
        sums[category[change.block.number]] += change.delta
        for name, nbytes in sums.items():
            series[name].append(nbytes)
    older = series.pop("older")
    return Timeline(
        device=ledger.device,
        categories={name: tuple(values) for name, values in series.items() if any(values)},
        older=tuple(older),
        current=(0, *(current for _, current, _ in ledger.changes)),
        time_ns=(0, *(change.time_ns - start_ns for change, *_ in ledger.changes)),
        phases=ledger.phases(),
        peak=ledger.peak,
        peak_event=ledger.peak_event,
        peak_op=ledger.peak_block.op_name if ledger.peak_block is not None else "",
    )


def build_report(
    timeline: Timeline,
    engine: str,
    totals: Totals | None,
    unseen: Mapping[str, int],
    elsewhere: Mapping[str, int],
) -> MemoryReport:
    """The report of a timeline.

    Args:
        timeline: the run.
        engine: ``dispatch`` or ``allocator``.
        totals: what the device's allocator says of the same run; None where it was not asked.
        unseen: bytes that graphs hold at the end and no operation made, by name.
        elsewhere: bytes above the start on other devices.
    """
    current = timeline.current[-1]
    beside = totals if totals is not None else Totals(current, current)
    return MemoryReport(
        device=timeline.device,
        engine=engine,
        requested=current,
        allocated=beside.allocated,
        reserved=beside.reserved,
        peak=timeline.peak,
        categories=_categories_at(timeline, -1),
        peak_op=timeline.peak_op,
        peak_categories=_categories_at(timeline, timeline.peak_event),
        phases=timeline.phases,
        allocator_peak=beside.peak,
        unseen=dict(unseen),
        elsewhere={device: nbytes for device, nbytes in elsewhere.items() if nbytes},
    )


def _categories_at(timeline: Timeline, point: int) -> dict[str, int]:
    parts = {name: values[point] for name, values in timeline.categories.items()}
    if timeline.older[point]:
        parts["older"] = timeline.older[point]
    return parts
