"""What happens to tensors as a program runs: one dispatch mode shows every operation, and logs are written from it.

Here: what a watch changes for the whole process, set once, however many watches need it, and taken back with the last
(``Shared``, ``replaced``); among it, that compiled code runs uncompiled (``UNCOMPILED``).
"""

import contextlib
import functools
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import torch


class Shared:
    """Something that is set for the whole process as long as anybody listens.

    Args:
        begin: sets it, and returns what takes it back. It is given the list of those who listen, which changes.
    """

    def __init__(self, begin: Callable[[list], Callable[[], Any]]) -> None:
        self._begin = begin
        self._listeners: list[Any] = []
        self._lock = threading.RLock()

    def add(self, listener: Any) -> None:
        """Somebody listens from now on; the first one sets it."""
        with self._lock:
            self._listeners.append(listener)
            if len(self._listeners) == 1:
                self._end = self._begin(self._listeners)

    def remove(self, listener: Any) -> None:
        """Somebody does so no longer, if they did; with the last one it is taken back."""
        with self._lock:
            if listener in self._listeners:
                self._listeners.remove(listener)
                if not self._listeners:
                    self._end()

    @contextlib.contextmanager
    def on(self) -> Iterator[None]:
        """Somebody listens while a block lasts, and need not be told anything."""
        here = object()
        self.add(here)
        try:
            yield
        finally:
            self.remove(here)


def replaced(owner: Any, name: str, make: Callable[[Callable, list], Callable]) -> Shared:
    """A function of a class or a module that is replaced as long as anybody listens. ``make`` makes the new function of
    the plain one and the list of those who listen. Who has wrapped the new one meanwhile goes on calling it: then the
    list is empty.
    """

    def begin(listeners: list) -> Callable[[], Any]:
        plain = vars(owner)[name]
        new = functools.wraps(plain)(make(plain, listeners))
        setattr(owner, name, new)
        return lambda: setattr(owner, name, plain) if vars(owner)[name] is new else None

    return Shared(begin)


def _force_eager(listeners: list) -> Callable[[], Any]:
    """Lets compiled code run uncompiled. The compiler takes seconds to load, so it is only told once it is there."""
    undo = contextlib.ExitStack()
    if "torch._dynamo" in sys.modules:
        undo.enter_context(torch.compiler.set_stance("force_eager"))
        return undo.close

    def make(plain: Callable, waiting: list) -> Callable:
        def compile(*args: Any, **kwargs: Any) -> Any:
            made = plain(*args, **kwargs)
            if waiting and "torch._dynamo" in sys.modules:
                waiting.clear()
                undo.enter_context(torch.compiler.set_stance("force_eager"))
            return made

        return compile

    first = replaced(torch, "compile", make)
    first.add(None)
    undo.callback(first.remove, None)
    return undo.close


UNCOMPILED = Shared(_force_eager)
"""What ``torch.compile`` made runs uncompiled: compiled code takes its memory where no mode sees it."""


def _in_new_threads(plain: Callable, around: list) -> Callable:
    def start(thread: threading.Thread) -> None:
        run = thread.run

        def inside() -> None:
            vars(thread).pop("run", None)  # or the thread would be a cycle, with all that it refers to
            with contextlib.ExitStack() as stack:
                for enter in tuple(around):
                    stack.enter_context(enter())
                run()

        vars(thread)["run"] = inside
        plain(thread)

    return start


NEW_THREADS = replaced(threading.Thread, "start", _in_new_threads)
"""Listeners are called in each Python thread that begins, those of pools and of subclasses too; what the thread runs is
run inside of the contexts that they return. Threads that run when a listener goes stay inside."""
