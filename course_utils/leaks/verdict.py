"""Whether what one line's storages take is a leak (``judge``), stretch by stretch."""

import itertools
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from course_utils.base.user_code import NOWHERE
from course_utils.holders.holder import NOBODY, Holder
from course_utils.leaks.births import Births
from course_utils.leaks.kept import LEAST_CALLS, LEAST_ROUND, NOTHING, YOUNG, Kept, Stretch, Ways

LOG, _LOG_BYTES = "a log of single numbers", 16


@dataclass(frozen=True)
class Growth:
    """What one line leaves behind in calls from one place, as far as one holder keeps it: it grows, or is bounded."""

    kept: Kept
    why: str  # it is bounded, in words; "" where it grows
    stretch: Stretch = NOTHING  # the calls over which it grew, where it did
    values: Mapping[int, int] = field(default_factory=dict)  # bytes of every one of these that is judged
    holder: Holder = NOBODY
    ways: Ways = ()  # samples of it
    share: float = 1.0  # of the line's bytes


def judge(kept: Kept, births: Births, calls: Sequence[int]) -> Growth | None:
    """Judges one line's kept storages by the calls of their place; None where there is nothing to tell of."""
    holders = [way.holder for _, way in kept.ways]
    if holders and all(holder.kind == "cycle" for holder in holders):
        return _in_cycles(kept, all(holder.name.startswith("ctx.") for holder in holders))
    growth = _by_calls(kept, births, calls)
    limit = next((holder for holder in holders if holder.limit is not None), None)
    if growth is not None and limit is not None:
        return Growth(kept, f"{limit.name} holds {limit.limit} at most")
    is_log = holders and all(nbytes <= _LOG_BYTES and not (way.history or way.graph) for nbytes, way in kept.ways)
    return replace(growth, why=growth.why or LOG) if growth is not None and is_log else growth


def _in_cycles(kept: Kept, of_functions: bool) -> Growth | None:
    """What piles up in cycles is judged by itself, until Python's collector happens to run: by the most that there was,
    of the calls that the collector has taken nothing from. It takes a part of one at times.
    """
    if len(kept.ended) > 1 and not of_functions:
        return Growth(kept, "it lies in cycles, which Python's garbage collector frees now and then")
    most = max((*kept.ended, kept.stretch()), key=lambda one: one.peak)
    if len(most.values) < LEAST_CALLS:
        return None
    whole = statistics.median(most.values.values())
    counted = {call: nbytes for call, nbytes in most.values.items() if nbytes >= whole}
    return Growth(kept, "", Stretch(counted, most.peak, times=len(kept.ended)), counted)


def _by_calls(kept: Kept, births: Births, calls: Sequence[int]) -> Growth | None:
    graph = any(way.graph or way.history for _, way in kept.ways)
    now = kept.stretch()
    # What was given back while this one went on was not the same holder's.
    every = [stretch for stretch in kept.ended if stretch.until <= now.first] if now.goes_on else [*kept.ended, now]
    by_itself = [one for one in every if len(one.values) >= LEAST_CALLS and not _waited(one, births)]
    times = len(by_itself)
    if now.goes_on and all(now.peak > stretch.peak for stretch in by_itself):  # else it may be given back as they were
        growth = _open(kept, births, calls, replace(now, times=times), graph)
        if growth is not None:
            freed = not growth.why and times < len(every) / 2
            return Growth(kept, "a later backward pass frees it") if freed else growth
    judged = [(stretch, _filled(stretch, calls)) for stretch in by_itself]  # of the first, many calls are warm-up
    largest, values = max(judged, key=lambda one: (len(one[1]) >= LEAST_CALLS, one[0].peak), default=(now, {}))
    if len(values) < LEAST_CALLS:
        return None
    # Given back after the last call, as all is where a script ends, and most of the script was spent in this loop.
    is_being_built = any(way.holder.kind == "building" for _, way in kept.ways)
    gathered = largest.gathered and not is_being_built
    to_the_end = largest is now and 2 * (births.call - min(values)) >= births.call and not gathered
    # What is given back at the end is given back by no line of the loop's.
    at = NOWHERE if largest is now else largest.given_back_at
    whole = replace(_whole(largest, births, kept, values), given_back_at=at, times=times)
    grows = to_the_end or (graph and len(whole.values) >= LEAST_ROUND)
    return Growth(kept, "" if grows else "it is given back when its loop ends", whole, values)


