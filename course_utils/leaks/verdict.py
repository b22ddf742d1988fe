"""Whether what one line's storages take is a leak (``judge``), stretch by stretch."""

import itertools
import math
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
"""A graph that grows over so many calls is growth, also where it is given back when the loop ends.

One call for each of ten classes is less.
"""


@dataclass(frozen=True)
class Rate:
    """Bytes a call, over calls of one kind.

    Attributes:
        nbytes: the mean.
        low: the lower end of the 95 % interval for the mean; with equal calls the mean itself.
        high: its upper end.
        calls: how many calls it was taken from.
    """

    nbytes: int
    low: int
    high: int
    calls: int


def rate_of(values: Sequence[int]) -> Rate:
    """The mean of the bytes that calls left behind, with its interval (normal approximation)."""
    mean = statistics.fmean(values)
    spread = statistics.stdev(values) / math.sqrt(len(values)) if len(values) > 1 else 0.0
    reach = (1.96 + 2.4 / max(1, len(values) - 1)) * spread
    return Rate(round(mean), max(0, round(mean - reach)), round(mean + reach), len(values))


@dataclass(frozen=True)
class Growth:
    """What is known of one line's kept storages.

    Attributes:
        verdict: "growing", "bounded" or "steady".
        stretch: the calls over which it grew; None unless it is growing or was given back.
        values: bytes of every call of these, of those that are judged.
        times: how often it was given back.
        why: for "bounded", in words.
    """

    verdict: str
    stretch: Stretch | None = None
    values: Mapping[int, int] = field(default_factory=dict)
    times: int = 0
    why: str = ""


def _calls_from(births: Births, place: int, warm_up: int) -> list[int]:
    """The calls from a place that are old enough to be judged, without the first few."""
    last = births.call - YOUNG
    of_place = [call for call in range(1, last + 1) if births.place_of[call] == place]
    return of_place[warm_up:]


class Places:
    """The calls that count, by the number of their place; and whether a backward pass follows calls from there."""

    def __init__(self, births: Births, warm_up: int) -> None:
        self.calls = {place: _calls_from(births, place, warm_up) for place in births.places.values()}
        self.seen = Counter(births.place_of[1:])
        trained = Counter(place for place, delay in zip(births.place_of, births.trained, strict=True) if delay)
        self._trained = {place: 2 * trained[place] >= self.seen[place] for place in self.calls}

    def of(self, training: bool) -> list[int]:
        """The numbers of the places of a kind."""
        return [place for place in self.calls if self._trained[place] == training]


def judge(kept: Kept, births: Births, calls: Sequence[int], links: Sequence[Link]) -> Growth:
    """Judges one line's kept storages.

    Args:
        kept: the storages.
        births: where they were counted.
        calls: the calls from its place, as ``Places`` has them.
        links: how samples of them are kept.
    """
    now = kept.stretch()
    every = kept.ended if now.goes_on else [*kept.ended, now]
    ended = [stretch for stretch in every if len(stretch.values) >= LEAST_CALLS]
    by_itself = [stretch for stretch in ended if not _waited(stretch, births)]
    growth = _open(kept, births, calls, now) if now.goes_on else Growth("steady")
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
    is_being_built = any(link.holder.kind == "building" for link in links)
    gathered = largest.gathered and not is_being_built
    to_the_end = largest is now and 2 * (births.call - min(values)) >= births.call and not gathered
    # What is given back at the end is given back by no line of the loop's.
    whole = replace(
        _whole(largest, births, kept.place, statistics.fmean(values.values())),
        given_back_at=NOWHERE if largest is now else largest.given_back_at,
    )
    graph = any(link.graph or link.history for link in links)
    grows = to_the_end or (graph and len(whole.values) >= LEAST_ROUND)
    why = "it is given back when its loop ends"
    return Growth("growing" if grows else "bounded", whole, values, len(by_itself), why)


def _whole(stretch: Stretch, births: Births, place: int, mean: float) -> Stretch:
    """With the calls that were too young to be counted when it was given back, at the mean."""
    until = stretch.until or births.call + 1
    young = range(max(min(stretch.values), until - YOUNG), until)
    missed = [call for call in young if births.place_of[call] == place and call not in stretch.values]
    values = stretch.values | dict.fromkeys(missed, round(mean))
    return replace(stretch, values=values, peak=stretch.peak + round(mean * len(missed)))


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


def _open(kept: Kept, births: Births, calls: Sequence[int], now: Stretch) -> Growth:
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
        return Growth("bounded", why="as much goes as comes")
    stretch = len(calls) - places[0]
    early = sum(place < places[0] + stretch / 2 for place in places)
    late = len(places) - early
    irregular = max(gaps) > 3 * usual and max(gaps) > 3
    if late < 0.6 * early or (irregular and late < 0.8 * early + 1):
        return Growth("bounded", why="less and less is added")
    return Growth("growing", now, _filled(now, calls))


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
