"""What an answer must leave as it was: settings of the process (``Settings``), names in torch (``Names``), the objects
that it was given (``Objects``); and the threads that it has started (``threads_left``).

Each class takes a picture when it is made; ``restore()`` (``differences()`` for objects) says in plain words what has
changed since, and puts back what can be put back.
"""

import builtins
import contextlib
import gc
import math
import os
import random
import sys
import threading
import time
import types
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from operator import is_
from typing import Any

import torch
from torch import nn
from torch.nn.modules import module as nn_module
from torch.utils import _python_dispatch

# Bound now, before any answer can replace them. All functions below look built-in names up in this copy.
__builtins__ = dict(vars(builtins))  # type: ignore[assignment]  # a module or its dict, says Python
_equal = torch.equal
_get_function_modes = torch.overrides._get_current_function_mode_stack
_get_dispatch_modes = _python_dispatch._get_current_dispatch_mode_stack
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
    _Setting("the grad mode", torch.is_grad_enabled, torch._C._set_grad_enabled),
    _Setting("the default dtype", torch.get_default_dtype, torch.set_default_dtype),
    _Setting("anomaly detection", torch.is_anomaly_enabled, torch.set_anomaly_enabled),
    _Setting("the number of threads", torch.get_num_threads, torch.set_num_threads),
    _Setting(
        "deterministic algorithms", torch.are_deterministic_algorithms_enabled, torch.use_deterministic_algorithms
    ),
    _Setting("the float32 matmul precision", torch.get_float32_matmul_precision, torch.set_float32_matmul_precision),
    _Setting("the oneDNN switch", torch._C._get_mkldnn_enabled, torch._C._set_mkldnn_enabled),
    _Setting("autocast", _get_autocast, _put_autocast),
    _Setting("the garbage collector's switch", gc.isenabled, _put_garbage_collector),
    _Setting("the recursion limit", sys.getrecursionlimit, sys.setrecursionlimit),
    _Setting("the working directory", _get_folder, _put_folder),
)

# What torch notes process-wide when a dispatch mode is entered, and would note for ever where none leaves it.
_MODE_FLAGS = tuple(name for name in vars(_python_dispatch) if name.startswith("_is_in_"))
_note_mode = getattr(torch._C._dynamo.guards, "set_is_in_mode_without_ignore_compile_internals", None)

_GLOBAL_HOOKS = tuple(
    name for name in vars(nn_module) if name.startswith("_global_") and isinstance(vars(nn_module)[name], dict)
)


class LeftBehind(Exception):
    """A mode was left switched on that can only be ended with its thread."""


class Settings:
    """The settings of the process and the thread that an answer could change."""

    def __init__(self) -> None:
        self._values = [setting.get() for setting in _SETTINGS]
        self._seed = torch.initial_seed()
        self._hooks = {name: dict(vars(nn_module)[name]) for name in _GLOBAL_HOOKS}
        self._modes = self._mode_stacks()
        self._mode_flags = {name: vars(_python_dispatch)[name] for name in _MODE_FLAGS}

    @staticmethod
    def _mode_stacks() -> tuple[bool, int, int]:
        return torch.is_inference_mode_enabled(), len(_get_function_modes()), len(_get_dispatch_modes())

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
            torch.seed()
        changed += self._restore_hooks()
        inference, function_modes, dispatch_modes = self._mode_stacks()
        if inference and not self._modes[0]:
            raise LeftBehind("left inference mode switched on")
        if function_modes > self._modes[1] or dispatch_modes > self._modes[2]:
            vars(_python_dispatch).update(self._mode_flags)
            if _note_mode is not None:
                _note_mode(self._mode_flags["_is_in_any_mode_without_ignore_compile_internals"])
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
        return [f"left {_count(left, 'global module hook')}"] if left else []


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
    return [f"left {_count(count, 'thread')} running" for count in counts]


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


