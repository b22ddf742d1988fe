"""What is around an answer while it is judged. What it prints, warns or displays is kept away from the learner's cell,
and handed over as text (``Capture``); settings (``Settings``), random numbers (``apart``) and threads
(``threads_left``) are put back, or told of.

A line on stderr in a check cell costs a student all points in nbgrader, and a displayed number can be read as a grade.
So nothing gets past: Python's streams, also where others keep them (logging), what C libraries and child processes
write to the file descriptors, IPython's ``display``.
"""

import builtins
import contextlib
import os
import random
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Set
from typing import Any
from unittest import mock

import numpy
import torch

from course_utils.base.text import plain_text
from course_utils.base.user_code import ipython
from course_utils.checks import Missed

_SETTINGS: dict[str, tuple[Callable[[], Any], Callable[[Any], object]]] = {
    "the grad mode": (torch.is_grad_enabled, torch.set_grad_enabled),
    "the default dtype": (torch.get_default_dtype, torch.set_default_dtype),
    "anomaly detection": (torch.is_anomaly_enabled, torch.set_anomaly_enabled),
}
_END_SECONDS = 0.5  # how long a thread may take to come to its end when the answer has come to its own
LIMIT = 2000  # characters of an answer's output that are kept; a card is for reading


class Capture:
    """A context manager around the calls of an answer. ``text()`` says what came out, when it has ended.

    Not reentrant. ``tell`` is for messages that must get through while it lasts.
    """

    def __init__(self) -> None:
        self._kept, self._left_out = "", 0
        self._undo = contextlib.ExitStack()
        self._descriptors = dict[int, int]()  # where 1 and 2 led before
        self._stdout = sys.stdout
        self._write: Any = getattr(sys.stdout, "write", None)  # under pythonw there is no stdout

    def __enter__(self) -> "Capture":
        # A stream stays the object that it is, so that it can all that it can, and who keeps it is heard here too.
        patches: list[tuple[Any, str, Any]] = [(stream, "write", self._add) for stream in _streams()]
        patches += [(sys, name, getattr(sys, name)) for name in ("stdout", "stderr")]
        patches.append((builtins, "input", _refuse_input))
        if shell := ipython():
            patches += [(shell.display_pub, "publish", self._publish), (shell, "ask_exit", _refuse_exit)]
            patches.append((shell.display_pub, "clear_output", lambda wait=False: None))
        with contextlib.ExitStack() as undo:
            undo.enter_context(self._written_to_a_file())
            for patch in patches:
                undo.enter_context(mock.patch.object(*patch))
            self._undo = undo.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._undo.close()

    def tell(self, line: str) -> None:
        """Prints a line on the learner's own stdout; in a terminal, past the file that took the descriptor's place."""
        with contextlib.suppress(OSError, ValueError, KeyError):  # the stream may be closed, or none
            if self._stdout is sys.__stdout__:
                os.write(self._descriptors[1], f"{line}\n".encode())
            else:
                self._write(f"{line}\n")

    def text(self) -> str:
        """What was printed, displayed or written to the file descriptors, cut to ``LIMIT`` characters."""
        more = f"\n... and {self._left_out:,} more characters" if self._left_out else ""
        return (plain_text(self._kept) + more).strip("\n")

    def _add(self, text: str) -> int:
        kept = text[: LIMIT - len(self._kept)]
        self._kept += kept
        self._left_out += len(text) - len(kept)
        return len(text)

    @contextlib.contextmanager
    def _written_to_a_file(self) -> Iterator[None]:
        """Sends what is written to descriptors 1 and 2 to a file, and reads it at the end."""
        _flush()  # so that what was printed before the check is not taken for the answer's
        with tempfile.TemporaryFile() as file:
            for descriptor in (1, 2):
                with contextlib.suppress(OSError):  # closed, as under pythonw: nothing can be written there either
                    self._descriptors[descriptor] = os.dup(descriptor)
                    os.dup2(file.fileno(), descriptor)
            try:
                yield
            finally:
                _flush()
                for descriptor, before in self._descriptors.items():
                    os.dup2(before, descriptor)
                    os.close(before)
                file.seek(0)
                start = file.read(4 * LIMIT)
                self._add(start.decode("utf-8", "replace"))
                self._left_out += os.fstat(file.fileno()).st_size - len(start)

    def _publish(self, data: dict[str, Any], *_: Any, **__: Any) -> None:
        self._add(f"{data.get('text/plain', '<display>')}\n")


def _streams() -> list[Any]:
    # The last two are written to by who wants to get past a notebook's streams.
    return [stream for stream in (sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__) if stream is not None]


def _flush() -> None:
    for stream in _streams():
        with contextlib.suppress(OSError, ValueError):  # a closed stream has nothing to flush
            stream.flush()


def _refuse_input(prompt: object = "", /) -> str:
    raise RuntimeError("input() is not available while an answer is checked: nobody could type the reply.")


def _refuse_exit(*_: object) -> None:
    raise SystemExit("quit() and exit() would end the kernel.")


class Settings:
    """The settings of the process and the thread that an answer could change, as they are now."""

    def __init__(self) -> None:
        self._values = {label: get() for label, (get, _) in _SETTINGS.items()}
        self._seed, self._inference = torch.initial_seed(), torch.is_inference_mode_enabled()

    def restore(self) -> list[str]:
        """Puts the settings back.

        Returns:
            What had changed, one phrase each ("changed the grad mode to False").

        Raises:
            Missed: inference mode was left on. Only leaving the thread ends it, so the claim ends here.
        """
        changed = []
        for label, (get, put) in _SETTINGS.items():
            before, now = self._values[label], get()
            if now != before:
                put(before)
                changed.append(f"changed {label} to {now}")
        if torch.initial_seed() != self._seed:
            changed.append("seeded the random number generator")
            _seed()
        if torch.is_inference_mode_enabled() and not self._inference:
            raise Missed("side effect", found="the answer left inference mode switched on")
        return changed


def _seed() -> None:
    # torch.seed would note the call stack for each GPU that is not in use yet, and keep it.
    torch.default_generator.seed()


@contextlib.contextmanager
def apart() -> Iterator[None]:
    """Within it, random numbers begin with a seed that nobody knows, so that any which an answer sets is another one;
    after it they go on from where they were: torch's on the CPU, Python's and NumPy's. And torch works in one thread:
    on a busy machine, waiting for a second takes longer than the work on small inputs."""
    of_python, of_numpy, threads = random.getstate(), numpy.random.get_state(), torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with torch.random.fork_rng(devices=()):
            _seed()
            yield
    finally:
        random.setstate(of_python)
        numpy.random.set_state(of_numpy)
        torch.set_num_threads(threads)


def running_threads() -> set[threading.Thread]:
    """The threads that were made with ``threading.Thread`` itself: of other classes are those that libraries keep."""
    return {thread for thread in threading.enumerate() if type(thread) is threading.Thread}


def threads_left(before: Set[threading.Thread]) -> list[str]:
    """What there is to say of new threads, after a while in which they may end."""
    end = time.monotonic() + _END_SECONDS
    new = running_threads() - before
    for thread in new:
        thread.join(max(0.0, end - time.monotonic()))
    return ["left a thread running"] * any(thread.is_alive() for thread in new)
