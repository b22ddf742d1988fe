"""Which storages outlive the call that they were made in, and the user's line that made each (``Births``)."""

import contextlib
import sys
import threading
from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch

from course_utils.base.torch_private import sequence_number
from course_utils.base.user_code import Site, user_site
from course_utils.graph.references import living_tensors
from course_utils.leaks.calls import Place
from course_utils.leaks.kept import YOUNG, Birth, Kept
from course_utils.record import NEW_THREADS, UNCOMPILED
from course_utils.record.operations import OperationWatch, Run
from course_utils.record.storages import OLD, Listener, Recorder

BEFORE = -1
"""The call of storages that are older than the watch."""

_JOINS = (torch.ops.aten.cat.default, torch.ops.aten.stack.default)


class Thread:
    """Calls that began in one thread, and the number of the first node after each: autograd numbers by thread."""

    def __init__(self) -> None:
        self._calls: list[int] = []
        self._firsts: list[int] = []

    def call_begins(self, call: int) -> None:
        """A call begins now."""
        self._calls.append(call)
        self._firsts.append(sequence_number())

    def call_of(self, number: int) -> int:
        """The call that recorded a node; 0 for one before the first."""
        at = bisect_right(self._firsts, number) - 1
        return self._calls[at] if at >= 0 else 0

    def first_of(self, call: int) -> int:
        """The number of the first node that a call of this thread recorded, or could have."""
        at = bisect_left(self._calls, call)
        return self._firsts[at] if at < len(self._firsts) else sequence_number()