def _watched() -> dict[str, Any]:
    """Namespaces whose names an answer might replace, by the name a learner knows them by."""
    modules = {
        "torch": torch,
        "torch.nn": nn,
        "torch.nn.functional": nn.functional,
        "torch.nn.utils": nn.utils,
        "torch.autograd": torch.autograd,
        "torch.autograd.graph": torch.autograd.graph,
        "torch.autograd.functional": torch.autograd.functional,
        "torch.func": torch.func,
        "torch.linalg": torch.linalg,
        "torch.optim": torch.optim,
        "torch.testing": torch.testing,
        "torch.utils.checkpoint": sys.modules.get("torch.utils.checkpoint"),
        "math": math,
        "builtins": builtins,
        "time": sys.modules["time"],
    }
    classes = {
        "torch.Tensor": torch.Tensor,
        "torch.nn.Module": nn.Module,
        "torch.nn.Parameter": nn.Parameter,
        "torch.nn.Linear": nn.Linear,
        "torch.nn.Sequential": nn.Sequential,
        "torch.autograd.Function": torch.autograd.Function,
        "torch.no_grad": torch.no_grad,
        "torch.enable_grad": torch.enable_grad,
    }
    return {name: space for name, space in (modules | classes).items() if space is not None}


# IPython and the kernel swap these themselves while a cell runs.
_NOT_WATCHED = {"input", "exit", "quit", "help", "display", "get_ipython"}

# ``torch._dynamo``, which the first optimizer loads, wraps this one.
_WRAPPED_BY_TORCH = {"manual_seed"}


class Names:
    """Which function, class or module each watched name of torch stood for.

    torch fills some modules on first use, so a *new* name in a module is no change; a new name in a class is one where
    it shadows an inherited method. Special methods are left out: notebooks' tools replace ``Tensor.__repr__``.
    """

    def __init__(self) -> None:
        self._spaces = {name: (space, vars(space).copy()) for name, space in _watched().items()}

    def changes(self) -> Iterator[tuple[str, Any, str, Any]]:
        """Yields (full name, namespace, name, the object it stood for, or ``...`` for a new name)."""
        for label, (space, before) in self._spaces.items():
            now = vars(space)
            if list(now) == list(before) and all(map(is_, now.values(), before.values())):
                continue  # by far the most frequent, and the loop below takes twice as long
            for name, value in before.items():
                replaced = now.get(name, ...) is not value
                if replaced and name in _WRAPPED_BY_TORCH and _wrapped_by_torch(now.get(name), value):
                    continue
                if replaced and callable(value) and not name.startswith("__") and name not in _NOT_WATCHED:
                    yield f"{label}.{name}", space, name, value
            if isinstance(space, type) and len(now) != len(before):
                for name in now.keys() - before.keys():
                    inherited = any(name in vars(base) for base in space.__mro__[1:])
                    if inherited and not name.startswith("__"):
                        yield f"{label}.{name}", space, name, ...

    def restore(self) -> list[tuple[str, Any, str, Any]]:
        """Puts every replaced name back.

        Returns:
            (full name, namespace, name, what was found in its place or ``...``) for each, in a form that ``put`` takes.
        """
        found = []
        for label, space, name, before in list(self.changes()):
            found.append((label, space, name, vars(space).get(name, ...)))
            put(space, name, before)
        return found


def _wrapped_by_torch(now: Any, before: Any) -> bool:
    """Whether torch itself put a wrapper round a function of its own."""
    if type(now) is not types.FunctionType:
        return False
    by_torch = now.__code__.co_filename.startswith(os.path.dirname(torch.__file__))
    return by_torch and vars(now).get("__wrapped__") is before


def put(space: Any, name: str, value: Any) -> None:
    """Sets a name in a namespace; ``...`` removes it."""
    if value is ...:
        delattr(space, name)
    else:
        setattr(space, name, value)


def _same(before: torch.Tensor, after: torch.Tensor) -> bool:
    if before.shape != after.shape or before.dtype != after.dtype:
        return False
    if _equal(before, after):
        return True
    # NaN differs from itself; equal NaN patterns are still no change.
    return bool(((before == after) | ((before != before) & (after != after))).all())


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


class _TensorPicture:
    def __init__(self, name: str, tensor: torch.Tensor) -> None:
        self.name, self.tensor = name, tensor
        self.values = tensor.detach().clone()
        self.flagged, self.grad_fn = tensor.requires_grad, tensor.grad_fn
        self.grad = tensor.grad if tensor.is_leaf else None
        self.grad_values = None if self.grad is None else self.grad.detach().clone()

    def differences(self) -> Iterator[str]:
        tensor = self.tensor
        if not _same(self.values, tensor.detach()):
            yield f"edited {self.name}"
        if tensor.requires_grad != self.flagged:
            yield f"set {self.name}.requires_grad to {tensor.requires_grad}"
        elif tensor.grad_fn is not self.grad_fn:
            yield f"changed the history of {self.name}"
        if tensor.is_leaf:
            if (tensor.grad is None) != (self.grad is None):
                yield f"{'cleared' if tensor.grad is None else 'filled'} {self.name}.grad"
            elif self.grad_values is not None and tensor.grad is not None and not _same(self.grad_values, tensor.grad):
                yield f"changed {self.name}.grad"


