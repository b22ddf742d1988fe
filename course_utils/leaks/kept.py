"""A storage that is watched (``Birth``), what is kept of those that one line makes (``Kept``), and the calls over which
that grew (``Stretch``).
"""

from collections import Counter, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from course_utils.base.user_code import NOWHERE, Site
from course_utils.holders.holder import Link
from course_utils.leaks.calls import Place
from course_utils.record.storages import Storage

YOUNG = 3
"""A storage counts as kept when so many calls have begun after the one it was made in: a loop's variables hold the last
call's until they are bound anew, and the batch of a call is made before it begins."""

LEAST_CALLS = 4
"""So many calls must have left something behind before it can be said to grow."""

LEAST_ROUND = 11
"""A graph over so many calls is growth, also where it is given back when the loop ends: one call for each of ten
classes is less."""

BEFORE = -1
"""The call of storages that are older than the watch, or that another has taken the place of."""

_MOST_STRETCHES = 32


class Birth(Storage):
    """A storage that is watched, and the call that it came from. What a line makes anew of itself in every call is one
    thing: ``bank = torch.cat([bank, batch])``. Once the old storage has died, the new one takes over its bytes with the
    calls that they came from.
    """

    __slots__ = ("call", "came", "joined", "kept", "made_of")

    call: int  # during or after which it was made; ``BEFORE`` for one older than the watch
    came: dict[int, int] | None  # its bytes by the call that they came from, where that is not its own alone
    made_of: "Birth | None"  # what the same line made in a call before, while it is not known what becomes of that
    kept: "Kept | None"  # where it counts, once it has outlived its calls
    joined: bool  # into another tensor, as at the end of an evaluation

    @property
    def by_call(self) -> dict[int, int]:
        """Its bytes by the call that they came from."""
        return self.came if self.came is not None else {self.call: self.nbytes}

    def is_made_of(self, before: "Birth | None") -> None:
        """Notes what the same line made in a call before, be it by way of others in this call."""
        if before is not None and before.call == self.call:
            before = before.made_of
        if before is not None and before.call > 0 and before.site == self.site:
            self.made_of = before

    def inherit(self) -> None:
        """Takes over the bytes of one that has died, unless it is smaller: then it is something new."""
        before = self.made_of
        if before is not None and before.died and before.call > 0 and before.nbytes <= self.nbytes:
            more, came = self.nbytes - before.nbytes, before.by_call
            self.came = came | {self.call: came.get(self.call, 0) + more} if more else came
            before.call, self.made_of = BEFORE, None


@dataclass(frozen=True)
class Stretch:
    """Calls over which something grew, up to the most of it."""

    values: Mapping[int, int]  # bytes that each call left behind, by call
    peak: int  # bytes in all, at most
    goes_on: bool = True  # it has not been given back
    until: int = 0  # the call before which it was given back; 0 where no call has begun since
    by_backward: bool = False  # a backward pass gave it back
    gathered: bool = False  # it was joined into one tensor
    given_back_at: Site = NOWHERE  # the user's line that was running when it was given back
    times: int = 0  # how often it was given back

    @property
    def first(self) -> int:
        """The first of the calls."""
        return max(1, min(self.values))

    @property
    def last(self) -> int:
        """The last of them."""
        return max(self.values)


NOTHING = Stretch({}, 0)


@dataclass(frozen=True)
class Way(Link):
    """How a holder keeps a storage, and what there is of graphs on the way."""

    goes_back: bool = False  # what the holder has in its hands leads on to nodes that earlier calls recorded
    used: bool = False  # a backward pass has gone through it


Ways = Sequence[tuple[int, Way]]
"""How storages are kept, with the bytes of each."""


class Kept:
    """What is kept of the storages that one line makes on one device, in calls from one place."""

    def __init__(self, site: Site, place: Place | None) -> None:
        self.site, self.place = site, place
        self.births: dict[int, Birth] = {}  # by the ``id`` of each, the oldest first
        self.alive: Counter[int] = Counter()  # bytes by the call that they came from
        self.total = 0
        self.history: list[tuple[int, int]] = []  # (call, total) where it changed
        self.ended: deque[Stretch] = deque(maxlen=_MOST_STRETCHES)  # those that were given back
        self.takes_in = False  # one storage takes in more with every call
        self.ways: Ways = ()  # how samples of it are kept, with the bytes of each
        self.next_search = 6  # so many calls with living storages, and it is time to look for the holder
        self._peak = self._most = 0  # the total at most, since most was given back and ever
        self.fell = 0  # the call at which the total fell last, since there was most
        self._gone: Counter[int] = Counter()  # since the peak: bytes by call
        self._last = NOWHERE, False, False  # what was given back last: where, by a backward pass, joined before

    def add(self, birth: Birth) -> None:
        """Counts a storage that has become old."""
        birth.kept = self
        self.births[id(birth)] = birth
        self.alive.update(birth.by_call)
        self.total += birth.nbytes
        self.takes_in = len(birth.by_call) > 1

    def remove(self, birth: Birth, in_backward: bool, running: Site) -> None:
        """Counts one no longer that has died, while a line of the user's was running."""
        del self.births[id(birth)]
        self.total -= birth.nbytes
        self._last = running, in_backward, birth.joined
        for call, nbytes in birth.by_call.items():
            self._gone[call] += nbytes
            self.alive[call] -= nbytes
            if self.alive[call] <= 0:
                del self.alive[call]

    def note(self, call: int) -> None:
        """Notes the total as a call begins, and whether most of it was given back since the last one."""
        stretch = self.stretch()
        if not stretch.goes_on:
            if len(stretch.values) >= LEAST_CALLS:
                self.ended.append(replace(stretch, until=call))
            self._peak = 0
        if self.total >= self._peak:
            self._peak = self.total
            self._gone.clear()
        if self.total > self._most:
            self._most, self.fell = self.total, 0
        elif self.history and self.total < self.history[-1][1]:
            self.fell = call
        if not self.history or self.history[-1][1] != self.total:
            self.history.append((call, self.total))

    def stretch(self) -> Stretch:
        """What has grown since most was given back last, or up to now; it ends where most of its bytes are gone."""
        if self.alive and self.total * 3 >= self._peak:
            lasting = self.lasting
            return Stretch(lasting, sum(lasting.values()))
        values, (at, by_backward, joined) = self.alive + self._gone, self._last
        return Stretch(dict(sorted(values.items())), values.total(), False, 0, by_backward, joined, at)

    @property
    def lasting(self) -> dict[int, int]:
        """Bytes by call of what lives; until there is more than ever before, of what has outlived that something was
        given back: it is another holder's.
        """
        older = {call: nbytes for call, nbytes in self.alive.items() if call < self.fell - YOUNG}
        return older or dict(self.alive)

    def total_at(self, call: int) -> int:
        """The bytes kept when a call began."""
        return next((total for at, total in reversed(self.history) if at <= call), 0)

    def grown_since(self, call: int) -> int:
        """How many bytes more last than when a call began: never less was kept since."""
        since = [self.total_at(call), *(total for at, total in self.history if at > call)]
        return sum(self.lasting.values()) - min(since)
