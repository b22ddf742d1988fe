"""Whether what one line's storages take is a leak (``judge``), stretch by stretch."""

import itertools
import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from course_utils.base.user_code import NOWHERE
from course_utils.holders.holder import Link
from course_utils.leaks.births import YOUNG, Births
from course_utils.leaks.kept import Kept, Stretch

LEAST_CALLS = 4
"""So many calls must have left something behind before it can be said to grow."""

LEAST_ROUND = 12
"""A graph that grows over so many calls is growth, also where it is given back when the loop ends: one call for each of
ten classes is less."""


@dataclass(frozen=True)
class Rate:
    """Bytes a call: the mean over calls of one kind."""

    nbytes: int
    calls: int  # it was taken from so many
    is_same: bool  # in each of them


@dataclass(frozen=True)
class Growth:
    """What is known of one line's kept storages: whether they are "growing", "bounded" or "steady"."""

    verdict: str
    stretch: Stretch | None = None  # the calls over which they grew, where they did
    values: Mapping[int, int] = field(default_factory=dict)  # bytes of every one of these that is judged
    times: int = 0  # how often they were given back
    why: str = ""  # they are bounded, in words


class Places:
    """The calls from each place that are old enough to be judged, without the first few, by the place's number; and
    whether a backward pass follows calls from there.
    """

    def __init__(self, births: Births, warm_up: int) -> None:
        of_place: dict[int, list[int]] = {place: [] for place in births.places.values()}
        for call, place in enumerate(births.place_of[1:], 1):
            of_place[place].append(call)
        self.seen = {place: len(calls) for place, calls in of_place.items()}
        self.calls = {
            place: [call for call in calls if call <= births.call - YOUNG][warm_up:]
            for place, calls in of_place.items()
        }
        trained = Counter(place for place, delay in zip(births.place_of, births.trained, strict=True) if delay)
        self.trained = {place for place, many in self.seen.items() if 2 * trained[place] >= many}


def judge(kept: Kept, births: Births, calls: Sequence[int], ways: Sequence[Link]) -> Growth:
    """Judges one line's kept storages, of which ``ways`` says how samples are kept, by the calls of their place."""
    graph = any(way.graph or way.history for way in ways)
    now = kept.stretch()
    every = kept.ended if now.goes_on else [*kept.ended, now]
    ended = [stretch for stretch in every if len(stretch.values) >= LEAST_CALLS]
    by_itself = [stretch for stretch in ended if not _waited(stretch, births)]
    growth = _open(kept, births, calls, now, graph) if now.goes_on else Growth("steady")
    if growth.verdict != "steady":
        if growth.verdict == "growing" and len(by_itself) < len(ended) / 2:
            return Growth("bounded", why="a later backward pass frees it")
        return replace(growth, times=len(by_itself))
    if not by_itself:
        return Growth("steady")
    judged = [(stretch, _filled(stretch, calls)) for stretch in by_itself]  # of the first, many calls are warm-up
    largest, values = max(judged, key=lambda one: (len(one[1]) >= LEAST_CALLS, one[0].peak))
    if len(values) < LEAST_CALLS:
        return Growth("steady")
    # Given back after the last call, as all is where a script ends, and most of the script was spent in this loop.
    is_being_built = any(way.holder.kind == "building" for way in ways)
    gathered = largest.gathered and not is_being_built
    to_the_end = largest is now and 2 * (births.call - min(values)) >= births.call and not gathered
    # What is given back at the end is given back by no line of the loop's.
    whole = replace(
        _whole(largest, births, kept, values),
        given_back_at=NOWHERE if largest is now else largest.given_back_at,
    )
    grows = to_the_end or (graph and len(whole.values) >= LEAST_ROUND)
    verdict = "growing" if grows else "bounded"
    return Growth(verdict, whole, values, len(by_itself), "it is given back when its loop ends")