def hook_count(module: nn.Module) -> int:
    """How many hooks of any kind are registered on a module and its submodules."""
    return sum(
        len(value)
        for submodule in module.modules()
        for key, value in vars(submodule).items()
        if key.endswith("_hooks") and isinstance(value, dict)
    )


class _ModulePicture:
    def __init__(self, name: str, module: nn.Module, watch_training: bool) -> None:
        self.name, self.module, self.watch_training = name, module, watch_training
        self.training = {key: submodule.training for key, submodule in module.named_modules()}
        self.names = [key for key, _ in module.named_parameters()] + [key for key, _ in module.named_buffers()]
        self.hooks = hook_count(module)
        self.tensors = [
            _TensorPicture(f"{name}.{key}", tensor)
            for key, tensor in [*module.named_parameters(), *module.named_buffers()]
        ]

    def differences(self) -> Iterator[str]:
        now = {key: submodule.training for key, submodule in self.module.named_modules()}
        changed = [key for key, training in self.training.items() if now.get(key, training) != training]
        if changed and self.watch_training:
            yield f"left {self.name} in {'training' if now[changed[0]] else 'eval'} mode"
        if [key for key, _ in self.module.named_parameters()] + [
            key for key, _ in self.module.named_buffers()
        ] != self.names:
            yield f"added or removed parameters or buffers of {self.name}"
        extra = hook_count(self.module) - self.hooks
        if extra:
            yield f"left {_count(extra, 'hook')} on {self.name}" if extra > 0 else f"removed hooks of {self.name}"
        for tensor in self.tensors:
            yield from tensor.differences()


class Objects:
    """Values, flags, gradients, training flags and hooks of the objects that an answer was given.

    Args:
        named: the objects by the name that a report should use. Containers are followed; what is no tensor, module or
            container of them is left alone.
        may_change: objects (and all that they contain) whose change the contract allows.
        watch_training: False where the modules' training flags are judged by a claim of their own.
    """

    def __init__(self, named: Mapping[str, Any], may_change: tuple[Any, ...] = (), watch_training: bool = True) -> None:
        self._watch_training = watch_training
        self._pictures: list[_TensorPicture | _ModulePicture] = []
        self._containers: list[tuple[str, list | dict, list]] = []
        allowed = {id(value) for value in may_change}
        for name, value in named.items():
            self._take(name, value, allowed)

    def _take(self, name: str, value: Any, allowed: set[int]) -> None:
        if id(value) in allowed:
            return
        if isinstance(value, torch.Tensor):
            self._pictures.append(_TensorPicture(name, value))
        elif isinstance(value, nn.Module):
            self._pictures.append(_ModulePicture(name, value, self._watch_training))
        elif isinstance(value, (list, tuple)):
            if isinstance(value, list):
                self._containers.append((name, value, list(value)))
            for index, item in enumerate(value):
                self._take(f"{name}[{index}]", item, allowed)
        elif isinstance(value, dict):
            self._containers.append((name, value, list(value.items())))
            for key, item in value.items():
                self._take(f"{name}[{key!r}]", item, allowed)

    def differences(self) -> list[str]:
        """What has changed since, one phrase each; at most the first four of a kind of object."""
        found = []
        for name, container, before in self._containers:
            now = list(container.items()) if isinstance(container, dict) else list(container)
            if len(now) != len(before) or any(_different(a, b) for a, b in zip(now, before, strict=True)):
                found.append(f"changed the contents of {name}")
        for picture in self._pictures:
            found.extend(picture.differences())
        return found if len(found) <= 4 else [*found[:4], f"and {len(found) - 4} more changes"]


def _different(after: Any, before: Any) -> bool:
    if isinstance(after, tuple) and isinstance(before, tuple) and len(after) == len(before) == 2:
        return any(a is not b for a, b in zip(after, before, strict=True))
    return after is not before
