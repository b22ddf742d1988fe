"""Whether what one line's storages take grows from call to call (``judge``)."""

import itertools
import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from course_utils.leaks.births import YOUNG, Births
from course_utils.leaks.kept import Kept

LEAST_CALLS = 4
"""So many calls must have left something behind before it can be said to grow."""


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
    """What is known of one line's kept storages, for calls of one kind.

    Attributes:
        verdict: "growing", "bounded" or "steady".
        values: bytes left behind by each call since it began to grow, by call; empty unless growing.
        repeated: it grew and was given back before; the number of calls that it took.
        why: for "bounded", in words.
    """

    verdict: str
    values: dict[int, int]
    repeated: int = 0
    why: str = ""


def alive_by_call(kept: Kept) -> dict[int, int]:
    """Bytes kept by the call that made them, as they were when the last call began."""
    alive = dict(kept.alive)
    for call, nbytes in kept.lost:
        alive[call] = alive.get(call, 0) + nbytes
    return alive


def calls_of(births: Births, training: bool, warm_up: int) -> list[int]:
    """The watched calls of a kind that are old enough to be judged, without the first few of the kind."""
    last = births.call - YOUNG
    of_kind = [call for call in range(1, last + 1) if births.trained[call] == training and births.sampled[call]]
    return of_kind[warm_up:]


def judge(kept: Kept, births: Births, calls: Sequence[int]) -> Growth:
    """Judges one line's kept storages.

    Args:
        kept: the storages.
        births: where they were counted.
        calls: the calls of one kind, as ``calls_of`` gives them.
    """
    steady = Growth("steady", {})
    alive = alive_by_call(kept)
    places = [place for place, call in enumerate(calls) if alive.get(call)]
    if len(places) < LEAST_CALLS:
        return steady
    first = places[0]
    gaps = [after - before for before, after in itertools.pairwise(places)]
    usual = statistics.median(gaps)
    if len(calls) - 1 - places[-1] > 2 * max(usual, statistics.fmean(gaps)) + 1:
        return Growth("bounded", {}, why=f"nothing was added in the last {len(calls) - 1 - places[-1]} calls")
    values = {call: alive.get(call, 0) for call in calls[first:]}
    if _turns_over(kept, calls, values):
        return Growth("bounded", {}, why="as much goes as comes")
    stretch = len(calls) - first
    early = sum(place < first + stretch / 2 for place in places)
    late = len(places) - early
    irregular = max(gaps) > 3 * usual and max(gaps) > 3
    if late < 0.6 * early or (irregular and late < 0.8 * early + 1):
        return Growth("bounded", {}, why="less and less is added")
    if any(by_backward and calls_alive >= 0.8 * len(places) for calls_alive, by_backward in kept.given_back):
        return Growth("bounded", {}, why="a later backward pass frees it")
    repeated = max((calls_alive for calls_alive, by_backward in kept.given_back if not by_backward), default=0)
    # From one that left something to the last such, so that whole rounds count where only some calls do.
    return Growth("growing", {call: alive.get(call, 0) for call in calls[first : places[-1]]}, repeated)


def _turns_over(kept: Kept, calls: Sequence[int], values: dict[int, int]) -> bool:
    """Whether old storages have gone while new ones came, so that the sum stands still."""
    stretch = list(values)
    back = stretch[-max(LEAST_CALLS, len(stretch) // 4) :][0]
    came = sum(nbytes for call, nbytes in values.items() if call >= back)
    now = sum(alive_by_call(kept).values())
    # When a call begins, storages made up to YOUNG calls before are counted.
    before = kept.total_at(back + YOUNG - 1)
    since_first = now - kept.total_at(stretch[0] + YOUNG - 1)
    return now - before < 0.5 * came or since_first < 0.4 * sum(values.values())
