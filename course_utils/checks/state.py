"""What an answer must leave as it was: settings of the process (``Settings``), random numbers (``RandomState``);
and the threads that it has started (``threads_left``).

Each class takes a picture when it is made; ``restore()`` says in plain words what has changed since, and puts it back.
"""

import contextlib
import gc
import os
import random
import sys
import threading
import time
from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass
from typing import Any

import torch
from torch.nn.modules import module as nn_module

from course_utils.base.text import count_of
from course_utils.base.torch_private import (
    dispatch_module,
    get_dispatch_modes,
    get_function_modes,
    get_mkldnn_enabled,
    set_grad_enabled,
    set_mkldnn_enabled,
    set_mode_flag,
)
from course_utils.checks.hardened import __builtins__  # type: ignore[attr-defined, no-redef]  # noqa: F401  a copy

_get_random, _set_random = random.getstate, random.setstate
_sleep = time.sleep
_NAPS, _NAP_SECONDS = 50, 0.01


@dataclass(frozen=True)
class _Setting:
    label: str
    get: Callable[[], Any]
    put: Callable[[Any], object]


def _put_garbage_collector(enabled: bool) -> None:
    (gc.enable if enabled else gc.disable)()


def _put_autocast(enabled: bool) -> None:
    torch.set_autocast_enabled("cpu", enabled)


def _get_autocast(get: Callable[[str], bool] = torch.is_autocast_enabled) -> bool:
    return get("cpu")


def _get_folder() -> str | None:
    with contextlib.suppress(OSError):  # the folder may have been deleted, with a temporary one for example
        return os.getcwd()
    return None


def _put_folder(folder: str | None) -> None:
    if folder is not None:
        with contextlib.suppress(OSError):
            os.chdir(folder)


_SETTINGS = (
    _Setting("the grad mode", torch.is_grad_enabled, set_grad_enabled),
    _Setting("the default dtype", torch.get_default_dtype, torch.set_default_dtype),
    _Setting("anomaly detection", torch.is_anomaly_enabled, torch.set_anomaly_enabled),
    _Setting("the number of threads", torch.get_num_threads, torch.set_num_threads),
    _Setting(
        "deterministic algorithms", torch.are_deterministic_algorithms_enabled, torch.use_deterministic_algorithms
    ),
    _Setting("the float32 matmul precision", torch.get_float32_matmul_precision, torch.set_float32_matmul_precision),
    _Setting("the oneDNN switch", get_mkldnn_enabled, set_mkldnn_enabled),
    _Setting("autocast", _get_autocast, _put_autocast),
    _Setting("the garbage collector's switch", gc.isenabled, _put_garbage_collector),
    _Setting("the recursion limit", sys.getrecursionlimit, sys.setrecursionlimit),
    _Setting("the working directory", _get_folder, _put_folder),
)
# What torch notes process-wide when a dispatch mode is entered, and would note for ever where none leaves it.
_MODE_FLAGS = tuple(name for name in vars(dispatch_module) if name.startswith("_is_in_"))
_GLOBAL_HOOKS = tuple(
    name for name in vars(nn_module) if name.startswith("_global_") and isinstance(vars(nn_module)[name], dict)
)


def reseed() -> None:
    """Gives the CPU's generator a seed that nobody knows. ``torch.seed`` would note the call stack for each GPU that is
    not in use yet, and keep it."""
    torch.default_generator.seed()


class LeftBehind(Exception):
    """A mode was left switched on that can only be ended with its thread."""


class Settings:
    """The settings of the process and the thread that an answer could change."""

    def __init__(self) -> None:
        self._values = [setting.get() for setting in _SETTINGS]
        self._seed = torch.initial_seed()
        self._hooks = {name: dict(vars(nn_module)[name]) for name in _GLOBAL_HOOKS}
        self._modes = self._mode_stacks()
        self._mode_flags = {name: vars(dispatch_module)[name] for name in _MODE_FLAGS}

    @staticmethod
    def _mode_stacks() -> tuple[bool, int, int]:
        return torch.is_inference_mode_enabled(), len(get_function_modes()), len(get_dispatch_modes())

    def restore(self) -> list[str]:
        """Puts the settings back.

        Returns:
            What had changed, one phrase each ("switched the grad mode to False").

        Raises:
            LeftBehind: inference mode or a torch mode was left on. Only leaving the thread ends it.
        """
        changed = []
        for setting, before in zip(_SETTINGS, self._values, strict=True):
            after = setting.get()
            if after != before:
                setting.put(before)
                shown = f" to {after}" if isinstance(after, (bool, int, str, torch.dtype)) else ""
                changed.append(f"changed {setting.label}{shown}")
        if torch.initial_seed() != self._seed:
            changed.append("seeded the random number generator")
            reseed()
        changed += self._restore_hooks()
        inference, function_modes, dispatch_modes = self._mode_stacks()
        if inference and not self._modes[0]:
            raise LeftBehind("left inference mode switched on")
        if function_modes > self._modes[1] or dispatch_modes > self._modes[2]:
            vars(dispatch_module).update(self._mode_flags)
            if set_mode_flag is not None:
                set_mode_flag(self._mode_flags["_is_in_any_mode_without_ignore_compile_internals"])
            raise LeftBehind("left a torch mode switched on")
        return changed

    def _restore_hooks(self) -> list[str]:
        left = 0
        for name, before in self._hooks.items():
            now = vars(nn_module)[name]
            left += len([key for key in now if key not in before])
            if dict(now) != before:
                now.clear()
                now.update(before)
        return [f"left {count_of(left, 'global module hook')}"] if left else []


def running_threads() -> frozenset[int]:
    """The identifiers of the threads that run Python code, but for those that a library keeps for itself.

    Not the threads of ``threading.enumerate()``: one that C code has started stays in there when it has ended.
    """
    kept = {t.ident for t in threading.enumerate() if type(t).__module__ not in ("threading", "__main__")}
    return frozenset(sys._current_frames().keys() - kept)


def threads_left(calls: Sequence[Set[int]]) -> list[str]:
    """What there is to say of threads that were left running, after a while in which they may end.

    The while is a number of naps: where much else is running and a thread needs longer to end, so does a nap.

    Args:
        calls: for each call, the threads that were new when it returned.
    """
    for _ in range(_NAPS):
        running = running_threads()
        if not any(threads & running for threads in calls):
            return []
        _sleep(_NAP_SECONDS)
    counts = sorted({len(threads & running) for threads in calls} - {0})
    return [f"left {count_of(count, 'thread')} running" for count in counts]


class RandomState:
    """The random number generators of torch, Python and (where loaded) NumPy."""

    def __init__(self) -> None:
        self._torch = torch.get_rng_state()
        self._seed = torch.initial_seed()
        self._python = _get_random()
        self._cuda = torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else None
        numpy = sys.modules.get("numpy")
        self._numpy = numpy.random.get_state() if numpy else None

    def restore(self) -> None:
        torch.set_rng_state(self._torch)  # brings the initial seed back too: it is part of the state
        _set_random(self._python)
        if self._cuda is not None:
            torch.cuda.set_rng_state_all(self._cuda)
        if self._numpy is not None:
            sys.modules["numpy"].random.set_state(self._numpy)
