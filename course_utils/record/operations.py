"""Shows each operation that runs to whoever watches (``OperationWatch``)."""

import functools
from collections.abc import Callable
from types import MethodType
from typing import Any

import torch

from course_utils.base.torch_private import (
    TorchDispatchMode,
    disabled_torch_dispatch,
    get_dispatch_modes,
    pop_dispatch_mode,
    push_dispatch_mode,
)

Run = Callable[[Any, tuple, dict], Any]
"""Runs an operation with its positional arguments and those by name, and returns the result."""

Watcher = Callable[[Run, Any, tuple, dict], Any]
"""Somebody who is shown operations: calls ``run(func, args, kwargs)``, looks before and after, returns the result."""


class DispatchMode(TorchDispatchMode):
    """A dispatch mode whose first operation does not load the compiler, and that lets compiled code be."""

    supports_higher_order_operators = True

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        # The default wraps __torch_dispatch__ in torch._dynamo.disable: it imports the compiler (seconds) on the
        # first operation and costs 0.7 us on each.
        return False

    @classmethod
    def ignore_compile_internals(cls) -> bool:
        """Told to PyTorch's compiler: code that is compiled below this mode stays as it is."""
        return True


class OperationWatch(DispatchMode):
    """The mode. Watchers that come one directly inside the other share one, for what a mode itself costs."""

    def __init__(self, *watchers: Watcher) -> None:
        super().__init__()
        self._set(watchers)

    def _set(self, watchers: tuple[Watcher, ...]) -> None:
        self._watchers, self._run = watchers, _run
        for watcher in watchers:  # each runs what those before it run
            self._run = functools.partial(watcher, self._run)

    def __enter__(self) -> "OperationWatch":
        # An attribute of the instance, a cycle until __exit__, saves a frame; PyTorch insists that it is bound.
        vars(self)["__torch_dispatch__"] = MethodType(_show, self)
        # Not super().__enter__: that also sets process-wide flags, which a watch abandoned in another thread would
        # leave set for ever. The stack of modes is the thread's own.
        push_dispatch_mode(self)
        self._in_inference = torch.is_inference_mode_enabled()
        return self

    def __exit__(self, exc_type: object, exc: object, traceback: object) -> None:
        self._set(())
        # When inference mode is left, PyTorch dispatches to what it dispatched to before, modes or none: where the
        # stack has changed meanwhile, the next operation is an internal error. So the mode stays, and shows nothing.
        if torch.is_inference_mode_enabled() != self._in_inference:
            return
        above = []
        while (mode := pop_dispatch_mode(None)) is not self:  # modes may be left in any order
            above.append(mode)
        for mode in reversed(above):
            push_dispatch_mode(mode)
        del vars(self)["__torch_dispatch__"]

    def __torch_dispatch__(self, func: Any, types: tuple, args: tuple = (), kwargs: dict | None = None) -> Any:
        return _show(self, func, types, args, kwargs)

    @classmethod
    def enter(cls, *watchers: Watcher) -> "OperationWatch":
        """Shows watchers the operations of this thread, and those of autograd's threads on its behalf; returns the mode
        that does, to be left with ``leave``.
        """
        modes = get_dispatch_modes()
        if modes and type(modes[-1]) is cls:
            mode = modes[-1]
            mode._set((*mode._watchers, *watchers))
            return mode
        return cls(*watchers).__enter__()

    def leave(self, *watchers: Watcher) -> bool:
        """Shows watchers no more; returns whether it is this thread's operations that they were shown."""
        here = any(mode is self for mode in get_dispatch_modes())
        left = tuple(one for one in self._watchers if one not in watchers)
        if here and not left:
            self.__exit__(None, None, None)
        self._set(left)
        return here


def _show(mode: OperationWatch, func: Any, types: tuple, args: tuple = (), kwargs: dict | None = None) -> Any:
    if types and _is_wrapped(types):
        return NotImplemented  # then the subclass runs its own operations, and they come here
    return mode._run(func, args, kwargs or {})


def _run(func: Any, args: tuple, kwargs: dict) -> Any:
    return getattr(func, "_op", func)(*args, **kwargs)


def _is_wrapped(types: tuple) -> bool:
    """Whether an argument's class has operations of its own; a FakeTensor's storage is counted as it is."""
    plain = disabled_torch_dispatch
    return any(cls.__torch_dispatch__ is not plain and cls.__name__ != "FakeTensor" for cls in types)
