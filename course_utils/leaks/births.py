"""Which storages outlive the call that they were made in, and the user's line that made each (``Births``)."""

import contextlib
import sys
import threading
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch

from course_utils.base.torch_private import sequence_number
from course_utils.base.user_code import Site, user_site
from course_utils.graph.references import living_tensors
from course_utils.leaks.calls import Place
from course_utils.leaks.kept import BEFORE, YOUNG, Birth, Kept
from course_utils.record import NEW_THREADS, UNCOMPILED
from course_utils.record.operations import OperationWatch, tensors_in
from course_utils.record.storages import OLD, Listener, Recorder

_JOINS = (torch.ops.aten.cat.default, torch.ops.aten.stack.default)


class Thread:
    """Calls that began in one thread, and the number of the first node after each: autograd numbers by thread."""

    def __init__(self) -> None:
        self.calls, self.firsts = list[int](), list[int]()

    def call_of(self, number: int) -> int:
        """The call that recorded a node; 0 for one before the first."""
        at = bisect_right(self.firsts, number) - 1
        return self.calls[at] if at >= 0 else 0

    def first_of(self, call: int) -> int:
        """The number of the first node that a call of this thread recorded, or could have."""
        at = bisect_left(self.calls, call)
        return self.firsts[at] if at < len(self.firsts) else sequence_number()