class Births:
    """Watches the operations of this thread and of those that start later, and what becomes of the storages they make.

    Attributes:
        call: the number of the call that is running or was the last.
        trained: for each call, how many calls had begun, itself included, when a backward pass first used what it had
            made; 0 where none did.
        place_of: for each call, the number of its place.
        totals: for each call, the bytes of all known storages that lived as it began, without its batch.
    """

    def __init__(self, after_backward: Callable[[], None], makes: Callable[[Any], None]) -> None:
        self._after_backward = after_backward  # called before what comes after a backward pass
        self.makes: Callable[[Any], None] | None = makes  # called with the frame in which an operation makes something
        self._backward_ran = False
        self.alive_bytes = 0  # of all known storages that live now
        self.recorder = Recorder(lines=True, listener=Listener(Birth, self._born, self._died))
        self.live: dict[int, Birth] = self.recorder.live  # type: ignore[assignment]  # they are births
        self._made: Birth | None = None
        self._watchers = (self.recorder.watcher, self._descent)
        self._modes: list[OperationWatch] = []
        self.begin_anew()

    def begin_anew(self) -> None:
        """Forgets what was counted, and counts calls from 0: another way than before tells when a round begins."""
        for birth in list(self.live.values()):
            birth.call, birth.kept = BEFORE, None
        self.places: dict[Place, int] = {}  # the number of each place that calls came from
        self.kept: dict[tuple[Site, str, int], Kept] = {}  # by line, device and place
        self._changed: dict[int, Kept] = {}
        self.call = 0
        self.trained, self.place_of, self.totals = [0], [-1], [0]
        self._here, self._threads = threading.local(), list[Thread]()
        self._windows: deque[tuple[int, list[Birth]]] = deque([(0, [])])
        self._given = 0

    def _born(self, birth: Birth, tensor: torch.Tensor) -> None:
        birth.kept = birth.came = birth.ancestor = birth.heir = None
        birth.call, birth.joined = BEFORE, False
        self.alive_bytes += birth.nbytes
        by_backward = birth.born_task >= 0
        before, self._backward_ran = self._backward_ran, by_backward
        if before and not by_backward:
            self._after_backward()
        if birth.op is OLD:  # met, and made elsewhere: by another thread or a loader, perhaps all at once
            return
        if self.makes is not None:
            self.makes(sys._getframe(1))
        birth.call, window = self._windows[-1]
        if by_backward:
            self.trained[birth.call] = self.trained[birth.call] or 1
        else:
            self._made = birth
        window.append(birth)

    def _descent(self, run: Run, func: Any, args: tuple, kwargs: dict) -> Any:
        """Takes notice of what an operation makes a storage of."""
        out = run(func, args, kwargs)
        made, self._made = self._made, None
        if made is not None:
            joins = func in _JOINS
            for tensor in _tensors_in(args):
                for before in self.recorder.records(tensor):
                    made.is_made_of(before)
                    before.joined |= joins and before.kept is not None
        return out

    def _died(self, birth: Birth) -> None:
        self.alive_bytes -= birth.nbytes
        if birth.call < 0:
            return
        in_backward = birth.died_task >= 0
        if in_backward and birth.born_task < 0 and not self.trained[birth.call]:
            self.trained[birth.call] = self.call - birth.call + 1
        heir, kept, birth.heir, birth.ancestor = birth.heir, birth.kept, None, None
        if heir is not None:
            heir.ancestor = None
        if kept is not None:
            self._changed[id(kept)] = kept
            kept.remove(birth)
        if heir is not None and heir() is not None and heir.kept is None:
            heir.inherit(birth)
            if min(heir.by_call) <= self.call - YOUNG:
                self._keep(heir).takes_in = len(heir.by_call) > 1
        elif kept is not None:
            kept.give_back(birth, in_backward, user_site(sys._getframe(1)))

    def start(self) -> None:
        """Begins to watch. Every tensor that has a Python object counts as older."""
        self.recorder.know(living_tensors())
        UNCOMPILED.add(self)
        NEW_THREADS.add(self.in_thread)
        self._modes = [OperationWatch.enter(*self._watchers)]

    @contextlib.contextmanager
    def in_thread(self) -> Iterator[None]:
        """Watches the operations of the thread that runs, too."""
        with OperationWatch(*self._watchers) as mode:
            self._modes += [mode]
            yield

    def stop(self) -> None:
        """Ends watching; deaths go on being counted. Asked again at the block's end, where an operation ended it."""
        NEW_THREADS.remove(self.in_thread)
        UNCOMPILED.remove(self)
        for mode in self._modes:
            mode.leave(*self._watchers)

    def next_call(self, place: Place, args: tuple = ()) -> None:
        """A call begins: what was made ``YOUNG`` calls ago and lives is kept from now on. Its batch belongs to it."""
        self.call += 1
        self.trained.append(0)
        self.place_of.append(self.places.setdefault(place, len(self.places)))
        here = vars(self._here).setdefault("thread", Thread())
        here.call_begins(self.call)
        self._threads.append(here)
        for change in self.recorder.changes():  # a storage got another size
            self.alive_bytes += change.delta
        self.keep(self.call - YOUNG)
        for kept in list(self._changed.values()):
            kept.note(self.call)
        self._changed.clear()
        batch = self._made_for(args)
        self._windows.append((self.call, batch))
        self._given = len(batch)
        self.totals.append(self.lasting_bytes)

    def keep(self, until: int) -> None:
        """Counts as kept what was made in calls up to one, and lives."""
        for birth in [birth for call, window in self._windows if call <= until for birth in window]:
            if birth() is not None and birth.nbytes and birth.kept is None:
                self._keep(birth)
        while self._windows and self._windows[0][0] <= min(until, self.call - YOUNG):
            self._windows.popleft()

    @property
    def lasting_bytes(self) -> int:
        """Bytes of all known storages that live now, but for the last call's batch, which not all programs hold on."""
        batch = self._windows[-1][1][: self._given]
        return self.alive_bytes - sum(birth.nbytes for birth in batch if birth() is not None)

    def _made_for(self, args: tuple) -> list[Birth]:
        """Takes a call's batch, and what was made after it, out of the last call's births; of older ones none."""
        window = self._windows[-1][1]
        given = {record.key for tensor in _tensors_in(args) for record in self.recorder.records(tensor)}
        places = [at for at in range(self._given, len(window)) if window[at].key in given and window[at]()]
        batch = window[places[0] :] if places and self.call > 1 else []
        if any(birth.born_task >= 0 for birth in batch):
            return []
        del window[len(window) - len(batch) :]
        for birth in batch:
            birth.call = self.call
        return batch

    def thread_of(self, tensor: torch.Tensor) -> Thread:
        """Where a tensor was made; the thread of the first call where that is not known."""
        return self.thread_of_call(max((record.call for record in self.recorder.records(tensor)), default=0))

    def thread_of_call(self, call: int) -> Thread:
        """Where a call began; the thread of the first one for what was made before any."""
        return self._threads[max(call, 1) - 1]

    def _keep(self, birth: Birth) -> Kept:
        place = self.place_of[birth.call]
        kept = self.kept.setdefault((birth.site, birth.device, place), Kept(birth.site, place))
        self._changed[id(kept)] = kept
        kept.add(birth)
        return kept


def _tensors_in(args: Iterable[Any]) -> Iterator[torch.Tensor]:
    """The tensors of an operation's arguments, and those in a list of them; no parameters, which no operation makes."""
    for arg in args:
        if isinstance(arg, torch.Tensor):
            if type(arg) is not torch.nn.Parameter:
                yield arg
        elif type(arg) in (list, tuple):
            yield from (item for item in arg if isinstance(item, torch.Tensor))
