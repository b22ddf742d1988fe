"""When a call of the user's model begins, and from which place (``Calls``); and, where nothing is called, when a loop
goes back (``Loops``).
"""

import functools
import sys
import threading
import weakref
from collections import Counter
from collections.abc import Callable
from types import CodeType, FrameType
from typing import Any

import torch

from course_utils.base.torch_private import current_graph_task
from course_utils.base.user_code import NOWHERE, Site, is_user_file, user_site
from course_utils.record import Shared, replaced

BACKWARD_PASS = "backward pass"
"""What is counted in place of calls where a loop calls no module."""

LOOP = "round of a loop"
"""What is counted in place of calls where nothing is called and no gradient is computed."""

_LEAST_ROUNDS = 8

Place = tuple[Site, bool, bool]
"""Where a call comes from: the user's line, whether gradients are recorded there, whether the module is training."""

NO_PLACE: Place = NOWHERE, False, False


class Calls:
    """Tells each time that an outermost module with parameters is called, in whichever thread.

    Where a loop calls several modules in turn, one round of them is one call: it begins with a module that was called
    already since the last one began, or one made since then, of the same class; or after a backward pass. Recomputation
    during a backward pass is no call, nor is a module without parameters, such as a loss.
    """

    def __init__(self, begins: Callable[[str, Place, tuple], None], backward_ran: Callable[[], bool]) -> None:
        self._begins, self._backward_ran = begins, backward_ran  # since the last call began
        self._here = _InThread()
        self._has_parameters: weakref.WeakKeyDictionary[torch.nn.Module, bool] = weakref.WeakKeyDictionary()
        self._new: set[int] = set()  # modules that were made since the last call began, by ``id``
        self._kinds: dict[type, None] = {}

    def start(self) -> None:
        """Begins to watch every module of the process."""
        _MODULES_MADE.add(self.made)
        waiting: list[type] = [torch.nn.Module]
        while waiting:
            kind = waiting.pop()
            self._watch(kind)
            waiting += kind.__subclasses__()

    def stop(self) -> None:
        """Watches no more."""
        _MODULES_MADE.remove(self.made)
        for kind in self._kinds:
            _calls_of(kind).remove(self)
        self._kinds.clear()

    def _watch(self, kind: type) -> None:
        """Watches calls of a class that says itself what a call does: ``torch.nn.Module``, and a few others."""
        torchs = kind is not torch.nn.Module and kind.__module__.partition(".")[0] == "torch"
        if "__call__" in vars(kind) and not torchs and kind not in self._kinds:
            self._kinds[kind] = None
            _calls_of(kind).add(self)

    def made(self, module: torch.nn.Module) -> None:
        """A module is made, perhaps of a class that was not there before."""
        self._new.add(id(module))
        for kind in type(module).__mro__:
            if issubclass(kind, torch.nn.Module):
                self._watch(kind)

    def before(self, module: torch.nn.Module, args: tuple, frame: FrameType) -> None:
        """A module is called, from a frame."""
        here = self._here
        here.depth += 1
        if here.depth > 1 or current_graph_task() >= 0:
            return
        if module not in self._has_parameters:
            self._has_parameters[module] = next(module.parameters(), None) is not None
        if not self._has_parameters[module]:
            return
        anew = id(module) in self._new and type(module) in here.kinds
        if id(module) in here.round or anew or self._backward_ran():
            here.round.clear()
            here.kinds.clear()
        first = not here.round
        here.round.add(id(module))
        here.kinds.add(type(module))
        if first:
            self._new.clear()
            place = user_site(frame), torch.is_grad_enabled(), module.training
            self._begins(type(module).__name__, place, args)

    def after(self) -> None:
        """The call has ended."""
        self._here.depth = max(0, self._here.depth - 1)


def _telling_of_calls(plain: Callable, listeners: list[Calls]) -> Callable:
    def call(module: torch.nn.Module, *args: Any, **kwargs: Any) -> Any:
        told = () if torch.compiler.is_compiling() else tuple(listeners)
        for calls in told:
            calls.before(module, args, sys._getframe(1))
        try:
            return plain(module, *args, **kwargs)
        finally:
            for calls in told:
                calls.after()

    return call


@functools.cache
def _calls_of(kind: type) -> Shared:
    return replaced(kind, "__call__", _telling_of_calls)


def telling_after(plain: Callable, listeners: list[Callable]) -> Callable:
    """Calls each listener with the object whose method has run."""

    def method(owner: Any, *args: Any, **kwargs: Any) -> None:
        plain(owner, *args, **kwargs)
        for tell in tuple(listeners):
            tell(owner)

    return method


_MODULES_MADE = replaced(torch.nn.Module, "__init__", telling_after)


class _InThread(threading.local):
    """How deep in modules a thread is, and those that it has called since a call began, with their classes."""

    def __init__(self) -> None:
        self.depth = 0
        self.round: set[int] = set()
        self.kinds: set[type] = set()


class Loops:
    """Sees where a loop of the user's goes back, from the frames of operations alone: the last resort of a program that
    calls no module and computes no gradient.
    """

    def __init__(self) -> None:
        self.begins_at: Site | None = None  # where a round begins; not known until one loop has gone round often enough
        self._last: list[tuple[int, int]] = []
        self._rounds: Counter[CodeType] = Counter()
        self._same = 0
        self._loop: CodeType | None = None

    def goes_back(self, frame: FrameType | None) -> bool:
        """Whether a round begins with the operation that a frame runs: the loop that was chosen has gone back."""
        frames: list[FrameType] = []
        while frame is not None:
            if is_user_file(frame.f_code.co_filename):
                frames.insert(0, frame)
            frame = frame.f_back
        before, self._last = self._last, [(id(one), one.f_lasti) for one in frames]
        for (key, at), one in zip(before, frames, strict=False):
            if key != id(one):
                return False
            if one.f_lasti != at:
                return one.f_lasti < at and self._has_gone_back(one)
        # Twice at the same place: a loop of one operation, or an operation that takes memory twice.
        self._same += before == self._last != []
        return self._same > 4 * _LEAST_ROUNDS and bool(frames) and self._has_gone_back(frames[-1])

    def _has_gone_back(self, frame: FrameType) -> bool:
        code = frame.f_code
        self._rounds[code] += 1
        if self._loop is None and self._rounds[code] >= _LEAST_ROUNDS:
            self._loop = code
            self.begins_at = Site(code.co_filename, frame.f_lineno or 0, code.co_qualname)
        return code is self._loop
