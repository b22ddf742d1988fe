"""What an answer must leave as it was: settings of the process (``Settings``), random numbers (``own_random_numbers``),
threads (``threads_left``); and a name that a check lends to something else (``replaced``).
"""

import contextlib
import random
import threading
import time
from collections.abc import Callable, Iterator, Set
from typing import Any

import numpy
import torch
from torch.nn.modules import module as nn_module

from course_utils.base.text import count_of
from course_utils.base.torch_private import get_dispatch_modes, get_function_modes

_SETTINGS: dict[str, tuple[Callable[[], Any], Callable[[Any], object]]] = {
    "the grad mode": (torch.is_grad_enabled, torch.set_grad_enabled),
    "the default dtype": (torch.get_default_dtype, torch.set_default_dtype),
    "anomaly detection": (torch.is_anomaly_enabled, torch.set_anomaly_enabled),
    "the number of threads": (torch.get_num_threads, torch.set_num_threads),
}
_GLOBAL_HOOKS: list[dict] = [
    hooks for name, hooks in vars(nn_module).items() if name.startswith("_global_") and isinstance(hooks, dict)
]
_END_SECONDS = 0.5  # how long a thread may take to come to its end when the answer has come to its own


class LeftBehind(Exception):
    """A mode was left switched on that can only be ended with its thread."""


class Settings:
    """The settings of the process and the thread that an answer could change, as they are now."""

    def __init__(self) -> None:
        self._values = {label: get() for label, (get, _) in _SETTINGS.items()}
        self._seed = torch.initial_seed()
        self._hooks = [dict(hooks) for hooks in _GLOBAL_HOOKS]
        self._modes = _modes()

    def restore(self) -> list[str]:
        """Puts the settings back.

        Returns:
            What had changed, one phrase each ("changed the grad mode to False").

        Raises:
            LeftBehind: inference mode or a torch mode was left on. Only leaving the thread ends it.
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
        left = 0
        for hooks, before in zip(_GLOBAL_HOOKS, self._hooks, strict=True):
            left += len(hooks.keys() - before.keys())
            hooks.clear()
            hooks.update(before)
        if left:
            changed.append(f"left {count_of(left, 'global module hook')}")
        for name, on in _modes().items():
            if on > self._modes[name]:
                raise LeftBehind(f"left {name} switched on")
        return changed


def _modes() -> dict[str, int]:
    torch_modes = len(get_function_modes()) + len(get_dispatch_modes())
    return {"inference mode": torch.is_inference_mode_enabled(), "a torch mode": torch_modes}


def _seed() -> None:
    # torch.seed would note the call stack for each GPU that is not in use yet, and keep it.
    torch.default_generator.seed()


@contextlib.contextmanager
def own_random_numbers() -> Iterator[None]:
    """Within it, random numbers begin with a seed that nobody knows, so that any which an answer sets is another one;
    after it they go on from where they were: torch's on the CPU, Python's and NumPy's."""
    of_python, of_numpy = random.getstate(), numpy.random.get_state()
    try:
        with torch.random.fork_rng(devices=()):
            _seed()
            yield
    finally:
        random.setstate(of_python)
        numpy.random.set_state(of_numpy)


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


@contextlib.contextmanager
def replaced(owner: Any, name: str, value: object) -> Iterator[None]:
    """Within it, an attribute of a module, a class or an object is another one."""
    before = vars(owner).get(name, ...)
    setattr(owner, name, value)
    try:
        yield
    finally:
        if before is ...:
            delattr(owner, name)
        else:
            setattr(owner, name, before)
