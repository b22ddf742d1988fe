"""A storage that is watched (``Birth``), what is kept of those that one line makes (``Kept``), and the calls over which
that grew (``Stretch``).
"""

from collections import Counter
from dataclasses import dataclass, replace

from course_utils.base.user_code import NOWHERE, Site
from course_utils.record.storages import Storage

_MOST_STRETCHES = 32


class Birth(Storage):
    """A storage that is watched, and the call that it came from.

    Attributes:
        call: the call during or after which it was made; ``BEFORE`` for one older than the watch.
        kept: it has outlived its calls.
        joined: it was joined into another tensor; see ``Joined``.
    """

    __slots__ = ("call", "joined", "kept")

    call: int
    kept: bool
    joined: bool

    @property
    def in_backward(self) -> bool:
        """It was made by a backward pass."""
        return self.born_task >= 0


@dataclass(frozen=True)
class Stretch:
    """Calls over which what one line leaves behind grew, up to the most of it.

    Attributes:
        values: bytes that each call left behind, by call.
        peak: bytes in all, at most.
        goes_on: it has not been given back.
        until: the call before which it was given back; 0 where no call has begun since.
        by_backward: a backward pass gave it back.
        gathered: it was joined into one tensor.
        given_back_at: the user's line that was running when it was given back.
    """

    values: dict[int, int]
    peak: int
    goes_on: bool = True
    until: int = 0
    by_backward: bool = False
    gathered: bool = False
    given_back_at: Site = NOWHERE


class Kept:
    """What is kept of the storages that one line makes on one device, in calls from one place.

    Attributes:
        site: the line.
        place: the number of the place, see ``Calls``.
        births: living kept storages by the call that made them, and by the ``id`` of their birth.
        alive: their bytes by the same.
        total: their bytes in all.
        history: (call, total) whenever a call began with another total; thinned out when it grows long.
        ended: the stretches that were given back, the latest ones.
        looked_at: bytes by the call that made them, when their holders were last found.
        next_search: the number of calls with living storages at which it is time to look for the holder.
    """

    def __init__(self, site: Site, place: int) -> None:
        self.site, self.place = site, place
        self.births: dict[int, dict[int, Birth]] = {}
        self.alive: dict[int, int] = {}
        self.total = 0
        self.history: list[tuple[int, int]] = []
        self.ended: list[Stretch] = []
        self.looked_at: dict[int, int] = {}
        self.next_search = 6
        self._peak_calls = self._peak = 0
        self._gone: list[tuple[int, int]] = []  # since the peak: (call of the birth, bytes)
        self._by_backward = self._gathered = False
        self._given_back_at = NOWHERE

    def add(self, birth: Birth) -> None:
        """Counts a storage that has become old."""
        birth.kept = True
        self.births.setdefault(birth.call, {})[id(birth)] = birth
        self.alive[birth.call] = self.alive.get(birth.call, 0) + birth.nbytes
        self.total += birth.nbytes
        self._peak_calls = max(self._peak_calls, len(self.alive))

    def remove(self, birth: Birth, in_backward: bool, running: Site) -> None:
        """Counts the death of one, while a line of the user's was running."""
        group = self.births.get(birth.call)
        if group is None or group.pop(id(birth), None) is None:
            return
        self.alive[birth.call] -= birth.nbytes
        self.total -= birth.nbytes
        self._by_backward, self._gathered, self._given_back_at = in_backward, birth.joined, running
        self._gone.append((birth.call, birth.nbytes))
        if not group:
            self.births.pop(birth.call, None)
            self.alive.pop(birth.call, None)

    def note(self, call: int) -> None:
        """Notes the total as a call begins, and whether most of it was given back since the last one."""
        stretch = self.stretch()
        if not stretch.goes_on:
            if self._peak_calls >= 3:
                self.ended.append(replace(stretch, until=call))
                del self.ended[:-_MOST_STRETCHES]
            self._peak_calls, self._peak = len(self.alive), 0
        if self.total >= self._peak:
            self._peak = self.total
            self._gone.clear()
        if not self.history or self.history[-1][1] != self.total:
            self.history.append((call, self.total))
            if len(self.history) > 1024:
                del self.history[1:-256:2]

    def stretch(self) -> Stretch:
        """What has grown since most was given back last, or up to now; it ends where most of its calls are gone."""
        if self.alive and len(self.alive) * 3 >= self._peak_calls:
            return Stretch(dict(self.alive), self.total)
        values = Counter(self.alive)
        for call, nbytes in self._gone:
            values[call] += nbytes
        at, by_backward = self._given_back_at, self._by_backward
        return Stretch(dict(sorted(values.items())), sum(values.values()), False, 0, by_backward, self._gathered, at)

    def total_at(self, call: int) -> int:
        """The bytes kept when a call began."""
        total = 0
        for when, value in self.history:
            if when > call:
                break
            total = value
        return total
