"""A storage that is watched (``Birth``), and what is kept of those that one line makes (``Kept``)."""

import weakref

import torch

from course_utils.base.user_code import Site


class Birth(weakref.ref):
    """A storage, referred to weakly, and where it came from.

    Attributes:
        key: the storage's ``id``.
        nbytes: its size.
        call: the call during or after which it was made; ``BEFORE`` for one older than the watch.
        site: the user's line that made it.
        device: where it lies.
        in_backward: it was made by a backward pass.
        kept: it has outlived its calls.
    """

    __slots__ = ("call", "device", "in_backward", "kept", "key", "nbytes", "site")

    key: int
    nbytes: int
    call: int
    site: Site
    device: torch.device
    in_backward: bool
    kept: bool


class Kept:
    """What is kept of the storages that one line makes on one device.

    Attributes:
        site: the line.
        births: living kept storages by the call that made them, and by the ``id`` of their birth.
        alive: their bytes by the same.
        total: their bytes in all.
        history: (call, total) whenever a call began with another total; thinned out when it grows long.
        lost: (call of the birth, bytes) of what died since the last call began, but not in a backward pass.
        given_back: for each time that most was given back, the number of calls whose storages were alive together
            before, and whether a backward pass freed them.
        looked_at: bytes by the call that made them, when their holders were last found.
        next_search: the number of calls with living storages at which it is time to look for the holder.
    """

    def __init__(self, site: Site) -> None:
        self.site = site
        self.births: dict[int, dict[int, Birth]] = {}
        self.alive: dict[int, int] = {}
        self.total = 0
        self.history: list[tuple[int, int]] = []
        self.lost: list[tuple[int, int]] = []
        self.peak_calls = 0
        self.given_back: list[tuple[int, bool]] = []
        self.next_search = 6
        self.freed_by_backward = False
        self.looked_at: dict[int, int] = {}

    def add(self, birth: Birth) -> None:
        """Counts a storage that has become old."""
        birth.kept = True
        self.births.setdefault(birth.call, {})[id(birth)] = birth
        self.alive[birth.call] = self.alive.get(birth.call, 0) + birth.nbytes
        self.total += birth.nbytes
        if len(self.alive) > self.peak_calls:
            self.peak_calls = len(self.alive)

    def remove(self, birth: Birth, in_backward: bool) -> None:
        """Counts the death of one."""
        group = self.births.get(birth.call)
        if group is None or group.pop(id(birth), None) is None:
            return
        self.alive[birth.call] -= birth.nbytes
        self.total -= birth.nbytes
        self.freed_by_backward = in_backward
        if not in_backward:
            self.lost.append((birth.call, birth.nbytes))
        if not group:
            self.births.pop(birth.call, None)
            self.alive.pop(birth.call, None)

    def note(self, call: int) -> None:
        """Notes the total as a call begins, and whether most of it was given back since the last one."""
        if not self.alive or len(self.alive) * 3 < self.peak_calls:
            if self.peak_calls >= 3:
                self.given_back.append((self.peak_calls, self.freed_by_backward))
                del self.given_back[:-16]
            self.peak_calls = len(self.alive)
        self.lost.clear()
        if not self.history or self.history[-1][1] != self.total:
            self.history.append((call, self.total))
            if len(self.history) > 1024:
                del self.history[1:-256:2]

    def total_at(self, call: int) -> int:
        """The bytes kept when a call began."""
        total = 0
        for when, value in self.history:
            if when > call:
                break
            total = value
        return total
