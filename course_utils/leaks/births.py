"""Which storages outlive the call that they were made in, and the user's line that made each (``Births``)."""

import contextlib
import sys
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

import torch

from course_utils.base.torch_private import sequence_number
from course_utils.base.user_code import Site, user_site
from course_utils.graph.references import living_tensors
from course_utils.graph.storages import storages_of
from course_utils.leaks.calls import Place
from course_utils.leaks.joined import Joined, joins
from course_utils.leaks.kept import Birth, Kept
from course_utils.record.operations import OperationWatch
from course_utils.record.process import NEW_THREADS, UNCOMPILED
from course_utils.record.storages import OLD, Listener, Recorder

YOUNG = 3
"""A storage counts as kept when so many calls have begun after the one it was made in: a loop's variables hold the last
call's until they are bound anew, and the batch of a call is made before it begins."""

BEFORE = -1
"""The call of storages that are older than the watch."""


class Births:
    """Watches the operations of this thread and of those that start later, and what becomes of the storages they make.

    Attributes:
        call: the number of the call that is running or was the last.
        trained: for each call, how many calls had begun, itself included, when a backward pass first used what it had
            made; 0 where none did.
        places: the places that calls came from, in order.
        place_of: for each call, the number of its place.
        nodes_from: for each call, autograd's number of the first node that it recorded.
        kept: what is kept, by line, device and place.
        joined: tensors that took in more with every call, by the line that joined and the place.
        after_backward: called as the first operation after a backward pass makes something; None where calls tell when
            a round begins.
        makes: called with the frame that runs as an operation makes something; None where a round begins otherwise.
    """

    def __init__(self) -> None:
        self.after_backward: Callable[[], None] | None = None
        self.makes: Callable[[Any], None] | None = None
        self._backward_ran = self._on = False
        self.call = 0
        self.trained = [0]
        self.places: dict[Place, int] = {}
        self.place_of = [-1]
        self.nodes_from = [0]
        self.kept: dict[tuple[Site, str, int], Kept] = {}
        self._changed: dict[int, Kept] = {}
        self.joined: dict[tuple[Site, int], Joined] = {}
        self._windows: deque[tuple[int, list[Birth]]] = deque([(0, [])])
        self._given = 0
        self._recorder = Recorder(lines=True, listener=Listener(Birth, self._born, self._died))
        self._watchers = (self._recorder.watcher, joins(self._recorder.live, self.place_of, self.joined))
        self._modes: list[OperationWatch] = []

    def _born(self, birth: Birth, tensor: torch.Tensor) -> None:
        birth.kept, birth.joined, birth.call = False, False, BEFORE
        if not self._on:
            return
        if birth.in_backward:
            self._backward_ran = True
        elif self._backward_ran:
            self._backward_ran = False
            if self.after_backward is not None:
                self.after_backward()
        if birth.op is OLD:  # met, and made elsewhere: by another thread or a loader, perhaps all at once
            return
        if self.makes is not None:
            self.makes(sys._getframe(1))
        birth.call, window = self._windows[-1]
        if birth.in_backward and not self.trained[birth.call]:
            self.trained[birth.call] = 1
        window.append(birth)

    def _died(self, birth: Birth) -> None:
        if birth.call < 0:
            return
        in_backward = birth.died_task >= 0
        if in_backward and not birth.in_backward and not self.trained[birth.call]:
            self.trained[birth.call] = self.call - birth.call + 1
        kept = self.kept.get((birth.site, birth.device, self.place_of[birth.call])) if birth.kept else None
        if kept is not None:
            kept.remove(birth, in_backward, user_site(sys._getframe(1)))
            self._changed[id(kept)] = kept

    def start(self) -> None:
        """Begins to watch. Every tensor that has a Python object counts as older."""
        self._recorder.know(living_tensors())
        UNCOMPILED.add(self)
        NEW_THREADS.add(self.in_thread)
        self._modes = [OperationWatch.enter(*self._watchers)]
        self._on = True

    @contextlib.contextmanager
    def in_thread(self) -> Iterator[None]:
        """Watches the operations of the thread that runs, too."""
        with OperationWatch(*self._watchers) as mode:
            self._modes += [mode]
            yield

    def stop(self) -> None:
        """Ends watching. What has been counted stays; deaths go on being counted. Asked again at the end of the block,
        where it was an operation that ended it.
        """
        NEW_THREADS.remove(self.in_thread)
        UNCOMPILED.remove(self)
        for mode in self._modes:
            mode.leave(*self._watchers)

    def begin_anew(self) -> None:
        """Forgets what was counted, and counts calls from 0: another way than before tells when a round begins."""
        for birth in list(self._recorder.live.values()):
            birth.call, birth.kept = BEFORE, False  # type: ignore[attr-defined]  # they are births
        self.call = 0
        for counted in (self.trained, self.place_of, self.nodes_from):
            del counted[1:]
        for counts in (self.kept, self.joined, self._changed, self.places):
            counts.clear()
        self._windows.clear()
        self._windows.append((0, []))

    def next_call(self, place: Place, args: tuple = ()) -> None:
        """A call begins: what was made ``YOUNG`` calls ago and lives is kept from now on.

        Args:
            place: where it comes from.
            args: what the model is called with. It belongs to this call, and so does what was made after it.
        """
        self.call += 1
        self.trained.append(0)
        self.place_of.append(self.places.setdefault(place, len(self.places)))
        self.nodes_from.append(sequence_number())
        while self._windows and self._windows[0][0] <= self.call - YOUNG:
            _, window = self._windows.popleft()
            for birth in window:
                if birth() is not None and birth.nbytes and not birth.kept:
                    self._kept_by(birth).add(birth)
        for kept in list(self._changed.values()):
            kept.note(self.call)
        self._changed.clear()
        batch = self._made_for(args)
        self._windows.append((self.call, batch))
        self._given = len(batch)

    def _made_for(self, args: tuple) -> list[Birth]:
        """Takes the call's own batch, and what was made after it, out of the last call's births.

        Batches that were made several at once belong to the first call after; those made before any call, to none.
        """
        window = self._windows[-1][1] if self._windows else []
        given = {id(storage) for arg in args if type(arg) is torch.Tensor for storage in storages_of(arg)}
        first = next(
            (place for place in range(self._given, len(window)) if window[place].key in given and window[place]()), None
        )
        if first is None or self.call == 1 or any(birth.in_backward for birth in window[first:]):
            return []
        batch = window[first:]
        del window[first:]
        for birth in batch:
            birth.call = self.call
        return batch

    def alive_bytes(self) -> int:
        """Bytes of all storages that live and are known."""
        return sum(birth.nbytes for birth in list(self._recorder.live.values()))

    def _kept_by(self, birth: Birth) -> Kept:
        key = (birth.site, birth.device, self.place_of[birth.call])
        found = self.kept.get(key)
        if found is None:
            found = self.kept[key] = Kept(birth.site, key[-1])
        self._changed[id(found)] = found
        return found