def _whole(stretch: Stretch, births: Births, kept: Kept, values: Mapping[int, int]) -> Stretch:
    """With the calls that were too young when it was given back, each like most; while it goes on, without what will
    still go of the youngest.
    """
    if stretch.goes_on:
        most, old = max(values.values()), births.call - YOUNG
        whole = {call: nbytes if call <= old else min(nbytes, most) for call, nbytes in stretch.values.items()}
        return replace(stretch, values=whole, peak=sum(whole.values()))
    usual, until = round(statistics.median(values.values())), stretch.until or births.call + 1
    calls = set(range(max(min(stretch.values), until - YOUNG), until)) - stretch.values.keys()
    missed = {call: usual for call in calls if usual and births.place_of[call] == kept.place}
    return replace(stretch, values={**stretch.values, **missed}, peak=stretch.peak + sum(missed.values()))


def delay(stretch: Stretch, births: Births) -> int:
    """How many calls later the backward pass came that needed what calls made; 0 where it came at once, or none did."""
    delays = [births.trained[call] for call in stretch.values if births.trained[call]]
    return max(delays) if delays and statistics.median(delays) > 2 else 0


def _waited(stretch: Stretch, births: Births) -> bool:
    """Whether it was kept until a backward pass had come, and given back then."""
    return stretch.by_backward or max(stretch.values) - min(stretch.values) < 1.5 * delay(stretch, births)


def _filled(stretch: Stretch, calls: Sequence[int]) -> dict[int, int]:
    """The bytes of each call from the first that left something up to the last, so that whole rounds count."""
    added = [call for call in calls if stretch.values.get(call)]
    return {call: stretch.values.get(call, 0) for call in calls if added[0] <= call < added[-1]} if added else {}


def _open(kept: Kept, births: Births, calls: Sequence[int], now: Stretch, graph: bool) -> Growth | None:
    """Judges what has not been given back, by the bytes of each call since the first that left something."""
    values = dict(itertools.dropwhile(lambda of: not of[1], ((call, now.values.get(call, 0)) for call in calls)))
    added = [at for at, nbytes in enumerate(values.values()) if nbytes]
    if len(added) < LEAST_CALLS:
        return None
    gaps = [after - before for before, after in itertools.pairwise(added)]
    usual, quiet = statistics.median(gaps), len(values) - 1 - added[-1]
    if quiet > 2 * max(usual, statistics.fmean(gaps)) + 1:
        return Growth(kept, f"nothing was added in the last {quiet} calls")
    early = sum(itertools.islice(values.values(), (len(values) + 1) // 2))
    late = sum(values.values()) - early
    irregular = max(gaps) > 3 * usual and max(gaps) > 3
    if _turns_over(kept, values):
        # A loop's graphs, which go once the next has ended: what came since they last went.
        lately = {call: nbytes for call, nbytes in now.values.items() if call >= kept.fell}
        if not graph or len(lately) < LEAST_ROUND:
            return Growth(kept, "as much goes as comes")
        now = replace(now, values=lately, peak=sum(lately.values()))
    elif late < 0.6 * early or (irregular and late < 0.8 * early + (early + late) / len(added)):
        return Growth(kept, "less and less is added")
    filled = _filled(now, calls)
    return Growth(kept, "", _whole(now, births, kept, filled), filled)


def _turns_over(kept: Kept, values: Mapping[int, int]) -> bool:
    """Whether old storages have gone while new ones came, so that the sum stands still."""
    calls = list(values)
    parts = (calls[-max(LEAST_CALLS, len(calls) // 4) :], 0.5), (calls, 0.4)
    # When a call begins, storages made up to YOUNG calls before are counted.
    return any(kept.grown_since(part[0] + YOUNG - 1) < least * sum(values[at] for at in part) for part, least in parts)
