"""What an answer must leave as it was: settings of the process (``Settings``), random numbers (``apart``),
threads (``threads_left``).
"""

import contextlib
import random
import threading
import time
from collections.abc import Callable, Iterator, Set
from typing import Any

import numpy
import torch

from course_utils.checks.missed import Missed

_SETTINGS: dict[str, tuple[Callable[[], Any], Callable[[Any], object]]] = {
    "the grad mode": (torch.is_grad_enabled, torch.set_grad_enabled),
    "the default dtype": (torch.get_default_dtype, torch.set_default_dtype),
    "anomaly detection": (torch.is_anomaly_enabled, torch.set_anomaly_enabled),
}
_END_SECONDS = 0.5  # how long a thread may take to come to its end when the answer has come to its own


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
