"""What is to run in each Python thread that begins from now on, around what the thread itself runs (``NewThreads``)."""

import threading
from collections.abc import Callable
from contextlib import AbstractContextManager


class NewThreads:
    """Wraps the ``run`` of threads as they are started, those of pools and of subclasses too.

    Args:
        around: called in a new thread; what the thread runs is run inside of the context that it returns.
    """

    def __init__(self, around: Callable[[], AbstractContextManager]) -> None:
        self._around = around
        self._on = False

    def start(self) -> None:
        """Begins to wrap."""
        plain, around = threading.Thread.start, self._around

        def start(thread: threading.Thread) -> None:
            if not self._on:
                return plain(thread)
            run = thread.run

            def inside() -> None:
                vars(thread).pop("run", None)  # or the thread would be a cycle, with all that it refers to
                with around():
                    run()

            vars(thread)["run"] = inside
            return plain(thread)

        self._on, self._start, self._plain = True, start, plain
        threading.Thread.start = start  # type: ignore[assignment, method-assign]

    def stop(self) -> None:
        """Ends it; threads that run go on inside of their contexts."""
        was_on, self._on = self._on, False
        if was_on and threading.Thread.start is self._start:  # else somebody has wrapped it again since
            threading.Thread.start = self._plain  # type: ignore[method-assign]
