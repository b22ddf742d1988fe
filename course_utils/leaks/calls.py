"""When a call of the user's model begins, and from which place (``Calls``)."""

import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

import torch
from torch.nn.modules.module import (
    register_module_forward_hook,
    register_module_forward_pre_hook,
    register_module_module_registration_hook,
    register_module_parameter_registration_hook,
)

from course_utils.base.torch_private import current_graph_task
from course_utils.base.user_code import Site, user_site
from course_utils.record.process import Shared, replaced

BACKWARD_PASS = "backward pass"
"""What is counted in place of calls where a loop calls no module."""

LOOP = "round of a loop"
"""What is counted in place of calls where nothing is called and no gradient is computed."""

Place = tuple[Site, bool, bool]
"""Where a call comes from: the user's line, whether gradients are recorded there, whether the module is training."""


class Calls:
    """Tells each time that an outermost module with parameters is called, in whichever thread.

    Where a loop calls several modules in turn, such as an encoder and a decoder, one round of them is one call: it
    begins when a module is called that was called already since the last one began, or one that was made since then, of
    the same class; or that is called after a backward pass. Recomputation during a backward pass is no call, and
    neither is a module without parameters, such as a loss.
    """

    def __init__(
        self, begins: Callable[[torch.nn.Module, tuple, Place], None], backward_ran: Callable[[], bool]
    ) -> None:
        self._begins, self._backward_ran = begins, backward_ran  # since the last call began
        self._here = _InThread()
        self._has_parameters: weakref.WeakKeyDictionary[torch.nn.Module, bool] = weakref.WeakKeyDictionary()
        self._rounds = 0
        self._made_in: weakref.WeakKeyDictionary[torch.nn.Module, int] = weakref.WeakKeyDictionary()
        self._handles: list[Any] = []
        self._wrapped: set[type] = set()

    def start(self) -> None:
        """Begins to watch, by hooks on every module of the process."""
        self._handles = [
            register_module_forward_pre_hook(self.before),
            register_module_forward_hook(self.after, always_call=True),
            register_module_parameter_registration_hook(self._made),
            register_module_module_registration_hook(self._made),
        ]
        for kind in list(_below(torch.nn.Module)):
            self._wrap(kind)

    def stop(self) -> None:
        """Takes the hooks away."""
        for handle in self._handles:
            handle.remove()
        self._handles = []
        for kind in self._wrapped:
            _OWN_CALLS[kind].remove(self)
        self._wrapped.clear()

    def _made(self, module: torch.nn.Module, name: str, part: Any) -> None:
        self._made_in[module] = self._rounds
        if type(module) not in self._wrapped:
            for kind in type(module).__mro__:
                self._wrap(kind)

    def _wrap(self, kind: type) -> None:
        """A class with a ``__call__`` of its own, which runs no hooks."""
        torchs = kind is torch.nn.Module or kind.__module__.partition(".")[0] == "torch"
        if torchs or kind in self._wrapped or "__call__" not in vars(kind) or not issubclass(kind, torch.nn.Module):
            return
        self._wrapped.add(kind)
        if kind not in _OWN_CALLS:
            _OWN_CALLS[kind] = replaced(kind, "__call__", _telling)
        _OWN_CALLS[kind].add(self)

    def before(self, module: torch.nn.Module, args: Any, frame: FrameType | None = None) -> None:
        """A module is called, as a hook is told, or from a frame."""
        if torch.compiler.is_compiling():
            return
        here = self._here
        here.depth += 1
        if here.depth > 1 or current_graph_task() >= 0 or not self._counts(module):
            return
        anew = self._made_in.get(module) == self._rounds and type(module) in here.kinds
        if id(module) in here.round or anew or self._backward_ran():
            here.round.clear()
            here.kinds.clear()
        first = not here.round
        here.round.add(id(module))
        here.kinds.add(type(module))
        if first:
            self._rounds += 1
            site = user_site(frame or sys._getframe(1))
            self._begins(module, args, (site, torch.is_grad_enabled(), module.training))

    def after(self, module: torch.nn.Module, args: Any, output: Any) -> None:
        """The call has ended, as a hook is told."""
        if not torch.compiler.is_compiling():
            self._here.depth = max(0, self._here.depth - 1)

    def _counts(self, module: torch.nn.Module) -> bool:
        known = self._has_parameters.get(module)
        if known is None:
            known = self._has_parameters[module] = next(module.parameters(), None) is not None
        return known


_OWN_CALLS: weakref.WeakKeyDictionary[type, Shared] = weakref.WeakKeyDictionary()
"""Classes with a ``__call__`` of their own, which runs no hooks."""


def _telling(own: Callable, listeners: list[Calls]) -> Callable:
    def call(module: torch.nn.Module, *args: Any, **kwargs: Any) -> Any:
        told = tuple(listeners)
        for calls in told:
            calls.before(module, args, sys._getframe(1))
        try:
            return own(module, *args, **kwargs)
        finally:
            for calls in told:
                calls.after(module, args, None)

    return call


class _InThread(threading.local):
    """How deep in modules a thread is, and those that it has called since a call began, with their classes."""

    def __init__(self) -> None:
        self.depth = 0
        self.round: set[int] = set()
        self.kinds: set[type] = set()


def _below(kind: type[Any]) -> Iterator[type[Any]]:
    for child in kind.__subclasses__():
        yield child
        yield from _below(child)
