"""Watches a loop for bytes that stay alive from call to call (``watch_growth``)."""

import os
import threading
import warnings
import weakref
from collections.abc import Callable
from dataclasses import replace
from types import TracebackType
from typing import Any

import torch

from course_utils.base.errors import explain
from course_utils.base.text import describe, message_of
from course_utils.base.user_code import NOWHERE
from course_utils.holders.find import find, search_from_users_variables
from course_utils.holders.holder import NOBODY, Holder, says_more
from course_utils.holders.search import Path, Search
from course_utils.holders.ways import in_hands, link_of
from course_utils.leaks.births import Births
from course_utils.leaks.calls import BACKWARD_PASS, LOOP, Calls, Place
from course_utils.leaks.findings import GrowthReport
from course_utils.leaks.kept import Birth, Kept
from course_utils.leaks.lines import Ran
from course_utils.leaks.nodes import LEAST_CALLS, Nodes, Way
from course_utils.leaks.process import STARTS, Process
from course_utils.leaks.report import Reporter
from course_utils.leaks.rounds import Loops
from course_utils.record.process import Shared

_SAMPLES = 3
"""For each line, the holders of what so many calls left behind are looked for."""


Ways = dict[int, tuple[Path, Way]]
"""By the ``id`` of a storage, the way to it and what that says."""

_NO_PLACE: Place = NOWHERE, False, False


def _ignore_warning(listeners: list) -> Callable[[], None]:
    warnings.filterwarnings("ignore", "Using `torch.compile\\(module\\)` when there are global hooks")
    ours = warnings.filters[0]
    filters: Any = warnings.filters
    return lambda: filters.remove(ours) if ours in filters else None


_NO_WARNING = Shared(_ignore_warning)
"""Compiled modules warn of hooks like ours; the program did nothing wrong."""