class Births:
    """Watches the operations of this thread and of those that start later, and what becomes of the storages they make.

    Attributes:
        call: the number of the call that is running or was the last.
        trained: for each call, how many calls had begun, itself included, when a backward pass first used what it had
            made; 0 where none did.
        place_of: for each call, where it came from; None for what was before the first.
        totals: for each call, the bytes of all known storages that lived as it began, without its batch.
    """

    def __init__(self, after_backward: Callable[[], None], makes: Callable[[Any], None]) -> None:
        self._after_backward = after_backward  # called before what comes after a backward pass
        self.makes: Callable[[Any], None] | None = makes  # called with the frame in which an operation makes something
        self._backward_ran = False
        self.alive_bytes = 0  # of all known storages that live now
        self.recorder = Recorder(lines=True, listener=Listener(Birth, self._born, self._died))
        self._modes: list[OperationWatch] = []
        self.begin_anew()

    def begin_anew(self) -> None:
        """Forgets what was counted, and counts calls from 0: another way than before tells when a round begins."""
        for birth in list(self.recorder.live.values()):
            birth.call, birth.kept = BEFORE, None
        self.kept: dict[tuple[Site, str, Place | None], Kept] = {}  # by line, device and place
        self._changed: set[Kept] = set()
        self.call = 0
        self.trained, self.totals = [0], [0]
        self.place_of: list[Place | None] = [None]
        self._here, self._threads = threading.local(), list[Thread]()
        self._young, self._batch = list[Birth](), list[Birth]()  # what the last calls made, and what for this one
        self._before_call = -1  # the number of the last storage that was made before this call

    def _born(self, birth: Birth, tensor: torch.Tensor, given: tuple) -> None:
        birth.call, birth.joined, birth.kept, birth.came, birth.made_of = BEFORE, False, None, None, None
        self.alive_bytes += birth.nbytes
        by_backward = birth.born_task >= 0
        before, self._backward_ran = self._backward_ran, by_backward
        if before and not by_backward:
            self._after_backward()
        if birth.op is OLD:  # met, and made elsewhere: by another thread or a loader, perhaps all at once
            return
        if self.makes is not None:
            self.makes(sys._getframe(1))
        birth.call = self.call
        if by_backward:
            self.trained[birth.call] = self.trained[birth.call] or 1
        else:
            for source in self._known_in(given):
                birth.is_made_of(source)
                source.joined |= birth.op in _JOINS and source.kept is not None
        self._young.append(birth)

    def _died(self, birth: Birth) -> None:
        self.alive_bytes -= birth.nbytes
        if birth.call < 0:
            return
        in_backward = birth.died_task >= 0
        if in_backward and birth.born_task < 0 and not self.trained[birth.call]:
            self.trained[birth.call] = self.call - birth.call + 1
        if birth.kept is not None:
            self._changed.add(birth.kept)
            birth.kept.remove(birth, in_backward, user_site(sys._getframe(1)))

    def start(self) -> None:
        """Begins to watch. Every tensor that has a Python object counts as older."""
        self.recorder.know(living_tensors())
        UNCOMPILED.add(self)
        NEW_THREADS.add(self.in_thread)
        self._modes = [OperationWatch.enter(self.recorder.watcher)]

    @contextlib.contextmanager
    def in_thread(self) -> Iterator[None]:
        """Watches the operations of the thread that runs, too."""
        with OperationWatch(self.recorder.watcher) as mode:
            self._modes += [mode]
            yield

    def stop(self) -> None:
        """Ends watching; deaths go on being counted. Asked again at the block's end, where an operation ended it."""
        NEW_THREADS.remove(self.in_thread)
        UNCOMPILED.remove(self)
        for mode in self._modes:
            mode.leave(self.recorder.watcher)

    def next_call(self, place: Place, args: tuple = ()) -> None:
        """A call begins: what was made ``YOUNG`` calls ago and lives is kept from now on. Its batch belongs to it."""
        self.call += 1
        self.trained.append(0)
        self.place_of.append(place)
        here = vars(self._here).setdefault("thread", Thread())
        here.calls.append(self.call)
        here.firsts.append(sequence_number())
        self._threads.append(here)
        for change in self.recorder.changes():  # a storage got another size
            self.alive_bytes += change.delta
        self.keep()
        for kept in list(self._changed):
            kept.note(self.call)
        self._changed.clear()
        self._take_batch(args)
        self.totals.append(self.lasting_bytes)

    def keep(self, age: int = YOUNG) -> None:
        """Counts as kept what was made so many calls ago, and lives."""
        young, self._young = self._young, []
        for birth in (birth for birth in young if birth() is not None):
            birth.inherit()
            if min(birth.by_call) > self.call - age:
                self._young.append(birth)
            elif birth.nbytes:
                birth.made_of = None
                place = self.place_of[birth.call]
                kept = self.kept.setdefault((birth.site, birth.device, place), Kept(birth.site, place))
                self._changed.add(kept)
                kept.add(birth)

    @property
    def lasting_bytes(self) -> int:
        """Bytes of all known storages that live now, but for the call's batch, which not all programs hold on."""
        return self.alive_bytes - sum(birth.nbytes for birth in self._batch if birth() is not None)

    def _take_batch(self, args: tuple) -> None:
        """What was made for a call since the one before, and after that, belongs to it: its batch."""
        made = [birth.number for birth in self._known_in(args) if birth.call == self.call - 1 > 0]
        first = min((number for number in made if number > self._before_call), default=sys.maxsize)
        batch = [birth for birth in self._young if birth.number >= first]
        self._batch = batch if all(birth.born_task < 0 for birth in batch) else []
        for birth in self._batch:
            birth.call = self.call
        self._before_call = self._young[-1].number if self._young else -1

    def _known_in(self, values: Iterable[Any]) -> Iterator[Birth]:
        """What tensors, and lists of them, lie on; without parameters, which no operation makes."""
        tensors = (one for one in tensors_in(values) if type(one) is not torch.nn.Parameter)
        return (birth for tensor in tensors for birth in self.recorder.records(tensor))

    def thread_of(self, tensor: torch.Tensor) -> Thread:
        """Where a tensor was made; the thread of the first call where that is not known."""
        return self.thread_of_call(max((record.call for record in self.recorder.records(tensor)), default=0))

    def thread_of_call(self, call: int) -> Thread:
        """Where a call began; the thread of the first one for what was made before any."""
        return self._threads[max(call, 1) - 1]
