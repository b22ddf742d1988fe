"""Which storages outlive the call that they were made in, and the user's line that made each (``Births``)."""

import sys
import weakref
from collections import deque
from collections.abc import Callable
from types import MethodType
from typing import Any

import torch

from course_utils.base.torch_private import current_graph_task, get_dispatch_modes, sequence_number
from course_utils.base.user_code import NOWHERE, Site, user_site
from course_utils.graph.references import live_objects
from course_utils.graph.storages import storages_of
from course_utils.leaks.calls import Place
from course_utils.leaks.joined import Joined, watching_joins
from course_utils.leaks.kept import Birth, Kept
from course_utils.leaks.threads import NewThreads
from course_utils.memory.dispatch import OperationWatch, handler
from course_utils.memory.ledger import OLD

YOUNG = 3
"""A storage counts as kept when so many calls have begun after the one it was made in: a loop's variables hold the last
call's until they are bound anew, and the batch of a call is made before it begins."""

FIRST_CALLS, SOME_CALLS = 40, 12
"""From each place so many calls are watched at first, and later so many of each doubling of their number."""

BEFORE = -1
"""The call of storages that are older than the watch."""


class Births:
    """Watches the operations of this thread and of those that start later, and what becomes of the storages they make.

    Args:
        every: how many calls there are to one that is watched.

    Attributes:
        call: the number of the call that is running or was the last.
        trained: for each call, how many calls had begun, itself included, when a backward pass first used what it had
            made; 0 where none did.
        sampled: for each call, whether it was watched.
        places: the places that calls came from, in order.
        place_of: for each call, the number of its place.
        nodes_from: for each call, autograd's number of the first node that it recorded.
        kept: what is kept, by line, device and place.
        compiled: compiled code ran.
        joined: tensors that took in more with every call, by the line that joined and the place.
        after_backward: called as the first operation after a backward pass makes something; None where calls tell when
            a round begins.
        makes: called with the frame that runs as an operation makes something; None where a round begins otherwise.
    """

    def __init__(self, every: int = 1) -> None:
        self.every = every
        self.after_backward: Callable[[], None] | None = None
        self.makes: Callable[[Any], None] | None = None
        self._backward_ran = False
        self.call = 0
        self.trained = [0]
        self.sampled = bytearray(b"\1")
        self.places: dict[Place, int] = {}
        self.place_of = [-1]
        self.nodes_from = [0]
        self._seen: list[int] = []
        self.kept: dict[tuple[Site, torch.device, int], Kept] = {}
        self._changed: dict[int, Kept] = {}
        self._gaps = every > 1
        self.compiled = False
        self.joined: dict[tuple[Site, int], Joined] = {}
        self._live: dict[int, Any] = {}
        self._windows: deque[tuple[int, list[Birth]]] = deque([(0, [])])
        self._add, meet, size = self._writers()
        handle = watching_joins(handler(self._add, meet, size, self._live), self._live, self.place_of, self.joined)
        self._mode = _BirthWatch(handle, self)
        self._others: weakref.WeakSet[_BirthWatch] = weakref.WeakSet()
        self._threads = NewThreads(lambda: self._in_thread(handle))
        self._on = self._inference = False
        self._given = 0

    def _writers(self) -> tuple[Callable, Callable, Callable]:
        live, windows, trained, changed = self._live, self._windows, self.trained, self._changed
        graph_task, frame_of = current_graph_task, sys._getframe

        def died(birth: Birth) -> None:
            if live.get(birth.key) is birth:
                del live[birth.key]
            in_backward = graph_task() >= 0
            if birth.call < 0:
                return
            if in_backward and not birth.in_backward and not trained[birth.call]:
                trained[birth.call] = self.call - birth.call + 1
            if birth.kept:
                kept = self.kept.get((birth.site, birth.device, self.place_of[birth.call]))
                if kept is not None:
                    kept.remove(birth, in_backward, user_site(frame_of(1)))
                    changed[id(kept)] = kept

        def add(storage: torch.UntypedStorage, tensor: torch.Tensor, op: Any) -> None:
            if not storage.resizable() or tensor._is_zerotensor():
                return  # memory of NumPy, of a mapped file or of another process
            birth = Birth(storage, died)
            key = birth.key = id(storage)
            birth.nbytes = storage.nbytes()
            birth.kept, birth.joined = False, 0
            birth.in_backward = graph_task() >= 0
            live[key] = birth
            if birth.in_backward:
                self._backward_ran = True
            elif self._backward_ran:
                self._backward_ran = False
                if self.after_backward is not None:
                    self.after_backward()
            if self.makes is not None and op is not OLD:
                self.makes(frame_of(1))
            # Met, and made elsewhere: by another thread or a loader, perhaps all at once. What compiled code made has a
            # history, or is met after such code ran.
            made_here = op is not OLD or self.compiled or tensor.grad_fn is not None
            if not made_here or (op is OLD and (self._gaps or birth.in_backward)):
                birth.call, birth.site, birth.device = BEFORE, NOWHERE, tensor.device
                return
            number, window = windows[-1]
            birth.call, birth.device = number, tensor.device
            birth.site = user_site(frame_of(1))
            if birth.in_backward and not trained[number]:
                trained[number] = 1
            window.append(birth)

        def meet(tensor: torch.Tensor, op: Any) -> None:
            for storage in storages_of(tensor):
                reference = live.get(id(storage))
                if reference is None or reference() is not storage:
                    add(storage, tensor, op)

        def size(storage: torch.UntypedStorage, birth: Birth) -> None:
            birth.nbytes = storage.nbytes()

        return add, meet, size

    def start(self) -> None:
        """Begins to watch. Every tensor that has a Python object counts as older."""
        for tensor in live_objects()[0]:
            for storage in storages_of(tensor):
                if storage.resizable():
                    birth = Birth(storage, _forget(self._live))
                    birth.key, birth.call, birth.kept, birth.nbytes = id(storage), BEFORE, False, storage.nbytes()
                    birth.joined = 0
                    self._live[birth.key] = birth
        self._inference = torch.is_inference_mode_enabled()
        self._mode.__enter__()
        self._on = True
        self._threads.start()

    def _in_thread(self, handle: Callable) -> "_BirthWatch":
        mode = _BirthWatch(handle, self)
        self._others.add(mode)
        return mode

    def stop(self) -> None:
        """Ends watching, in the thread that began it. What has been counted stays; deaths go on being counted."""
        self._threads.stop()
        for mode in list(self._others):
            mode.pause()
        self._switch(False)

    def begin_anew(self) -> None:
        """Forgets what was counted, and counts calls from 0: another way than before tells when a round begins."""
        for birth in list(self._live.values()):
            birth.call, birth.kept = BEFORE, False
        self.call = 0
        for counted in (self.trained, self.place_of, self.nodes_from, self.sampled):
            del counted[1:]
        for counts in (self.kept, self.joined, self._changed, self.places, self._seen):
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
        number = self.places.setdefault(place, len(self.places))
        self.place_of.append(number)
        self._seen += [0] * (len(self.places) - len(self._seen))
        self._seen[number] += 1
        self.nodes_from.append(sequence_number())
        # On from the call before: the batch of a call is made before it begins.
        watched, was_on = self._is_watched(self._seen[number]), self._on
        self._switch(watched or self._is_watched(self._seen[number] + 1))
        self.sampled.append(was_on and self._on and watched)
        self._gaps |= not self._on
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

    def _is_watched(self, number: int) -> bool:
        """Whether a call is watched, of those from its place."""
        last_doubling = 2 ** (number.bit_length() - 1)
        return number % self.every == 0 and (number < FIRST_CALLS or number < last_doubling + SOME_CALLS * self.every)

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
        return sum(birth.nbytes for birth in list(self._live.values()))

    def _kept_by(self, birth: Birth) -> Kept:
        key = (birth.site, birth.device, self.place_of[birth.call])
        found = self.kept.get(key)
        if found is None:
            found = self.kept[key] = Kept(birth.site, key[-1])
        self._changed[id(found)] = found
        return found

    def _switch(self, on: bool) -> None:
        """Begins or ends to see operations, in this thread.

        When inference mode is left, PyTorch dispatches to what it dispatched to before, modes or none: where the stack
        of them has changed meanwhile, the next operation is an internal error. So the stack stays as it is there, and
        below a mode of the user's own, and operations pass.
        """
        if on and self._on:  # perhaps asked from inside of an operation, which none of the modes sees
            return
        mode, modes = self._mode, get_dispatch_modes()
        fixed = torch.is_inference_mode_enabled() != self._inference or (modes and modes[-1] is not mode)
        there = any(one is mode for one in modes)
        if on and there:
            mode.resume()
        elif on and not modes and not fixed:
            mode.__enter__()
        elif on:
            return
        elif there and not fixed:
            mode.__exit__(None, None, None)
        elif there or self._on:  # or asked from inside of one
            mode.pause()
        self._on = on


class _BirthWatch(OperationWatch):
    def __init__(self, handle: Callable, births: Births) -> None:
        super().__init__(handle)
        self._births = weakref.ref(births)

    def pause(self) -> None:
        """Lets operations pass from now on."""
        vars(self)["__torch_dispatch__"] = MethodType(_pass, self)

    def resume(self) -> None:
        """Handles operations from now on."""
        vars(self)["__torch_dispatch__"] = MethodType(self._handle, self)

    def ignore_compile_internals(self) -> bool:  # type: ignore[override]  # an instance is what is asked
        births = self._births()
        if births is not None:
            births.compiled = True
        return True


def _pass(mode: OperationWatch, func: Any, types: tuple, args: tuple = (), kwargs: dict | None = None) -> Any:
    return func(*args, **(kwargs or {}))


def _forget(live: dict[int, Any]) -> Callable[[Birth], None]:
    def died(birth: Birth) -> None:
        if live.get(birth.key) is birth:
            del live[birth.key]

    return died