class watch_growth:
    """Finds what stays alive from one call of a model to the next, the line that made it, and who keeps it.

    Example:
        >>> model, losses = torch.nn.Linear(64, 64), []
        >>> with watch_growth() as growth:
        ...     for _ in range(20):
        ...         losses.append(model(torch.ones(8, 64)).mean())
        >>> growth.report().verdict
        'growing'

    Args:
        limit_bytes: bytes; the report says when so much memory will be full. By default what the device has, on CUDA.
        warm_up: the first so many calls from each place are not judged: optimizers and caches make what they need then.

    Raises:
        ValueError: ``limit_bytes`` is no positive whole number, or ``warm_up`` is negative.
        RuntimeError: it is entered a second time.

    Attributes:
        at_call: called with the number of each call as it begins; None by default.

    A call is one of an outermost module with parameters, or of one with a ``__call__`` of its own. A loop that calls
    none, and computes gradients, goes from one backward pass to the next; any other calls ``step``, or is taken to come
    back to one of its lines. Storages count when they have outlived the calls after their own, so a loop's variables,
    which keep the last batch, do not.

    Limits: seen are tensors that operations make in the thread that entered, in threads that start later, and in
    autograd's threads for them. What ``torch.compile`` made runs uncompiled meanwhile. Not seen: other threads and
    processes, memory of NumPy and of C extensions; how the process grew is told beside. Nodes of graphs are said to
    take ``NODE_BYTES`` each. All calls are counted; holders are looked for at calls at which what stays has doubled,
    and when a report is asked for. What Python cannot show is reported as kept by something that the search did not
    find.
    """

    def __init__(self, *, limit_bytes: int | None = None, warm_up: int = 3) -> None:
        for name, value, least in (("limit_bytes", limit_bytes, 1), ("warm_up", warm_up, 0)):
            if value is not None and (not isinstance(value, int) or value < least):
                said = f"watch_growth({name}={describe(value)}).", f"a whole number from {least} up."
                raise ValueError(explain(*said))
        self.warm_up, self.limit_bytes = warm_up, limit_bytes
        self._births = Births()
        self._births.after_backward = self._without_calls
        self._births.makes, self._loops = self._without_anything, Loops()
        self._calls = Calls(self._begins, lambda: bool(self._births.trained[self._births.call]))
        self._modules: dict[str, int] = {}
        self._ways: dict[int, list[tuple[int, Way]]] = {}
        self._nodes, self._process, self._ran = Nodes(self._births), Process(), Ran()
        self._stepped = self.stopped = False
        self._entered = self._running = False
        self._failure = ""
        self._pid = os.getpid()
        self._last: GrowthReport | None = None
        self.at_call: Callable[[int], None] | None = None
        self._one_at_a_time = threading.RLock()  # calls may begin in several threads

    def __enter__(self) -> "watch_growth":
        if self._entered:
            said = "A watch_growth was entered a second time.", "a new one for each block."
            raise RuntimeError(explain(*said, try_this="watch_growth()"))
        self._entered = self._running = True
        _NO_WARNING.add(self)
        _fork_watch(self)
        STARTS.add(self._process)
        self._calls.start()
        self._births.start()
        return self

    def __exit__(self, exc_type: object, exc: BaseException | None, traceback: TracebackType | None) -> None:
        if self._running:
            self._last = self._make_report(traceback)
        self._leave()

    def stop(self) -> None:
        """Ends watching before the block does: operations run at their own speed again."""
        if self._running:
            self.stopped = not self._failure
            self._leave()

    def _leave(self) -> None:
        self._running = False
        _NO_WARNING.remove(self)
        STARTS.remove(self._process)
        self._calls.stop()
        self._births.stop()

    @property
    def calls(self) -> int:
        """How many calls have begun."""
        return self._births.call

    def step(self) -> None:
        """Marks the beginning of a round of a loop that calls no module; once it is used, only it counts."""
        if not self._stepped:
            self._stepped, self._births.after_backward = True, None
            self._begin_anew()
        self._tick("step", _NO_PLACE)

    def report(self) -> "GrowthReport":
        """What is known up to now; after the block, what was known at its end. Plain data, read now."""
        if self._running or self._last is None:
            self._last = self._make_report(None)
        return self._last

    def _begins(self, module: torch.nn.Module, args: tuple, place: Place) -> None:
        if self._births.makes is not None and not self._stepped:
            self._begin_anew()
        self._births.after_backward = None
        self._begins_round(type(module).__name__, place, args)

    def _without_calls(self) -> None:
        """A loop that has called no module yet goes from backward pass to backward pass."""
        if self._births.makes is not None:
            self._begin_anew()
        self._begins_round(BACKWARD_PASS, _NO_PLACE)

    def _without_anything(self, frame: Any) -> None:
        """A program that has called no module and computed no gradient yet goes from round to round of a loop."""
        makes, self._births.makes = self._births.makes, None
        try:
            if self._loops.goes_back(frame):
                self._begins_round(LOOP, _NO_PLACE)
        finally:
            self._births.makes = makes

    def _begin_anew(self) -> None:
        self._births.makes = None
        if self._births.call:
            self._births.begin_anew()
            self._nodes = Nodes(self._births)
            self._process.begin_anew()
        self._modules.clear()
        self._ways.clear()

    def _begins_round(self, name: str, place: Place, args: tuple = ()) -> None:
        if not self._stepped and self._running and os.getpid() == self._pid:
            try:
                with self._one_at_a_time:
                    self._tick(name, place, args)
            except Exception as error:  # a fault of the watch's own is no reason to end somebody's training
                self._failure = message_of(error)
                self.stop()

    def _tick(self, name: str, place: Place, args: tuple = ()) -> None:
        births = self._births
        births.next_call(place, args)
        self._process.note(births.call, births.alive_bytes)
        self._modules[name] = self._modules.get(name, 0) + 1
        ripe = [kept for kept in births.kept.values() if len(kept.alive) >= kept.next_search]
        if ripe:
            self._look(None, seconds=1.0, call_begins=True)
            for kept in ripe:  # also where nothing of it lives any more
                kept.next_search = max(kept.next_search, 2 * len(kept.alive))
            self._ran.note()
        if self._nodes.is_due(births.call):
            self._count_nodes(births.call)
        if self.at_call is not None:
            self.at_call(births.call)

    def _count_nodes(self, call: int) -> None:
        # For no storage: up to every variable with a history.
        self._nodes.count(call, search_from_users_variables(Search((-1,), graphs=False)))

    def _look(self, traceback: TracebackType | None, seconds: float, call_begins: bool = False) -> None:
        """Looks for the holders of some of what every line has left behind."""
        chosen: list[tuple[Kept, list[Birth], dict[int, int]]] = []
        for kept in self._births.kept.values():
            if len(kept.alive) >= 3:
                chosen.append((kept, _sample(kept), dict(kept.alive)))
                kept.next_search = max(kept.next_search, 2 * len(kept.alive))
        wanted = {birth.key: birth for _, births, _ in chosen for birth in births if birth() is not None}
        looking = find(wanted, traceback, seconds)
        calls = {key: birth.call for key, birth in wanted.items()}
        ways = {key: (path, self._nodes.way(path, calls[key])) for key, path in looking.found.items()}
        found = {key: way for key, (_, way) in ways.items()}
        found |= {key: replace(found[key], holder=holder) for key, holder in self._nodes.correct(ways, calls).items()}
        # Of two containers the larger one grows; the other has what it needs of it now: ``last = memory[-15:]``.
        most = max((way.holder.count for way in found.values()), default=0)
        small = {key: way for key, way in ways.items() if 0 < 2 * found[key].holder.count < most}
        for key, holder in self._others(small, calls, found, traceback, seconds / 2).items() if small else ():
            if holder.count > 2 * found[key].holder.count:
                found[key] = replace(found[key], holder=holder)
        if call_begins:
            self._nodes.note(looking)
        for kept, births, alive in chosen:
            # Without what the collector has freed meanwhile.
            living = [birth for birth in births if birth.key in found or (birth.key in wanted and birth() is not None)]
            ways_now = [(birth.nbytes, found.get(birth.key, Way(NOBODY, False))) for birth in living]
            known = self._ways.get(id(kept))
            if ways_now and (known is None or any(says_more(way, known) for _, way in ways_now)):
                self._ways[id(kept)] = ways_now
                kept.looked_at = alive

    def _others(
        self, ways: Ways, calls: dict[int, int], found: dict[int, Way], traceback: TracebackType | None, seconds: float
    ) -> dict[int, Holder]:
        """Who would keep storages if the holders that were found did not keep them."""
        looking = Search(ways, barred={in_hands(path) for path, _ in ways.values()})
        search_from_users_variables(looking, traceback, seconds / 2)
        holders = {}
        for key, path in looking.found.items():
            holder: Holder | None = link_of(path).holder
            if holder is not None and (holder.kind != "container" or holder.limit is not None):
                holder = self._nodes.carrier(path, calls[key])
            if holder is not None and holder.key != found[key].holder.key:
                holders[key] = holder
        return holders

    def _make_report(self, traceback: TracebackType | None) -> GrowthReport:
        self._look(traceback, seconds=5.0)
        if self._births.call >= LEAST_CALLS:
            self._count_nodes(self._births.call + 1)
        seen = self._births, self._ways, self._nodes, self._process, self._ran
        report = Reporter(*seen, self.warm_up, self.limit_bytes).report(self._modules)
        if LOOP in self._modules:
            report = replace(report, rounds_at=self._loops.begins_at)
        failed = f"The watch failed at call {self._births.call} and ended there ({self._failure})."
        return replace(report, unwatched=(*report.unwatched, failed)) if self._failure else report


def _sample(kept: Kept) -> list[Birth]:
    """The storages of a few calls: a later one, one in the middle, one of the first; the very last still may go."""
    by_call: dict[int, list[Birth]] = {}
    for birth in kept.births.values():
        by_call.setdefault(birth.call, []).append(birth)
    calls = sorted(by_call)
    places = {len(calls) * 2 // 3, len(calls) // 2, len(calls) // 8}
    return [birth for place in sorted(places)[-_SAMPLES:] for birth in by_call[calls[place]]]


def _fork_watch(watch: watch_growth) -> None:
    """In a child process, such as a data loader's worker, nothing is watched."""
    reference = weakref.ref(watch)

    def in_child() -> None:
        watching = reference()
        if watching is not None:
            watching.stop()

    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=in_child)
