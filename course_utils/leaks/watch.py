"""Watches a loop for bytes that stay alive from call to call (``watch_growth``)."""

import dis
import functools
import os
import threading
import weakref
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from multiprocessing.process import BaseProcess
from types import CodeType, TracebackType
from typing import Any

from course_utils.base import explain
from course_utils.base.text import describe, message_of
from course_utils.base.user_code import frames_of_all_threads, is_user_file
from course_utils.holders import find
from course_utils.holders.holder import NOBODY, says_more
from course_utils.holders.search import Search
from course_utils.leaks.births import Births
from course_utils.leaks.calls import BACKWARD_PASS, LOOP, NO_PLACE, Calls, Loops, Place, telling_after
from course_utils.leaks.findings import GrowthReport
from course_utils.leaks.kept import LEAST_ROUND, Birth, Kept, Way
from course_utils.leaks.nodes import Nodes
from course_utils.leaks.report import Reporter
from course_utils.record import replaced

_LOOP, _BACKWARD, _MODULE, _STEP = range(4)
"""What tells when a round begins, each better than the one before."""

_RUNNING: "weakref.WeakSet[watch_growth]" = weakref.WeakSet()
if hasattr(os, "register_at_fork"):  # in a child, such as a data loader's worker, nothing is watched
    os.register_at_fork(after_in_child=lambda: list(map(watch_growth.stop, list(_RUNNING))))


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
        self.at_call: Callable[[int], None] | None = None
        self._processes = 0  # so many processes
        self.stopped = self._entered = self._running = False
        self._births, self._loops = Births(lambda: self._round(_BACKWARD, BACKWARD_PASS), self._goes_round), Loops()
        self._codes: dict[CodeType, None] = {}  # of functions of the user's that ran
        self._ran_before: set[tuple[str, int]] = set()  # lines, before the watch
        begins = functools.partial(self._round, _MODULE)
        self._calls = Calls(begins, lambda: bool(self._births.trained[self._births.call]))
        self._told_by, self._failure = _LOOP, ""
        self._begin_anew()
        self._last: GrowthReport | None = None
        self._one_at_a_time = threading.RLock()  # calls may begin in several threads

    def _begin_anew(self) -> None:
        self._births.begin_anew()
        self._nodes, self._modules = Nodes(self._births), Counter[str]()
        self._resident: list[tuple[int, int]] = []  # what the process holds as a call begins

    def __enter__(self) -> "watch_growth":
        if self._entered:
            said = "A watch_growth was entered a second time.", "a new one for each block."
            raise RuntimeError(explain(*said, try_this="watch_growth()"))
        self._entered = self._running = True
        self._ran_before = self._lines_that_ran()
        _STARTS.add(self._process_started)
        _RUNNING.add(self)
        self._calls.start()
        self._births.start()
        return self

    def __exit__(self, exc_type: object, exc: BaseException | None, traceback: TracebackType | None) -> None:
        if self._running:
            self._last = self._make_report(traceback)
            self._running = False
        self.stop()

    def stop(self) -> None:
        """Ends watching before the block does: operations run at their own speed again."""
        self.stopped |= self._running and not self._failure
        self._running = False
        _STARTS.remove(self._process_started)
        self._calls.stop()
        self._births.stop()

    @property
    def calls(self) -> int:
        """How many calls have begun."""
        return self._births.call

    def step(self) -> None:
        """Marks the beginning of a round of a loop that calls no module; once it is used, only it counts."""
        self._round(_STEP, "step")

    def report(self) -> "GrowthReport":
        """What is known up to now; after the block, what was known at its end. Plain data, read now."""
        if self._running or self._last is None:
            self._last = self._make_report(None)
        return self._last

    def _process_started(self, process: BaseProcess) -> None:
        self._processes += 1

    def _goes_round(self, frame: Any) -> None:
        makes, self._births.makes = self._births.makes, None  # what is made meanwhile is not the program's
        if self._loops.goes_back(frame):
            self._round(_LOOP, LOOP)
        self._births.makes = makes if self._told_by == _LOOP else None

    def _round(self, told_by: int, name: str, place: Place = NO_PLACE, args: tuple = ()) -> None:
        """A round begins, as one of four ways tells; once a better one does, the others do not count."""
        if told_by > self._told_by:
            if told_by == _STEP or self._told_by == _LOOP:
                self._begin_anew()
            self._told_by, self._births.makes = told_by, None
        if told_by == self._told_by and self._running:
            try:
                with self._one_at_a_time:
                    self._tick(name, place, args)
            except Exception as error:  # a fault of the watch's own is no reason to end somebody's training
                self._failure = message_of(error)
                self.stop()

    def _tick(self, name: str, place: Place, args: tuple) -> None:
        births = self._births
        births.next_call(place, args)
        if births.call % 4 == 0:
            self._resident.append((births.call, resident()))
        self._modules[name] += 1
        if any(len(kept.alive) >= kept.next_search for kept in births.kept.values()):
            self._nodes.note(self._look(None, seconds=1.0))
        if births.call >= self._nodes.next_count:
            self._nodes.count()
        if self.at_call is not None:
            self.at_call(births.call)

    def _look(self, traceback: TracebackType | None, seconds: float) -> Search:
        """Looks for the holders of some of what every line has left behind."""
        self._note_functions()
        samples = [(kept, _sample(kept)) for kept in self._births.kept.values() if len(kept.alive) >= 3]
        wanted = {birth.key: birth for _, births in samples for birth in births if birth() is not None}
        looking = find(wanted, traceback, seconds)
        found = self._nodes.ways(looking.found, {key: birth.call for key, birth in wanted.items()})
        for kept, births in samples:
            kept.next_search = max(kept.next_search, 2 * len(kept.alive))
            # Without what the collector has freed meanwhile.
            living = [birth for birth in births if birth.key in found or (birth.key in wanted and birth() is not None)]
            ways = [(birth.nbytes, found.get(birth.key, Way(NOBODY, False))) for birth in living]
            if ways and (not kept.ways or any(says_more(way, kept.ways) for _, way in ways)):
                kept.ways = ways
        return looking

    def _make_report(self, traceback: TracebackType | None) -> GrowthReport:
        births = self._births
        births.keep()
        self._look(traceback, seconds=5.0)
        if births.call >= LEAST_ROUND:
            self._nodes.count()
        births.keep(age=0)
        ran = self._lines_that_ran() - self._ran_before
        ran |= {(kept.site.file, kept.site.line) for kept in births.kept.values()}
        what = "1 process" if self._processes == 1 else f"{self._processes} processes"
        unwatched = [f"{what} that the script started, such as a data loader's workers."] if self._processes else []
        if self._failure:
            unwatched.append(f"The watch failed at call {births.call} and ended there ({self._failure}).")
        reporter = Reporter(births, self._nodes, self._resident, ran, self.warm_up, self.limit_bytes)
        report = reporter.report(self._modules, tuple(unwatched))
        return replace(report, rounds_at=self._loops.begins_at) if LOOP in self._modules else report

    def _note_functions(self) -> None:
        running = (frame.f_code for frame in frames_of_all_threads())
        self._codes |= dict.fromkeys(code for code in running if is_user_file(code.co_filename))

    def _lines_that_ran(self) -> set[tuple[str, int]]:
        """Files and numbers of the lines of functions, and of those inside of them, that ran several times: Python
        makes an instruction quicker then, by one that is special for what it met, and shows so. Nothing is traced.
        """
        self._note_functions()
        waiting, lines = dict(self._codes), set()
        while waiting:
            code, _ = waiting.popitem()
            waiting |= dict.fromkeys(one for one in code.co_consts if isinstance(one, CodeType))
            for instruction in dis.get_instructions(code, adaptive=True):
                name, at = instruction.opname, instruction.positions
                waits = name.endswith(("_ADAPTIVE", "_QUICK")) or "__" in name or name.startswith("INSTRUMENTED")
                if name not in dis.opmap and not waits and at is not None and at.lineno is not None:
                    lines.add((code.co_filename, at.lineno))
        return lines


def _sample(kept: Kept) -> list[Birth]:
    """The storages of a few calls: a later one, one in the middle, one of the first; the very last still may go."""
    lasting = kept.lasting.keys()
    births = [birth for birth in kept.births.values() if birth.by_call.keys() & lasting]
    calls = sorted({birth.call for birth in births})
    chosen = {calls[len(calls) * 2 // 3], calls[len(calls) // 2], calls[len(calls) // 8]}
    return [birth for birth in births if birth.call in chosen]


def resident() -> int:
    """Bytes of this process that are in memory; 0 where the system does not tell."""
    try:
        with open("/proc/self/statm", "rb") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0


_STARTS: Any = replaced(BaseProcess, "start", telling_after)
"""Processes that ``multiprocessing`` begins: training that is shared out, a data loader's workers."""