def _whole(stretch: Stretch, births: Births, kept: Kept, values: Mapping[int, int]) -> Stretch:
    """With the calls that are too young to be counted; and with those that were when it was given back, each like most
    of the others.
    """
    usual, most = round(statistics.median(values.values())), max(values.values())
    until = stretch.until or births.call + 1
    missed = {call: usual for call in range(until - YOUNG, until) if births.place_of[call] == kept.place}
    if stretch.goes_on:
        missed = {call: min(nbytes, most) for call, nbytes in births.young_of(kept).items()}
    missed = {call: n for call, n in missed.items() if n and call >= min(stretch.values) and call not in stretch.values}
    return replace(stretch, values=stretch.values | missed, peak=stretch.peak + sum(missed.values()))


def delay(stretch: Stretch, births: Births) -> int:
    """How many calls later the backward pass came that needed what calls made; 0 where it came at once, or none did."""
    delays = [births.trained[call] for call in stretch.values if births.trained[call]]
    return max(delays) if delays and statistics.median(delays) > 2 else 0


def _waited(stretch: Stretch, births: Births) -> bool:
    """Whether it was kept until a backward pass had come, and given back then."""
    return stretch.by_backward or max(stretch.values) - min(stretch.values) < 1.5 * delay(stretch, births)


def _filled(stretch: Stretch, calls: Sequence[int]) -> dict[int, int]:
    """The bytes of each call from the first that left something up to the last, so that whole rounds count."""
    places = [place for place, call in enumerate(calls) if stretch.values.get(call)]
    return {call: stretch.values.get(call, 0) for call in calls[places[0] : places[-1]]} if places else {}


def _open(kept: Kept, births: Births, calls: Sequence[int], now: Stretch, graph: bool) -> Growth:
    alive = now.values
    places = [place for place, call in enumerate(calls) if alive.get(call)]
    if len(places) < LEAST_CALLS:
        return Growth("steady")
    gaps = [after - before for before, after in itertools.pairwise(places)]
    usual = statistics.median(gaps)
    if len(calls) - 1 - places[-1] > 2 * max(usual, statistics.fmean(gaps)) + 1:
        return Growth("bounded", why=f"nothing was added in the last {len(calls) - 1 - places[-1]} calls")
    values = {call: alive.get(call, 0) for call in calls[places[0] :]}
    if _turns_over(kept, calls, values):
        round_ = {call: nbytes for call, nbytes in alive.items() if call >= _last_fall(kept)}
        if not graph or len(round_) < LEAST_ROUND:
            return Growth("bounded", why="as much goes as comes")
        # A loop's graphs, which go once the next has ended: what came since they last went.
        now = Stretch(round_, sum(round_.values()))
        return Growth("growing", _whole(now, births, kept, round_), _filled(now, calls))
    stretch = len(calls) - places[0]
    early = sum(place < places[0] + stretch / 2 for place in places)
    late = len(places) - early
    irregular = max(gaps) > 3 * usual and max(gaps) > 3
    if late < 0.6 * early or (irregular and late < 0.8 * early + 1):
        return Growth("bounded", why="less and less is added")
    filled = _filled(now, calls)
    return Growth("growing", _whole(now, births, kept, filled), filled)


def _last_fall(kept: Kept) -> int:
    """The call at which the total was last less than before."""
    pairs = itertools.pairwise(kept.history)
    return max((call for (_, before), (call, after) in pairs if after < before), default=0)


def _turns_over(kept: Kept, calls: Sequence[int], values: dict[int, int]) -> bool:
    """Whether old storages have gone while new ones came, so that the sum stands still."""
    stretch = list(values)
    back = stretch[-max(LEAST_CALLS, len(stretch) // 4) :][0]
    came = sum(nbytes for call, nbytes in values.items() if call >= back)
    now = kept.total
    # When a call begins, storages made up to YOUNG calls before are counted.
    before = kept.total_at(back + YOUNG - 1)
    since_first = now - kept.total_at(stretch[0] + YOUNG - 1)
    return now - before < 0.5 * came or since_first < 0.4 * sum(values.values())
